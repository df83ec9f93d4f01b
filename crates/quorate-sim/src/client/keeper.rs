//! What is held: renewed in batches, and told when it is lost.

use std::time::Duration;

use quorate_core::{
    command::{Command, Owner, PROLONG_MAX, Prolongation, Reply},
    lease::{Extension, Lease, LostReason},
    line::{Session, Speaker},
    moment::Moment,
    quorum::{NodeSet, Vote},
    renew::{Outcome, Renew},
    schedule::{renewal_due, retry_delay},
    terms::Terms,
};

use super::{
    Client,
    round::{Asked, Fenced},
};
use crate::{
    check::{Claim, Promise},
    clock::{NEVER, Nanos},
    event::{Due, Event},
    net::{Waiting, Whose},
    trace::{self, Scene},
    world::Env,
};

/// One held lease.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) id: u32,
    pub(super) lock: usize,
    pub(super) owner: Owner,
    pub(super) lease: Lease,
    /// What it is renewed with.
    pub(super) terms: Terms,
    /// The terms of the longest life that any node may have given the key.
    pub(super) longest: Terms,
    pub(super) task: usize,
    /// The judge's number for it.
    pub(super) claim: u32,
    /// In the default mode.
    pub(super) fenced: Option<Fenced>,
    untaken: NodeSet,
    hold_until: Moment,
    is_renewed: bool,
    is_told: bool,
    /// Nothing is wrong any more: while it is renewed, it lasts.
    is_safe: bool,
}

/// What was won.
#[derive(Debug)]
pub(super) struct Won {
    pub(super) asked: Asked,
    pub(super) sent_at: Moment,
    pub(super) lease: Lease,
    pub(super) hold_until: Moment,
    pub(super) is_renewed: bool,
    pub(super) task: usize,
}

/// Renewals on their way.
#[derive(Debug)]
pub(super) struct Batch {
    id: u32,
    sent_at: Moment,
    entries: Vec<Entry>,
    open: u32,
}

#[derive(Debug)]
struct Entry {
    held: u32,
    extension: Extension,
    machine: Renew,
    held_until: Moment,
    is_settled: bool,
}

impl Held {
    /// What a round about this lease is about.
    pub(super) fn asked(&self, terms: Terms) -> Asked {
        let owner = self.owner.clone();
        let held_until = Some(self.lease.valid_until());
        let (from, fenced) = (None, self.fenced);
        Asked { lock: self.lock, owner, terms, from, untaken: self.untaken, held_until, fenced }
    }

    /// What is told to be lost was so, and is.
    fn check_loss(&self, env: &mut Env, reason: LostReason, is_early: bool, now: Moment) {
        let Env { check, settings, now: at, .. } = env;
        let is_remembered = check.is_remembered();
        let needed = Duration::from_nanos(TRIPS_PER_TTL * settings.longest_trip());
        let is_lasting = self.is_safe && self.terms.ttl() >= needed && now < self.hold_until;
        let mut report = |promise, text: &str| {
            check.report(*at, promise, Some(self.lock), vec![self.claim], text.to_owned());
        };
        if self.lease.check(now).is_ok() {
            report(Promise::Loss, "the holder is told of a loss, and its lease is valid");
        }
        // Nodes that remember have the key until the holder's own deadline.
        if reason == LostReason::Gone && is_early && is_remembered {
            report(
                Promise::Reason,
                "the lock is said to be gone before its deadline, and no node forgot it",
            );
        }
        if reason == LostReason::Expired && self.is_renewed && is_lasting {
            report(Promise::Progress, "a renewed lease ran out although nothing is wrong");
        }
    }

    /// The holder's own limit is not taken for the end of the lease, nor the other way round.
    fn check_end(&self, env: &mut Env, reason: LostReason, now: Moment) {
        let is_limit = now >= self.hold_until;
        if is_limit != (reason == LostReason::MaxHold) {
            let (lock, claims) = (Some(self.lock), vec![self.claim]);
            let text = format!("told as `{reason}`, which is not why it ended");
            env.check.report(env.now, Promise::Reason, lock, claims, text);
        }
    }
}

