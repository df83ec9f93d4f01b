//! Callers that cancel, and clients that stop.

use quorate_core::{
    client::{
        round::{Claim, Machine},
        watchdog::LeaseId,
    },
    round::{Round, RoundKind},
};

use super::Stage;
use crate::{client::Client, clock::MS, driver::Driver, event::Due, fault::CANCELLED, run::Env};

impl Client {
    /// Begins nothing more; releases what is held.
    pub(crate) fn rest(&mut self, env: &mut Env) {
        self.is_resting = true;
        if self.is_dead {
            return;
        }
        self.check_calls(env);
        let is_shutdown = self.me.dice.below(2) == 0;
        for task in 0..self.tasks.len() {
            match self.tasks[task].stage {
                Stage::Asking(call) => {
                    self.stop_waiting(env, task);
                    self.abandon_all(env, task, call);
                    self.stop_handing_over(env, task);
                    self.stop_downgrade(env, task);
                }
                Stage::Holding(_) | Stage::Acting(_) if is_shutdown => {}
                Stage::Holding(held) | Stage::Acting(held) => self.release(env, held, None),
                Stage::Thinking | Stage::Releasing => self.stop_waiting(env, task),
            }
            self.tasks[task].forget();
        }
        if is_shutdown {
            self.shut_down(env);
            return;
        }
        for held in self.held.iter().map(|held| held.id).collect::<Vec<_>>() {
            self.release(env, held, None);
        }
    }

    /// Shuts the client down while its guards still exist.
    fn shut_down(&mut self, env: &mut Env) {
        self.with_patience(env, |machine, patience, now| {
            machine.close(now);
            machine.release_all(patience, now);
        });
        self.drive(env);
    }

    /// The caller cancels, if it still waits.
    pub(in crate::client) fn cancel_operation(
        &mut self,
        env: &mut Env,
        task: usize,
        operation: u32,
    ) {
        if operation != self.tasks[task].operations {
            return;
        }
        match self.tasks[task].stage {
            Stage::Asking(call) => {
                env.count.faults[CANCELLED] += 1;
                self.think(env, task);
                self.abandon_all(env, task, call);
                self.stop_handing_over(env, task);
                self.stop_downgrade(env, task);
            }
            // The lock stays held, and the round continues.
            Stage::Acting(held) if !self.is_loss_reported(held) => {
                env.count.faults[CANCELLED] += 1;
                self.forget_caller(task);
                self.hold_on(env, task, held);
            }
            Stage::Releasing => {
                env.count.faults[CANCELLED] += 1;
                self.forget_caller(task);
                self.think(env, task);
            }
            Stage::Thinking | Stage::Holding(_) | Stage::Acting(_) => {}
        }
    }

    /// All callers cancel soon: even while it is unknown what a node with a broken link has
    /// executed.
    pub(in crate::client) fn grow_impatient(&mut self, env: &mut Env) {
        for task in 0..self.tasks.len() {
            let flow = &mut self.tasks[task];
            let (operation, after) = (flow.operations, flow.dice.below(2 * MS));
            let what = Due::Cancel { task: task as u8, operation };
            self.plan(env, env.now + after, what);
        }
    }

    pub(super) fn release(&mut self, env: &mut Env, id: LeaseId, task: Option<usize>) {
        let Some(lock) = self.note_given_up(env, id, "releases") else { return };
        self.release_lease(env, lock, id, task);
    }

    /// Releases a lease that was already reported to the checker as given up.
    pub(super) fn release_lease(
        &mut self,
        env: &mut Env,
        lock: usize,
        id: LeaseId,
        task: Option<usize>,
    ) {
        let held_until = self.me.machine.lease(id).map(|held| held.lease().valid_until());
        let call =
            self.with_patience(env, |machine, patience, now| machine.release(id, patience, now));
        if let Some(call) = call {
            self.watch(env, call, lock, task).held_until = held_until;
        }
        self.drive(env);
    }

    /// Releases what this owner may have on any node.
    pub(super) fn start_release(&mut self, env: &mut Env, lock: usize, claim: Claim) {
        let machine = Round::start(RoundKind::Release, claim.terms, self.list.len(), self.now(env));
        self.ask(env, Machine::Round(machine), (lock, claim), None);
        self.drive(env);
    }
}
