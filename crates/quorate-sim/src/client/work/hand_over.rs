//! A lease goes to another client.

use quorate_core::{
    acquire,
    client::watchdog::LeaseId,
    line::FencedLease,
    moment::Moment,
    mutant::{self, Mutant},
};

use crate::{
    client::{
        Client,
        leases::asked,
        round::{Asked, Told},
    },
    world::{Env, Handover},
};

/// What is handed over, while the nodes are asked to name another owner.
#[derive(Debug)]
pub(super) struct Handing {
    to: usize,
    old: Asked,
    /// Until when it is held. What comes to the old owner later does not count.
    until: Moment,
}

impl Client {
    /// Whoever may stand in line somewhere takes another owner first, which does not.
    pub(super) fn start_handing_over(
        &mut self,
        env: &mut Env,
        task: usize,
        id: LeaseId,
        to: usize,
    ) {
        let Some((lock, held)) = self.let_go(env, id, "leaves to another") else {
            return self.think(env, task);
        };
        let owner = held.owner().clone();
        let fence = held.fenced().map(FencedLease::fence);
        let left = Handover { lock, owner: owner.clone(), held_by: owner, fence };
        let is_in_line = mutant::current() == Some(Mutant::HandOverInLine);
        if held.fenced().is_none() || is_in_line {
            self.registry.forget(&left.owner);
            env.excused.push(left.owner.clone());
            env.handovers[to] = Some(left);
            return self.think(env, task);
        }
        let (old, until) = (asked(lock, &held, held.longest()), held.lease().valid_until());
        self.tasks[task].handing = Some(Handing { to, old, until });
        self.try_once(env, task, Some(left));
    }

    /// The nodes have answered.
    pub(super) fn hand_over(
        &mut self,
        env: &mut Env,
        task: usize,
        told: Told,
        outcome: acquire::Outcome,
        handing: Handing,
    ) {
        let Handing { to, old, until } = handing;
        if let acquire::Outcome::Held { .. } = outcome {
            if self.now(env) < until {
                let (lock, owner, held_by) = (old.lock, told.claim.owner, old.owner.clone());
                let fence = old.fenced.map(FencedLease::fence);
                env.excused.push(owner.clone());
                env.handovers[to] = Some(Handover { lock, owner, held_by, fence });
            } else {
                self.start_release(env, told.claim, None);
            }
        }
        // What was not renamed, and places in line.
        self.start_release(env, old, None);
        self.think(env, task);
    }

    /// Nobody waits for it any more: it is given back.
    pub(super) fn stop_handing_over(&mut self, env: &mut Env, task: usize) {
        if let Some(handing) = self.tasks[task].handing.take() {
            self.start_release(env, handing.old, None);
        }
    }
}
