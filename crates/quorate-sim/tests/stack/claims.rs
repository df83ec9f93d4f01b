//! Who claimed to hold a lock, and when, by true time.

use std::{cell::RefCell, rc::Rc, time::Duration};

use crate::trace::{Trace, now};

/// All claims of one simulation. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claims {
    windows: Rc<RefCell<Vec<Window>>>,
    trace: Trace,
}

#[derive(Clone, Debug)]
struct Window {
    lock: String,
    who: String,
    from: Duration,
    until: Option<Duration>,
}

impl Claims {
    pub(crate) fn new(trace: &Trace) -> Self {
        Self { windows: Rc::default(), trace: trace.clone() }
    }

    /// From now on `who` believes to hold the lock, until what is returned is dropped.
    pub(crate) fn open(&self, who: &str, lock: &str) -> Claim {
        self.trace.add(format_args!("{who} holds {lock}"));
        let mut windows = self.windows.borrow_mut();
        let (lock, who) = (lock.to_owned(), who.to_owned());
        windows.push(Window { lock, who, from: now(), until: None });
        Claim { claims: self.clone(), index: windows.len() - 1 }
    }

    /// Whatever `who` holds ends at `at`: its process is killed.
    pub(crate) fn end_all_of(&self, who: &str, at: Duration) {
        for window in self.windows.borrow_mut().iter_mut().filter(|window| window.who == who) {
            window.until.get_or_insert(at);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.windows.borrow().len()
    }

    /// Panics if two held the same lock at the same time.
    pub(crate) fn check(&self) {
        let mut windows = self.windows.borrow().clone();
        windows.sort_by(|a, b| (&a.lock, a.from).cmp(&(&b.lock, b.from)));
        for pair in windows.windows(2).filter(|pair| pair[0].lock == pair[1].lock) {
            let is_apart = pair[0].until.is_some_and(|until| until <= pair[1].from);
            assert!(is_apart, "two holders at once: {:?} and {:?}", pair[0], pair[1]);
        }
    }
}

/// One who believes to hold a lock.
#[derive(Debug)]
pub(crate) struct Claim {
    claims: Claims,
    index: usize,
}

impl Drop for Claim {
    fn drop(&mut self) {
        let Some(at) = turmoil::sim_elapsed() else { return };
        let mut windows = self.claims.windows.borrow_mut();
        let window = &mut windows[self.index];
        if window.until.is_none() {
            window.until = Some(at);
            let (who, lock) = (&window.who, &window.lock);
            self.claims.trace.add(format_args!("{who} ends with {lock}"));
        }
    }
}
