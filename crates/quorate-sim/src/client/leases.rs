//! What is held: the client's watchdog, driven by virtual time and watched by the judge.

use std::time::Duration;

use quorate_core::{
    client::watchdog::{self, BatchId, HeldLease, LeaseId, Renewal},
    command::Reply,
    lease::{Extension, Lease, LostReason},
    line::FencedLease,
    moment::Moment,
    renew::Outcome,
    terms::{Terms, vote_timeout},
};

use super::{Client, round::Asked};
use crate::{
    check::{Claim, Promise},
    clock::{NEVER, Nanos},
    event::{Due, Event},
    net::{Waiting, Whose},
    settings::wall_ms,
    trace::{self, Scene},
    world::Env,
};

/// What the judge knows of a held lease.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) id: LeaseId,
    pub(super) lock: usize,
    pub(super) task: usize,
    /// The judge's number for it.
    pub(super) claim: u32,
    hold_until: Moment,
    is_renewed: bool,
    /// Nothing is wrong any more: while it is renewed, it lasts.
    is_safe: bool,
    /// All nodes had it when the first of them was restarted: it outlasts all of that.
    is_carried: bool,
}

/// What was won.
#[derive(Debug)]
pub(super) struct Won {
    pub(super) asked: Asked,
    pub(super) times: Times,
    pub(super) valid_until: Moment,
    pub(super) hold_until: Moment,
    pub(super) is_renewed: bool,
    pub(super) task: usize,
}

/// When a lock was asked for, and from when on the nodes count its ttl.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) sent_at: Moment,
    pub(super) granted_at: Moment,
}

/// What a round about a held lease is about.
pub(super) fn asked(lock: usize, held: &HeldLease, terms: Terms) -> Asked {
    let owner = held.owner().clone();
    let held_until = Some(held.lease().valid_until());
    let (from, fenced, untaken) = (None, held.fenced(), held.untaken());
    Asked { lock, owner, terms, from, untaken, held_until, fenced }
}

impl Held {
    /// What is told to be lost was so, and is.
    fn check_loss(&self, env: &mut Env, held: &HeldLease, reason: LostReason, now: Moment) {
        let Env { check, settings, now: at, .. } = env;
        let is_remembered = check.is_remembered();
        let needed = Duration::from_nanos(TRIPS_PER_TTL * settings.longest_trip());
        let is_lasting = self.is_safe && held.terms().ttl() >= needed && now < self.hold_until;
        let mut report = |promise, text: &str| {
            check.report(*at, promise, Some(self.lock), vec![self.claim], text.to_owned());
        };
        if held.lease().check(now).is_ok() {
            report(Promise::Loss, "the holder is told of a loss, and its lease is valid");
        }
        // Nodes that remember have the key until the holder's own deadline.
        let is_early = now < held.lease().valid_until();
        if reason == LostReason::Gone && is_early && is_remembered {
            report(
                Promise::Reason,
                "the lock is said to be gone before its deadline, and no node forgot it",
            );
        }
        if reason == LostReason::Expired && self.is_renewed && is_lasting {
            report(Promise::Progress, "a renewed lease ran out although nothing is wrong");
        }
        let is_shut_down = reason == LostReason::ShutDown;
        if self.is_carried && now < self.hold_until && !is_shut_down {
            report(Promise::Progress, "a lease of all nodes did not outlast their restarts");
        }
        // The holder's own limit is not taken for the end of the lease, nor the other way round.
        let is_limit = now >= self.hold_until;
        let is_by_time = matches!(reason, LostReason::Expired | LostReason::MaxHold);
        if is_by_time && is_limit != (reason == LostReason::MaxHold) {
            let text = format!("told as `{reason}`, which is not why it ended");
            report(Promise::Reason, &text);
        }
    }
}

