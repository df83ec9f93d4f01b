//! Commands of the queue as calls of its scripts, as their headers describe.

use quorate_core::{
    command::{ClientId, Command, KeyObservation, Owner, Reply, SessionTerms},
    fence::{FENCE_LIFETIME_MS, Fence},
    inspect::{Cursor, GrantRecord, Inspected, Listed, ShareInfo},
    moment::NodeTime,
    name::Name,
    queue::{Extended, Position, Sender, Yield, group},
    share::Share,
    store::{LastGrant, LockDetails},
};
use quorate_testkit::{
    redis::{self, Cmd, Pipeline, Value},
    script,
};

/// The key of a client's session.
pub(in super::super) fn session_key(sender: Sender) -> String {
    format!("{PREFIX}s:{}", sender.client)
}

fn who_key(client: ClientId) -> String {
    format!("quorate:w:{client}")
}

/// The names under which the server keeps the scripts.
pub(in super::super) struct Digests {
    introduce: String,
    attach: String,
    ping: String,
    acquire: String,
    release: String,
    extend: String,
    heartbeat: String,
    inspect: String,
    list: String,
}

impl Digests {
    pub(in super::super) fn load(mut load: impl FnMut(&str) -> String) -> Self {
        Self {
            introduce: load(&script("queue/introduce.lua")),
            attach: load(&script("queue/attach.lua")),
            ping: load(&script("queue/ping.lua")),
            acquire: load(&script("queue/acquire.lua")),
            release: load(&script("queue/release.lua")),
            extend: load(&script("queue/extend.lua")),
            heartbeat: load(&script("queue/heartbeat.lua")),
            inspect: load(&script("inspect.lua")),
            list: load(&script("list.lua")),
        }
    }

    pub(in super::super) fn write(&self, pipeline: &mut Pipeline, command: &Command) {
        let eval = |digest: &String, keys: usize| {
            let mut eval = redis::cmd("EVALSHA");
            eval.arg(digest).arg(keys);
            eval
        };
        let eval = match command {
            Command::Introduce { client, who, lifetime_ms } => {
                let mut eval = eval(&self.introduce, 1);
                eval.arg(who_key(*client)).arg(who.as_bytes()).arg(lifetime_ms);
                eval
            }
            Command::Who { client } => {
                let mut get = redis::cmd("GET");
                get.arg(who_key(*client));
                get
            }
            Command::Attach { sender, terms } => session(eval(&self.attach, 2), *sender, terms),
            Command::Ping { sender, terms } => session(eval(&self.ping, 2), *sender, terms),
            Command::Acquire { sender, request: ask } => {
                let place = Position::of(ask.owner.as_bytes()).expect("waiters have a place");
                let mut eval = lock(eval(&self.acquire, 4), &ask.name);
                eval.arg(session_key(*sender)).arg(ask.owner.as_bytes());
                eval.arg(sender.session.to_string()).arg(format!("{:016}", place.ticket));
                eval.arg(place.ttl_ms).arg(u8::from(ask.is_waiting)).arg(u8::from(ask.is_known));
                eval
            }
            Command::Release { name, owner, yields } => {
                let keys = 3 + usize::from(yields.is_some());
                release(lock(eval(&self.release, keys), name), owner, yields.as_ref())
            }
            Command::Extend { sender, entries } => {
                let mut eval = eval(&self.extend, 1 + 3 * entries.len());
                eval.arg(session_key(*sender));
                for entry in entries.iter() {
                    eval = lock(eval, &entry.name);
                }
                eval.arg(sender.session.to_string());
                for entry in entries.iter() {
                    eval.arg(entry.owner.as_bytes()).arg(format!("{:016}", entry.fence.get()));
                    eval.arg(entry.ttl_ms).arg(u8::from(entry.may_heal));
                }
                eval
            }
            Command::Batch(entries) => {
                heartbeats(eval(&self.heartbeat, 1 + 3 * entries.len()), entries)
            }
            Command::Inspect { name, shown } => {
                let mut eval = lock(eval(&self.inspect, 3), name);
                eval.arg(shown);
                eval
            }
            Command::List { prefix, cursor, count } => {
                list(eval(&self.list, 0), prefix, cursor.as_ref(), *count)
            }
            other => panic!("how is {other:?} sent?"),
        };
        pipeline.add_command(eval);
    }
}

