//! The server's side: commands of the guard as calls of its scripts, by what their headers say.

use std::time::{Duration, Instant};

use quorate_core::{
    command::{Command, Reply},
    guard::{Doubt, Enrolment, Greeting, Mark, Members, Met, NodeId, Pact, WIRE},
    moment::NodeTime,
};
use quorate_testkit::{
    Clock, Server,
    redis::{self, Cmd, Connection, Pipeline, RedisResult, Value, cmd, pipe},
    script,
};

use super::{
    super::{
        line::calls,
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
            meet: load(&script("guard/meet.lua")),
            enrol: load(&script("guard/enrol.lua")),
            change: load(&script("guard/change.lua")),
            admit: load(&script("guard/admit.lua")),
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

    /// Sets the clock to a millisecond, and so many microseconds of it if the server allows that.
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

    /// Runs the steps on the server, in one piece. Before that it looks for each of `keys`: what is
    /// over is deleted then and counts no more.
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
            Command::Meet { greeting } => greet(eval(&self.digests.meet), greeting),
            Command::Enrol { enrolment: Enrolment { mark, id, pact, wall_ms } } => {
                let mut eval = eval(&self.digests.enrol);
                eval.arg(mark.to_string()).arg(id.to_string()).arg(wall_ms);
                with_pact(eval, pact)
            }
            Command::Change { mark, pact, fresh } => {
                let mut eval = eval(&self.digests.change);
                eval.arg(mark.to_string()).arg(fresh.to_string()).arg("");
                with_pact(eval, pact)
            }
            Command::Admit { mark, fresh } => {
                let mut eval = eval(&self.digests.admit);
                eval.arg(mark.to_string()).arg(fresh.to_string());
                eval
            }
            other => return self.digests.line.write(pipeline, other),
        });
    }
}

fn greet(mut eval: Cmd, greeting: &Greeting) -> Cmd {
    let Greeting { wall_ms, known, mark, id, life_ms, guard_ms, is_looking, is_durable } = greeting;
    eval.arg(WIRE).arg(wall_ms);
    match known {
        Some(known) => eval.arg(known.seen_ms).arg(known.expected_ms),
        None => eval.arg("").arg(""),
    };
    eval.arg(mark.to_string()).arg(id.to_string()).arg(life_ms).arg(guard_ms);
    eval.arg(u8::from(*is_durable)).arg(u8::from(*is_looking));
    eval
}

fn with_pact(mut eval: Cmd, pact: &Pact) -> Cmd {
    let Pact { change, origin, members, before, newcomer, max_ttl_ms, guard_ms } = pact;
    eval.arg(change).arg(origin.to_string()).arg(members.to_text());
    eval.arg(before.as_ref().map(Members::to_text).unwrap_or_default());
    eval.arg(newcomer.map(|id| id.to_string()).unwrap_or_default());
    eval.arg(max_ttl_ms).arg(guard_ms);
    eval
}

fn time(answer: Value) -> NodeTime {
    let (seconds, micros): (u64, u64) = redis::from_redis_value(answer).expect("a time");
    NodeTime::from_micros(seconds * 1_000_000 + micros)
}

/// What the scripts' headers say about their replies. An answer that they do not know is an error.
fn reply(command: &Command, answer: RedisResult<Value>) -> Result<Reply, String> {
    use Value::{Array, Int};
    if is_full(&answer) {
        return Ok(Reply::Full);
    }
    let answer = answer.map_err(|error| error.to_string())?;
    let known = match (command, &answer) {
        (Command::Meet { .. }, Array(items)) => met(items).map(|met| Reply::Met(Box::new(met))),
        (Command::Enrol { .. }, Int(1)) => Some(Reply::Enrolled),
        (Command::Change { .. }, Array(items)) => match &items[..] {
            [] => Some(Reply::Changed),
            [left] => number(left).map(|left_ms| Reply::TooSoon { left_ms }),
            _ => None,
        },
        (Command::Admit { .. }, Int(0)) => Some(Reply::Admitted),
        (
            Command::Enrol { .. }
            | Command::Change { .. }
            | Command::Attach { .. }
            | Command::Ping { .. },
            Int(0),
        )
        | (Command::Admit { .. }, Int(-1)) => Some(Reply::Stale),
        (Command::Attach { .. } | Command::Ping { .. }, Int(-1)) => Some(Reply::Guarded),
        (Command::Admit { .. }, keys) => number(keys).map(|keys| Reply::Holds { keys }),
        _ => calls::reply(command, &answer),
    };
    known.ok_or_else(|| format!("{answer:?}"))
}

fn met(items: &[Value]) -> Option<Met> {
    let [time, mark, id, doubt, left, rest @ ..] = items else { return None };
    let [enrolled, durable, keys, changes_in, recovers_in, pact @ ..] = rest else { return None };
    let is_so = |item: &Value| number(item).filter(|number| *number <= 1).map(|it| it == 1);
    let time = words(time)?;
    Some(Met {
        time_us: time.parse().ok().filter(|_| time.len() == 16)?,
        mark: Mark::parse(words(mark)?)?,
        id: NodeId::parse(words(id)?)?,
        pact: if pact.is_empty() { None } else { Some(read_pact(pact)?) },
        is_enrolled: is_so(enrolled)?,
        doubt: match words(doubt)? {
            "" => None,
            code => Some((Doubt::parse(code)?, number(left)?)),
        },
        is_durable: is_so(durable)?,
        keys: number(keys)?,
        changes_in_ms: number(changes_in)?,
        recovers_in_ms: number(recovers_in)?,
    })
}

fn read_pact(items: &[Value]) -> Option<Pact> {
    let items = items.iter().map(words).collect::<Option<Vec<_>>>()?;
    let [change, origin, members, before, newcomer, max_ttl, guard] = items[..] else {
        return None;
    };
    let before = (!before.is_empty()).then(|| Members::parse(before));
    let newcomer = (!newcomer.is_empty()).then(|| NodeId::parse(newcomer));
    Some(Pact {
        change: change.parse().ok()?,
        origin: NodeId::parse(origin)?,
        members: Members::parse(members)?,
        before: if let Some(before) = before { Some(before?) } else { None },
        newcomer: if let Some(newcomer) = newcomer { Some(newcomer?) } else { None },
        max_ttl_ms: max_ttl.parse().ok()?,
        guard_ms: guard.parse().ok()?,
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