impl Client {
    /// Looks after a lease that was won.
    pub(super) fn keep(&mut self, env: &mut Env, won: Won) -> u32 {
        let Won { asked, sent_at, lease, hold_until, is_renewed, task } = won;
        let limit = self.clock.when(hold_until);
        let remaining = lease.remaining(self.now(env));
        let times = (env.now, self.end_of(&lease), limit);
        let Asked { lock, owner, terms, from, fenced, .. } = asked;
        let fence = fenced.map(|fenced| fenced.fence);
        let is_adopted = from.is_some() && fenced.is_some();
        let claim = Claim::new(lock, Some(self.number), owner.clone(), times)
            .with_fence(fence, self.clock.when(sent_at))
            .adopted_from(from);
        let claim = env.begin(claim);
        env.count.acquisitions += 1;
        env.count.adopted += u64::from(is_adopted);
        let id = self.next_id();
        let held = Held {
            id,
            lock,
            owner,
            lease,
            terms,
            longest: terms,
            task,
            claim,
            fenced,
            untaken: asked.untaken,
            hold_until,
            is_renewed,
            is_told: false,
            // Whoever stood still while it asked may have won what is nearly over.
            is_safe: env.is_calm(self.number) && remaining >= terms.ttl() / 2,
        };
        env.trace.add(env.now, Some(lock), || Scene::Held {
            client: self.number,
            claim,
            owner: trace::owner_name(&held.owner),
            until: times.1,
        });
        self.schedule.look_at(u64::from(id), held.lease.valid_until());
        if let Some(due) = self.next_due(&held, sent_at, sent_at) {
            self.schedule.renew_at(u64::from(id), due);
        }
        self.held.push(held);
        self.arm(env);
        id
    }

    pub(super) fn is_told(&self, id: u32) -> bool {
        self.held.iter().any(|held| held.id == id && held.is_told)
    }

    pub(super) fn held(&mut self, id: u32) -> Option<&mut Held> {
        self.held.iter_mut().find(|held| held.id == id)
    }

    /// The lease is over or handed on.
    pub(super) fn let_go(&mut self, env: &mut Env, id: u32, how: &'static str) -> Option<Held> {
        let index = self.held.iter().position(|held| held.id == id)?;
        let held = self.held.swap_remove(index);
        self.schedule.remove(u64::from(id));
        env.check.let_go(env.now, held.claim);
        env.trace.add(env.now, Some(held.lock), || Scene::LetGo {
            client: self.number,
            claim: held.claim,
            owner: trace::owner_name(&held.owner),
            how,
        });
        Some(held)
    }

    /// An extension by the user is about to leave.
    pub(super) fn handle_sent(&mut self, env: &mut Env, id: u32) {
        let now = self.now(env);
        let Some(index) = self.held.iter().position(|held| held.id == id) else { return };
        let held = self.held.swap_remove(index);
        let due = self.next_due(&held, now, now);
        self.schedule.look_at(u64::from(id), held.lease.valid_until());
        let known = self.schedule.renewal_of(u64::from(id));
        if let Some(due) = due.filter(|due| known.is_none_or(|known| *due < known)) {
            self.schedule.renew_at(u64::from(id), due);
        }
        self.note_end(env, &held);
        self.held.push(held);
        self.arm(env);
    }

    /// An extension that was sent at `sent_at` was confirmed.
    pub(super) fn handle_extended(
        &mut self,
        env: &mut Env,
        id: u32,
        (extension, valid_until, sent_at): (Extension, Moment, Moment),
    ) {
        let now = self.now(env);
        let Some(index) = self.held.iter().position(|held| held.id == id) else { return };
        let mut held = self.held.swap_remove(index);
        held.lease.handle_extended(extension, valid_until, now);
        self.note_end(env, &held);
        env.audit(held.claim);
        if let Some(due) = self.next_due(&held, sent_at, now).filter(|_| !held.is_told) {
            self.schedule.renew_at(u64::from(id), due);
        }
        let until = self.end_of(&held.lease);
        env.trace.add(env.now, Some(held.lock), || Scene::Renewed {
            client: self.number,
            claim: held.claim,
            owner: trace::owner_name(&held.owner),
            until,
        });
        self.held.push(held);
        self.arm(env);
    }

    /// The lease is gone: its holder is told, once.
    pub(super) fn lose(&mut self, env: &mut Env, id: u32, reason: LostReason) {
        self.schedule.remove(u64::from(id));
        let (now, number, moment) = (env.now, self.number, self.now(env));
        let Some(held) = self.held(id) else { return };
        let is_early = moment < held.lease.valid_until();
        held.lease.handle_lost(reason);
        if std::mem::replace(&mut held.is_told, true) {
            return;
        }
        held.check_loss(env, reason, is_early, moment);
        env.check.tell(now, held.claim);
        env.trace.add(now, Some(held.lock), || Scene::Lost {
            client: number,
            claim: held.claim,
            owner: trace::owner_name(&held.owner),
            reason: reason.to_string(),
        });
        let task = held.task;
        self.handle_loss(env, task, id);
    }

