//! A writer becomes a reader.

use quorate_core::{
    acquire::Outcome,
    client::{
        CallId,
        watchdog::{HeldLease, LeaseId},
    },
    queue::FencedLease,
};

use super::Stage;
use crate::{
    client::{Client, leases::Won},
    clock::MS,
    driver::Driver as _,
    event::Due,
    run::Env,
    trace::Group,
};

/// A lease that is being downgraded, while the nodes store the reader.
#[derive(Clone, Copy, Debug)]
pub(super) struct Becoming {
    lock: usize,
    lease: LeaseId,
}

impl Client {
    /// Whether the task, which holds the lock exclusively, becomes a reader: in some of the runs
    /// with shared locks.
    pub(super) fn wants_to_read(&mut self, env: &Env, task: usize, id: LeaseId) -> bool {
        let held = self.me.machine.lease(id);
        let fenced = held.and_then(HeldLease::fenced);
        // An adopted lease is not downgraded.
        let is_own = fenced.is_some_and(FencedLease::may_heal);
        let flow = &mut self.tasks[task];
        let is_alone = flow.operation.group.is_none() && flow.others.is_empty();
        env.settings.sharing.is_some() && is_own && is_alone && flow.dice.below(3) == 0
    }

    /// From now on other readers may join. No writer may hold the lock before the reader releases.
    pub(super) fn start_downgrade(&mut self, env: &mut Env, task: usize, id: LeaseId) {
        let Some((lock, claim)) = self.held(id).map(|held| (held.lock, held.claim)) else { return };
        let call =
            self.with_patience(env, |machine, patience, now| machine.downgrade(id, patience, now));
        let waiter = call.and_then(|call| self.me.machine.call(call)?.waiter());
        let (Some(call), Some(reader)) = (call, waiter.map(|waiter| waiter.owner().clone())) else {
            return self.finish(env, task, id);
        };
        env.count.downgrades += 1;
        env.check.share(env.now, claim, reader);
        let flow = &mut self.tasks[task];
        flow.operation.group = Some(Group::Readers);
        flow.becoming = Some(Becoming { lock, lease: id });
        flow.stage = Stage::Asking(call);
        if flow.dice.below(4) == 0 {
            let (operation, after) = (flow.operations, flow.dice.between(0, 6 * MS));
            self.plan(env, env.now + after, Due::Cancel { task: task as u8, operation });
        }
        // Audits while some nodes store the reader and others may not.
        for after in [MS / 2, 3 * MS] {
            env.queue.add(env.now + after, crate::event::Event::Audit { claim });
        }
        self.watch(env, call, lock, Some(task));
        self.drive(env);
    }

    /// The nodes have answered.
    pub(super) fn become_reader(
        &mut self,
        env: &mut Env,
        task: usize,
        call: CallId,
        outcome: Outcome,
        becoming: Becoming,
    ) {
        let Becoming { lock, lease } = becoming;
        let from = self.me.machine.lease(lease).map(|held| held.owner().clone());
        let (Some(from), Some(held)) = (from, self.held(lease)) else {
            return self.think(env, task);
        };
        let (hold_until, is_renewed, claim) = (held.hold_until, held.is_renewed, held.claim);
        env.audit(claim);
        self.note_given_up(env, lease, "downgrades");
        let kept = match outcome {
            Outcome::Held { .. } => self.with_patience(env, |machine, patience, now| {
                machine.keep_reader(call, lease, patience, now).ok()
            }),
            Outcome::Contended | Outcome::NoQuorum | Outcome::Abandoned => None,
        };
        let Some(reader) = kept else {
            self.release_lease(env, lock, lease, None);
            return self.think(env, task);
        };
        self.drive(env);
        let now = self.now(env);
        if self.me.machine.check(reader, now).is_err() {
            self.release_lease(env, lock, reader, None);
            return self.think(env, task);
        }
        let sent_at = self.me.machine.call(call).map_or(now, |call| call.started_at());
        let left = Some(from.clone());
        let won = Won { call, lock, task, hold_until, is_renewed, sent_at, from: left };
        let claim = self.note_kept(env, reader, won);
        env.check.adopt(env.now, claim, &from);
        self.hold_on(env, task, reader);
    }

    /// The caller has left: the lease is released.
    pub(super) fn stop_downgrade(&mut self, env: &mut Env, task: usize) {
        if let Some(Becoming { lock: _, lease }) = self.tasks[task].becoming.take() {
            self.release(env, lease, None);
        }
    }
}
