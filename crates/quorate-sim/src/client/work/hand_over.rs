//! A lease goes to another client.

use quorate_core::{
    client::{
        CallId,
        round::Claim,
        watchdog::{HeldLease, LeaseId},
    },
    contend::Outcome,
    line::FencedLease,
    moment::Moment,
    mutant::{self, Mutant},
};

use crate::{
    client::Client,
    world::{Env, Handover},
};

/// What is handed over, while the nodes are asked to name another owner.
#[derive(Debug)]
pub(super) struct Handing {
    to: usize,
    lock: usize,
    old: Claim,
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
        let lock = self.note_let_go(env, id, "leaves to another");
        let (Some(lock), Some(held)) = (lock, self.me.machine.let_go(id)) else {
            return self.think(env, task);
        };
        let owner = held.owner().clone();
        let fence = held.fenced().map(FencedLease::fence);
        let left = Handover { lock, owner: owner.clone(), held_by: owner, fence };
        if !may_stand_in_line(&held) {
            self.me.machine.registry().forget(&left.owner);
            env.excused.push(left.owner.clone());
            env.handovers[to] = Some(left);
            return self.think(env, task);
        }
        let (old, until) = (held.claim(held.longest()), held.lease().valid_until());
        self.tasks[task].handing = Some(Handing { to, lock, old, until });
        self.adopt(env, task, left);
    }

    /// The nodes have answered.
    pub(super) fn hand_over(
        &mut self,
        env: &mut Env,
        task: usize,
        call: CallId,
        outcome: Outcome,
        handing: Handing,
    ) {
        let Handing { to, lock, old, until } = handing;
        let waiter = self.me.machine.call(call).and_then(|call| call.waiter());
        let waiter = waiter.expect("it was asked");
        let (owner, untaken) = (waiter.owner().clone(), waiter.untaken());
        if let Outcome::Held { .. } = outcome {
            if self.now(env) < until {
                let held_by = old.owner.clone();
                let fence = old.fenced.map(FencedLease::fence);
                env.excused.push(owner.clone());
                env.handovers[to] = Some(Handover { lock, owner, held_by, fence });
            } else {
                self.start_release(env, lock, Claim { owner, untaken, ..old.clone() });
            }
        }
        // What was not renamed, and places in line.
        self.start_release(env, lock, old);
        self.think(env, task);
    }

    /// Nobody waits for it any more: it is given back.
    pub(super) fn stop_handing_over(&mut self, env: &mut Env, task: usize) {
        if let Some(handing) = self.tasks[task].handing.take() {
            self.start_release(env, handing.lock, handing.old);
        }
    }
}

fn may_stand_in_line(held: &HeldLease) -> bool {
    if mutant::current() == Some(Mutant::HandOverInLine) {
        return false;
    }
    held.fenced().is_some()
}
