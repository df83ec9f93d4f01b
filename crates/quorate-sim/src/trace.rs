//! The trace of a run for people: one line for each event.

use std::fmt;

use quorate_core::{
    command::{Command, ExtendedKey, Owner, Reply},
    queue,
};

use crate::clock::{MS, Nanos};

/// The recorded events; empty unless recording is on.
#[derive(Debug, Default)]
pub struct Trace {
    is_on: bool,
    lines: Vec<Line>,
}

/// One recorded event.
#[derive(Clone, Debug)]
pub struct Line {
    /// When, in true time.
    pub at: Nanos,
    /// Which lock it is about, if it is about one.
    pub lock: Option<usize>,
    /// The event.
    pub what: Scene,
}

/// An event.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Scene {
    Ran { client: usize, node: usize, sent_at: Nanos, ask: String, answer: String, key: Key },
    Received { client: usize, node: usize, sent_at: Nanos, ask: String, answer: String },
    Pushed { client: usize, node: usize, text: String },
    Unanswered { client: usize, node: usize, ask: String },
    Outcome { client: usize, text: String },
    Lease { client: usize, claim: u32, owner: String, change: LeaseChange },
    Fault { index: usize, place: Position, until: Nanos, text: String },
    Note { place: Position, text: String },
}

/// A change of a lease.
#[derive(Clone, Debug)]
pub enum LeaseChange {
    /// It is held until then.
    Held(Nanos),
    /// It was extended until then.
    Renewed(Nanos),
    /// Its holder gives it up, in this way.
    GaveUp(&'static str),
    /// It is lost, for this reason.
    Lost(String),
}

impl Scene {
    /// The client of the event.
    pub(crate) const fn client(&self) -> Option<usize> {
        match self {
            Self::Ran { client, .. }
            | Self::Received { client, .. }
            | Self::Unanswered { client, .. }
            | Self::Pushed { client, .. }
            | Self::Outcome { client, .. }
            | Self::Lease { client, .. } => Some(*client),
            Self::Fault { .. } | Self::Note { .. } => None,
        }
    }

    /// The text that may name an owner.
    pub(crate) fn words(&self) -> &str {
        match self {
            Self::Ran { ask, .. } | Self::Received { ask, .. } | Self::Unanswered { ask, .. } => {
                ask
            }
            Self::Outcome { text, .. } | Self::Pushed { text, .. } => text,
            Self::Lease { owner, .. } => owner,
            Self::Fault { .. } | Self::Note { .. } => "",
        }
    }
}

/// What a command did to the key on its node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Key {
    /// Nothing.
    Same,
    /// It is this owner's now, until that true time if nothing happens.
    Is(String, Nanos),
    /// It is gone.
    Gone,
}

/// Where something happened.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Position {
    Client(usize),
    Node(usize),
    Link(usize, usize),
    Everywhere,
}

impl Trace {
    pub(crate) const fn recording(is_on: bool) -> Self {
        Self { is_on, lines: Vec::new() }
    }

    /// The recorded events.
    #[must_use]
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Adds the event that `scene` makes, if recording is on.
    pub(crate) fn add(&mut self, at: Nanos, lock: Option<usize>, scene: impl FnOnce() -> Scene) {
        if self.is_on {
            self.lines.push(Line { at, lock, what: scene() });
        }
    }

    pub(crate) const fn is_on(&self) -> bool {
        self.is_on
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>12} ", millis(self.at))?;
        let c = |client: usize| client_name(client);
        match &self.what {
            Scene::Ran { client, node, ask, answer, .. } => {
                write!(f, "n{node} runs {}'s {ask}: {answer}", c(*client))
            }
            Scene::Received { client, node, ask, answer, .. } => {
                write!(f, "{}  gets n{node}'s reply to {ask}: {answer}", c(*client))
            }
            Scene::Pushed { client, node, text } => {
                write!(f, "{}  gets a push of n{node}: {text}", c(*client))
            }
            Scene::Unanswered { client, node, ask } => {
                write!(f, "{}  gets no reply of n{node} to {ask}: the link broke", c(*client))
            }
            Scene::Outcome { client, text } => write!(f, "{}  outcome of {text}", c(*client)),
            Scene::Lease { client, owner, change, .. } => {
                write!(f, "{}  ", c(*client))?;
                match change {
                    LeaseChange::Held(until) => {
                        write!(f, "HOLDS the lock as {owner} until {}", millis(*until))
                    }
                    LeaseChange::Renewed(until) => {
                        write!(f, "extends {owner} until {}", millis(*until))
                    }
                    LeaseChange::GaveUp(how) => write!(f, "{how} {owner}"),
                    LeaseChange::Lost(reason) => {
                        write!(f, "is notified that {owner} is lost: {reason}")
                    }
                }
            }
            Scene::Fault { index, place, text, until } => {
                write!(f, "{place:<2} FAULT f{index}: {text}")?;
                match *until > self.at {
                    true => write!(f, ", until {}", millis(*until)),
                    false => Ok(()),
                }
            }
            Scene::Note { place, text } => write!(f, "{place:<2} {text}"),
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&match self {
            Self::Client(client) => client_name(*client),
            Self::Node(node) => format!("n{node}"),
            Self::Link(client, node) => format!("{}-n{node}", client_name(*client)),
            Self::Everywhere => "*".to_owned(),
        })
    }
}

/// How to read a trace.
pub const LEGEND: &str = "\
A, B, … are clients, n0, n1, … are nodes. A7 is the owner id of A's request number 7.
Times are milliseconds of true time; `until` is when the holder's own clock says that it ends.";

