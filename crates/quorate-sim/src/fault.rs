//! What goes wrong: kinds of faults, and the list that a seed draws.

use std::fmt;

use crate::{
    clock::{MS, Nanos, SECOND},
    dice::Dice,
    settings::Settings,
};

/// One planned fault.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// When it happens, in true time.
    pub at: Nanos,
    /// What happens.
    pub what: What,
}

/// What happens.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names of the fields say it")]
pub enum What {
    /// A connection breaks. What is on its way to the node may still arrive, late.
    Break { client: usize, node: usize, when: When, stragglers_for: Nanos },
    /// Messages of one connection take longer for a while.
    Slow { client: usize, node: usize, by: Nanos, lasts: Nanos },
    /// Messages of one connection are held up, in one direction or both.
    Cut { client: usize, node: usize, way: Way, lasts: Nanos },
    /// A node can be reached by nobody.
    Isolate { node: usize, lasts: Nanos },
    /// A node answers everything with an error, and does nothing.
    Fail { node: usize, lasts: Nanos },
    /// A client's process stands still.
    Pause { client: usize, lasts: Nanos },
    /// A client's machine sleeps. Its connections do not outlive that.
    Suspend { client: usize, lasts: Nanos },
    /// A client's process dies; another takes its place.
    ClientCrash { client: usize, back_after: Nanos },
    /// A node stops and comes back with what it kept.
    NodeCrash { node: usize, back_after: Nanos, keeps: Keeps },
    /// A node forgets everything, and stays up.
    Flush { node: usize },
    /// A replica takes a node's place, without the last writes.
    Promote { node: usize, lag: Nanos },
    /// A node throws away the key of one lock.
    Evict { node: usize, lock: usize },
    /// A node's clock is set.
    Step { node: usize, micros: i64 },
    /// Another library takes a lock on some nodes, by the rules.
    ForeignTake { lock: usize, nodes: u32, ttl_ms: u64 },
    /// A key that never goes stands in a lock's place on one node for a while.
    ForeignForever { lock: usize, node: usize, lasts: Nanos },
    /// Another program overwrites a key.
    ForeignOverwrite { lock: usize, node: usize },
}

/// When a connection breaks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum When {
    /// At once.
    Now,
    /// While the next request is on its way.
    OnRequest,
    /// When the next reply is about to leave: the node has done what was asked.
    OnReply,
}

/// What a node knows when it comes back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Keeps {
    /// All of it.
    Everything,
    /// What it knew so long ago.
    Ago(Nanos),
    /// Nothing.
    Nothing,
}

/// Which messages are held up.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Way {
    /// Requests.
    ToNode,
    /// Replies.
    ToClient,
    /// Both.
    Both,
}

/// What exclusion is promised under. A fault that breaks one is counted apart.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Bound {
    /// Nodes remember what they have granted.
    Memory,
    /// Clocks run at the right rate and nodes' clocks are not set.
    Clocks,
    /// Nobody overwrites keys.
    Manners,
}

impl Bound {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Memory, Self::Clocks, Self::Manners];
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "a node forgot",
            Self::Clocks => "a clock was wrong",
            Self::Manners => "a key was overwritten",
        })
    }
}

impl What {
    /// Which bound it breaks, if it does.
    #[must_use]
    pub const fn breaks(&self) -> Option<Bound> {
        match self {
            Self::NodeCrash { keeps: Keeps::Everything, .. }
            | Self::Break { .. }
            | Self::Slow { .. }
            | Self::Cut { .. }
            | Self::Isolate { .. }
            | Self::Fail { .. }
            | Self::Pause { .. }
            | Self::Suspend { .. }
            | Self::ClientCrash { .. }
            | Self::ForeignTake { .. }
            | Self::ForeignForever { .. } => None,
            Self::NodeCrash { .. }
            | Self::Flush { .. }
            | Self::Promote { .. }
            | Self::Evict { .. } => Some(Bound::Memory),
            Self::Step { .. } => Some(Bound::Clocks),
            Self::ForeignOverwrite { .. } => Some(Bound::Manners),
        }
    }

    /// Its kind, for counting: an index into [`KINDS`].
    #[must_use]
    pub const fn kind(&self) -> usize {
        match self {
            Self::Break { .. } => 0,
            Self::Slow { .. } => 1,
            Self::Cut { .. } => 2,
            Self::Isolate { .. } => 3,
            Self::Pause { .. } => 4,
            Self::Suspend { .. } => 5,
            Self::ClientCrash { .. } => 6,
            Self::NodeCrash { keeps: Keeps::Everything, .. } => 7,
            Self::NodeCrash { keeps: Keeps::Ago(_), .. } => 8,
            Self::NodeCrash { keeps: Keeps::Nothing, .. } => 9,
            Self::Flush { .. } => 10,
            Self::Promote { .. } => 11,
            Self::Evict { .. } => 12,
            Self::Step { .. } => 13,
            Self::ForeignTake { .. } => 14,
            Self::ForeignForever { .. } => 15,
            Self::ForeignOverwrite { .. } => 16,
            Self::Fail { .. } => 17,
        }
    }

    /// For how long it lasts; zero for what happens in an instant.
    #[must_use]
    pub const fn lasts(&self) -> Nanos {
        match *self {
            Self::Slow { lasts, .. }
            | Self::Cut { lasts, .. }
            | Self::Isolate { lasts, .. }
            | Self::Fail { lasts, .. }
            | Self::Pause { lasts, .. }
            | Self::Suspend { lasts, .. }
            | Self::ForeignForever { lasts, .. } => lasts,
            Self::ClientCrash { back_after, .. } | Self::NodeCrash { back_after, .. } => back_after,
            Self::Break { .. }
            | Self::Flush { .. }
            | Self::Promote { .. }
            | Self::Evict { .. }
            | Self::Step { .. }
            | Self::ForeignTake { .. }
            | Self::ForeignOverwrite { .. } => 0,
        }
    }
}

