//! What the users of a client do: one operation after the other, with every call of the interface.

mod detach;
mod downgrade;
mod leave;
mod loss;
mod operation;
mod set;

use std::time::Duration;

use quorate_core::{
    acquire::{Outcome, Wait},
    backoff::Backoff,
    client::{CallId, Ended, waiter::Want, watchdog::LeaseId},
    command::Owner,
    dialect::Adoption,
    lease::Lease,
    moment::Moment,
    queue::FencedLease,
    renew,
    round::RoundOutcome,
};

use self::operation::{Act, End, Operation};
use self::{detach::Handing, downgrade::Becoming};
use super::{Client, calls::Watched, leases::Won};
use crate::{
    clock::{MS, Nanos},
    dice::Dice,
    driver::Driver,
    event::Due,
    run::{Env, Handover},
    trace::Group,
};

/// One flow of work.
#[derive(Debug)]
pub(crate) struct Task {
    dice: Dice,
    stage: Stage,
    operation: Operation,
    /// Numbers operations and steps, so that events of earlier ones are ignored.
    operations: u32,
    steps: u32,
    backoff: Backoff,
    is_waiting: bool,
    /// A lease that is being detached for another client.
    handing: Option<Handing>,
    /// A lease that is being downgraded.
    becoming: Option<Becoming>,
    /// The other calls of a set, and the other leases once it is held.
    set: Vec<(usize, CallId)>,
    others: Vec<LeaseId>,
    /// The owner of an adopted lease before it was detached.
    pub(super) held_by: Option<Owner>,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Thinking,
    Asking(CallId),
    Holding(LeaseId),
    /// An extension or a question about a held lock is under way.
    Acting(LeaseId),
    Releasing,
}

impl Task {
    pub(super) const fn new(dice: Dice) -> Self {
        let operation = Operation {
            lock: 0,
            others: 0,
            ttl_ms: 0,
            group: None,
            nested: 0,
            patience: None,
            give_up_at: Moment::ZERO,
            hold: 0,
            is_renewed: false,
            max_hold: None,
            act: Act::Nothing,
            is_stubborn: false,
            end: End::Release,
        };
        let backoff = Backoff::new(RETRY_DELAY_MIN, RETRY_DELAY_MAX);
        Self {
            dice,
            stage: Stage::Thinking,
            operation,
            operations: 0,
            steps: 0,
            backoff,
            is_waiting: false,
            handing: None,
            becoming: None,
            set: Vec::new(),
            others: Vec::new(),
            held_by: None,
        }
    }

    /// The process crashed.
    pub(super) fn forget(&mut self) {
        self.stage = Stage::Thinking;
        self.operations += 1;
        self.steps += 1;
        self.handing = None;
        self.becoming = None;
        self.set.clear();
        self.others.clear();
    }
}

impl Client {
    /// Waits a little before the next operation.
    pub(super) fn think(&mut self, env: &mut Env, task: usize) {
        self.stop_waiting(env, task);
        self.release_others(env, task);
        let flow = &mut self.tasks[task];
        flow.stage = Stage::Thinking;
        flow.operations += 1;
        let time = if env.settings.is_coarse {
            flow.dice.pick(&[0, MS, 5 * MS, 40 * MS])
        } else {
            flow.dice.between(0, env.settings.think_max)
        };
        self.wait(env, task, time);
    }

    pub(super) fn work(&mut self, env: &mut Env, task: usize, step: u32) {
        if step != self.tasks[task].steps {
            return;
        }
        match self.tasks[task].stage {
            Stage::Thinking => self.begin(env, task),
            Stage::Holding(held) => self.go_on(env, task, held),
            // A retry of an extension, or the end of being stubborn.
            Stage::Acting(held) if self.is_loss_reported(held) => self.give_back(env, task, held),
            Stage::Acting(held) => self.act(env, task, held),
            Stage::Asking(call) => {
                // The caller has run out of patience.
                self.think(env, task);
                self.abandon_all(env, task, call);
            }
            Stage::Releasing => {}
        }
    }

