//! Held leases, and what the checker verifies about the machine's reports.

use std::time::Duration;

use quorate_core::{
    client::{
        CallId, Hold,
        watchdog::{self, HeldLease, LeaseId, Renewal},
    },
    command::Owner,
    lease::{Lease, LostReason},
    moment::Moment,
    queue::FencedLease,
    renew::Outcome,
};

use super::Client;
use crate::{
    check::{Claim, Promise},
    clock::{NEVER, Nanos},
    driver::Driver,
    event::Event,
    run::Env,
    trace::{self, LeaseChange, Scene},
};

/// The checker's record of a held lease.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) id: LeaseId,
    pub(super) lock: usize,
    pub(super) task: usize,
    /// The checker's number for it.
    pub(super) claim: u32,
    pub(super) hold_until: Moment,
    pub(super) is_renewed: bool,
    /// Faults have stopped: it must last while it is renewed.
    is_safe: bool,
    /// All nodes stored it when the first of them restarted: it must outlast all restarts.
    is_carried: bool,
}

/// A lease that was won.
#[derive(Debug)]
pub(super) struct Won {
    pub(super) call: CallId,
    pub(super) lock: usize,
    pub(super) task: usize,
    pub(super) hold_until: Moment,
    pub(super) is_renewed: bool,
    /// When it was asked for.
    pub(super) sent_at: Moment,
    /// The previous owner of an adopted lease.
    pub(super) from: Option<Owner>,
}

impl Held {
    /// A lease that is reported as lost must be lost, for this reason.
    fn check_loss(&self, env: &mut Env, held: &HeldLease, reason: LostReason, now: Moment) {
        let Env { check, settings, now: at, .. } = env;
        let is_remembered = check.is_remembered();
        let needed = Duration::from_nanos(TRIPS_PER_TTL * settings.longest_trip());
        let is_lasting = self.is_safe && held.terms().ttl() >= needed && now < self.hold_until;
        let mut report = |promise, text: &str| {
            check.report(*at, promise, Some(self.lock), vec![self.claim], text.to_owned());
        };
        if held.lease().check(now).is_ok() {
            report(Promise::Loss, "a loss is reported although the lease is valid");
        }
        // Nodes that forgot nothing keep the key until the holder's deadline.
        let is_early = now < held.lease().valid_until();
        if reason == LostReason::Gone && is_early && is_remembered {
            report(
                Promise::Reason,
                "the lock is reported as gone before its deadline, and no node forgot it",
            );
        }
        if reason == LostReason::Expired && self.is_renewed && is_lasting {
            report(Promise::Progress, "a renewed lease expired although faults have stopped");
        }
        let is_shut_down = reason == LostReason::ShutDown;
        if self.is_carried && now < self.hold_until && !is_shut_down {
            report(Promise::Progress, "a lease on all nodes was lost during their restarts");
        }
        // The holder's own limit and the end of the lease are different reasons.
        let is_limit = now >= self.hold_until;
        let is_by_time = matches!(reason, LostReason::Expired | LostReason::MaxHold);
        if is_by_time && is_limit != (reason == LostReason::MaxHold) {
            let text = format!("the loss is reported as `{reason}`, which is not the reason");
            report(Promise::Reason, &text);
        }
    }
}

impl Client {
    /// Keeps a lease that was won.
    pub(super) fn keep(&mut self, env: &mut Env, won: Won) -> LeaseId {
        let renewal = if won.is_renewed { Renewal::On } else { Renewal::Off };
        let now = self.now(env);
        let hold = Hold { renewal, until: won.hold_until };
        let id = self.me.machine.keep(won.call, hold, now).expect("it was won");
        self.note_kept(env, id, won);
        id
    }

    /// The same for the checker. Returns its number for the lease.
    pub(super) fn note_kept(&mut self, env: &mut Env, id: LeaseId, won: Won) -> u32 {
        let Won { call: _, lock, task, hold_until, is_renewed, sent_at, from } = won;
        let now = self.now(env);
        let kept = self.me.machine.lease(id).expect("it is kept");
        let (terms, fenced, owner) = (kept.terms(), kept.fenced(), kept.owner().clone());
        let remaining = kept.lease().remaining(now);
        let times = (env.now, self.end_of(kept.lease()), self.me.clock.when(hold_until));
        let fence = fenced.map(FencedLease::fence);
        let is_adopted = from.is_some() && fenced.is_some();
        // While a lease is detached, it has another owner that makes no claim.
        let claimed_by = from.as_ref().and_then(|_| self.tasks[task].held_by.take());
        let claim = Claim::new(lock, Some(self.me.number), owner.clone(), times)
            .with_fence(fence, self.me.clock.when(sent_at))
            .adopted_from(claimed_by.or(from));
        let claim = env.begin(claim);
        self.wins += 1;
        env.count.acquisitions += 1;
        env.count.adopted += u64::from(is_adopted);
        // A client that was paused while it asked may have won a lease that is about to end.
        let is_safe = env.is_calm(self.me.number) && remaining >= terms.ttl() / 2;
        let is_carried = false;
        let held = Held { id, lock, task, claim, hold_until, is_renewed, is_safe, is_carried };
        self.note_lease(env, &held, &owner, || LeaseChange::Held(times.1));
        self.held.push(held);
        claim
    }

