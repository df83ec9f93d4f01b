//! Kinds of faults, and the list that a seed draws.

use std::fmt;

use quorate_core::membership::WALL_TOLERANCE_MS;

use crate::{
    clock::{MS, Nanos, SECOND},
    dice::Dice,
    settings::Settings,
};

/// One planned fault. It affects one or more of this client, this node and this lock.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names of the fields say it")]
pub struct Fault {
    /// When it happens, in true time.
    pub at: Nanos,
    /// For how long it lasts; zero for a fault without a duration.
    pub lasts: Nanos,
    pub client: usize,
    pub node: usize,
    pub lock: usize,
    /// What happens.
    pub what: What,
}

/// What happens.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names of the fields say it")]
pub enum What {
    /// A connection breaks. Requests in flight may still arrive, late.
    Break { when: When, stragglers_for: Nanos },
    /// Messages of one connection take longer for a while.
    Slow { by: Nanos },
    /// Messages of one connection are held back, in one direction or both.
    Cut(Way),
    /// No client can reach a node.
    Isolate,
    /// A node answers every command with an error, and executes nothing.
    Fail,
    /// Nodes have no free memory: they keep their data, and store nothing new.
    Full { nodes: u32 },
    /// A client's process is paused.
    Pause,
    /// A client's machine is suspended. Its connections break.
    Suspend,
    /// A client's process crashes; another one replaces it.
    ClientCrash,
    /// A node crashes and restarts with the data that it kept.
    NodeCrash(Keeps),
    /// A node loses all data, and stays up.
    Flush,
    /// A replica without the last writes replaces a node.
    Promote { lag: Nanos },
    /// A virtual machine is rolled back: the node has its old state, and its server does not know.
    RollBack { lag: Nanos },
    /// A node is made the replica of another one, and a master again. Connections are kept.
    Copy { of: usize },
    /// An empty server replaces a node at the same address.
    Replace,
    /// Several nodes restart at once, with all their data or none.
    Blackout { nodes: u32, is_kept: bool },
    /// A node evicts the key of one lock.
    Evict,
    /// A node's clock is set.
    Step { micros: i64 },
    /// A node's clock is set forward a little during its quarantine; otherwise nothing happens.
    Nudge { micros: i64 },
    /// Another library acquires a lock on some nodes, by the rules.
    ForeignTake { nodes: u32, ttl_ms: u64 },
    /// A key without an expiry occupies a lock on one node for a while.
    ForeignForever,
    /// Another program overwrites a key.
    ForeignOverwrite,
}

/// When a connection breaks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum When {
    /// At once.
    Now,
    /// While the next request is in flight.
    OnRequest,
    /// Before the next reply leaves: the node has executed the request.
    OnReply,
}

/// The data of a node after a restart.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Keeps {
    /// All of it.
    Everything,
    /// The data that it had this long ago.
    Ago(Nanos),
    /// Nothing.
    Nothing,
}

/// Which messages are held back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Way {
    /// Requests.
    ToNode,
    /// Replies.
    ToClient,
    /// Both.
    Both,
}

/// The bounds within which exclusion is promised. Overlaps after a broken bound are counted apart.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Bound {
    /// Nodes remember their grants.
    Memory,
    /// No key of a lock is evicted or deleted by others.
    Keys,
    /// Clocks run at the right rate and nodes' clocks are not set.
    Clocks,
    /// No program overwrites keys.
    Manners,
    /// The first client that reaches a node with quarantine after a rollback has known its newer
    /// state.
    Witness,
}

impl Bound {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Memory, Self::Keys, Self::Clocks, Self::Manners, Self::Witness];

    /// The bounds that a seed may draw.
    pub(crate) const DRAWN: [Self; 4] = [Self::Memory, Self::Keys, Self::Clocks, Self::Manners];
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "a node forgot",
            Self::Keys => "a key vanished",
            Self::Clocks => "a clock was wrong",
            Self::Manners => "a key was overwritten",
            Self::Witness => {
                "a node was rolled back, and no client that reached it knew the newer state"
            }
        })
    }
}