    fn begin(&mut self, env: &mut Env, task: usize) {
        if self.is_resting {
            return;
        }
        let left = env.detached_leases[self.me.number].take();
        let flow = &mut self.tasks[task];
        let mut operation = Operation::draw(&mut flow.dice, &env.settings);
        let is_cancelled = flow.dice.below(8) == 0;
        let cancel_after = match flow.dice.below(3) {
            0 => flow.dice.between(0, 200 * MS),
            _ => flow.dice.between(0, 6 * MS),
        };
        flow.backoff.reset();
        operation = operation
            .with_identity(&mut flow.dice, &env.settings)
            .with_others(&mut flow.dice, &env.settings);
        if let Some(left) = &left {
            (operation.lock, operation.others) = (left.lock, 0);
            (operation.group, operation.nested) = (Group::of(left.owner.as_bytes()), 0);
            operation.patience = None;
        }
        let patience = operation.patience.unwrap_or(0);
        operation.give_up_at = self.me.clock.at(env.now + patience);
        let flow = &mut self.tasks[task];
        flow.operation = operation;
        self.start_waiting(env, task);
        if is_cancelled {
            let operation = self.tasks[task].operations;
            let what = Due::Cancel { task: task as u8, operation };
            self.plan(env, env.now + cancel_after, what);
        }
        match left {
            Some(left) => self.adopt(env, task, left),
            None => self.ask_for_lock(env, task),
        }
    }

    /// Asks for the lock, with waiting or once.
    fn ask_for_lock(&mut self, env: &mut Env, task: usize) {
        let Operation { lock, ttl_ms, patience, .. } = self.tasks[task].operation;
        self.tasks[task].held_by = None;
        let wait = match patience {
            None => Wait::Never,
            Some(_) => Wait::Patiently(Duration::from_millis(ttl_ms)),
        };
        self.wait(env, task, patience.unwrap_or(TRY_MAX));
        match self.tasks[task].operation.others {
            0 => self.start_acquire(env, lock, (wait, None), task),
            _ => self.start_set(env, wait, task),
        }
    }

    /// Adopts a detached lease, as an owner that never queues.
    fn adopt(&mut self, env: &mut Env, task: usize, left: Handover) {
        let Operation { ttl_ms, .. } = self.tasks[task].operation;
        let Handover { lock, owner: from, held_by, fence } = left;
        let (now, kind) = (self.now(env), self.tasks[task].operation.kind());
        let dialect = env.settings.dialect();
        let owner = self.me.machine.naming().next_holder(dialect, ttl_ms, &kind, now);
        let adoption = Adoption { from, owner, fenced: fence.map(FencedLease::adopted) };
        self.tasks[task].held_by = Some(held_by);
        self.start_acquire(env, lock, (Wait::Never, Some(adoption)), task);
    }

    fn start_acquire(
        &mut self,
        env: &mut Env,
        lock: usize,
        (wait, adopts): (Wait, Option<Adoption>),
        task: usize,
    ) {
        env.count.attempts += 1;
        let adopts = adopts.map(Box::new);
        let want = Want { adopts, ..self.want(env, lock, wait, task) };
        self.tasks[task].stage = Stage::Asking(self.acquire(env, lock, want, task));
        self.drive(env);
    }

    fn want(&self, env: &mut Env, lock: usize, wait: Wait, task: usize) -> Want {
        let operation = &self.tasks[task].operation;
        Want {
            name: env.locks[lock].clone(),
            terms: self.terms(env, operation.ttl_ms),
            kind: operation.kind().boxed(),
            wait,
            dialect: env.settings.dialect(),
            adopts: None,
        }
    }

    /// The outcome of a call is certain.
    pub(super) fn handle_outcome(
        &mut self,
        env: &mut Env,
        task: usize,
        watched: &Watched,
        call: CallId,
        ended: Ended,
    ) {
        match (self.tasks[task].stage, ended) {
            (Stage::Asking(asked), Ended::Acquire(outcome)) if asked == call => {
                self.handle_acquired(env, task, call, outcome);
            }
            (Stage::Acting(held), Ended::Renew(outcome)) => {
                self.handle_renewed(env, task, held, watched, outcome);
            }
            (Stage::Acting(held), Ended::Round(_, finding)) => match finding {
                // The machine has reported the loss already.
                RoundOutcome::Refused => {}
                RoundOutcome::Agreed | RoundOutcome::Unsure => self.hold_on(env, task, held),
            },
            (Stage::Releasing, Ended::Round(..)) => self.think(env, task),
            _ => {}
        }
    }

