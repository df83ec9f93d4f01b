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

/// Everything that the servers ran, the clients claimed and the library reported. Clones are
/// the same trace.
#[derive(Clone, Default)]
pub(crate) struct Trace {
    all: Arc<Mutex<Vec<String>>>,
    /// Client ids, and the names of their programs.
    names: Arc<Mutex<Vec<(String, String)>>>,
}

impl Trace {
    /// Notes what happens now, inside of a host.
    pub(crate) fn add(&self, what: fmt::Arguments<'_>) {
        self.add_at(now(), what);
    }

    pub(crate) fn add_at(&self, at: Duration, what: fmt::Arguments<'_>) {
        let (ms, us) = (at.as_millis(), at.subsec_micros() % 1_000);
        self.lock().push(format!("{ms:>6}.{us:03} ms  {what}"));
    }

    /// Prints `id` as `name` in a story.
    pub(crate) fn call(&self, id: String, name: String) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if !names.iter().any(|(known, _)| *known == id) {
            names.push((id, name));
        }
    }

    /// The last lines for people, without pings and the like.
    pub(crate) fn story(&self, lines: usize) -> String {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let all = self.lock();
        let shown = |line: &&String| !QUIET.iter().any(|word| line.contains(word));
        let mut last: Vec<&String> = all.iter().rev().filter(shown).take(lines).collect();
        last.reverse();
        let named = |line: &&String| {
            names.iter().fold((*line).clone(), |line, (id, name)| line.replace(id, name))
        };
        last.iter().map(named).collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trace({} lines)", self.lock().len())
    }
}

/// Adds the events of one process's library to the trace.
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
            self.trace.add(format_args!("{} reports {event:?}", self.who));
        }
    }
}

/// A failure leaves out lines with these words.
const QUIET: [&str; 3] = [" Ping ", " plain SET ", " reports Answered"];
