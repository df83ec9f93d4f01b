//! Detaches a lease for another client.

use quorate_core::{
    acquire::Outcome,
    client::{
        CallId,
        round::Claim,
        watchdog::{HeldLease, LeaseId},
    },
    mutant::{self, Mutant},
    queue::FencedLease,
};

use crate::{
    client::Client,
    driver::Driver as _,
    run::{Env, Handover},
};

/// A lease that is being detached, while the nodes store another owner.
#[derive(Debug)]
pub(super) struct Handing {
    to: usize,
    lock: usize,
    lease: LeaseId,
}

impl Client {
    /// A holder that may be queued on a node first takes another owner, which is not queued.
    pub(super) fn start_handing_over(
        &mut self,
        env: &mut Env,
        task: usize,
        id: LeaseId,
        to: usize,
    ) {
        let lock = self.note_given_up(env, id, "detaches");
        let (Some(lock), Some(held)) = (lock, self.me.machine.lease(id)) else {
            return self.think(env, task);
        };
        let (owner, fenced) = (held.owner().clone(), held.fenced());
        let fence = fenced.map(FencedLease::fence);
        let left = Handover { lock, owner: owner.clone(), held_by: owner, fence };
        if !may_be_queued(held) {
            self.me.machine.leave(id);
            env.excused.push(left.owner.clone());
            env.detached_leases[to] = Some(left);
            return self.think(env, task);
        }
        // From now on nothing is renewed: an extension would find another owner.
        self.me.machine.retire(id);
        self.tasks[task].handing = Some(Handing { to, lock, lease: id });
        self.adopt(env, task, left);
    }

    /// The nodes have answered.
    pub(super) fn detach(
        &mut self,
        env: &mut Env,
        task: usize,
        call: CallId,
        outcome: Outcome,
        handing: Handing,
    ) {
        let Handing { to, lock, lease } = handing;
        let now = self.now(env);
        let is_renamed = matches!(outcome, Outcome::Held { .. });
        let is_held = self.me.machine.check(lease, now).is_ok();
        let waiter = self.me.machine.call(call).and_then(|call| call.waiter());
        let waiter = waiter.expect("it was asked");
        let (owner, untaken) = (waiter.owner().clone(), waiter.untaken());
        let Some(held) = self.me.machine.lease(lease) else { return self.think(env, task) };
        let (held_by, old) = (held.owner().clone(), held.claim(held.longest()));
        let fence = held.fenced().map(FencedLease::fence);
        if is_renamed && is_held {
            self.me.machine.leave_as(lease, &owner);
            self.drive(env);
            env.excused.push(owner.clone());
            env.detached_leases[to] = Some(Handover { lock, owner, held_by, fence });
            return self.think(env, task);
        }
        // Only a lease that was held throughout is still held.
        if is_renamed {
            self.start_release(env, lock, Claim { owner, untaken, ..old });
        }
        self.release_lease(env, lock, lease, None);
        self.think(env, task);
    }

    /// The caller has left: the lease is released.
    pub(super) fn stop_handing_over(&mut self, env: &mut Env, task: usize) {
        if let Some(Handing { lock, lease, to: _ }) = self.tasks[task].handing.take() {
            self.release_lease(env, lock, lease, None);
        }
    }
}

fn may_be_queued(held: &HeldLease) -> bool {
    if mutant::current() == Some(Mutant::DetachQueued) {
        return false;
    }
    held.fenced().is_some()
}