    fn handle_acquired(&mut self, env: &mut Env, task: usize, call: CallId, outcome: Outcome) {
        if let Some(handing) = self.tasks[task].handing.take() {
            return self.detach(env, task, call, outcome, handing);
        }
        if let Some(becoming) = self.tasks[task].becoming.take() {
            return self.become_reader(env, task, call, outcome, becoming);
        }
        self.check_set(env, task, outcome);
        let Outcome::Held { valid_until, .. } = outcome else {
            self.tasks[task].set.clear();
            return self.think(env, task);
        };
        let from = self.tasks[task].held_by.clone();
        self.win(env, task, call, valid_until);
        if let (Some(from), Stage::Holding(held)) = (from, self.tasks[task].stage)
            && let Some(held) = self.held(held)
        {
            env.check.adopt(env.now, held.claim, &from);
        }
    }

    /// The lock is the task's.
    fn win(&mut self, env: &mut Env, task: usize, call: CallId, valid_until: Moment) {
        self.stop_waiting(env, task);
        let operation = self.tasks[task].operation;
        let Some(won) = self.me.machine.call(call) else { return };
        let max = operation.max_hold.unwrap_or(u64::MAX);
        let since = self.now(env).max(won.started_at());
        let hold_until = since.saturating_add(Duration::from_nanos(max));
        // The holder's own limit may have come already.
        if Lease::new(valid_until, hold_until).check(self.now(env)).is_err() {
            self.abandon_all(env, task, call);
            self.think(env, task);
            return;
        }
        self.win_others(env, task, hold_until);
        let held = self.claim(env, task, (operation.lock, call), hold_until);
        if operation.nested > 0 {
            self.tasks[task].operation.nested -= 1;
            self.tasks[task].others.push(held);
            self.start_waiting(env, task);
            return self.ask_for_lock(env, task);
        }
        self.tasks[task].stage = Stage::Holding(held);
        self.wait(env, task, operation.hold / 2);
    }

    /// Keeps what a call has won.
    fn claim(
        &mut self,
        env: &mut Env,
        task: usize,
        (lock, call): (usize, CallId),
        hold_until: Moment,
    ) -> LeaseId {
        let won = self.me.machine.call(call).expect("it was won");
        let (sent_at, waiter) = (won.started_at(), won.waiter());
        let adopted = waiter.and_then(|waiter| waiter.want().adopts.as_ref());
        let from = adopted.map(|adopted| adopted.from.clone());
        let is_renewed = self.tasks[task].operation.is_renewed;
        self.keep(env, Won { call, lock, task, hold_until, is_renewed, sent_at, from })
    }

    fn handle_renewed(
        &mut self,
        env: &mut Env,
        task: usize,
        id: LeaseId,
        watched: &Watched,
        outcome: renew::Outcome,
    ) {
        let Some(held_until) = watched.held_until else { return };
        match outcome {
            renew::Outcome::Extended { .. } => {
                self.check_in_time(env, id, held_until);
                self.note_renewed(env, id);
                self.hold_on(env, task, id);
            }
            // The machine has reported the loss already.
            renew::Outcome::Gone => {}
            renew::Outcome::TooLate | renew::Outcome::Unsure => {
                if !matches!(self.tasks[task].stage, Stage::Acting(held) if held == id) {
                    return;
                }
                let delay = self.tasks[task].backoff.next(&mut self.jitter);
                self.wait(env, task, delay.as_nanos() as Nanos);
            }
        }
    }

    /// After half of the work: an extension, a check or a downgrade, if the operation has one.
    fn go_on(&mut self, env: &mut Env, task: usize, id: LeaseId) {
        let now = self.now(env);
        let held = self.me.machine.lease(id);
        let is_alive = held.is_some_and(|held| held.lease().check(now).is_ok());
        if is_alive && self.wants_to_read(env, task, id) {
            return self.start_downgrade(env, task, id);
        }
        match self.tasks[task].operation.act {
            _ if !is_alive => self.give_back(env, task, id),
            Act::Nothing => self.finish(env, task, id),
            Act::Extend(_) | Act::Verify => {
                let flow = &mut self.tasks[task];
                flow.stage = Stage::Acting(id);
                if flow.dice.below(8) == 0 {
                    let (operation, after) = (flow.operations, flow.dice.between(0, 6 * MS));
                    let what = Due::Cancel { task: task as u8, operation };
                    self.plan(env, env.now + after, what);
                }
                self.act(env, task, id);
            }
        }
    }