    /// Nodes restart one after the other from now on: leases that all of them have must not be
    /// lost.
    pub(crate) fn carry(&mut self, env: &mut Env) {
        let needed = Duration::from_nanos(TRIPS_PER_TTL * env.settings.longest_trip());
        for known in &mut self.held {
            let Some(held) = self.me.machine.lease(known.id) else { continue };
            let name = &env.locks[known.lock];
            let may_heal = held.fenced().is_some_and(FencedLease::may_heal);
            let is_lasting = known.is_renewed && may_heal && held.terms().ttl() >= needed;
            let mut nodes = env.nodes.iter_mut();
            known.is_carried |=
                is_lasting && nodes.all(|node| node.holds(env.now, name, held.owner()));
        }
    }

    pub(super) fn is_loss_reported(&self, id: LeaseId) -> bool {
        self.me.machine.lease(id).is_some_and(HeldLease::is_loss_reported)
    }

    pub(super) fn held(&mut self, id: LeaseId) -> Option<&mut Held> {
        self.held.iter_mut().find(|held| held.id == id)
    }

    /// Reports to the checker that the holder gives up the lease. Returns its lock.
    pub(super) fn note_given_up(
        &mut self,
        env: &mut Env,
        id: LeaseId,
        how: &'static str,
    ) -> Option<usize> {
        let index = self.held.iter().position(|held| held.id == id)?;
        let known = self.held.swap_remove(index);
        let owner = self.me.machine.lease(id)?.owner();
        env.check.remove_lease(env.now, known.claim);
        self.note_lease(env, &known, owner, || LeaseChange::GaveUp(how));
        Some(known.lock)
    }

    pub(super) fn note_lease(
        &self,
        env: &mut Env,
        known: &Held,
        owner: &Owner,
        change: impl FnOnce() -> LeaseChange,
    ) {
        let (client, claim) = (self.me.number, known.claim);
        env.trace.add(env.now, Some(known.lock), || Scene::Lease {
            client,
            claim,
            owner: trace::owner_name(owner),
            change: change(),
        });
    }

    /// The lease is lost: its holder is notified, once.
    pub(super) fn lose(&mut self, env: &mut Env, id: LeaseId, reason: LostReason) {
        self.me.machine.lose(id, reason);
        self.drive(env);
    }

    pub(super) fn handle_lease_event(&mut self, env: &mut Env, event: watchdog::Event) {
        match event {
            watchdog::Event::Valid { lease, .. } => self.note_end(env, lease),
            watchdog::Event::Renewed { lease, outcome, held_until, margin } => match outcome {
                Outcome::Extended { .. } => {
                    env.count.renewals += 1;
                    self.check_in_time(env, lease, held_until);
                    self.note_end(env, lease);
                    self.note_renewed(env, lease);
                }
                Outcome::Unsure => {
                    let is_calm = env.is_calm(self.me.number);
                    let ttl = self.me.machine.lease(lease).map(|held| held.terms().ttl());
                    if let (Some(held), Some(ttl)) = (self.held(lease), ttl) {
                        // There is time enough to try again.
                        held.is_safe |= is_calm && margin >= ttl / 2;
                    }
                }
                Outcome::Gone | Outcome::TooLate => {}
            },
            watchdog::Event::AtRisk { .. } => {}
            watchdog::Event::Lost { lease, reason } => self.handle_lost(env, lease, reason),
        }
    }

    fn handle_lost(&mut self, env: &mut Env, id: LeaseId, reason: LostReason) {
        let now = self.now(env);
        let Some(known) = self.held.iter().find(|held| held.id == id) else { return };
        let Some(held) = self.me.machine.lease(id) else { return };
        known.check_loss(env, held, reason, now);
        env.check.notify_loss(env.now, known.claim);
        self.note_lease(env, known, held.owner(), || LeaseChange::Lost(reason.to_string()));
        let task = known.task;
        self.handle_loss(env, task, id);
    }

    /// An extension that counts must have come before the old deadline.
    pub(super) fn check_in_time(&mut self, env: &mut Env, id: LeaseId, held_until: Moment) {
        if self.now(env) >= held_until
            && let Some(held) = self.held(id)
        {
            let (lock, claims) = (Some(held.lock), vec![held.claim]);
            let text = "an extension counts although it came after the old deadline".to_owned();
            env.check.report(env.now, Promise::Reason, lock, claims, text);
        }
    }

    pub(super) fn note_renewed(&self, env: &mut Env, id: LeaseId) {
        let Some(known) = self.held.iter().find(|held| held.id == id) else { return };
        let Some(held) = self.me.machine.lease(id) else { return };
        env.audit(known.claim);
        let until = self.end_of(held.lease());
        self.note_lease(env, known, held.owner(), || LeaseChange::Renewed(until));
    }

    /// The true time at which the holder's own clock ends the lease.
    fn end_of(&self, lease: &Lease) -> Nanos {
        match lease.check(lease.valid_until()) {
            Ok(()) => NEVER,
            Err(_) if lease.lost().is_some() => 0,
            Err(_) => self.me.clock.when(lease.valid_until()),
        }
    }

    /// Reports to the checker until when the holder believes that it holds the lock.
    fn note_end(&self, env: &mut Env, id: LeaseId) {
        let Some(known) = self.held.iter().find(|held| held.id == id) else { return };
        let Some(held) = self.me.machine.lease(id) else { return };
        let end = self.end_of(held.lease());
        env.check.set_end(env.now, known.claim, end);
        if end != NEVER && end > env.now {
            env.queue.add(end - 1, Event::Audit { claim: known.claim });
        }
    }
}

/// A lease of this number of round trips is renewed in time, even if one or two renewals do not
/// count because a user has sent an extension after them.
const TRIPS_PER_TTL: u64 = 25;
