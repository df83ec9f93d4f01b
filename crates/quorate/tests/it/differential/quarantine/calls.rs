//! The server's side: commands of quarantine as calls of its scripts, as their headers describe.

use std::time::{Duration, Instant};

use quorate_core::{
    command::{Command, Reply},
    membership::{
        AgreedConfig, Command as Membership, Enrolment, Handshake, Mark, Members, NodeId, NodeInfo,
        Quarantine, Reason, Reply as Told, WIRE,
    },
    moment::NodeTime,
};
use quorate_testkit::{
    Clock, Server,
    redis::{self, Cmd, Connection, Pipeline, RedisResult, Value, cmd, pipe},
    script,
};

use super::{
    super::{
        queue::calls,
        replies::{fill, is_full},
    },
    draw::Step,
};

/// A server whose clock stands still unless it is set, and a connection to it by the testkit's
/// client and not by the code under test.
pub(super) struct Node<'a> {
    connection: Connection,
    clock: &'a Clock,
    /// It counts microseconds by itself: only at the beginning of a millisecond is it safe from
    /// running into the next.
    is_counting: bool,
    digests: Digests,
}

struct Digests {
    meet: String,
    enrol: String,
    change: String,
    admit: String,
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
}

impl<'a> Node<'a> {
    pub(super) fn connect(server: &'a Server) -> Self {
        let mut connection = server.connection();
        let mut load = |text: &str| -> String {
            let loaded = cmd("SCRIPT").arg("LOAD").arg(text).query(&mut connection);
            loaded.expect("the server takes the script")
        };
        let digests = Digests {
            meet: load(&script("membership/handshake.lua")),
            enrol: load(&script("membership/enrol.lua")),
            change: load(&script("membership/change.lua")),
            admit: load(&script("membership/admit.lua")),
            line: calls::Digests::load(load),
        };
        let info: String = cmd("INFO").arg("server").query(&mut connection).expect("an answer");
        let is_counting = info.contains("valkey_version:");
        let clock = server.clock();
        clock.stop();
        Self { connection, clock, is_counting, digests }
    }

    /// What the clock shows.
    pub(super) fn now_us(&self) -> u64 {
        self.clock.time_us()
    }

    /// Sets the clock to a millisecond, and to these microseconds of it if the server allows that.
    pub(super) fn set_clock(&mut self, to_ms: u64, micros: u64) {
        let micros = if self.is_counting { 0 } else { micros };
        let (from_us, to_us) = (self.now_us(), to_ms * 1_000 + micros);
        self.clock.forward(Duration::from_micros(to_us.saturating_sub(from_us)));
        self.clock.back(Duration::from_micros(from_us.saturating_sub(to_us)));
        let deadline = Instant::now() + SEEN_WITHIN;
        while self.now().as_millis() != to_ms {
            assert!(Instant::now() < deadline, "the server does not see its clock");
        }
    }

    fn now(&mut self) -> NodeTime {
        time(cmd("TIME").query(&mut self.connection).expect("the server answers"))
    }

    /// Runs the steps on the server, in one piece. Before that it reads each of `keys`: what has
    /// expired is deleted then and does not count.
    pub(super) fn ask(&mut self, steps: &[Step], keys: &[String]) -> Answered {
        let mut pipeline = pipe();
        pipeline.cmd("TIME");
        pipeline.cmd("EXISTS").arg(keys);
        steps.iter().for_each(|step| self.write(&mut pipeline, step));
        pipeline.cmd("TIME");
        let answers: Vec<RedisResult<Value>> =
            pipeline.ignore_errors().query(&mut self.connection).expect("the server answers");
        let mut answers = answers.into_iter();
        let mut next = || answers.next().expect("an answer for each request");
        let from = time(next().expect("a time"));
        next().expect("a number of keys");
        let replies = steps.iter().map(|step| match step {
            Step::Ask(command) => Some(reply(command, next())),
            Step::Plant { .. }
            | Step::Forget { .. }
            | Step::Clear
            | Step::Fill(_)
            | Step::OtherRun => {
                next().expect("the server does what another program asks");
                None
            }
        });
        let replies = replies.collect();
        Answered { from, to: time(next().expect("a time")), replies }
    }

