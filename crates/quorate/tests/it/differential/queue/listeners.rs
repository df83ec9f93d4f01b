//! The connections on which clients receive pushes of the node.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read as _, Result, Write as _},
    net::TcpStream,
    time::Duration,
};

use quorate_core::{
    command::{ClientId, Owner},
    fence::Fence,
    name::Name,
    queue::{Push, PushKind, Session},
};

use super::calls::{channel, digits};

/// One connection for each client that listens.
pub(super) struct NodeEvents {
    address: String,
    by_client: BTreeMap<ClientId, Ear>,
}

impl NodeEvents {
    pub(super) const fn new(address: String) -> Self {
        Self { address, by_client: BTreeMap::new() }
    }

    /// The server's number for the connection on which the client listens.
    pub(super) fn connection(&self, client: ClientId) -> Option<u64> {
        self.by_client.get(&client).map(|ear| ear.connection)
    }

    /// Lets the client listen, on a new connection.
    pub(super) fn listen(&mut self, client: ClientId) {
        let stream = TcpStream::connect(&self.address).expect("the server is up");
        stream.set_read_timeout(Some(PATIENCE)).expect("an ordinary socket");
        let mut ear = Ear { stream: BufReader::new(stream), connection: 0 };
        ear.say("CLIENT ID").expect("the server listens");
        let number = ear.line().expect("a number");
        ear.connection = number.strip_prefix(':').and_then(|it| it.parse().ok()).expect("a number");
        let subscription = format!("SUBSCRIBE \"{}\"", channel(client));
        ear.say(&subscription).expect("the server listens");
        assert_eq!(ear.words().expect("an answer")[0], b"subscribe");
        self.by_client.insert(client, ear);
    }

    /// All pushes to the client so far.
    pub(super) fn heard(&mut self, client: ClientId) -> Vec<Push> {
        let ear = self.by_client.get_mut(&client).expect("it listens");
        let mut pushes = Vec::new();
        ear.say("PING").expect("the server listens");
        loop {
            let words = ear.words().expect("the answer arrives after all earlier pushes");
            match &words[..] {
                [pong, _] if pong == b"pong" => return pushes,
                words => pushes.push(push(client, words)),
            }
        }
    }

    /// The connection was cut: the pushes that arrived before, which may not be all.
    pub(super) fn heard_last(&mut self, client: ClientId) -> Vec<Push> {
        let mut ear = self.by_client.remove(&client).expect("it listened");
        std::iter::from_fn(|| ear.words().ok()).map(|words| push(client, &words)).collect()
    }
}

struct Ear {
    stream: BufReader<TcpStream>,
    connection: u64,
}

impl Ear {
    fn say(&mut self, words: &str) -> Result<()> {
        self.stream.get_mut().write_all(format!("{words}\r\n").as_bytes())
    }

    /// One array of texts; of a number its digits.
    fn words(&mut self) -> Result<Vec<Vec<u8>>> {
        let count = self.line()?;
        let count: usize =
            count.strip_prefix('*').and_then(|it| it.parse().ok()).ok_or_else(closed)?;
        let mut words = Vec::new();
        for _ in 0..count {
            let line = self.line()?;
            if let Some(len) = line.strip_prefix('$') {
                let mut word = vec![0; len.parse::<usize>().map_err(|_| closed())? + 2];
                self.stream.read_exact(&mut word)?;
                word.truncate(word.len() - 2);
                words.push(word);
            } else {
                words.push(line.into_bytes());
            }
        }
        Ok(words)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }
}

/// `G` or `I`, the fence, for `G` the session, the owner; the name, which has no line breaks,
/// is the last line.
fn push(client: ClientId, words: &[Vec<u8>]) -> Push {
    let [message, told_on, kind] = words else { panic!("{words:?} is no push") };
    assert_eq!(message, b"message");
    assert_eq!(*told_on, channel(client).into_bytes());
    let at = kind.iter().rposition(|byte| *byte == b'\n').expect("a line break");
    let (told, name) = (&kind[..at], str::from_utf8(&kind[at + 1..]).expect("text"));
    let is_granted = told[0] == b'G';
    let session = is_granted.then(|| str::from_utf8(&told[19..51]).expect("text"));
    Push {
        client,
        name: Name::parse(name, "").expect("a name"),
        owner: Owner::from_bytes(&told[if is_granted { 52 } else { 19 }..]),
        session: session.map(|session| Session::parse(session).expect("a session")),
        fence: Fence::new(digits(&told[2..18]).expect("16 digits")),
        kind: match told[0] {
            b'G' => PushKind::Granted,
            b'I' => PushKind::Inquired,
            other => panic!("{other} is no kind"),
        },
    }
}

const PATIENCE: Duration = Duration::from_secs(20);

fn closed() -> std::io::Error {
    std::io::ErrorKind::UnexpectedEof.into()
}
