//! Counts of the events in a run, and broken guarantees.

use std::{
    fmt,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// Counts of all clients and faults.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) acquired: Count,
    /// Of those, after an attempt without a response.
    pub(crate) acquired_again: Count,
    pub(crate) held: Count,
    pub(crate) gave_up: Count,
    /// Locks that expired before the response arrived.
    pub(crate) expired_early: Count,
    pub(crate) renewed: Count,
    pub(crate) released: Count,
    /// Leases that expired because no instance answered their renewals.
    pub(crate) expired: Count,
    /// Leases that their client left to expire.
    pub(crate) abandoned: Count,
    /// Requests without a response: the client tries another instance.
    pub(crate) broken: Count,
    pub(crate) no_quorum: Count,
    pub(crate) shutting_down: Count,
    pub(crate) instances_killed: Count,
    pub(crate) instances_stopped: Count,
    pub(crate) instances_paused: Count,
    pub(crate) servers_killed: Count,
    pub(crate) servers_paused: Count,
    pub(crate) servers_emptied: Count,
    broken_promises: Mutex<Vec<String>>,
}

/// A number that many threads add to.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Tally {
    /// Records a broken guarantee of the service.
    pub(crate) fn is_broken(&self, what: String) {
        self.broken_promises.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }

    #[track_caller]
    pub(crate) fn assert_kept(&self) {
        let broken = self.broken_promises.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(broken.is_empty(), "{} broken promises:\n{}", broken.len(), broken.join("\n"));
    }

    /// A run without enough events proves nothing.
    #[track_caller]
    pub(crate) fn assert_tried(&self) {
        let needed = [
            (&self.acquired, "acquired a lock"),
            (&self.renewed, "renewed a lease"),
            (&self.released, "released a lease"),
            (&self.abandoned, "left a lease to expire"),
            (&self.broken, "lost an instance during a request"),
        ];
        for (count, what) in needed {
            assert!(count.get() > 0, "no client {what}: {self}");
        }
        let instances = [&self.instances_killed, &self.instances_stopped, &self.instances_paused];
        assert!(instances.iter().any(|count| count.get() > 0), "no instance crashed: {self}");
        assert!(self.servers_killed.get() > 0, "no server crashed: {self}");
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            (&self.acquired, "acquired"),
            (&self.acquired_again, "acquired by a repeated request"),
            (&self.held, "held by another"),
            (&self.gave_up, "given up"),
            (&self.expired_early, "expired before the response"),
            (&self.renewed, "renewed"),
            (&self.released, "released"),
            (&self.abandoned, "left to expire"),
            (&self.expired, "expired without an answer"),
            (&self.broken, "requests broken off"),
            (&self.no_quorum, "without quorum"),
            (&self.shutting_down, "sent elsewhere"),
            (&self.instances_killed, "instances killed"),
            (&self.instances_stopped, "instances stopped"),
            (&self.instances_paused, "instances paused"),
            (&self.servers_killed, "servers killed"),
            (&self.servers_paused, "servers paused"),
            (&self.servers_emptied, "servers restarted without data"),
        ];
        let texts: Vec<String> =
            counts.iter().map(|(count, what)| format!("{} {what}", count.get())).collect();
        f.write_str(&texts.join(", "))
    }
}