    /// An extension came too late; a later one may have made the lease last.
    pub(super) fn lose_if_over(&mut self, env: &mut Env, id: u32) {
        let now = self.now(env);
        if let Some(Err(reason)) = self.held(id).map(|held| held.lease.check(now)) {
            self.lose(env, id, reason);
        }
    }

    /// The keeper's timer.
    pub(super) fn handle_tick(&mut self, env: &mut Env) {
        let now = self.now(env);
        if self.armed_at.is_none_or(|armed_at| now < armed_at) {
            return;
        }
        self.armed_at = None;
        let mut ended = Vec::new();
        for number in self.schedule.take_ends(now) {
            let id = number as u32;
            let Some(held) = self.held(id) else { continue };
            let valid_until = held.lease.valid_until();
            if now < valid_until {
                self.schedule.look_at(number, valid_until);
            } else if let Err(reason) = held.lease.check(now) {
                held.check_end(env, reason, now);
                ended.push((id, reason));
            }
        }
        let due = self.schedule.take_renewals(now);
        self.arm(env);
        for (id, reason) in ended {
            self.lose(env, id, reason);
        }
        for leases in due.chunks(PROLONG_MAX) {
            self.start_batch(env, leases, now);
        }
    }

    fn start_batch(&mut self, env: &mut Env, leases: &[u64], now: Moment) {
        let (mut entries, mut keys, mut leases_to_extend) = (Vec::new(), Vec::new(), Vec::new());
        let nodes = env.nodes.len();
        let of_held = |number: &u64| self.held.iter().find(|held| u64::from(held.id) == *number);
        let shortest =
            leases.iter().filter_map(of_held).map(|held| held.terms.vote_timeout()).min();
        let Some(vote_timeout) = shortest else { return };
        for number in leases {
            let Some(held) = self.held(*number as u32) else { continue };
            if held.lease.check(now).is_err() || !held.lease.can_grow() {
                continue;
            }
            let terms = held.terms.with_vote_timeout(vote_timeout);
            let extension = held.lease.handle_extension_sent(&terms, now);
            let held_until = held.lease.valid_until();
            let machine = Renew::start(terms, nodes, held_until, now);
            let (name, owner) = (env.locks[held.lock].clone(), held.owner.clone());
            let ttl_ms = terms.ttl_ms();
            match held.fenced {
                Some(fenced) => leases_to_extend.push(fenced.extend(name, owner, ttl_ms)),
                None => keys.push(Prolongation { name, owner, ttl_ms }),
            }
            let id = held.id;
            entries.push(Entry { held: id, extension, machine, held_until, is_settled: false });
        }
        if entries.is_empty() {
            return;
        }
        let id = self.next_id();
        // Each connection puts in its own session.
        let speaker = Speaker { client: self.id, session: Session::from_random(0) };
        let extend = match leases_to_extend.is_empty() {
            true => {
                let speaker = env.settings.has_sessions().then_some(speaker);
                Command::Prolong { entries: keys.into(), speaker }
            }
            false => Command::Extend { speaker, entries: leases_to_extend.into() },
        };
        let mut batch = Batch { id, sent_at: now, entries, open: 0 };
        let mut down = Vec::new();
        for node in 0..nodes {
            let mut command = extend.clone();
            let link = env.net.link(self.number, node);
            command.set_session(link.session);
            let is_attached = link.is_attached;
            let waiting = Waiting { whose: Whose::Batch(id), command };
            if is_attached && self.send(env, node, waiting) {
                batch.open += 1;
            } else {
                down.push(node);
            }
        }
        self.batches.push(batch);
        let give_up_at = now.saturating_add(vote_timeout);
        self.plan_at(env, give_up_at, Due::Batch(id));
        for node in down {
            self.count_in_batch(env, id, node, &extend, None);
        }
    }

    pub(super) fn handle_batch_vote(
        &mut self,
        env: &mut Env,
        id: u32,
        node: usize,
        command: &Command,
        answer: Option<&Reply>,
    ) {
        if let Some(batch) = self.batches.iter_mut().find(|batch| batch.id == id) {
            batch.open -= 1;
        }
        self.count_in_batch(env, id, node, command, answer);
    }