/// All of one sender.
fn heartbeats(mut eval: Cmd, entries: &[Command]) -> Cmd {
    let asks = || {
        entries.iter().map(|entry| match entry {
            Command::Acquire { sender, request: ask } if entry.is_heartbeat() => (sender, ask),
            other => panic!("how is {other:?} sent in a batch?"),
        })
    };
    let (sender, _) = asks().next().expect("a heartbeat");
    eval.arg(session_key(*sender));
    eval = asks().fold(eval, |eval, (_, ask)| lock(eval, &ask.name));
    eval.arg(sender.session.to_string());
    for (_, ask) in asks() {
        let place = Position::of(ask.owner.as_bytes()).expect("waiters have a place");
        eval.arg(ask.owner.as_bytes()).arg(format!("{:016}", place.ticket)).arg(place.ttl_ms);
    }
    eval
}

fn list(mut eval: Cmd, prefix: &str, cursor: Option<&Cursor>, count: u32) -> Cmd {
    let mut pattern = format!("{PREFIX}[fq]:{{");
    prefix.chars().for_each(|c| pattern.extend(['\\', c]));
    eval.arg(PREFIX).arg(pattern + "*}");
    eval.arg(cursor.map_or("0", Cursor::as_str)).arg(count);
    eval
}

fn release(mut eval: Cmd, owner: &Owner, yields: Option<&Yield>) -> Cmd {
    let Some(Yield { fence, sender }) = yields else {
        eval.arg(owner.as_bytes());
        return eval;
    };
    eval.arg(session_key(*sender)).arg(owner.as_bytes());
    eval.arg(format!("{:016}", fence.get())).arg(sender.session.to_string());
    if let Some(place) = Position::of(owner.as_bytes()) {
        eval.arg(format!("{:016}", place.ticket)).arg(place.ttl_ms);
    }
    eval
}

fn session(mut eval: Cmd, sender: Sender, terms: &SessionTerms) -> Cmd {
    eval.arg(session_key(sender)).arg(record_key());
    eval.arg(sender.session.to_string()).arg(terms.lifetime_ms);
    eval.arg(terms.mark.map(|mark| mark.to_string()).unwrap_or_default());
    eval.arg(terms.slack_us).arg(terms.wall_ms);
    eval
}

fn lock(mut eval: Cmd, name: &Name) -> Cmd {
    eval.arg(name.as_bytes()).arg(fence_key(name)).arg(line_key(name));
    eval
}

pub(in super::super) fn fence_key(name: &Name) -> String {
    format!("{PREFIX}f:{{{name}}}")
}

pub(in super::super) fn record_key() -> String {
    format!("{PREFIX}node")
}

pub(super) fn channel(client: ClientId) -> String {
    format!("{PREFIX}c:{client}")
}

pub(in super::super) fn line_key(name: &Name) -> String {
    format!("{PREFIX}q:{{{name}}}")
}

