//! The server's side: steps as requests, answers as replies of the core.

use std::time::{Duration, Instant};

use quorate_core::{
    command::{Command, ExtendedKey, KeyObservation, Reply, Value},
    moment::NodeTime,
    name::Name,
    store::LockDetails,
};
use quorate_testkit::{
    Clock, Server,
    redis::{self, Cmd, Connection, Pipeline, RedisResult, cmd, pipe},
    script,
};

use super::{
    Pace,
    batch::{Step, Thing},
    queue::calls,
};

/// A connection to the server, by the testkit's client and not by the code under test.
pub(super) struct Wire<'a> {
    connection: Connection,
    digests: Digests,
    /// The server's clock, if it stands still unless it is set.
    clock: Option<&'a Clock>,
}

struct Digests {
    set_key: String,
    adopt: String,
    delete_key: String,
    extend_keys: String,
    read_key: String,
    line: calls::Digests,
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

impl<'a> Wire<'a> {
    pub(super) fn connect(server: &'a Server, pace: Pace) -> Self {
        let mut connection = server.connection();
        let mut load = |text: &str| -> String {
            let loaded = cmd("SCRIPT").arg("LOAD").arg(text).query(&mut connection);
            loaded.expect("the server takes the script")
        };
        let digests = Digests {
            set_key: load(&script("set_key.lua")),
            adopt: load(&script("adopt.lua")),
            delete_key: load(&script("delete_key.lua")),
            extend_keys: load(&script("extend_keys.lua")),
            read_key: load(&script("read_key.lua")),
            line: calls::Digests::load(load),
        };
        let clock = match pace {
            Pace::Real => None,
            Pace::Set => Some(server.clock()),
        };
        let mut wire = Self { connection, digests, clock };
        if let Some(clock) = clock {
            clock.stop();
            wire.let_pass(0);
        }
        wire
    }

    /// Runs the steps on the server, in one piece, and reads the queues of these names.
    pub(super) fn ask(&mut self, steps: &[Step], names: &[Name]) -> Answered {
        let mut pipeline = pipe();
        pipeline.cmd("TIME");
        steps.iter().for_each(|step| self.write(&mut pipeline, step));
        names.iter().for_each(|name| calls::write_aside(&mut pipeline, name));
        pipeline.cmd("TIME");
        let answers: Vec<RedisResult<redis::Value>> =
            pipeline.ignore_errors().query(&mut self.connection).expect("the server answers");
        let mut answers = answers.into_iter();
        let mut next = || answers.next().expect("an answer for each request");
        let from = time(next().expect("a time"));
        let replies = steps.iter().map(|step| match step {
            Step::Ask(command) => Some(reply(command, next())),
            Step::Plant { .. } | Step::Clear | Step::Fill(_) | Step::HangUp { .. } => {
                for _ in 0..requests(step) {
                    next().expect("the server does what another program asks");
                }
                None
            }
        });
        let replies = replies.collect();
        let mut next = || answers.next().expect("an answer for each request");
        let aside = |_| calls::details(from, || next().expect("an answer"));
        let asides = names.iter().map(aside).collect();
        let to = time(next().expect("a time"));
        Answered { from, to, replies, asides }
    }

    /// Deletes everything, and gives the server memory.
    pub(super) fn clear(&mut self) {
        cmd("FLUSHALL").exec(&mut self.connection).expect("the server answers");
        fill(false).exec(&mut self.connection).expect("the server answers");
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
        time(cmd("TIME").query(&mut self.connection).expect("the server answers"))
    }

    fn write(&self, pipeline: &mut Pipeline, step: &Step) {
        match step {
            Step::Ask(command) => self.write_command(pipeline, command),
            Step::Clear => drop(pipeline.cmd("FLUSHALL")),
            Step::Fill(is_full) => drop(pipeline.add_command(fill(*is_full))),
            Step::HangUp { connection, .. } => {
                pipeline.cmd("CLIENT").arg("KILL").arg("ID").arg(connection);
            }
            Step::Plant { name, thing, ttl_ms } => {
                let key = name.as_bytes();
                pipeline.cmd("DEL").arg(key);
                match thing {
                    Thing::Text(text) => pipeline.cmd("SET").arg(key).arg(text),
                    Thing::Hash => pipeline.cmd("HSET").arg(key).arg(&["field", "value"]),
                    Thing::List => pipeline.cmd("RPUSH").arg(key).arg("item"),
                    Thing::Set => pipeline.cmd("SADD").arg(key).arg("member"),
                };
                if let Some(ttl_ms) = ttl_ms {
                    pipeline.cmd("PEXPIRE").arg(key).arg(ttl_ms);
                }
            }
        }
    }