impl Client {
    /// Looks after a lease that was won.
    pub(super) fn keep(&mut self, env: &mut Env, won: Won) -> LeaseId {
        let Won { asked, times, valid_until, hold_until, is_renewed, task } = won;
        let Asked { lock, owner, terms, from, fenced, untaken, .. } = asked;
        let won = watchdog::Won {
            name: env.locks[lock].clone(),
            owner: owner.clone(),
            terms,
            fenced,
            untaken,
            renewal: if is_renewed { Renewal::On } else { Renewal::Off },
            valid_until,
            hold_until,
            granted_at: times.granted_at,
        };
        let now = self.now(env);
        let sent_at = times.sent_at;
        let id = self.watchdog.keep(won, now);
        let lease = self.watchdog.lease(id).expect("it is kept").lease();
        let remaining = lease.remaining(now);
        let times = (env.now, self.end_of(lease), self.clock.when(hold_until));
        let fence = fenced.map(FencedLease::fence);
        let is_adopted = from.is_some() && fenced.is_some();
        // The lease goes on as another owner while it is handed over, which claims nothing.
        let claimed_by = from.as_ref().and_then(|_| self.tasks[task].held_by.take());
        let claim = Claim::new(lock, Some(self.number), owner.clone(), times)
            .with_fence(fence, self.clock.when(sent_at))
            .adopted_from(claimed_by.or(from));
        let claim = env.begin(claim);
        env.count.acquisitions += 1;
        env.count.adopted += u64::from(is_adopted);
        env.trace.add(env.now, Some(lock), || Scene::Held {
            client: self.number,
            claim,
            owner: trace::owner_name(&owner),
            until: times.1,
        });
        // Whoever stood still while it asked may have won what is nearly over.
        let is_safe = env.is_calm(self.number) && remaining >= terms.ttl() / 2;
        let is_carried = false;
        let held = Held { id, lock, task, claim, hold_until, is_renewed, is_safe, is_carried };
        self.held.push(held);
        self.attend(env);
        id
    }

    /// A node is there again, and may lack the keys of what is held.
    pub(super) fn renew_all(&mut self, env: &mut Env) {
        let (now, patience) = (self.now(env), self.patience(env));
        self.watchdog.renew_all(patience, now);
        self.attend(env);
    }

    /// Nodes are restarted one after the other from now on: what all of them have is not lost.
    pub(crate) fn carry(&mut self, env: &mut Env) {
        let needed = Duration::from_nanos(TRIPS_PER_TTL * env.settings.longest_trip());
        for known in &mut self.held {
            let Some(held) = self.watchdog.lease(known.id) else { continue };
            let name = &env.locks[known.lock];
            let may_heal = held.fenced().is_some_and(FencedLease::may_heal);
            let is_lasting = known.is_renewed && may_heal && held.terms().ttl() >= needed;
            let mut nodes = env.nodes.iter_mut();
            known.is_carried |=
                is_lasting && nodes.all(|node| node.holds(env.now, name, held.owner()));
        }
    }

    pub(super) fn is_told(&self, id: LeaseId) -> bool {
        self.watchdog.lease(id).is_some_and(HeldLease::is_loss_reported)
    }

    pub(super) fn held(&mut self, id: LeaseId) -> Option<&mut Held> {
        self.held.iter_mut().find(|held| held.id == id)
    }

    /// The lease is over or handed on.
    pub(super) fn let_go(
        &mut self,
        env: &mut Env,
        id: LeaseId,
        how: &'static str,
    ) -> Option<(usize, HeldLease)> {
        let index = self.held.iter().position(|held| held.id == id)?;
        let Held { claim, lock, .. } = self.held.swap_remove(index);
        let held = self.watchdog.let_go(id)?;
        env.check.let_go(env.now, claim);
        env.trace.add(env.now, Some(lock), || Scene::LetGo {
            client: self.number,
            claim,
            owner: trace::owner_name(held.owner()),
            how,
        });
        Some((lock, held))
    }

    /// An extension that was sent at `sent_at` was confirmed.
    pub(super) fn handle_extended(
        &mut self,
        env: &mut Env,
        id: LeaseId,
        (extension, valid_until, sent_at): (Extension, Moment, Moment),
    ) {
        let now = self.now(env);
        self.watchdog.handle_extended(id, extension, valid_until, sent_at, now);
        self.attend(env);
        self.note_renewed(env, id);
    }

    /// The lease is gone: its holder is told, once.
    pub(super) fn lose(&mut self, env: &mut Env, id: LeaseId, reason: LostReason) {
        self.watchdog.lose(id, reason);
        self.attend(env);
    }

    /// An extension came too late; a later one may have made the lease last.
    pub(super) fn lose_if_over(&mut self, env: &mut Env, id: LeaseId) {
        let now = self.now(env);
        if let Some(Err(reason)) = self.watchdog.lease(id).map(|held| held.lease().check(now)) {
            self.lose(env, id, reason);
        }
    }

    pub(super) fn handle_watchdog_timeout(&mut self, env: &mut Env) {
        let (now, patience) = (self.now(env), self.patience(env));
        if self.armed_at.is_some_and(|armed_at| armed_at <= now) {
            self.armed_at = None;
        }
        self.watchdog.handle_timeout(Duration::from_millis(wall_ms(env.now)), patience, now);
        self.attend(env);
    }