/// An addition for runs with shared locks.
pub const SHARING: &str = "A7s is a reader: it shares the lock with other readers.";

/// The name of a client: a letter.
pub(crate) fn client_name(client: usize) -> String {
    char::from(b'A' + (client % 26) as u8).to_string()
}

/// True time in milliseconds.
pub(crate) fn millis(at: Nanos) -> String {
    if at == Nanos::MAX { "forever".into() } else { format!("{:.3}", at as f64 / MS as f64) }
}

/// The short name of an owner: the client's letter and the number of the request.
pub(crate) fn owner_name(owner: &Owner) -> String {
    bytes_name(owner.as_bytes())
}

pub(crate) fn bytes_name(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    if let Some((number, who)) = text.split_once(':').and_then(|(_, rest)| rest.split_once('@')) {
        return format!("{who}{number}");
    }
    let (alone, mark) = match Group::of(bytes) {
        Some(Group::Readers) => (text.trim_end_matches(":s"), "s".to_owned()),
        Some(Group::Identity(identity)) => {
            (text.split('!').next().unwrap_or_default(), identity.to_string())
        }
        None => (&*text, String::new()),
    };
    match (queue::Position::of(bytes), alone.rsplit_once(':')) {
        (Some(place), Some((_, number))) => format!("{}{number}{mark}", place_name(&place)),
        _ => text.into_owned(),
    }
}

/// The owners that may hold a lock together, read from an owner without the core.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Group {
    Readers,
    /// Identities are single letters here.
    Identity(char),
}

impl Group {
    pub(crate) fn of(owner: &[u8]) -> Option<Self> {
        let text = str::from_utf8(owner).ok()?.strip_prefix("q1:")?;
        match text.strip_suffix(":r") {
            Some(text) => text.rsplit_once('!')?.1.chars().next().map(Self::Identity),
            None => text.ends_with(":s").then_some(Self::Readers),
        }
    }
}

/// The letter of the client of a position.
fn place_name(place: &queue::Position) -> String {
    client_name(client_of(place))
}

/// The client of a position: simulated clients have their number in their ids.
pub(crate) fn client_of(place: &queue::Position) -> usize {
    let id = place.client.to_string();
    usize::from_str_radix(&id[..2], 16).unwrap_or(0)
}

/// A command in a few words.
pub(crate) fn ask(command: &Command) -> String {
    match command {
        Command::SetKey { owner, ttl_ms, .. } => format!("set {} {ttl_ms} ms", owner_name(owner)),
        Command::Adopt { from, owner, ttl_ms, .. } => {
            format!("adopt {} from {} {ttl_ms} ms", owner_name(owner), owner_name(from))
        }
        Command::DeleteKey { owner, .. } => format!("delete {}", owner_name(owner)),
        Command::ExtendKeys { entries, .. } => {
            let each = entries.iter().map(|entry| owner_name(&entry.owner));
            format!("extend {}", each.collect::<Vec<_>>().join(", "))
        }
        Command::Check { owner, .. } => format!("check {}", owner_name(owner)),
        Command::Acquire { request: ask, .. } => format!("acquire {}", owner_name(&ask.owner)),
        Command::Release { owner, yields: None, .. } => format!("release {}", owner_name(owner)),
        Command::Release { owner, yields: Some(queue::Yield { fence, .. }), .. } => {
            format!("yield {} {fence}", owner_name(owner))
        }
        Command::Extend { entries, .. } => {
            let each = entries.iter().map(|entry| {
                let verb = if entry.may_heal { "extend" } else { "confirm" };
                format!("{verb} {} {}", owner_name(&entry.owner), entry.fence)
            });
            each.collect::<Vec<_>>().join(", ")
        }
        Command::Batch(entries) => entries.iter().map(ask).collect::<Vec<_>>().join(" + "),
        Command::Attach { .. } => "attach".into(),
        Command::Ping { .. } => "ping".into(),
        other => format!("{other:?}"),
    }
}

/// A reply in a word.
pub(crate) fn answer(reply: &Reply) -> String {
    match reply {
        Reply::Stored => "stored".into(),
        Reply::Deleted => "deleted".into(),
        Reply::Absent => "absent".into(),
        Reply::NotOwner => "another's".into(),
        Reply::ExtendedKeys(fates) => {
            let each = fates.iter().map(|fate| match fate {
                ExtendedKey::Renewed => "extended",
                ExtendedKey::Absent => "absent",
                ExtendedKey::NotOwner => "another's",
                ExtendedKey::Failed => "failed",
            });
            each.collect::<Vec<_>>().join(", ")
        }
        Reply::Granted { fence, is_earlier } => {
            format!(
                "granted {fence}{}",
                if *is_earlier { ", an earlier waiter exists" } else { "" }
            )
        }
        Reply::Queued { fence, rank, .. } => format!("queued at {rank:?}, fence {fence}"),
        Reply::Released { is_ours } => if *is_ours { "released" } else { "not its" }.into(),
        Reply::ExtendedLeases(fates) => format!("{fates:?}"),
        Reply::Batch(each) => {
            let each = each.iter().map(|it| it.as_ref().map_or_else(|| "an error".into(), answer));
            each.collect::<Vec<_>>().join(" + ")
        }
        Reply::Attached { .. } => "attached".into(),
        Reply::Stale => "stale".into(),
        Reply::Key(seen) => if seen.is_some() { "seen" } else { "nothing" }.into(),
        other => format!("{other:?}"),
    }
}