/// What the scripts' headers say about their replies; `None` for one that they do not know.
pub(in super::super) fn reply(command: &Command, answer: &Value) -> Option<Reply> {
    use Value::{Array, BulkString, Int, Nil, Okay};
    Some(match (command, answer) {
        (Command::Introduce { .. }, Okay) => Reply::Introduced,
        (Command::Who { .. }, Nil) => Reply::Known(None),
        (Command::Who { .. }, BulkString(who)) => {
            Reply::Known(Some(str::from_utf8(who).ok()?.into()))
        }
        (Command::Attach { .. } | Command::Ping { .. }, BulkString(time)) => {
            Reply::Attached { time_us: digits(time)? }
        }
        (Command::Ping { .. } | Command::Acquire { .. } | Command::Extend { .. }, Int(0)) => {
            Reply::Stale
        }
        (Command::Batch(entries), Int(0)) => {
            Reply::Batch(entries.iter().map(|_| Some(Reply::Stale)).collect())
        }
        (Command::Acquire { .. }, answer) => acquired(answer)?,
        (Command::Batch(_), Array(items)) => {
            let each = |item: &Value| match item {
                Int(-1) => Some(Some(Reply::Full)),
                item => acquired(item).map(Some),
            };
            Reply::Batch(items.iter().map(each).collect::<Option<_>>()?)
        }
        (Command::Inspect { .. }, Array(items)) => inspected(items)?,
        (Command::List { .. }, Array(items)) => listed(items)?,
        (Command::Release { .. }, Int(ours @ 0..=1)) => Reply::Released { is_ours: *ours == 1 },
        (Command::Extend { .. }, Array(items)) => {
            let result = |item: &Value| match item {
                Int(0) => Some(Extended::Failed),
                BulkString(fence) => Some(Extended::Renewed(Fence::new(digits(fence)?))),
                Array(refused) => match &refused[..] {
                    [BulkString(fence)] => Some(Extended::Refused(Fence::new(digits(fence)?))),
                    _ => None,
                },
                _ => None,
            };
            Reply::ExtendedLeases(items.iter().map(result).collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

/// The reply to one owner.
fn acquired(answer: &Value) -> Option<Reply> {
    use Value::{Array, BulkString, Int};
    Some(match answer {
        BulkString(fence) => {
            Reply::Granted { fence: Fence::new(digits(fence)?), is_earlier: false }
        }
        Array(items) => match &items[..] {
            [BulkString(fence)] => {
                Reply::Granted { fence: Fence::new(digits(fence)?), is_earlier: true }
            }
            [BulkString(fence), Int(left), Int(rank), Int(foreign @ 0..=1)] => Reply::Queued {
                fence: Fence::new(digits(fence)?),
                expires_in_ms: number_or_none(*left)?,
                rank: number_or_none(*rank)?,
                is_foreign: *foreign == 1,
            },
            _ => return None,
        },
        _ => return None,
    })
}

/// What is known about a lock.
fn inspected(items: &[Value]) -> Option<Reply> {
    use Value::{Array, BulkString, Int};
    let [
        BulkString(time),
        Array(seen),
        BulkString(stored),
        Int(age),
        Int(total),
        Array(waiting),
        Array(shares),
    ] = items
    else {
        return None;
    };
    let look = Command::ReadKey { name: Name::parse("any", "").expect("a name") };
    let observation: Option<KeyObservation> =
        match super::super::replies::known(&look, &Array(seen.clone())) {
            Some(Reply::Key(observation)) => observation,
            _ => return None,
        };
    let owner = |item: &Value| match item {
        BulkString(owner) => Some(Owner::from_bytes(owner)),
        _ => None,
    };
    let share = |items: &[Value]| match items {
        [owner_of, Int(held), Int(left)] => Some(ShareInfo {
            owner: owner(owner_of)?,
            held_ms: u64::try_from(*held).ok()?,
            left_ms: u64::try_from(*left).ok()?,
        }),
        _ => None,
    };
    let remembered = match &stored[..] {
        [] => None,
        digits16 => {
            let age_ms = u64::try_from(*age).expect("it was before");
            Some(GrantRecord { fence: Fence::new(digits(digits16)?), age_ms })
        }
    };
    Some(Reply::Inspected(Box::new(Inspected {
        observation,
        fence: remembered,
        waiting: waiting.iter().map(owner).collect::<Option<_>>()?,
        waiting_total: u64::try_from(*total).ok()?,
        time_us: digits(time)?,
        shares: shares.chunks(3).map(share).collect::<Option<_>>()?,
    })))
}

/// One shared holder of a lock, as it is stored. Tables of other libraries differ.
fn stored_share(pair: &[Vec<u8>]) -> Option<(Owner, Share)> {
    let owner = Owner::from_bytes(&pair[0]);
    let number = |at: usize| digits(&pair[1][at..at + 16]).expect("16 digits");
    group(&owner).is_some().then(|| {
        let (fence, ends_at_ms, since_ms) = (Fence::new(number(0)), number(16), number(32));
        (owner, Share { fence, ends_at_ms, since_ms })
    })
}

/// All of the few names come with the first page, in any order.
fn listed(items: &[Value]) -> Option<Reply> {
    let [Value::BulkString(next), Value::Array(names)] = items else { return None };
    let name = |item: &Value| match item {
        Value::BulkString(name) => Name::parse(str::from_utf8(name).ok()?, "").ok(),
        _ => None,
    };
    let mut names = names.iter().map(name).collect::<Option<Vec<_>>>()?;
    names.sort_unstable();
    let next = (&next[..] != b"0").then(|| Cursor::new(&String::from_utf8_lossy(next)));
    Some(Reply::Listed(Listed { names: names.into(), next }))
}

/// Sixteen digits and nothing else.
pub(super) fn digits(text: &[u8]) -> Option<u64> {
    let is_plain = text.len() == 16 && text.iter().all(u8::is_ascii_digit);
    str::from_utf8(text).ok().filter(|_| is_plain)?.parse().ok()
}

/// A number, or -1 for none.
fn number_or_none(number: i64) -> Option<Option<u64>> {
    match number {
        -1 => Some(None),
        _ => u64::try_from(number).ok().map(Some),
    }
}

/// Asks for what the server knows about a lock besides its key.
pub(in super::super) fn write_aside(pipeline: &mut Pipeline, name: &Name) {
    pipeline.cmd("GET").arg(fence_key(name));
    pipeline.cmd("PTTL").arg(fence_key(name));
    pipeline.cmd("ZRANGE").arg(line_key(name)).arg(0).arg(-1);
    pipeline.cmd("PTTL").arg(line_key(name));
    pipeline.cmd("EVAL").arg(SHARES).arg(1).arg(name.as_bytes());
}

/// The prefix of our keys. It is not the default, so that no script can rely on the default.
pub(in super::super) const PREFIX: &str = "app 7:q:";

/// The last grant, if this is its record. Its time follows from the remaining time of the record,
/// unless the record contains it.
fn last_grant(now: NodeTime, record: &[u8], left_ms: i64) -> Option<LastGrant> {
    let (fence, since) = record.split_at_checked(16)?;
    let fence = Fence::new(digits(fence)?);
    let left_ms = left_ms.cast_unsigned();
    let since_ms = match since {
        [] => (now.as_millis() + left_ms).checked_sub(FENCE_LIFETIME_MS).expect("within a day"),
        since => digits(since).expect("16 digits"),
    };
    Some(LastGrant { fence, since_ms })
}

/// The entries of a table; empty for another type of key.
const SHARES: &str = "local all = redis.pcall('HGETALL', KEYS[1]) return all.err and {} or all";

/// The answer to that.
pub(in super::super) fn details(now: NodeTime, mut next: impl FnMut() -> Value) -> LockDetails {
    let record: Option<Vec<u8>> = redis::from_redis_value(next()).expect("a text");
    let left: i64 = redis::from_redis_value(next()).expect("a number");
    let waiting: Vec<Vec<u8>> = redis::from_redis_value(next()).expect("a list of texts");
    let line_left: i64 = redis::from_redis_value(next()).expect("a number");
    let shares: Vec<Vec<u8>> = redis::from_redis_value(next()).expect("a list of texts");
    let last = record.and_then(|record| last_grant(now, &record, left));
    LockDetails {
        fence: last.map(|last| (last.fence, u64::try_from(left).expect("a fence ends"))),
        since_ms: last.map(|last| last.since_ms),
        waiting: waiting.iter().map(|owner| Owner::from_bytes(owner)).collect(),
        queue_ends_in_ms: (line_left != -2)
            .then(|| u64::try_from(line_left).expect("a queue ends")),
        shares: shares.chunks_exact(2).filter_map(stored_share).collect(),
    }
}