    fn write_command(&self, pipeline: &mut Pipeline, command: &Command) {
        let digests = &self.digests;
        match command {
            Command::SetKey { name, owner, ttl_ms, sender: Some(sender) } => {
                let eval = pipeline.cmd("EVALSHA").arg(&digests.set_key).arg(2);
                eval.arg(name.as_bytes()).arg(calls::session_key(*sender));
                eval.arg(owner.as_bytes()).arg(ttl_ms).arg(sender.session.to_string());
            }
            Command::SetKey { name, owner, ttl_ms, sender: None } => {
                let set = pipeline.cmd("SET").arg(name.as_bytes()).arg(owner.as_bytes());
                set.arg("NX").arg("PX").arg(ttl_ms);
            }
            Command::Adopt { name, from, owner, ttl_ms, sender } => {
                // Without a session there is no queue either.
                let keys = 1 + 3 * usize::from(sender.is_some());
                let eval = pipeline.cmd("EVALSHA").arg(&digests.adopt).arg(keys);
                eval.arg(name.as_bytes());
                if let Some(sender) = sender {
                    eval.arg(calls::line_key(name)).arg(calls::session_key(*sender));
                    eval.arg(calls::fence_key(name));
                }
                eval.arg(from.as_bytes()).arg(owner.as_bytes()).arg(ttl_ms);
                if let Some(sender) = sender {
                    eval.arg(sender.session.to_string());
                }
            }
            Command::DeleteKey { name, owner } => {
                let eval = pipeline.cmd("EVALSHA").arg(&digests.delete_key).arg(1);
                eval.arg(name.as_bytes()).arg(owner.as_bytes());
            }
            Command::ExtendKeys { entries, sender } => {
                let keys = entries.len() + usize::from(sender.is_some());
                let eval = pipeline.cmd("EVALSHA").arg(&digests.extend_keys).arg(keys);
                for entry in entries.iter() {
                    eval.arg(entry.name.as_bytes());
                }
                if let Some(sender) = sender {
                    eval.arg(calls::session_key(*sender));
                }
                for entry in entries.iter() {
                    eval.arg(entry.owner.as_bytes()).arg(entry.ttl_ms);
                }
                if let Some(sender) = sender {
                    eval.arg(sender.session.to_string());
                }
            }
            Command::Check { name, owner } => {
                let eval = pipeline.cmd("EVALSHA").arg(&digests.read_key).arg(1);
                eval.arg(name.as_bytes()).arg(owner.as_bytes());
            }
            Command::ReadKey { name } => {
                pipeline.cmd("EVALSHA").arg(&digests.read_key).arg(1).arg(name.as_bytes());
            }
            other => digests.line.write(pipeline, other),
        }
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

/// Any use of memory is above this limit, or there is none.
pub(super) fn fill(is_full: bool) -> Cmd {
    let mut set = cmd("CONFIG");
    set.arg("SET").arg("maxmemory").arg(u8::from(is_full));
    set
}

/// Whether a reply reports that the server is full.
pub(super) fn is_full(answer: &RedisResult<redis::Value>) -> bool {
    answer.as_ref().is_err_and(|error| error.code() == Some("OOM"))
}

fn time(answer: redis::Value) -> NodeTime {
    let (seconds, micros): (u64, u64) = redis::from_redis_value(answer).expect("a time");
    NodeTime::from_micros(seconds * 1_000_000 + micros)
}

/// What the scripts' headers say about their replies. An answer that they do not know is an error.
fn reply(command: &Command, answer: RedisResult<redis::Value>) -> Result<Reply, String> {
    if is_full(&answer) {
        return Ok(Reply::Full);
    }
    let answer = answer.map_err(|error| error.to_string())?;
    known(command, &answer).ok_or_else(|| format!("{answer:?}"))
}

/// The same; `None` for an answer that they do not know.
pub(super) fn known(command: &Command, answer: &redis::Value) -> Option<Reply> {
    use redis::Value::{Array, BulkString, Int, Nil, Okay};
    match (command, answer) {
        (Command::SetKey { .. }, Okay) | (Command::Adopt { .. }, Int(1)) => Some(Reply::Stored),
        (Command::DeleteKey { .. }, Int(1)) => Some(Reply::Deleted),
        (
            Command::SetKey { sender: Some(_), .. } | Command::ExtendKeys { sender: Some(_), .. },
            Int(0),
        )
        | (Command::Adopt { .. }, Int(-2)) => Some(Reply::Stale),
        (Command::Adopt { .. } | Command::DeleteKey { .. }, Int(0)) => Some(Reply::Absent),
        (Command::SetKey { .. }, Nil)
        | (Command::Adopt { .. } | Command::DeleteKey { .. }, Int(-1)) => Some(Reply::NotOwner),
        (Command::ExtendKeys { .. }, Array(items)) => {
            let result = |item: &redis::Value| match item {
                Int(1) => Some(ExtendedKey::Renewed),
                Int(0) => Some(ExtendedKey::Absent),
                Int(-1) => Some(ExtendedKey::NotOwner),
                Int(-2) => Some(ExtendedKey::Failed),
                _ => None,
            };
            items.iter().map(result).collect::<Option<_>>().map(Reply::ExtendedKeys)
        }
        (Command::Check { .. } | Command::ReadKey { .. }, Array(items)) => match &items[..] {
            [] => Some(Reply::Key(None)),
            [Int(left), BulkString(text)] => Some(seen(*left, Value::Text(text[..].into()))),
            [Int(left), BulkString(none), BulkString(kind)] if none.is_empty() => {
                let kind = String::from_utf8_lossy(kind);
                Some(seen(*left, Value::OtherType(kind.into())))
            }
            _ => None,
        },
        _ => calls::reply(command, answer),
    }
}

fn seen(left: i64, value: Value) -> Reply {
    // Anything but -1 that is not a time would be a difference; -2 means that there is no key.
    let expires_in_ms = (left != -1).then(|| u64::try_from(left).expect("a time or -1"));
    Reply::Key(Some(KeyObservation { value, expires_in_ms }))
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
