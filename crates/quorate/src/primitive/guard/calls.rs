//! The requests of a guard to the engine.

use std::sync::Arc;

use quorate_core::{
    client::{
        self,
        watchdog::{HeldLease, LeaseId},
    },
    lease::LostReason,
    round::RoundOutcome,
};

use super::Guard;
use crate::{
    engine::{
        Call, Ended, Engine, Shared,
        held::{Held, Hold},
    },
    error::Lost,
    observe::{Action, Event},
};

impl Guard {
    /// Asks the nodes whether they store the lease.
    pub(super) async fn ask_nodes(&self) -> (Call, RoundOutcome) {
        let engine = self.engine();
        let begun = Call::begin(engine, Action::Verify, &self.held, |shared, now| {
            let patience = |ttl| engine.vote_timeout(ttl);
            shared.machine.verify(self.held.id, &patience, now).ok_or(())
        });
        let call = begun.expect("the guard holds the lease");
        let Ended::Round(_, finding) = call.outcome().await else {
            unreachable!("a verify ends as one")
        };
        (call, finding)
    }

    /// Releases the lock without waiting for anything.
    pub(super) fn remove_lease(&mut self) -> Call {
        self.tell_end();
        let engine = self.engine();
        let begun = Call::begin(engine, Action::Release, &self.held, |shared, now| {
            shared.held.remove(&self.held.id);
            let patience = |ttl| engine.vote_timeout(ttl);
            shared.machine.release(self.held.id, &patience, now).ok_or(())
        });
        begun.expect("a guard ends its lease once")
    }

    /// The lease continues without this guard. Every extension is queued on all nodes by now, or is
    /// never sent: an extension after a release would store a key without a holder.
    pub(super) fn end(
        &mut self,
        leave: impl FnOnce(&mut Shared, LeaseId) -> Option<HeldLease>,
    ) -> HeldLease {
        let held = self.engine().work(|shared, _| {
            shared.held.remove(&self.held.id);
            leave(shared, self.held.id)
        });
        self.tell_end();
        held.expect("a guard ends its lease once")
    }

    pub(super) fn tell_end(&mut self) {
        self.is_over = true;
        let engine = self.engine();
        if !engine.is_observed() {
            return;
        }
        let held_for = engine.now().saturating_since(self.held.acquired_at);
        let (name, kind) = (self.held.name.as_str(), self.held.kind);
        engine.notify_observer(&Event::LetGo { name, kind, held_for });
    }

    /// The loss as it was reported first.
    pub(super) fn lost_reason(&self, reason: LostReason) -> Lost {
        self.check().err().unwrap_or_else(|| Lost::new(&self.held.name, reason))
    }

    pub(super) fn lose(&self, reason: LostReason) -> Lost {
        let reason = self.engine().work(|shared, _| shared.machine.lose(self.held.id, reason));
        Lost::new(&self.held.name, reason)
    }

    /// Changes how the lease is held. Its deadline does not change.
    pub(crate) fn set_hold(&self, hold: Hold) {
        self.engine().work(|shared, now| {
            let hold = client::Hold { renewal: hold.renewal, until: hold.until(now) };
            shared.machine.set_hold(self.held.id, hold);
        });
    }

    pub(crate) fn lease(&self) -> HeldLease {
        let shared = self.engine().lock();
        shared.machine.lease(self.held.id).expect("the guard holds the lease").clone()
    }

    /// What outlives the guard.
    pub(crate) fn shared(&self) -> (Arc<Held>, Arc<Engine>) {
        (self.held.clone(), self.engine().clone())
    }

    pub(super) fn engine(&self) -> &Arc<Engine> {
        &self.client.engine
    }
}