impl What {
    /// Which bound it breaks, if it does. In a forgetful run the quarantine handles most faults.
    #[must_use]
    pub const fn breaks(&self, is_forgetful: bool) -> Option<Bound> {
        match self {
            Self::NodeCrash(Keeps::Everything) | Self::Blackout { is_kept: true, .. } => None,
            Self::NodeCrash(_)
            | Self::Flush
            | Self::Promote { .. }
            | Self::RollBack { .. }
            | Self::Copy { .. }
            | Self::Replace
            | Self::Blackout { .. } => {
                if is_forgetful {
                    None
                } else {
                    Some(Bound::Memory)
                }
            }
            Self::Step { .. } | Self::Nudge { .. } => {
                if is_forgetful {
                    None
                } else {
                    Some(Bound::Clocks)
                }
            }
            Self::Evict => Some(Bound::Keys),
            Self::ForeignOverwrite => Some(Bound::Manners),
            _ => None,
        }
    }

    /// Its kind, for counting: an index into [`KINDS`].
    #[must_use]
    pub const fn kind(&self) -> usize {
        match self {
            Self::Break { .. } => 0,
            Self::Slow { .. } => 1,
            Self::Cut(_) => 2,
            Self::Isolate => 3,
            Self::Pause => 4,
            Self::Suspend => 5,
            Self::ClientCrash => 6,
            Self::NodeCrash(Keeps::Everything) => 7,
            Self::NodeCrash(Keeps::Ago(_)) => 8,
            Self::NodeCrash(Keeps::Nothing) => 9,
            Self::Flush => 10,
            Self::Promote { .. } => 11,
            Self::Evict => 12,
            Self::Step { .. } => 13,
            Self::ForeignTake { .. } => 14,
            Self::ForeignForever => 15,
            Self::ForeignOverwrite => 16,
            Self::Fail => 17,
            Self::RollBack { .. } => 18,
            Self::Copy { .. } => 19,
            Self::Replace => 20,
            Self::Blackout { .. } => 21,
            Self::Nudge { .. } => 22,
            Self::Full { .. } => 23,
        }
    }
}

/// The names of the kinds. The callers draw the last kind themselves.
pub const KINDS: [&str; 25] = [
    "connection broken",
    "messages delayed",
    "messages held back",
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
    "foreign key without expiry",
    "key overwritten",
    "node answers with errors",
    "node rolled back",
    "node copied from another",
    "server replaced by an empty one",
    "nodes restarted together",
    "node clock set in its quarantine",
    "nodes full",
    "call cancelled",
];

/// The kind of a cancelled call.
pub(crate) const CANCELLED: usize = 24;

/// Draws the faults of a run, in the order of their times.
pub(crate) fn draw(settings: &Settings) -> Vec<Fault> {
    let mut dice = Dice::new(settings.seed, STREAM);
    if settings.is_rolling {
        return restarts(settings, &mut dice);
    }
    let fault = |_| {
        let at = dice.between(5 * MS, settings.faults_until.saturating_sub(50 * MS));
        Fault { at, ..draw_one(settings, &mut dice) }
    };
    let mut faults: Vec<Fault> = (0..settings.faults).map(fault).collect();
    faults.sort_by_key(|fault| fault.at);
    aim_nudges(settings, &mut dice, &mut faults);
    faults.sort_by_key(|fault| fault.at);
    // Behind the others, which keep their numbers.
    faults.extend(settings.fulls.iter().map(|full| full.fault()));
    faults
}

/// All nodes lose their data one after the other, each when the one before votes again.
fn restarts(settings: &Settings, dice: &mut Dice) -> Vec<Fault> {
    let every = settings.restarted_every();
    let restart = |node: usize| {
        let at = every * node as u64 + dice.between(every / 2, every / 2 + 100 * MS);
        let (lasts, what) = (dice.between(MS, 100 * MS), What::NodeCrash(Keeps::Nothing));
        Fault { at, lasts, client: 0, node, lock: 0, what }
    };
    (0..settings.nodes).map(restart).collect()
}

