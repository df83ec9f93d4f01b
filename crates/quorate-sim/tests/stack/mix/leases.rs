//! Leases on their way between processes.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::Duration,
};

use quorate::DetachedLease;

use tokio::time::sleep;

use crate::{claims::Hold, trace::now};

/// Where programs leave leases for other programs.
#[derive(Debug, Default)]
pub(super) struct Mailbox(RefCell<Vec<Rc<Letter>>>);

/// A lease that was handed over, as text.
#[derive(Debug)]
pub(super) struct Letter {
    pub(super) text: String,
    pub(super) lock: String,
    pub(super) hold: Hold,
    posted_at: Duration,
    adopters: Cell<u32>,
    /// A program started to adopt or release it.
    is_touched: Cell<bool>,
}

impl Mailbox {
    /// Leaves a lease that was handed over.
    pub(super) fn post(&self, lease: &DetachedLease, hold: Hold) {
        let letter = Letter {
            text: lease.expose_secret(),
            lock: lease.name().to_owned(),
            hold,
            posted_at: now(),
            adopters: Cell::new(0),
            is_touched: Cell::new(false),
        };
        self.0.borrow_mut().push(Rc::new(letter));
    }

    /// The newest lease, if it is no older than `age`. Waits up to `age` for one. Other programs
    /// may get the same.
    pub(super) async fn newest(&self, age: Duration) -> Option<Rc<Letter>> {
        let until = now() + age;
        while now() < until {
            let now = now();
            // Hosts run one after another: a lease may have a later time than this host.
            let is_there = |letter: &&Rc<Letter>| {
                letter.posted_at < now && now.saturating_sub(letter.posted_at) <= age
            };
            let found = self.0.borrow().iter().rev().find(is_there).cloned();
            if found.is_some() {
                return found;
            }
            sleep(CHECK_EVERY).await;
        }
        None
    }
}

impl Letter {
    pub(super) fn lease(&self) -> DetachedLease {
        self.text.parse().expect("it was written by the library")
    }

    /// A program starts to adopt or release it.
    pub(super) fn touch(&self) {
        self.is_touched.set(true);
    }

    pub(super) fn is_touched(&self) -> bool {
        self.is_touched.get()
    }

    /// A program adopted it.
    pub(super) fn note_adopted(&self) {
        self.adopters.set(self.adopters.get() + 1);
        assert_eq!(self.adopters.get(), 1, "a lease of {} was adopted twice", self.lock);
    }
}

/// How often a program checks for leases.
const CHECK_EVERY: Duration = Duration::from_millis(10);