    /// Deletes everything, and gives the server memory.
    pub(super) fn clear(&mut self) {
        cmd("FLUSHALL").exec(&mut self.connection).expect("the server answers");
        fill(false).exec(&mut self.connection).expect("the server answers");
    }

    fn write(&self, pipeline: &mut Pipeline, step: &Step) {
        match step {
            Step::Ask(command) => self.write_command(pipeline, command),
            Step::Plant { name, ttl_ms } => {
                let set = pipeline.cmd("SET").arg(name.as_bytes()).arg("something");
                if let Some(ttl_ms) = ttl_ms {
                    set.arg("PX").arg(ttl_ms);
                }
            }
            Step::Forget { name } => drop(pipeline.cmd("DEL").arg(name.as_bytes())),
            Step::Clear => drop(pipeline.cmd("FLUSHALL")),
            Step::Fill(is_full) => drop(pipeline.add_command(fill(*is_full))),
            Step::OtherRun => {
                pipeline.cmd("HSET").arg(calls::record_key()).arg("run").arg("other");
            }
        }
    }

    fn write_command(&self, pipeline: &mut Pipeline, command: &Command) {
        let eval = |digest: &String| {
            let mut eval = cmd("EVALSHA");
            eval.arg(digest).arg(1).arg(calls::record_key());
            eval
        };
        pipeline.add_command(match command {
            Command::Membership(Membership::Handshake(handshake)) => {
                handshake_command(eval(&self.digests.meet), handshake)
            }
            Command::Membership(Membership::Enrol(Enrolment { mark, id, config, wall_ms })) => {
                let mut eval = eval(&self.digests.enrol);
                eval.arg(mark.to_string()).arg(id.to_string()).arg(wall_ms);
                with_config(eval, config)
            }
            Command::Membership(Membership::Change { mark, config, fresh }) => {
                let mut eval = eval(&self.digests.change);
                eval.arg(mark.to_string()).arg(fresh.to_string()).arg("");
                with_config(eval, config)
            }
            Command::Membership(Membership::Admit { mark, fresh }) => {
                let mut eval = eval(&self.digests.admit);
                eval.arg(mark.to_string()).arg(fresh.to_string());
                eval
            }
            other => return self.digests.line.write(pipeline, other),
        });
    }
}

fn handshake_command(mut eval: Cmd, handshake: &Handshake) -> Cmd {
    let Handshake {
        wall_ms,
        known,
        mark,
        id,
        lifetime_ms,
        quarantine_ms,
        is_read_only,
        is_durable,
    } = handshake;
    eval.arg(WIRE).arg(wall_ms);
    match known {
        Some(known) => eval.arg(known.seen_ms).arg(known.expected_ms),
        None => eval.arg("").arg(""),
    };
    eval.arg(mark.to_string()).arg(id.to_string()).arg(lifetime_ms).arg(quarantine_ms);
    eval.arg(u8::from(*is_durable)).arg(u8::from(*is_read_only));
    eval
}

fn with_config(mut eval: Cmd, config: &AgreedConfig) -> Cmd {
    let AgreedConfig { change, origin, members, before, newcomer, max_ttl_ms, quarantine_ms } =
        config;
    eval.arg(change).arg(origin.to_string()).arg(members.to_text());
    eval.arg(before.as_ref().map(Members::to_text).unwrap_or_default());
    eval.arg(newcomer.map(|id| id.to_string()).unwrap_or_default());
    eval.arg(max_ttl_ms).arg(quarantine_ms);
    eval
}

fn time(answer: Value) -> NodeTime {
    let (seconds, micros): (u64, u64) = redis::from_redis_value(answer).expect("a time");
    NodeTime::from_micros(seconds * 1_000_000 + micros)
}