/// Moves each nudge of a clock into a quarantine: soon after its node has forgotten locks.
fn aim_nudges(settings: &Settings, dice: &mut Dice, faults: &mut [Fault]) {
    for index in 0..faults.len() {
        let (before, rest) = faults.split_at_mut(index);
        let Some(nudge) = rest.first_mut() else { continue };
        let forgets =
            |it: &&Fault| matches!(it.what, What::Flush | What::Replace | What::Copy { .. });
        if matches!(nudge.what, What::Nudge { .. })
            && let Some(forgetful) = before.iter().rfind(forgets)
        {
            nudge.at = forgetful.at + dice.below(settings.longest_ttl() / 2);
            nudge.node = forgetful.node;
        }
    }
}

fn draw_one(settings: &Settings, dice: &mut Dice) -> Fault {
    let node = dice.index(settings.nodes);
    let client = dice.index(settings.clients);
    let lock = dice.index(settings.locks);
    let ttl = dice.pick(&settings.ttls_ms) * MS;
    // From a millisecond to twice a lease, and often about as long as a lease.
    let lasts = match dice.below(4) {
        0 => dice.between(MS, 20 * MS),
        1 => dice.between(ttl / 4, ttl),
        2 => dice.between(ttl * 9 / 10, ttl * 11 / 10),
        _ => dice.between(ttl / 2, ttl * 2),
    };
    let lasts = lasts.min(LASTS_MAX);
    let fault = Fault { at: 0, lasts, client, node, lock, what: What::Flush };
    if let Some(bound) = settings.beyond
        && dice.below(if bound == Bound::Keys { 2 } else { 3 }) == 0
    {
        return draw_beyond(bound, settings, dice, fault);
    }
    if settings.is_forgetful && dice.below(2) == 0 {
        return draw_forgetting(settings, dice, fault);
    }
    let (what, lasts) = match dice.below(21) {
        0..=3 => {
            let when = dice.pick(&[When::Now, When::OnRequest, When::OnReply]);
            (What::Break { when, stragglers_for: dice.pick(&[0, 2 * MS, lasts]) }, 0)
        }
        4..=5 => (What::Slow { by: dice.pick(&[lasts, lasts / 8]) }, lasts),
        6..=8 => (What::Cut(dice.pick(&[Way::ToNode, Way::ToClient, Way::Both])), lasts),
        9..=10 => (What::Isolate, lasts),
        11..=13 => (What::Pause, lasts),
        14 => (What::Suspend, lasts),
        15..=16 => (What::ClientCrash, lasts / 4),
        17..=18 => (What::NodeCrash(Keeps::Everything), lasts / 4),
        // A batch may fail partially.
        19..=20 if settings.idle_max == 0 => (What::Fail, lasts),
        19 => (What::Fail, lasts / 4),
        // Other libraries have no quarantine, and a key without expiry might be copied.
        _ if settings.is_forgetful => (What::Fail, lasts / 4),
        _ => match dice.below(3) {
            0 => (What::ForeignForever, lasts / 2),
            _ => {
                let nodes = (dice.next() & ((1 << settings.nodes) - 1)) as u32;
                (What::ForeignTake { nodes, ttl_ms: dice.between(1, 100) }, 0)
            }
        },
    };
    Fault { lasts, what, ..fault }
}

/// A fault that breaks `bound`.
fn draw_beyond(bound: Bound, settings: &Settings, dice: &mut Dice, fault: Fault) -> Fault {
    let node = dice.index(settings.nodes);
    let lock = dice.index(settings.locks);
    let crash = |keeps| (What::NodeCrash(keeps), fault.lasts / 8);
    let (what, lasts) = match bound {
        Bound::Keys => (What::Evict, 0),
        // In queue mode, the faults that a quarantine would handle.
        Bound::Memory | Bound::Witness if settings.has_queue => {
            return draw_forgetting(settings, dice, fault);
        }
        Bound::Memory | Bound::Witness => match dice.below(6) {
            0 | 1 => crash(Keeps::Nothing),
            2 => crash(Keeps::Ago(SECOND)),
            3 => crash(Keeps::Ago(fault.lasts)),
            4 => (What::Flush, 0),
            _ => (What::Promote { lag: fault.lasts / 4 }, 0),
        },
        Bound::Clocks => {
            let ttl = dice.pick(&settings.ttls_ms) * MS;
            let micros = (dice.pick(&[ttl / 2, ttl, 3_600 * SECOND]) / 1_000) as i64;
            (What::Step { micros: dice.pick(&[micros, micros, -micros]) }, 0)
        }
        Bound::Manners => (What::ForeignOverwrite, 0),
    };
    Fault { lasts, node, lock, what, ..fault }
}

