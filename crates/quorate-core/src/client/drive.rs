//! Drives each call of a client until it waits for an input.

use std::collections::btree_map::Entry;

use super::{
    About, Call, CallId, Client, Debt, Ended, Event, Purpose, Question,
    call::Work,
    owners::OwnerSource,
    round::{self, Claim, Machine, QuorumRound},
    waiter::{self, Waiter},
};
use crate::{
    command::{Command, Owner, Reply},
    dialect::Dialect,
    lease::LostReason,
    moment::Moment,
    name::Name,
    round::{RoundKind, RoundOutcome},
};

impl<S: OwnerSource> Client<S> {
    pub(super) fn begin_round(
        &mut self,
        claim: Claim,
        machine: Machine,
        purpose: Purpose,
        now: Moment,
    ) -> CallId {
        let round = QuorumRound::start(claim, machine);
        let id = self.next_call();
        self.begin(id, Work::Round(round, purpose), now)
    }

    pub(super) fn begin(&mut self, id: CallId, work: Work, now: Moment) -> CallId {
        self.calls.insert(id, Box::new(Call::new(work, now)));
        if self.is_closed {
            self.give_up(id, now);
        } else {
            self.drive(id, now);
        }
        id
    }

    /// Gives up a call: too many nodes reject it, or the client closes.
    pub fn give_up(&mut self, id: CallId, now: Moment) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        call.handle_abandon();
        self.drive(id, now);
    }

    /// Handles the reply to a command of a waiter.
    pub(super) fn handle_waiter_reply(
        &mut self,
        node: usize,
        (question, command): (&Question, &Command),
        reply: Option<&Reply>,
        now: Moment,
    ) {
        let Some(call) = self.calls.get_mut(&question.call) else { return };
        call.open = call.open.saturating_sub(1);
        let Work::Acquire(waiter) = &mut call.work else { return };
        let asked = (question.node_call, question.sent_at, command);
        let debt = waiter.handle_answer(&self.config, node, asked, reply, now);
        self.owe(node, debt, now);
        self.drive(question.call, now);
    }

    pub(super) fn update_waiters(&mut self, update: impl Fn(&mut Waiter), now: Moment) {
        for id in self.call_ids(|call| call.is_waiter() && call.ended().is_none()) {
            if let Some(waiter) = self.waiter_mut(id) {
                update(waiter);
                self.drive(id, now);
            }
        }
    }

    /// Executes the outputs of a call until it waits for an input.
    pub(super) fn drive(&mut self, id: CallId, now: Moment) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        let mut send = |call: &mut u32, node: usize, about, command| {
            if let Some(outgoing) = self.outgoing.get_mut(node) {
                *call = call.saturating_add(1);
                outgoing.push(about, command);
            }
        };
        let due = match &mut call.work {
            Work::Acquire(waiter) => loop {
                match waiter.poll_output(&self.config, &mut self.naming) {
                    waiter::Output::Wait(owner) => {
                        self.registry.wait(&owner, &waiter.want().name, id);
                    }
                    waiter::Output::Hold(owner) => {
                        self.registry.hold(&owner, &waiter.want().name);
                    }
                    waiter::Output::Forget(owner) => {
                        self.registry.forget(&owner, &waiter.want().name);
                    }
                    waiter::Output::Send { node, node_call, is_first, command } => {
                        let question = Question { call: id, node_call, sent_at: now, is_first };
                        send(&mut call.open, node, About::Waiter(question), command);
                    }
                    waiter::Output::Until(at) => break Some(at),
                    waiter::Output::Idle => break None,
                }
            },
            Work::Round(round, _) => loop {
                match round.poll_output(&self.config) {
                    round::Output::Send { node, command } => {
                        send(&mut call.open, node, About::Round(id), command);
                    }
                    round::Output::Until(at) => break Some(at),
                    round::Output::Idle => break None,
                }
            },
        };
        if call.due != due {
            if let Some(before) = std::mem::replace(&mut call.due, due) {
                self.deadlines.remove(&(before, id));
            }
            self.deadlines.extend(due.map(|at| (at, id)));
        }
        let set = call.waiter().and_then(Waiter::set);
        let ended = call.ended();
        if let Some(ended) = ended.filter(|ended| call.reported.replace(*ended) != Some(*ended)) {
            self.handle_ended(id, ended, now);
        }
        if let Some(set) = set {
            self.advance_set(set, now);
        }
        self.remove_if_done(id);
    }

    /// Applies the outcome of a call to its lease.
    fn handle_ended(&mut self, id: CallId, ended: Ended, now: Moment) {
        let Some(call) = self.calls.get(&id) else { return };
        match (call.purpose(), ended) {
            (Purpose::Extend(lease, extending), Ended::Renew(outcome)) => {
                let sent_at = call.started_at;
                self.watchdog.handle_extension_ended(lease, extending, outcome, sent_at, now);
            }
            (Purpose::Verify(lease), Ended::Round(RoundKind::Check, RoundOutcome::Refused)) => {
                self.watchdog.lose(lease, LostReason::Gone);
            }
            _ => {}
        }
        self.events.push_back(Event::Ended(id, ended));
    }

    pub(super) fn remove_if_done(&mut self, id: CallId) {
        let Entry::Occupied(call) = self.calls.entry(id) else { return };
        if call.get().is_done() {
            let call = call.remove();
            if let Some(lease) = call.lease {
                self.watchdog.set_only_keys(lease, call.has_only_keys().unwrap_or(false));
            }
            self.events.push_back(Event::Closed(id));
        }
    }

    pub(super) fn send_renewals(&mut self) {
        while let Some((batch, command)) = self.watchdog.poll_transmit() {
            for outgoing in &mut self.outgoing {
                outgoing.push(About::Renewals(batch), command.clone());
            }
        }
    }

    pub(super) fn release_orphan(&mut self, node: usize, name: Name, owner: Owner) {
        if let Some(outgoing) = self.outgoing.get_mut(node) {
            outgoing.push(About::Orphan, Dialect::Queue.release(name, owner));
        }
    }

    /// Records a release that the node has not answered.
    pub(super) fn owe(&mut self, node: usize, debt: Option<Debt>, now: Moment) {
        if let (Some(debts), Some(debt)) = (self.debts.get_mut(node), debt) {
            debts.add(debt, now);
        }
    }

    /// Repeats the releases that the node has not answered.
    pub(super) fn pay_debts(&mut self, node: usize, now: Moment) {
        let (Some(debts), Some(outgoing)) = (self.debts.get_mut(node), self.outgoing.get_mut(node))
        else {
            return;
        };
        for Debt { release, until } in debts.collect(now) {
            outgoing.push(About::Debt(until), release);
        }
    }

    pub(super) fn waiter_mut(&mut self, id: CallId) -> Option<&mut Waiter> {
        match &mut self.calls.get_mut(&id)?.work {
            Work::Acquire(waiter) => Some(waiter),
            Work::Round(..) => None,
        }
    }

    /// In the order in which the calls began: on a node that is back, the earliest one asks first.
    pub(super) fn call_ids(&self, which: impl Fn(&Call) -> bool) -> Vec<CallId> {
        self.calls.iter().filter(|(_, call)| which(call)).map(|(id, _)| *id).collect()
    }

    pub(super) const fn next_call(&mut self) -> CallId {
        let id = CallId::after(self.calls_begun);
        self.calls_begun = self.calls_begun.saturating_add(1);
        id
    }
}
