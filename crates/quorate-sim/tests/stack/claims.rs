//! Which program claimed to hold a lock, and when, by true time.

use std::{cell::RefCell, rc::Rc, time::Duration};

use crate::trace::{Trace, now};

/// All claims of one simulation. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claims {
    state: Rc<RefCell<State>>,
    trace: Trace,
}

#[derive(Debug, Default)]
struct State {
    windows: Vec<Window>,
    /// How many of them were checked.
    checked: usize,
    /// Fences need not grow: the clocks of servers are further apart than the bound for fences.
    is_unordered: bool,
}

#[derive(Clone, Debug)]
struct Window {
    lock: String,
    who: String,
    from: Duration,
    until: Option<Duration>,
    hold: Hold,
}

/// What is known about a claim.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hold {
    /// Readers and holders in classic mode have none.
    pub(crate) fence: Option<u64>,
    /// Readers share the lock.
    pub(crate) is_shared: bool,
    /// Stays the same when another process adopts the lease.
    pub(crate) lease: Option<Lease>,
    /// No process holds the lease: it was detached, and renewed for a known time.
    pub(crate) is_left: bool,
}

/// Identifies a lease while it moves between processes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Lease(usize);

impl Claims {
    pub(crate) fn new(trace: &Trace) -> Self {
        Self { state: Rc::default(), trace: trace.clone() }
    }

    /// `who` holds the lock exclusively until the returned claim is dropped.
    pub(crate) fn open(&self, who: &str, lock: &str) -> Claim {
        self.begin(who, lock, Hold::default())
    }

    /// `who` holds the lock until the returned claim is dropped.
    pub(crate) fn begin(&self, who: &str, lock: &str, hold: Hold) -> Claim {
        let mut state = self.state.borrow_mut();
        let index = state.windows.len();
        let hold = Hold { lease: hold.lease.or(Some(Lease(index))), ..hold };
        self.trace.add(format_args!("{who} holds {lock} {hold:?}"));
        let (lock, who) = (lock.to_owned(), who.to_owned());
        state.windows.push(Window { lock, who, from: now(), until: None, hold });
        Claim { claims: self.clone(), index }
    }

    /// `who` renewed a lease that was detached: it is valid for `left`.
    pub(crate) fn left(&self, who: &str, lock: &str, hold: Hold, left: Duration) {
        let claim = self.begin(who, lock, Hold { is_left: true, ..hold });
        self.state.borrow_mut().windows[claim.index].until = Some(now() + left);
    }

    /// A process starts to adopt or release a lease that was detached: earlier renewals of it
    /// no longer count.
    pub(crate) fn end_left(&self, lease: Lease) {
        let at = now();
        let mut state = self.state.borrow_mut();
        let is_meant = |window: &&mut Window| {
            let Hold { is_left, lease: known, .. } = window.hold;
            is_left && known == Some(lease)
        };
        for window in state.windows.iter_mut().filter(is_meant) {
            window.until = window.until.map(|until| until.min(at.max(window.from)));
        }
    }

    /// All claims of `who` end at `at`: its process is killed.
    pub(crate) fn end_all_of(&self, who: &str, at: Duration) {
        let mut state = self.state.borrow_mut();
        for window in state.windows.iter_mut().filter(|window| window.who == who) {
            window.until.get_or_insert(at);
        }
    }

    /// The programs that hold a lock now.
    pub(crate) fn holders(&self) -> Vec<String> {
        let state = self.state.borrow();
        let open = state.windows.iter().filter(|window| window.until.is_none());
        open.map(|window| window.who.clone()).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.state.borrow().windows.len()
    }

    /// Stops checking that fences grow.
    pub(crate) fn allow_any_fence(&self) {
        self.state.borrow_mut().is_unordered = true;
    }

    /// Panics if two programs held the same lock at the same time, or if a fence did not grow. Call
    /// it between ticks: within a tick the hosts run one after another, not in the order of time.
    pub(crate) fn check(&self) {
        let mut state = self.state.borrow_mut();
        for index in state.checked..state.windows.len() {
            let window = &state.windows[index];
            let others = state.windows[..index].iter().filter(|other| other.lock == window.lock);
            for other in others {
                assert!(!window.overlaps(other), "two holders at once: {other:?} and {window:?}");
                let is_ordered = state.is_unordered || window.is_ordered(other);
                assert!(is_ordered, "a fence did not grow: {other:?} and {window:?}");
            }
        }
        state.checked = state.windows.len();
    }
}

impl Window {
    /// Whether both held the lock at the same time, and must not.
    fn overlaps(&self, other: &Self) -> bool {
        let is_open_at = |it: &Self, at| it.from <= at && it.until.is_none_or(|until| at < until);
        let is_together = is_open_at(self, other.from) || is_open_at(other, self.from);
        let is_same_lease = self.hold.lease == other.hold.lease;
        // A renewal of a lease that was detached does not exclude its next holder.
        let is_fine = is_same_lease && (self.hold.is_left || other.hold.is_left);
        is_together && !is_fine && !(self.hold.is_shared && other.hold.is_shared)
    }

    /// Whether the later claim has the larger fence, or the same fence if it is the same lease.
    fn is_ordered(&self, other: &Self) -> bool {
        let (Some(ours), Some(theirs)) = (self.hold.fence, other.hold.fence) else { return true };
        match self.hold.lease == other.hold.lease {
            true => ours == theirs,
            false => ours.cmp(&theirs) == self.from.cmp(&other.from),
        }
    }
}

/// A lock that a program holds.
#[derive(Debug)]
pub(crate) struct Claim {
    claims: Claims,
    index: usize,
}

impl Claim {
    /// How long it lasts so far.
    pub(crate) fn age(&self) -> Duration {
        now() - self.claims.state.borrow().windows[self.index].from
    }

    /// Its lock.
    pub(crate) fn hold(&self) -> Hold {
        self.claims.state.borrow().windows[self.index].hold
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let Some(at) = turmoil::sim_elapsed() else { return };
        let mut state = self.claims.state.borrow_mut();
        let window = &mut state.windows[self.index];
        if window.until.is_none() {
            window.until = Some(at);
            let (who, lock) = (&window.who, &window.lock);
            self.claims.trace.add(format_args!("{who} ends with {lock}"));
        }
    }
}
