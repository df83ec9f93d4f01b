//! Histories of real runs: who held which lock from when to when, and whether every
//! promise was kept.
//!
//! A [`Recorder`] records what happens in many threads and processes, one line for each event,
//! by a clock that all processes of the machine share. A [`History`] is read from these lines. It
//! lists the broken promises ([`History::violations`]) and the results of each client
//! ([`History::report`]). The words are those of the simulator: *claim*, *exclusion*, *fence*.
//!
//! # What is checked
//!
//! A claim lies inside the true hold: it is recorded after the lock was acquired and before its
//! release begins, and it is cut at the end by the holder's own clock ([`Until::Believed`]). So the
//! claims are linearizable, that is, they can be put into an order that the sequential model of the
//! primitive allows, exactly if no two of them overlap that the model does not allow together. That
//! is what [`History::violations`] checks. [`How`] is the way in which a lock is held:
//!
//! - [`Alone`](How::Alone) excludes all others. [Readers](How::Reader) exclude all but readers.
//! - [Entries](How::Entry) of one identity hold the lock together, and exclude all others. The
//!   fence of an entry is no smaller than that of any entry of its identity that held the lock for
//!   all the time in which it asked. The next holder of another kind has a larger one.
//! - [Permits](How::Permit) are locks that are held alone. At any time no more of them are held
//!   than the largest number that one of the holders names.
//! - The members of a [`Set`] begin and end together, all of them or none.
//!
//! ```
//! use quorate_testkit::history::{Recorder, Until};
//!
//! let recorder = Recorder::in_memory();
//! let request = recorder.ask("alice", "orders");
//! // guard = lock().await
//! let holding = request.acquired(Some(7), None);
//! // The work; and before the lock is released:
//! holding.released();
//! let history = recorder.history();
//! history.assert_kept(Until::Ended);
//! assert_eq!(history.report().claims(), 1);
//! ```

mod check;
mod how;
mod line;
mod recorder;
mod report;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

pub use self::check::{Promise, Until, Violation};
pub use self::how::{How, Set};
use self::line::{Event, Line};
pub use self::recorder::{Holding, Recorder, Request};
pub use self::report::{Report, Share};

/// A point in time that means the same in all processes of this machine.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Moment(u64);

impl Moment {
    /// Later than everything that happens.
    pub const NEVER: Self = Self(u64::MAX);

    /// The clock that counts suspended time and cannot be stepped.
    #[must_use]
    pub fn now() -> Self {
        let time = clock_gettime(ClockId::Boottime);
        // Neither is ever negative: the clock begins when the machine boots.
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
        Self(seconds * 1_000_000_000 + nanos)
    }

    /// This many nanoseconds after the boot of the machine.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the machine has booted.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// This moment plus `time`.
    #[must_use]
    pub fn after(self, time: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// The time since `earlier`; none if that is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NEVER => f.write_str("never"),
            Self(nanos) => write!(f, "{}.{:06} ms", nanos / 1_000_000, nanos % 1_000_000),
        }
    }
}

/// One holder's belief that it holds a lock.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Claim {
    /// The client.
    pub client: String,
    /// The lock.
    pub lock: String,
    /// How it is held, and so which other claims may overlap.
    pub how: How,
    /// The set, if it was requested together with other locks.
    pub set: Option<Set>,
    /// The number of the holder, if it has one.
    pub fence: Option<u64>,
    /// When the client began to ask.
    pub asked_at: Moment,
    /// When it learned that it holds the lock.
    pub acquired_at: Moment,
    /// When it began to release the lock, learned of its loss, or was killed.
    pub ended_at: Option<Moment>,
    /// Until when its own clock lets it act.
    pub valid_until: Option<Moment>,
}

/// A client that asked for a lock and did not get it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Wait {
    client: String,
    lock: String,
    how: How,
    /// For a set: how many locks.
    size: Option<usize>,
    asked_at: Moment,
    gave_up_at: Option<Moment>,
}

/// What happened in a run.
#[derive(Clone, Debug, Default)]
pub struct History {
    claims: Vec<Claim>,
    in_vain: Vec<Wait>,
}