    fn act(&mut self, env: &mut Env, task: usize, id: LeaseId) {
        let now = self.now(env);
        let Some(lock) = self.held(id).map(|held| held.lock) else { return };
        let call = match self.tasks[task].operation.act {
            Act::Extend(ttl_ms) => {
                let terms = self.terms(env, ttl_ms);
                match self.me.machine.extend(id, terms, now) {
                    Ok(call) => call,
                    Err(reason) => return self.lose(env, id, reason),
                }
            }
            Act::Verify | Act::Nothing => {
                let call = self
                    .with_patience(env, |machine, patience, now| machine.verify(id, patience, now));
                let Some(call) = call else { return };
                call
            }
        };
        let held_until = self.me.machine.lease(id).map(|held| held.lease().valid_until());
        self.watch(env, call, lock, Some(task)).held_until = held_until;
        self.drive(env);
    }

    /// The other half of the work.
    fn hold_on(&mut self, env: &mut Env, task: usize, id: LeaseId) {
        let flow = &mut self.tasks[task];
        flow.stage = Stage::Holding(id);
        let other = flow.dice.pick(&env.settings.ttls_ms);
        flow.operation.act = Act::draw(&mut flow.dice, other, 5);
        let time = flow.operation.hold / 2;
        self.wait(env, task, time);
    }

    fn finish(&mut self, env: &mut Env, task: usize, id: LeaseId) {
        let is_set = !self.tasks[task].others.is_empty();
        self.release_others(env, task);
        match self.tasks[task].operation.end {
            End::Release => {
                self.tasks[task].stage = Stage::Releasing;
                self.release(env, id, Some(task));
            }
            End::Drop => {
                self.release(env, id, None);
                self.think(env, task);
            }
            // A detached lease stays for a ttl if no client adopts it.
            End::LeaveTo(_) if is_set || !env.settings.does_leave() => {
                self.release(env, id, None);
                self.think(env, task);
            }
            End::LeaveTo(client) => self.start_handing_over(env, task, id, client),
        }
    }

    /// Drops the guard without waiting for the release.
    fn give_back(&mut self, env: &mut Env, task: usize, id: LeaseId) {
        self.release_others(env, task);
        self.release(env, id, None);
        self.think(env, task);
    }

    fn start_waiting(&mut self, env: &mut Env, task: usize) {
        let flow = &mut self.tasks[task];
        let operation = flow.operation;
        flow.is_waiting = operation.patience.is_some() && env.cut_off != Some(self.me.number);
        if flow.is_waiting {
            for lock in operation.locks() {
                env.check.add_waiter(env.now, lock, operation.group);
            }
        }
    }

    pub(super) fn stop_waiting(&mut self, env: &mut Env, task: usize) {
        let flow = &mut self.tasks[task];
        if std::mem::replace(&mut flow.is_waiting, false) {
            let operation = flow.operation;
            for lock in operation.locks() {
                env.check.remove_waiter(env.now, lock, operation.group);
            }
        }
    }

    /// Continues the task after a while.
    fn wait(&mut self, env: &mut Env, task: usize, time: Nanos) {
        let flow = &mut self.tasks[task];
        flow.steps += 1;
        let what = Due::Work { task: task as u8, step: flow.steps };
        let moment = self.now(env).saturating_add(Duration::from_nanos(time));
        self.plan_at(env, moment, what);
    }
}

const RETRY_DELAY_MIN: Duration = Duration::from_millis(4);
const RETRY_DELAY_MAX: Duration = Duration::from_millis(100);

/// A stubborn holder drops a lost guard after this time.
const STUBBORN_FOR: Nanos = 30 * MS;

/// A single try gives up after this time at the latest.
const TRY_MAX: Nanos = 600 * MS;
