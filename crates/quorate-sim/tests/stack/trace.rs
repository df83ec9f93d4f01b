//! What happened, in the order in which it did, with the true time of each.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use quorate::observe::{Event, Observer};

use crate::network::Sockets;

/// The true time: how long the simulation has been running. Only inside of a host.
pub(crate) fn now() -> Duration {
    turmoil::sim_elapsed().expect("called by a program of the simulation")
}

/// Everything that the servers ran, that the clients claimed and that the library told. Clones are
/// the same trace.
#[derive(Clone, Default)]
pub(crate) struct Trace(Arc<Mutex<Vec<String>>>);

impl Trace {
    /// Notes what happens now, inside of a host.
    pub(crate) fn add(&self, what: fmt::Arguments<'_>) {
        self.add_at(now(), what);
    }

    pub(crate) fn add_at(&self, at: Duration, what: fmt::Arguments<'_>) {
        let (ms, us) = (at.as_millis(), at.subsec_micros() % 1_000);
        self.lock().push(format!("{ms:>6}.{us:03} ms  {what}"));
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trace({} lines)", self.lock().len())
    }
}

/// Notes what the library of one process tells.
#[derive(Debug)]
pub(crate) struct Witness {
    pub(crate) who: String,
    pub(crate) sockets: Sockets,
    pub(crate) trace: Trace,
}

impl Observer for Witness {
    fn observe(&self, event: &Event<'_>) {
        // What a killed process or the end of a simulation leaves behind is dropped outside of
        // simulated time.
        if !self.sockets.is_killed() && turmoil::in_simulation() {
            self.trace.add(format_args!("{} tells {event:?}", self.who));
        }
    }
}
