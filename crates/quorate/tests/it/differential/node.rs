//! The server's side: steps as requests, answers as replies of the core.

use std::time::{Duration, Instant};

use quorate_core::{
    command::{Command, KeyObservation, Reply, Value},
    moment::NodeTime,
    name::Name,
    store::LockDetails,
};
use quorate_testkit::{Clock, Server, redis::cmd};

use super::{
    Pace, asides,
    batch::{Step, Thing},
    connection::{Connection, fill, time},
};

/// A server, and the connection on which it is asked.
pub(super) struct Node<'a> {
    pub(super) connection: Connection,
    /// The server's clock, if it stands still unless it is set.
    clock: Option<&'a Clock>,
}

/// What came back for a batch.
pub(super) struct Answered {
    /// The server's time before the first step.
    pub(super) from: NodeTime,
    /// The server's time after the last step.
    pub(super) to: NodeTime,
    /// One entry for each step; only our own commands have a reply.
    pub(super) replies: Vec<Option<Result<Reply, String>>>,
    /// What is there after the last step, for each of the names.
    pub(super) asides: Vec<LockDetails>,
}

impl<'a> Node<'a> {
    pub(super) fn connect(server: &'a Server, pace: Pace) -> Self {
        let mut connection = Connection::open(&server.address());
        connection.load_scripts();
        let clock = match pace {
            Pace::Real => None,
            Pace::Set => Some(server.clock()),
        };
        let mut node = Self { connection, clock };
        if let Some(clock) = clock {
            clock.stop();
            node.let_pass(0);
        }
        node
    }

    /// Runs the steps on the server, in one piece, and reads the queues of these names.
    pub(super) fn ask(&mut self, steps: &[Step], names: &[Name]) -> Answered {
        let mut request = cmd("TIME").get_packed_command();
        steps.iter().for_each(|step| self.write(&mut request, step));
        names.iter().for_each(|name| asides::write(&mut request, name));
        request.extend(cmd("TIME").get_packed_command());
        let connection = &mut self.connection;
        connection.send(&request).expect("the server listens");
        let from = time(connection.read_plain().expect("a time"));
        let replies = steps.iter().map(|step| match step {
            Step::Ask(command) => Some(connection.read_reply(command)),
            Step::Plant { .. } | Step::Clear | Step::Fill(_) | Step::HangUp { .. } => {
                for _ in 0..requests(step) {
                    connection.read_plain().expect("the server does what another program asks");
                }
                None
            }
        });
        let replies = replies.collect();
        let mut aside = |_| asides::read(from, || connection.read_plain().expect("an answer"));
        let asides = names.iter().map(&mut aside).collect();
        let to = time(connection.read_plain().expect("a time"));
        Answered { from, to, replies, asides }
    }

    /// Deletes everything, and gives the server memory.
    pub(super) fn clear(&mut self) {
        self.connection.clear();
    }

    /// Whether time passes only by [`let_pass`](Self::let_pass).
    pub(super) const fn is_set(&self) -> bool {
        self.clock.is_some()
    }

    /// Waits until the server's clock has gone on by this many milliseconds, or sets it forward.
    pub(super) fn let_pass(&mut self, millis: u64) {
        if let Some(clock) = self.clock {
            clock.forward(Duration::from_millis(millis));
            // Valkey reads its clock once in a millisecond. Other servers read it more often.
            let deadline = Instant::now() + SEEN_WITHIN;
            while self.now().as_millis() != clock.time_us() / 1_000 {
                assert!(Instant::now() < deadline, "the server does not see its clock");
            }
            return;
        }
        let start = self.now();
        // A clock that is set back by a lot must not block the test here.
        while (start.as_millis()..start.as_millis() + millis).contains(&self.now().as_millis()) {}
    }

    pub(super) fn now(&mut self) -> NodeTime {
        self.connection.now()
    }

    fn write(&self, request: &mut Vec<u8>, step: &Step) {
        let mut plain = |words: &[&[u8]]| {
            let (first, rest) = words.split_first().expect("a command");
            let mut command = cmd(str::from_utf8(first).expect("a word"));
            request.extend(command.arg(rest).get_packed_command());
        };
        match step {
            Step::Ask(command) => self.connection.encode(request, command),
            Step::Clear => plain(&[b"FLUSHALL"]),
            Step::Fill(is_full) => request.extend(fill(*is_full).get_packed_command()),
            Step::HangUp { connection, .. } => {
                plain(&[b"CLIENT", b"KILL", b"ID", connection.to_string().as_bytes()]);
            }
            Step::Plant { name, thing, ttl_ms } => {
                let key = name.as_bytes();
                plain(&[b"DEL", key]);
                match thing {
                    Thing::Text(text) => plain(&[b"SET", key, text]),
                    Thing::Hash => plain(&[b"HSET", key, b"field", b"value"]),
                    Thing::List => plain(&[b"RPUSH", key, b"item"]),
                    Thing::Set => plain(&[b"SADD", key, b"member"]),
                }
                if let Some(ttl_ms) = ttl_ms {
                    plain(&[b"PEXPIRE", key, ttl_ms.to_string().as_bytes()]);
                }
            }
        }
    }

    /// The reply of the server alone.
    pub(super) fn reply(&mut self, command: &Command) -> Result<Reply, String> {
        let mut request = Vec::new();
        self.connection.encode(&mut request, command);
        self.connection.send(&request).expect("the server listens");
        self.connection.read_reply(command)
    }
}

/// How many requests a step takes.
const fn requests(step: &Step) -> usize {
    match step {
        Step::Ask(_) | Step::Clear | Step::Fill(_) | Step::HangUp { .. } => 1,
        Step::Plant { ttl_ms: None, .. } => 2,
        Step::Plant { ttl_ms: Some(_), .. } => 3,
    }
}

/// An answer for people: stored bytes as text.
pub(super) fn show(answer: Option<&Result<Reply, String>>) -> String {
    match answer {
        None => "no reply".into(),
        Some(Err(error)) => error.clone(),
        Some(Ok(Reply::Key(Some(KeyObservation { value: Value::Text(text), expires_in_ms })))) => {
            format!("Seen \"{}\", ends in {expires_in_ms:?} ms", text.escape_ascii())
        }
        Some(Ok(reply)) => format!("{reply:?}"),
    }
}

const SEEN_WITHIN: Duration = Duration::from_secs(20);
