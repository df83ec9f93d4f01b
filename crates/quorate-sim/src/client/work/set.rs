//! Users that acquire several locks at once.

use quorate_core::{
    acquire::{Outcome, Wait},
    client::{CallId, Ended},
    moment::Moment,
};

use super::Stage;
use crate::{check::Promise, client::Client, driver::Driver, run::Env, trace};

impl Client {
    /// Asks for all locks of an operation. The task gets the outcome of the first one.
    pub(super) fn start_set(&mut self, env: &mut Env, wait: Wait, task: usize) {
        env.count.attempts += 1;
        let locks: Vec<usize> = self.tasks[task].operation.locks().collect();
        let wants = locks.iter().map(|lock| self.want(env, *lock, wait, task)).collect();
        let now = self.now(env);
        let calls = self.me.machine.acquire_all(wants, now);
        for (at, (lock, call)) in locks.iter().zip(&calls).enumerate() {
            self.watch(env, *call, *lock, (at == 0).then_some(task));
        }
        let flow = &mut self.tasks[task];
        flow.stage = Stage::Asking(calls[0]);
        flow.set = locks.into_iter().zip(calls).skip(1).collect();
        self.drive(env);
    }

    /// All locks of a set are won at the same moment, or none is.
    pub(super) fn check_set(&self, env: &mut Env, task: usize, outcome: Outcome) {
        let is_won = matches!(outcome, Outcome::Held { .. });
        for (lock, call) in &self.tasks[task].set {
            let Some(call) = self.me.machine.call(*call) else { continue };
            let is_other_won = matches!(call.ended(), Some(Ended::Acquire(Outcome::Held { .. })));
            if is_other_won != is_won {
                let owner =
                    call.waiter().map_or_else(String::new, |it| trace::owner_name(it.owner()));
                let text =
                    format!("a set has {is_won} for its first lock, {is_other_won} for this");
                env.check.report_owner(env.now, Promise::Together, Some(*lock), owner, text);
            }
        }
    }

    /// The other locks of the set are the task's, too.
    pub(super) fn win_others(&mut self, env: &mut Env, task: usize, hold_until: Moment) {
        for (lock, call) in std::mem::take(&mut self.tasks[task].set) {
            if self.settle(env, call) {
                let held = self.claim(env, task, (lock, call), hold_until);
                self.tasks[task].others.push(held);
            }
            self.me.machine.close_call(call);
        }
    }

    /// The caller of a set cancels.
    pub(super) fn abandon_all(&mut self, env: &mut Env, task: usize, first: CallId) {
        self.abandon(env, first);
        for (_, call) in std::mem::take(&mut self.tasks[task].set) {
            self.abandon(env, call);
        }
    }

    pub(super) fn release_others(&mut self, env: &mut Env, task: usize) {
        for held in std::mem::take(&mut self.tasks[task].others) {
            self.release(env, held, None);
        }
    }
}
