//! What users do when they are notified of a loss.

use quorate_core::client::watchdog::LeaseId;

use super::{STUBBORN_FOR, Stage};
use crate::{client::Client, run::Env};

impl Client {
    /// The holder is notified that the lock is lost.
    pub(in crate::client) fn handle_loss(&mut self, env: &mut Env, task: usize, id: LeaseId) {
        env.count.losses += 1;
        if self.tasks[task].others.contains(&id)
            && matches!(self.tasks[task].stage, Stage::Asking(_))
        {
            // The nested acquire continues.
            self.tasks[task].others.retain(|other| *other != id);
            return self.release(env, id, None);
        }
        if self.tasks[task].others.contains(&id)
            && let Stage::Holding(held) | Stage::Acting(held) = self.tasks[task].stage
        {
            // With one lock the whole set is lost.
            return self.give_back(env, task, held);
        }
        match self.tasks[task].stage {
            // It notices at its next step.
            Stage::Holding(_) if self.tasks[task].operation.is_stubborn => {}
            Stage::Acting(held) if held == id && self.tasks[task].operation.is_stubborn => {
                self.wait(env, task, STUBBORN_FOR);
            }
            Stage::Holding(held) | Stage::Acting(held) if held == id => {
                self.give_back(env, task, id);
            }
            _ => {}
        }
    }
}
