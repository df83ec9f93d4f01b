//! Callers that go away before they have what they asked for.

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
    /// Nothing more is begun; what is held is given back.
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

    /// The client is shut down while its guards are still there, and stay.
    fn shut_down(&mut self, env: &mut Env) {
        self.with_patience(env, |machine, patience, now| {
            machine.close(now);
            machine.release_all(patience, now);
        });
        self.drive(env);
    }

    /// The caller goes away, if it is still there.
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
            // The lock stays held, and what was asked of the nodes goes on.
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

    /// Whoever waits for something goes away soon: also while it is not clear what a node that was
    /// lost has done.
    pub(in crate::client) fn grow_impatient(&mut self, env: &mut Env) {
        for task in 0..self.tasks.len() {
            let flow = &mut self.tasks[task];
            let (operation, after) = (flow.operations, flow.dice.below(2 * MS));
            let what = Due::Cancel { task: task as u8, operation };
            self.plan(env, env.now + after, what);
        }
    }

    pub(super) fn release(&mut self, env: &mut Env, id: LeaseId, task: Option<usize>) {
        let Some(lock) = self.note_given_up(env, id, "lets go of") else { return };
        self.release_lease(env, lock, id, task);
    }

    /// Releases a lease of which the checker knows that nobody holds it any more.
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
