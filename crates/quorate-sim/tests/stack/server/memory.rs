//! The data of a server, and the ways in which it loses its data.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
};

use quorate_core::store::Store;

use super::Node;

/// The data that a restart keeps.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Keeps {
    #[default]
    Everything,
    Nothing,
    /// The snapshot before the last one.
    Snapshot,
}

/// The disk of a server, and its identity.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// What the next restart keeps.
    keeps: Cell<Keeps>,
    /// The last two.
    snapshots: RefCell<VecDeque<Store>>,
    /// How often the process was started.
    starts: Cell<u64>,
    /// How often it became a master after it was a replica.
    promotions: Cell<u64>,
}

impl Node {
    /// Sets which data the next restart keeps.
    pub(crate) fn set_keeps(&self, keeps: Keeps) {
        self.memory.keeps.set(keeps);
    }

    /// Writes a snapshot to disk.
    pub(crate) fn take_snapshot(&self) {
        let mut snapshots = self.memory.snapshots.borrow_mut();
        snapshots.truncate(1);
        snapshots.push_front(self.store.borrow().clone());
    }

    /// FLUSHALL: the process and its connections go on.
    pub(crate) fn flush(&self) {
        self.store.borrow_mut().clear();
    }

    /// Becomes a replica of the other server and then a master again. The process and its
    /// connections go on.
    pub(crate) fn copy(&self, other: &Self) {
        self.store.borrow_mut().copy(&other.store.borrow());
        self.memory.promotions.set(self.memory.promotions.get() + 1);
        self.store.borrow_mut().membership.set_run(self.run_number());
    }

    /// Steps the clock forward.
    pub(crate) fn step_clock(&self, ahead_ms: i64) {
        self.ahead_us.set(self.ahead_us.get() + 1_000 * ahead_ms);
    }

    /// Whether it is a node of a set and votes.
    pub(crate) fn votes(&self) -> bool {
        self.store.borrow().membership.origin().is_some_and(|(_, votes)| votes)
    }

    /// A new process loads the data that the restart keeps.
    pub(super) fn recall(&self) {
        let starts = self.memory.starts.get();
        self.memory.starts.set(starts + 1);
        let mut store = self.store.borrow_mut();
        // The first process has nothing to forget.
        let keeps = if starts == 0 { Keeps::Everything } else { self.memory.keeps.take() };
        match keeps {
            Keeps::Everything => {}
            Keeps::Nothing => store.clear(),
            Keeps::Snapshot => {
                let snapshots = self.memory.snapshots.borrow();
                store.copy(snapshots.back().unwrap_or(&Store::new()));
            }
        }
        store.membership.set_run(self.run_number());
    }

    /// A section of INFO.
    pub(super) fn info(&self, section: &[u8]) -> Option<String> {
        Some(match section {
            b"server" => {
                format!("run_id:{:020}{:020}\r\n", self.number, self.memory.starts.get())
            }
            b"replication" => format!(
                "role:master\r\nconnected_slaves:0\r\nmaster_replid:{:040}\r\n\
                 master_replid2:{:040}\r\n",
                self.run_number(),
                // Not zero if it was a replica.
                self.memory.promotions.get()
            ),
            b"memory" => "maxmemory:0\r\n".into(),
            b"persistence" => "aof_last_write_status:ok\r\n".into(),
            _ => return None,
        })
    }

    /// A setting of CONFIG GET: the server writes everything to disk at once.
    pub(super) fn setting(&self, setting: &[u8]) -> Option<(&'static str, &'static str)> {
        Some(match setting {
            b"appendonly" => ("appendonly", "yes"),
            b"appendfsync" => ("appendfsync", "always"),
            b"no-appendfsync-on-rewrite" => ("no-appendfsync-on-rewrite", "no"),
            _ => return None,
        })
    }

    /// Identifies the process and its data, as run id and replication id do together.
    fn run_number(&self) -> u64 {
        let Memory { starts, promotions, .. } = &self.memory;
        let number = u64::try_from(self.number).expect("few");
        (number * RUNS_MAX + starts.get()) * RUNS_MAX + promotions.get()
    }
}

/// No server is restarted so often.
const RUNS_MAX: u64 = 100_000;
