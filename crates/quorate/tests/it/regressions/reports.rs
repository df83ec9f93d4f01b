//! What callers were told, and what a server said.

use std::{
    io::{BufRead, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use quorate::{
    Client,
    error::{LockError, NodeAnswer, Trouble},
    memory::Behaviour,
};
use quorate_testkit::eventually;

use crate::{
    faults::cluster::{PATIENCE, wait_until_attached},
    keeper::bench::{Bench, NAME, build, settings},
    links::executor::block_on,
};

#[tokio::test(start_paused = true)]
async fn a_node_that_was_not_waited_for_is_not_said_to_have_timed_out() {
    // Two failures settled it at once, and the third node was blamed all the same.
    use Behaviour::{Fail, Hang};
    let bench = Bench::new(3);
    bench.behave(&[Fail, Fail, Hang]);
    let Err(LockError::NoQuorum { nodes }) = bench.mutex().try_lock().await else {
        panic!("two of three nodes fail");
    };
    let answers: Vec<_> = nodes.iter().map(|report| report.answer.clone()).collect();
    let refused = NodeAnswer::Trouble(Trouble::ConnectionRefused);
    assert_eq!(answers, [refused.clone(), refused, NodeAnswer::NotAwaited]);
    let text = LockError::NoQuorum { nodes }.to_string();
    assert!(text.contains("memory:2: not waited for"), "{text}");
    assert!(!text.contains("timed out"), "{text}");
}

#[test]
fn a_reply_of_the_wrong_kind_ends_the_connection_and_the_link_heals() {
    // The connection went on, although replies and requests no longer belonged to each other.
    let server = OddServer::start();
    let settings = Client::builder().nodes([server.url.clone()]).vote_timeout(PATIENCE);
    let client = block_on(settings.connect()).unwrap();
    let called = block_on(client.mutex(NAME).try_lock());
    assert!(matches!(called, Err(LockError::NoQuorum { .. })), "{called:?}");
    eventually("a new connection is made", PATIENCE, || server.connections() == 2);
    wait_until_attached(&client);
    block_on(block_on(client.mutex(NAME).lock()).unwrap().release()).unwrap();
    assert_eq!(server.connections(), 2);
}

#[tokio::test(start_paused = true)]
async fn who_holds_a_lock_is_shown_as_it_was_given() {
    // Quotes and backslashes came out escaped.
    let who = r#"it's "me" \o/"#;
    let bench = Bench::new(1);
    let holder = build(settings(&bench.nodes).who(who));
    let guard = holder.mutex(NAME).lock().await.unwrap();
    let refused = bench.mutex().lock_timeout(std::time::Duration::ZERO).await;
    let Err(LockError::Timeout { holder: Some(holder), .. }) = refused else {
        panic!("it is held, and yet: {refused:?}");
    };
    assert_eq!(holder.who, who);
    drop(guard);
}

/// Speaks as much of Redis as a lock needs. On its first connection it answers `SET` with a number.
struct OddServer {
    url: String,
    connections: Arc<AtomicUsize>,
}

impl OddServer {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("redis://{}", listener.local_addr().expect("it listens"));
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = connections.clone();
        // It ends with the process; the connections end with the client.
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let number = counted.fetch_add(1, Ordering::SeqCst);
                thread::spawn(move || serve(&stream, number));
            }
        });
        Self { url, connections }
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

fn serve(mut stream: &TcpStream, number: usize) {
    let mut reader = BufReader::new(stream);
    while let Some(words) = read_words(&mut reader) {
        let text = |text: &str| format!("${}\r\n{text}\r\n", text.len());
        let reply = match words[0].as_str() {
            "HELLO" => "%1\r\n+proto\r\n:3\r\n".into(),
            "INFO" => text("run_id:0123456789abcdef\r\nrole:master\r\n"),
            "SCRIPT" => text(&"0".repeat(40)),
            "SET" if number == 0 => ":1\r\n".into(),
            "SET" => "+OK\r\n".into(),
            _ => ":1\r\n".into(),
        };
        if stream.write_all(reply.as_bytes()).is_err() {
            return;
        }
    }
}

fn read_words(reader: &mut impl BufRead) -> Option<Vec<String>> {
    let line = |reader: &mut dyn BufRead| {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        line.get(1..)?.trim_end().parse::<usize>().ok()
    };
    let count = line(reader)?;
    (0..count)
        .map(|_| {
            let mut word = vec![0; line(reader)? + 2];
            reader.read_exact(&mut word).ok()?;
            String::from_utf8(word).ok().map(|word| word.trim_end().to_owned())
        })
        .collect()
}