/// What the scripts' headers say about their replies. An answer that they do not know is an error.
fn reply(command: &Command, answer: RedisResult<Value>) -> Result<Reply, String> {
    use Value::Int;
    if is_full(&answer) {
        return Ok(Reply::Full);
    }
    let answer = answer.map_err(|error| error.to_string())?;
    let known = match (command, &answer) {
        (Command::Membership(command), answer) => told(command, answer),
        (Command::Attach { .. } | Command::Ping { .. }, Int(0)) => Some(Reply::Stale),
        (Command::Attach { .. } | Command::Ping { .. }, Int(-1)) => Some(Reply::MembershipRequired),
        _ => calls::reply(command, &answer),
    };
    known.ok_or_else(|| format!("{answer:?}"))
}

fn told(command: &Membership, answer: &Value) -> Option<Reply> {
    use Value::{Array, Int};
    Some(Reply::Membership(match (command, answer) {
        (Membership::Handshake(_), Array(items)) => Told::Info(Box::new(met(items)?)),
        (Membership::Enrol(_), Int(1)) => Told::Enrolled,
        (Membership::Change { .. }, Array(items)) => match &items[..] {
            [] => Told::Changed,
            [left] => Told::TooSoon { left_ms: number(left)? },
            _ => return None,
        },
        (Membership::Enrol(_) | Membership::Change { .. }, Int(0))
        | (Membership::Admit { .. }, Int(-1)) => return Some(Reply::Stale),
        (Membership::Admit { .. }, Int(0)) => Told::Admitted,
        (Membership::Admit { .. }, keys) => Told::Holds { keys: number(keys)? },
        _ => return None,
    }))
}

fn met(items: &[Value]) -> Option<NodeInfo> {
    let [time, mark, id, doubt, left, rest @ ..] = items else { return None };
    let [enrolled, durable, keys, changes_in, recovers_in, config @ ..] = rest else { return None };
    let is_so = |item: &Value| number(item).filter(|number| *number <= 1).map(|it| it == 1);
    let time = words(time)?;
    Some(NodeInfo {
        time_us: time.parse().ok().filter(|_| time.len() == 16)?,
        mark: Mark::parse(words(mark)?)?,
        id: NodeId::parse(words(id)?)?,
        config: if config.is_empty() { None } else { Some(read_config(config)?) },
        is_enrolled: is_so(enrolled)?,
        quarantine: match words(doubt)? {
            "" => None,
            code => Some(Quarantine { reason: Reason::parse(code)?, left_ms: number(left)? }),
        },
        is_durable: is_so(durable)?,
        keys: number(keys)?,
        changes_in_ms: number(changes_in)?,
        recovers_in_ms: number(recovers_in)?,
    })
}

fn read_config(items: &[Value]) -> Option<AgreedConfig> {
    let items = items.iter().map(words).collect::<Option<Vec<_>>>()?;
    let [change, origin, members, before, newcomer, max_ttl, guard] = items[..] else {
        return None;
    };
    let before = (!before.is_empty()).then(|| Members::parse(before));
    let newcomer = (!newcomer.is_empty()).then(|| NodeId::parse(newcomer));
    Some(AgreedConfig {
        change: change.parse().ok()?,
        origin: NodeId::parse(origin)?,
        members: Members::parse(members)?,
        before: if let Some(before) = before { Some(before?) } else { None },
        newcomer: if let Some(newcomer) = newcomer { Some(newcomer?) } else { None },
        max_ttl_ms: max_ttl.parse().ok()?,
        quarantine_ms: guard.parse().ok()?,
    })
}

fn words(item: &Value) -> Option<&str> {
    match item {
        Value::BulkString(text) => str::from_utf8(text).ok(),
        _ => None,
    }
}

fn number(item: &Value) -> Option<u64> {
    match item {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}

const SEEN_WITHIN: Duration = Duration::from_secs(20);