    fn count_in_batch(
        &mut self,
        env: &mut Env,
        id: u32,
        node: usize,
        command: &Command,
        answer: Option<&Reply>,
    ) {
        let now = self.now(env);
        let Some(batch) = self.batches.iter_mut().find(|batch| batch.id == id) else { return };
        for (index, entry) in batch.entries.iter_mut().enumerate() {
            let vote = match answer {
                Some(Reply::Each(fates)) => command.prolonged(fates, index),
                Some(Reply::EachExtended(fates)) => command.extended(fates, index),
                Some(_) | None => Vote::Unknown,
            };
            entry.machine.handle_vote(node, vote, now);
        }
        self.settle(env, id);
    }

    pub(super) fn handle_batch_timeout(&mut self, env: &mut Env, id: u32) {
        let now = self.now(env);
        let Some(batch) = self.batches.iter_mut().find(|batch| batch.id == id) else { return };
        batch.entries.iter_mut().for_each(|entry| entry.machine.handle_timeout(now));
        self.settle(env, id);
    }

    /// Acts on every entry whose outcome has become certain.
    fn settle(&mut self, env: &mut Env, id: u32) {
        let Some(index) = self.batches.iter().position(|batch| batch.id == id) else { return };
        let batch = &mut self.batches[index];
        let sent_at = batch.sent_at;
        let mut settled = Vec::new();
        for entry in batch.entries.iter_mut().filter(|entry| !entry.is_settled) {
            if let Some(outcome) = entry.machine.outcome() {
                entry.is_settled = true;
                settled.push((entry.held, entry.extension, entry.held_until, outcome));
            }
        }
        if batch.open == 0 && batch.entries.iter().all(|entry| entry.is_settled) {
            self.batches.swap_remove(index);
        }
        for (held, extension, held_until, outcome) in settled {
            // A guard that went meanwhile may have released first: what is gone then is not lost.
            if self.held(held).is_none_or(|held| held.is_told) {
                continue;
            }
            match outcome {
                Outcome::Extended { valid_until } => {
                    env.count.renewals += 1;
                    self.check_in_time(env, held, held_until);
                    self.handle_extended(env, held, (extension, valid_until, sent_at));
                }
                Outcome::Gone => self.lose(env, held, LostReason::Gone),
                Outcome::TooLate => self.lose_if_over(env, held),
                Outcome::Unsure => self.retry(env, held),
            }
        }
    }

    /// An extension says that it came before the old deadline: so it must have.
    pub(super) fn check_in_time(&mut self, env: &mut Env, id: u32, held_until: Moment) {
        if self.now(env) >= held_until
            && let Some(held) = self.held(id)
        {
            let (lock, claims) = (Some(held.lock), vec![held.claim]);
            let text = "an extension counts although it came after the old deadline".to_owned();
            env.check.report(env.now, Promise::Reason, lock, claims, text);
        }
    }

    /// Tries again soon: the last renewal was not confirmed.
    fn retry(&mut self, env: &mut Env, id: u32) {
        let now = self.now(env);
        let is_calm = env.is_calm(self.number);
        let Some(held) = self.held(id).filter(|held| !held.is_told) else { return };
        held.lease.handle_risk(now);
        let ttl = held.terms.ttl();
        // There is time enough to try again.
        held.is_safe |= is_calm && held.lease.remaining(now) >= ttl / 2;
        let delay = retry_delay(ttl, &mut self.jitter);
        self.schedule.renew_at(u64::from(id), now.saturating_add(delay));
        self.arm(env);
    }

    /// When the lease is renewed next, if it is to be.
    fn next_due(&mut self, held: &Held, sent_at: Moment, now: Moment) -> Option<Moment> {
        if !held.is_renewed || !held.lease.can_grow() {
            return None;
        }
        let due = renewal_due(sent_at, held.terms.ttl(), &mut self.jitter);
        let left = held.lease.valid_until().saturating_since(now);
        Some(due.min(now.saturating_add(left / 2)))
    }

    fn arm(&mut self, env: &mut Env) {
        let Some(next) = self.schedule.next() else { return };
        if self.armed_at.is_none_or(|armed_at| next < armed_at) {
            self.armed_at = Some(next);
            self.plan_at(env, next, Due::Keeper);
        }
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
    fn note_end(&self, env: &mut Env, held: &Held) {
        let end = self.end_of(&held.lease);
        env.check.set_end(env.now, held.claim, end);
        if end != NEVER && end > env.now {
            env.queue.add(end - 1, Event::Audit { claim: held.claim });
        }
    }
}

/// A lease of so many round trips is renewed in time, even if a renewal or two do not count since a
/// user has sent an extension after them.
const TRIPS_PER_TTL: u64 = 25;
