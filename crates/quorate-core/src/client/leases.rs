//! The operations of a client on its leases.

use super::{
    CallId, Client, Hold, Patience, Purpose,
    owners::OwnerSource,
    round::{Claim, Machine},
    watchdog::{HeldLease, LeaseId},
};
use crate::{
    command::Owner,
    lease::LostReason,
    moment::Moment,
    renew::Renew,
    round::{Round, RoundKind},
    terms::Terms,
};

impl<S: OwnerSource> Client<S> {
    /// Extends a lease at the request of its holder.
    ///
    /// # Errors
    ///
    /// The reason for which the lease ended.
    pub fn extend(
        &mut self,
        lease: LeaseId,
        terms: Terms,
        now: Moment,
    ) -> Result<CallId, LostReason> {
        let extending = self.watchdog.begin_extension(lease, terms, now)?;
        let held = self.watchdog.lease(lease).ok_or(LostReason::ShutDown)?;
        let claim = held.claim(terms);
        let machine = Renew::start(terms, self.config.nodes, extending.held_until, now);
        let purpose = Purpose::Extend(lease, extending);
        Ok(self.begin_round(claim, Machine::Renew(machine), purpose, now))
    }

    /// Checks whether the nodes still have the lease.
    pub fn verify(
        &mut self,
        lease: LeaseId,
        patience: Patience<'_>,
        now: Moment,
    ) -> Option<CallId> {
        let held = self.watchdog.lease(lease)?;
        let (claim, terms) = longest_claim(held, patience);
        let machine = Machine::Round(Round::start(RoundKind::Check, terms, self.config.nodes, now));
        Some(self.begin_round(claim, machine, Purpose::Verify(lease), now))
    }

    /// Releases a lease whose guard was dropped. Its extensions were queued before, or are never
    /// sent.
    pub fn release(
        &mut self,
        lease: LeaseId,
        patience: Patience<'_>,
        now: Moment,
    ) -> Option<CallId> {
        let held = self.watchdog.remove_lease(lease)?;
        Some(self.release_held(&held, patience, now))
    }

    /// Releases a lease that was removed from the watchdog or lost.
    pub fn release_held(
        &mut self,
        held: &HeldLease,
        patience: Patience<'_>,
        now: Moment,
    ) -> CallId {
        let (claim, terms) = longest_claim(held, patience);
        let machine =
            Machine::Round(Round::start(RoundKind::Release, terms, self.config.nodes, now));
        self.ask(claim, machine, now)
    }

    /// Removes a lease that continues in another process. The client sends nothing about it any
    /// more and ignores pushes about it.
    pub fn leave(&mut self, lease: LeaseId) -> Option<HeldLease> {
        let held = self.watchdog.remove_lease(lease)?;
        self.registry.forget(held.owner(), held.name());
        Some(held)
    }

    /// Removes a lease that `owner` has adopted. Releases the earlier owner on all nodes, including
    /// its positions in queues.
    pub fn leave_as(&mut self, lease: LeaseId, owner: &Owner) -> Option<HeldLease> {
        let held = self.leave(lease)?;
        self.registry.forget(owner, held.name());
        for node in 0..self.config.nodes {
            self.release_orphan(node, held.name().clone(), held.owner().clone());
        }
        Some(held)
    }

    /// Sends no extension of the lease from now on. The lease is still held.
    pub fn retire(&mut self, lease: LeaseId) {
        self.watchdog.retire(lease);
    }

    /// Retires the lease if no extension was ever sent and at least half of its ttl is left.
    /// Returns false otherwise.
    pub fn retire_unextended(&mut self, lease: LeaseId, now: Moment) -> bool {
        self.watchdog.retire_unextended(lease, now)
    }

    /// Checks whether the holder may act at `now`. A lost lease stays lost.
    ///
    /// # Errors
    ///
    /// The reason for which the lease ended.
    pub fn check(&mut self, lease: LeaseId, now: Moment) -> Result<(), LostReason> {
        self.watchdog.check(lease, now)
    }

    /// Records that the lease is lost. Returns the first known reason.
    pub fn lose(&mut self, lease: LeaseId, reason: LostReason) -> LostReason {
        self.watchdog.lose(lease, reason)
    }

    /// Takes the lock that a call has acquired as a lease, and renews it from now on.
    pub fn keep(&mut self, call: CallId, hold: Hold, now: Moment) -> Option<LeaseId> {
        let call = self.calls.get_mut(&call)?;
        let lease = self.watchdog.keep(call.acquired(hold)?, now);
        call.lease = Some(lease);
        Some(lease)
    }

    /// Whether the nodes know the owner of a lease only by its keys, and not as a waiter. `None`
    /// while replies to the call that acquired it may change that.
    #[must_use]
    pub fn has_only_keys(&self, lease: LeaseId, call: CallId) -> Option<bool> {
        match self.calls.get(&call) {
            Some(call) => call.has_only_keys(),
            None => Some(self.watchdog.lease(lease).is_some_and(HeldLease::has_only_keys)),
        }
    }

    /// Changes how long the lease is held. An earlier limit stays.
    pub fn set_hold(&mut self, lease: LeaseId, hold: Hold) {
        self.watchdog.set_hold(lease, hold.renewal, hold.until);
    }

    /// Ends all leases and releases them.
    pub fn release_all(&mut self, patience: Patience<'_>, now: Moment) {
        for held in self.watchdog.lose_all(LostReason::ShutDown) {
            let call = self.release_held(&held, patience, now);
            self.close_call(call);
        }
    }
}

/// The claim of a lease, with the longest terms with which a node may have stored it.
fn longest_claim(held: &HeldLease, patience: Patience<'_>) -> (Claim, Terms) {
    let longest = held.longest();
    let terms = longest.with_vote_timeout(patience(longest.ttl()));
    (held.claim(terms), terms)
}