    pub(super) fn handle_batch_vote(
        &mut self,
        env: &mut Env,
        batch: BatchId,
        node: usize,
        answer: Option<&Reply>,
    ) {
        let now = self.now(env);
        self.watchdog.handle_answer(batch, node, answer, now);
        self.attend(env);
    }

    /// Does what the watchdog says until it waits.
    pub(super) fn attend(&mut self, env: &mut Env) {
        loop {
            while let Some((batch, command)) = self.watchdog.poll_transmit() {
                let mut down = Vec::new();
                for node in 0..env.nodes.len() {
                    let mut command = command.clone();
                    let link = env.net.link(self.number, node);
                    command.set_session(link.session);
                    let is_attached = link.is_attached;
                    let waiting = Waiting { whose: Whose::Batch(batch), command };
                    if !is_attached || !self.send(env, node, waiting) {
                        down.push(node);
                    }
                }
                let now = self.now(env);
                down.iter().for_each(|it| self.watchdog.handle_answer(batch, *it, None, now));
            }
            let Some(event) = self.watchdog.poll_event() else { break };
            self.handle_event(env, event);
        }
        if let Some(next) = self.watchdog.poll_timeout()
            && self.armed_at.is_none_or(|armed_at| next < armed_at)
        {
            self.armed_at = Some(next);
            self.plan_at(env, next, Due::Watchdog);
        }
    }

    fn handle_event(&mut self, env: &mut Env, event: watchdog::Event) {
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
                    let is_calm = env.is_calm(self.number);
                    let ttl = self.watchdog.lease(lease).map(|held| held.terms().ttl());
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
        let Some(held) = self.watchdog.lease(id) else { return };
        known.check_loss(env, held, reason, now);
        env.check.tell(env.now, known.claim);
        env.trace.add(env.now, Some(known.lock), || Scene::Lost {
            client: self.number,
            claim: known.claim,
            owner: trace::owner_name(held.owner()),
            reason: reason.to_string(),
        });
        let task = known.task;
        self.handle_loss(env, task, id);
    }

    /// An extension says that it came before the old deadline: so it must have.
    pub(super) fn check_in_time(&mut self, env: &mut Env, id: LeaseId, held_until: Moment) {
        if self.now(env) >= held_until
            && let Some(held) = self.held(id)
        {
            let (lock, claims) = (Some(held.lock), vec![held.claim]);
            let text = "an extension counts although it came after the old deadline".to_owned();
            env.check.report(env.now, Promise::Reason, lock, claims, text);
        }
    }

    fn note_renewed(&self, env: &mut Env, id: LeaseId) {
        let Some(known) = self.held.iter().find(|held| held.id == id) else { return };
        let Some(held) = self.watchdog.lease(id) else { return };
        env.audit(known.claim);
        let until = self.end_of(held.lease());
        env.trace.add(env.now, Some(known.lock), || Scene::Renewed {
            client: self.number,
            claim: known.claim,
            owner: trace::owner_name(held.owner()),
            until,
        });
    }

    /// How long silent nodes are waited for.
    fn patience(&self, env: &mut Env) -> impl Fn(Duration) -> Duration + use<> {
        let trip = Duration::from_nanos(env.net.link(self.number, 0).round_trip());
        move |ttl| vote_timeout(ttl, trip)
    }

    /// The true time at which the holder will stop to believe that it holds the lock.
    fn end_of(&self, lease: &Lease) -> Nanos {
        match lease.check(lease.valid_until()) {
            Ok(()) => NEVER,
            Err(_) if lease.lost().is_some() => 0,
            Err(_) => self.clock.when(lease.valid_until()),
        }
    }

    /// Tells the judge for how long the holder believes to hold the lock.
    fn note_end(&self, env: &mut Env, id: LeaseId) {
        let Some(known) = self.held.iter().find(|held| held.id == id) else { return };
        let Some(held) = self.watchdog.lease(id) else { return };
        let end = self.end_of(held.lease());
        env.check.set_end(env.now, known.claim, end);
        if end != NEVER && end > env.now {
            env.queue.add(end - 1, Event::Audit { claim: known.claim });
        }
    }
}

/// A lease of so many round trips is renewed in time, even if a renewal or two do not count since a
/// user has sent an extension after them.
const TRIPS_PER_TTL: u64 = 25;
