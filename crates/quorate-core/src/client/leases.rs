//! What a client does with the leases that it holds.

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
    /// Extends a lease, as its holder asks.
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

    /// Asks whether the nodes still have the lease.
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

    /// The guard is gone: releases the lease. Every extension is queued by now, or never leaves.
    pub fn release(
        &mut self,
        lease: LeaseId,
        patience: Patience<'_>,
        now: Moment,
    ) -> Option<CallId> {
        let held = self.watchdog.remove_lease(lease)?;
        Some(self.release_held(&held, patience, now))
    }

    /// Releases a lease that the client has let go of, or has lost.
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

    /// The lease goes on without this client: nothing about it is sent or heard any more.
    pub fn leave(&mut self, lease: LeaseId) -> Option<HeldLease> {
        let held = self.watchdog.remove_lease(lease)?;
        self.registry.forget(held.owner());
        Some(held)
    }

    /// The same, and it goes on as `owner`, who has adopted it. Releases what has stayed with the
    /// owner of before, and its places in the queue.
    pub fn leave_as(&mut self, lease: LeaseId, owner: &Owner) -> Option<HeldLease> {
        let held = self.leave(lease)?;
        self.registry.forget(owner);
        for node in 0..self.config.nodes {
            self.release_orphan(node, held.name().clone(), held.owner().clone());
        }
        Some(held)
    }

    /// No extension of the lease leaves from now on. It is still held.
    pub fn retire(&mut self, lease: LeaseId) {
        self.watchdog.retire(lease);
    }

    /// The same, if the nodes have the lease just as it was granted, and at least half of its ttl
    /// is left. Returns whether so.
    pub fn retire_unextended(&mut self, lease: LeaseId, now: Moment) -> bool {
        self.watchdog.retire_unextended(lease, now)
    }

    /// Says whether the holder may act at `now`. Once it may not, it never may again.
    ///
    /// # Errors
    ///
    /// The reason for which the lease ended.
    pub fn check(&mut self, lease: LeaseId, now: Moment) -> Result<(), LostReason> {
        self.watchdog.check(lease, now)
    }

    /// The lease is gone. Returns the first reason that is known.
    pub fn lose(&mut self, lease: LeaseId, reason: LostReason) -> LostReason {
        self.watchdog.lose(lease, reason)
    }

    /// Looks after what a call has won.
    pub fn keep(&mut self, call: CallId, hold: Hold, now: Moment) -> Option<LeaseId> {
        let won = self.calls.get(&call)?.won(hold)?;
        Some(self.watchdog.keep(won, now))
    }

    /// From now on the lease is held like this; an earlier limit stays.
    pub fn set_hold(&mut self, lease: LeaseId, hold: Hold) {
        self.watchdog.set_hold(lease, hold.renewal, hold.until);
    }

    /// Loses everything that is held, and releases it.
    pub fn release_all(&mut self, patience: Patience<'_>, now: Moment) {
        for held in self.watchdog.lose_all(LostReason::ShutDown) {
            let call = self.release_held(&held, patience, now);
            self.close_call(call);
        }
    }
}

/// The claim of a lease, with the longest life that any node may have given it.
fn longest_claim(held: &HeldLease, patience: Patience<'_>) -> (Claim, Terms) {
    let longest = held.longest();
    let terms = longest.with_vote_timeout(patience(longest.ttl()));
    (held.claim(terms), terms)
}
