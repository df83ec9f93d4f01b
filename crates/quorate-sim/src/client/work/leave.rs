//! Callers that go away before they have what they asked for.

use quorate_core::release::Release;

use super::Stage;
use crate::{
    client::{
        Client,
        round::{Asked, Machine},
    },
    clock::MS,
    event::Due,
    fault::CANCELLED,
    world::Env,
};

impl Client {
    /// Nothing more is begun; what is held is given back.
    pub(crate) fn rest(&mut self, env: &mut Env) {
        self.is_resting = true;
        if self.is_dead {
            return;
        }
        self.check_calls(env);
        for task in 0..self.tasks.len() {
            match self.tasks[task].stage {
                Stage::Asking(round) => {
                    self.stop_waiting(env, task);
                    self.abandon(env, round);
                    self.stop_handing_over(env, task);
                }
                Stage::InLine(waiter) => {
                    self.stop_waiting(env, task);
                    self.abandon_waiter(env, waiter);
                }
                Stage::Holding(held) | Stage::Acting(held) => self.release(env, held, None),
                Stage::Thinking | Stage::Resting | Stage::Releasing => {
                    self.stop_waiting(env, task);
                }
            }
            self.tasks[task].forget();
        }
        for held in self.held.iter().map(|held| held.id).collect::<Vec<_>>() {
            self.release(env, held, None);
        }
    }

    /// The caller goes away, if it is still there.
    pub(in crate::client) fn cancel(&mut self, env: &mut Env, task: usize, operation: u32) {
        if operation != self.tasks[task].operations {
            return;
        }
        match self.tasks[task].stage {
            Stage::Asking(round) => {
                env.count.faults[CANCELLED] += 1;
                self.think(env, task);
                self.abandon(env, round);
                self.stop_handing_over(env, task);
            }
            Stage::InLine(waiter) => {
                env.count.faults[CANCELLED] += 1;
                self.think(env, task);
                self.abandon_waiter(env, waiter);
            }
            Stage::Resting => {
                env.count.faults[CANCELLED] += 1;
                self.think(env, task);
            }
            // The lock stays held, and what was asked of the nodes goes on.
            Stage::Acting(held) if !self.is_told(held) => {
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

    pub(super) fn release(&mut self, env: &mut Env, id: u32, task: Option<usize>) {
        let Some(held) = self.let_go(env, id, "lets go of") else { return };
        self.start_release(env, held.asked(held.longest), task);
    }

    pub(super) fn start_release(&mut self, env: &mut Env, asked: Asked, task: Option<usize>) {
        let machine = Release::start(asked.terms, env.nodes.len(), self.now(env));
        self.ask(env, Machine::Release(machine), asked, task, None);
    }
}