/// A fault that makes a node forget locks, or starts its quarantine.
fn draw_forgetting(settings: &Settings, dice: &mut Dice, fault: Fault) -> Fault {
    let node = dice.index(settings.nodes);
    let of = (node + 1 + dice.index(settings.nodes.max(2) - 1)) % settings.nodes;
    let lag = dice.pick(&[SECOND, fault.lasts, fault.lasts / 4]);
    let is_durable = settings.quarantine.is_some_and(|quarantine| quarantine.is_durable);
    let keeps = dice.pick(&[Keeps::Nothing, Keeps::Ago(lag)]);
    let keeps = if is_durable { Keeps::Everything } else { keeps };
    let what = match dice.below(16) {
        0..=2 => What::NodeCrash(keeps),
        3..=4 => What::Flush,
        // A server that replaces a durable one would not be quarantined at all.
        5 | 8..=9 if is_durable => What::Flush,
        5 => What::Promote { lag },
        6..=7 => What::RollBack { lag },
        8..=9 if settings.nodes > 1 => What::Copy { of },
        8..=10 => What::Replace,
        11 => {
            let nodes = dice.next() as u32 & ((1 << settings.nodes) - 1);
            What::Blackout { nodes, is_kept: is_durable || dice.below(2) == 0 }
        }
        _ if settings.quarantine.is_none() => What::Flush,
        12..=13 if is_back(settings) => What::Flush,
        12..=13 => {
            let quarantine_us =
                settings.quarantine.map_or(0, |quarantine| quarantine.quarantine_ms * 1_000);
            What::Nudge {
                micros: dice.pick(&[quarantine_us, quarantine_us / 2, quarantine_us * 2]) as i64,
            }
        }
        _ => What::Step { micros: draw_step(settings, dice) },
    };
    let lasts = if matches!(what, What::NodeCrash(_)) { fault.lasts / 8 } else { 0 };
    Fault { lasts, node, what, ..fault }
}

/// A step that is large enough for every client to notice. A step back keeps keys until the end of
/// the run, so it is not drawn where nodes stay away for good: both together could block a
/// majority.
fn draw_step(settings: &Settings, dice: &mut Dice) -> i64 {
    let ms = settings.session_ms + dice.pick(&[STEP_MS, 3 * STEP_MS, 3_600_000]);
    let micros = (ms * 1_000) as i64;
    if is_back(settings) { -micros } else { micros }
}

/// Whether clocks are set back in this run, or forward. Both within one ping would go unnoticed: a
/// session from before would outlast a grant in between.
const fn is_back(settings: &Settings) -> bool {
    !settings.does_end_cut && settings.seed.is_multiple_of(4)
}

/// No client takes a step of this size for an error of a wall clock.
const STEP_MS: u64 = WALL_TOLERANCE_MS + 3_000;

const STREAM: u64 = 2;

/// The longest fault, so that a run with long leases has more than one fault at different times.
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
                let broken = fault.what.breaks(settings.is_forgetful);
                assert!(broken.is_none() || broken == settings.beyond, "{fault:?}");
                // Only full nodes begin later; all other faults end there.
                let is_full = matches!(fault.what, What::Full { .. });
                let ends_at = fault.at + fault.lasts;
                let is_late = fault.at >= settings.faults_until;
                assert!(!is_late || is_full && ends_at < settings.work_until, "{fault:?}");
            }
        }
        assert!(seen[..CANCELLED].iter().all(|count| *count > 0), "{seen:?}");
    }
}