/// The names of the kinds; the last one is not planned but drawn by the callers themselves.
pub const KINDS: [&str; 19] = [
    "connection broken",
    "messages delayed",
    "messages held up",
    "node isolated",
    "client paused",
    "client suspended",
    "client crashed",
    "node crashed, kept all",
    "node crashed, lost the last writes",
    "node crashed, lost all",
    "node flushed",
    "replica promoted",
    "key evicted",
    "node clock set",
    "foreign holder",
    "foreign key for ever",
    "key overwritten",
    "node answers with errors",
    "call cancelled",
];

/// The kind of a cancelled call.
pub(crate) const CANCELLED: usize = 18;

/// Draws the faults of a world, in the order of their times.
pub(crate) fn draw(settings: &Settings) -> Vec<Fault> {
    let mut dice = Dice::new(settings.seed, STREAM);
    let mut faults: Vec<Fault> = (0..settings.faults)
        .map(|_| {
            let at = dice.between(5 * MS, settings.faults_until.saturating_sub(50 * MS));
            Fault { at, what: draw_one(settings, &mut dice) }
        })
        .collect();
    faults.sort_by_key(|fault| fault.at);
    faults
}

fn draw_one(settings: &Settings, dice: &mut Dice) -> What {
    let node = dice.index(settings.nodes);
    let client = dice.index(settings.clients);
    let lock = dice.index(settings.locks);
    let ttl = dice.pick(&settings.ttls_ms) * MS;
    // From a blink to well beyond the longest lease, and often about as long as a lease.
    let lasts = match dice.below(4) {
        0 => dice.between(MS, 20 * MS),
        1 => dice.between(ttl / 4, ttl),
        2 => dice.between(ttl * 9 / 10, ttl * 11 / 10),
        _ => dice.between(ttl / 2, ttl * 2),
    };
    let lasts = lasts.min(LASTS_MAX);
    if let Some(bound) = settings.beyond
        && dice.below(3) == 0
    {
        return draw_beyond(bound, settings, dice, lasts);
    }
    match dice.below(21) {
        0..=3 => {
            let when = dice.pick(&[When::Now, When::OnRequest, When::OnReply]);
            What::Break { client, node, when, stragglers_for: dice.pick(&[0, 2 * MS, lasts]) }
        }
        4..=5 => What::Slow { client, node, by: dice.pick(&[lasts, lasts / 8]), lasts },
        6..=8 => {
            let way = dice.pick(&[Way::ToNode, Way::ToClient, Way::Both]);
            What::Cut { client, node, way, lasts }
        }
        9..=10 => What::Isolate { node, lasts },
        11..=13 => What::Pause { client, lasts },
        14 => What::Suspend { client, lasts },
        15..=16 => What::ClientCrash { client, back_after: lasts / 4 },
        17..=18 => What::NodeCrash { node, back_after: lasts / 4, keeps: Keeps::Everything },
        19 => What::Fail { node, lasts: lasts / 4 },
        _ => match dice.below(3) {
            0 => What::ForeignForever { lock, node, lasts: lasts / 2 },
            _ => What::ForeignTake {
                lock,
                nodes: (dice.next() & ((1 << settings.nodes) - 1)) as u32,
                ttl_ms: dice.between(1, 100),
            },
        },
    }
}

/// A fault that breaks `bound`.
fn draw_beyond(bound: Bound, settings: &Settings, dice: &mut Dice, lasts: Nanos) -> What {
    let node = dice.index(settings.nodes);
    let lock = dice.index(settings.locks);
    let back_after = lasts / 8;
    match bound {
        Bound::Memory => match dice.below(8) {
            0 | 1 => What::NodeCrash { node, back_after, keeps: Keeps::Nothing },
            2 => What::NodeCrash { node, back_after, keeps: Keeps::Ago(SECOND) },
            3 => What::NodeCrash { node, back_after, keeps: Keeps::Ago(lasts) },
            4 => What::Flush { node },
            5 => What::Promote { node, lag: lasts / 4 },
            _ => What::Evict { node, lock },
        },
        Bound::Clocks => {
            let ttl = dice.pick(&settings.ttls_ms) * MS;
            let micros = (dice.pick(&[ttl / 2, ttl, 3_600 * SECOND]) / 1_000) as i64;
            What::Step { node, micros: dice.pick(&[micros, micros, -micros]) }
        }
        Bound::Manners => What::ForeignOverwrite { lock, node },
    }
}

const STREAM: u64 = 2;

/// No fault lasts longer, so that a world with long leases sees more than one.
const LASTS_MAX: Nanos = SECOND;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Fixed;

    #[test]
    fn every_kind_is_drawn_and_bounds_are_kept_where_they_are_promised() {
        let mut seen = [0_u32; KINDS.len()];
        for seed in 0..2_000 {
            let settings = Settings::draw(seed, &Fixed::default());
            for fault in draw(&settings) {
                seen[fault.what.kind()] += 1;
                let broken = fault.what.breaks();
                assert!(broken.is_none() || broken == settings.beyond, "{fault:?}");
                assert!(fault.at < settings.faults_until);
            }
        }
        assert!(seen[..CANCELLED].iter().all(|count| *count > 0), "{seen:?}");
    }
}