impl History {
    /// The history in the lines of one or several [`Recorder`]s.
    ///
    /// # Panics
    ///
    /// If a line is not a recorder's, or cannot follow the lines before it.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut entries: BTreeMap<String, Entry> = BTreeMap::new();
        for (number, text) in (1..).zip(text.lines()) {
            let line = Line::parse(text).filter(|line| take_down(&mut entries, line));
            assert!(line.is_some(), "line {number} is invalid: {text:?}");
        }
        let mut history = Self::default();
        for entry in entries.into_values() {
            match entry {
                Entry::Waits(wait) => history.in_vain.push(wait),
                Entry::Claims(claims) => history.claims.extend(claims),
            }
        }
        history.claims.sort_by_key(|claim| claim.acquired_at);
        history
    }

    /// As [`parse`](Self::parse), of a file.
    ///
    /// # Panics
    ///
    /// As [`parse`](Self::parse), or if the file cannot be read.
    #[must_use]
    pub fn read(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        let text = fs::read_to_string(path);
        Self::parse(&text.unwrap_or_else(|error| panic!("reading {}: {error}", path.display())))
    }

    /// A process was killed and could not record the end of its claims: they end at this moment,
    /// which must be before its end. Read it before the process is killed.
    pub fn died(&mut self, client: &str, at: Moment) {
        let open = |claim: &&mut Claim| claim.client == client && claim.ended_at.is_none();
        self.claims.iter_mut().filter(open).for_each(|claim| claim.ended_at = Some(at));
    }

    /// All claims, in the order of their beginning.
    #[must_use]
    pub fn claims(&self) -> &[Claim] {
        &self.claims
    }
}

impl FromIterator<Claim> for History {
    fn from_iter<T: IntoIterator<Item = Claim>>(claims: T) -> Self {
        let mut claims: Vec<Claim> = claims.into_iter().collect();
        claims.sort_by_key(|claim| claim.acquired_at);
        Self { claims, in_vain: Vec::new() }
    }
}

/// What is known about one request so far.
enum Entry {
    Waits(Wait),
    Claims(Vec<Claim>),
}

/// Returns false if this event cannot be the next.
fn take_down(entries: &mut BTreeMap<String, Entry>, line: &Line) -> bool {
    let Line { id, at, event } = line;
    let Some(entry) = entries.get_mut(id) else {
        let Event::Asked { client, lock, how, size } = event.clone() else { return false };
        let wait = Wait { client, lock, how, size, asked_at: *at, gave_up_at: None };
        entries.insert(id.clone(), Entry::Waits(wait));
        return true;
    };
    match (entry, event) {
        (Entry::Waits(wait), Event::GaveUp) if wait.gave_up_at.is_none() => {
            wait.gave_up_at = Some(*at);
        }
        (Entry::Waits(wait), Event::Acquired { fence, valid_until }) if wait.is_open() => {
            let claim = wait.claim(*at, *fence, *valid_until);
            entries.insert(id.clone(), Entry::Claims(vec![claim]));
        }
        (Entry::Waits(wait), Event::AcquiredAll { members, valid_until })
            if wait.is_open() && !members.is_empty() =>
        {
            let set = wait.size.map(|size| Set { id: id.clone(), size });
            let claim = |(lock, fence): &(String, Option<u64>)| {
                let (lock, set) = (lock.clone(), set.clone());
                Claim { lock, set, ..wait.claim(*at, *fence, *valid_until) }
            };
            let claims = members.iter().map(claim).collect();
            entries.insert(id.clone(), Entry::Claims(claims));
        }
        (Entry::Claims(claims), Event::Extended { valid_until }) if are_open(claims) => {
            claims.iter_mut().for_each(|claim| claim.valid_until = Some(*valid_until));
        }
        (Entry::Claims(claims), Event::Released | Event::Lost) if are_open(claims) => {
            claims.iter_mut().for_each(|claim| claim.ended_at = Some(*at));
        }
        _ => return false,
    }
    true
}

fn are_open(claims: &[Claim]) -> bool {
    claims.iter().all(|claim| claim.ended_at.is_none())
}

impl Wait {
    const fn is_open(&self) -> bool {
        self.gave_up_at.is_none()
    }

    fn claim(&self, at: Moment, fence: Option<u64>, valid_until: Option<Moment>) -> Claim {
        let Self { client, lock, how, asked_at, .. } = self.clone();
        let (acquired_at, ended_at, set) = (at, None, None);
        Claim { client, lock, how, set, fence, asked_at, acquired_at, ended_at, valid_until }
    }
}

#[cfg(test)]
mod tests;
