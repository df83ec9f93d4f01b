//! A lock in the default mode: the core's waiter, driven by virtual time and watched by the judge.

use quorate_core::{
    client::{
        Debt,
        owners::{OwnerKind, Owners},
        registry::Route,
        waiter::{Output, Waiter as Machine, Want},
    },
    command::{ClientId, Command, Owner, Reply},
    contend::{Mode, Outcome, Said, Saying},
    line::{FencedLease, News, Place, Push, Speaker, Standing, owed_until},
    moment::Moment,
    quorum::NodeSet,
};
use std::time::Duration;

use super::{Client, leases::Times, round::Asked};
use crate::{
    check::Promise,
    clock::Nanos,
    event::Due,
    net::{Waiting, Whose},
    trace::{self, Scene},
    world::Env,
};

/// One call.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) id: u32,
    lock: usize,
    machine: Machine,
    came_at: Nanos,
    /// Who waits for the outcome, if somebody still does.
    task: Option<usize>,
    planned_at: Option<Moment>,
    /// Nodes that have answered today's owner, without the machine's counting.
    answered: NodeSet,
    /// Commands that are not answered.
    open: u32,
    /// The judge looks at its place in the queue.
    is_standing: bool,
    is_over: bool,
}

/// What a command was about: which waiter, what it said, and when.
pub(super) type Question = (u32, Said, Moment);

/// How questions leave: each by itself, or with those of others who wait.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Sending {
    AtOnce,
    Gathered,
}

impl Owners for Client {
    fn client(&self) -> ClientId {
        self.id
    }

    fn draw_ticket(&mut self, came_at: Moment) -> Option<u64> {
        let ticket = self.tickets.draw(came_at)?;
        Some(if self.is_coarse { self.coarse(ticket) } else { ticket })
    }

    fn next_owner(&mut self, place: &Place, kind: &OwnerKind) -> Owner {
        self.sequence += 1;
        match kind.is_shared {
            true => place.shared_owner(self.sequence),
            false => place.owner(self.sequence),
        }
    }
}

impl Client {
    /// Starts to contend for a lock. The task hears of the outcome.
    pub(super) fn contend(
        &mut self,
        env: &mut Env,
        (lock, ttl_ms, is_shared): (usize, u64, bool),
        mode: Mode,
        task: usize,
    ) -> u32 {
        let (terms, now) = (self.terms(env, ttl_ms), self.now(env));
        let (name, up) = (env.locks[lock].clone(), self.nodes_up(env));
        let kind = OwnerKind { is_shared, ..OwnerKind::default() };
        let want = Want { name: name.clone(), terms, kind, mode, max_ttl: max_ttl(env) };
        let machine = Machine::start(want, env.nodes.len(), up, self, now);
        let id = self.next_id();
        self.registry.wait(machine.owner(), &name, id);
        let waiter = Waiter {
            id,
            lock,
            machine,
            came_at: env.now,
            task: Some(task),
            planned_at: None,
            answered: NodeSet::EMPTY,
            open: 0,
            is_standing: false,
            is_over: false,
        };
        self.drive_waiter(env, waiter, Sending::AtOnce);
        self.arm_waiters(env);
        id
    }

    /// The judge looks at the order of waiters.
    fn stand(&self, env: &mut Env, waiter: &mut Waiter) {
        let is_looked_at =
            waiter.machine.machine().is_waiting() && env.cut_off != Some(self.number);
        if let Some(ticket) = waiter.machine.ticket().filter(|_| is_looked_at)
            && !std::mem::replace(&mut waiter.is_standing, true)
        {
            let who = (self.number, waiter.id);
            env.check.order.stand(waiter.came_at, who, waiter.lock, ticket);
        }
    }

    pub(super) fn nodes_up(&self, env: &mut Env) -> NodeSet {
        let mut up = NodeSet::EMPTY;
        for node in 0..env.nodes.len() {
            if env.net.link(self.number, node).votes() {
                up.insert(node);
            }
        }
        up
    }

    /// An owner that has a place in line, also one that takes over a lease.
    pub(super) fn next_place(&mut self, env: &Env, ttl_ms: u64, is_shared: bool) -> Owner {
        let ticket = self.draw_ticket(self.now(env)).unwrap_or(0);
        let kind = OwnerKind { is_shared, ..OwnerKind::default() };
        self.next_owner(&Place { ticket, ttl_ms, client: self.id }, &kind)
    }

    /// The same but for the last digits, in which those of one client differ.
    const fn coarse(&mut self, ticket: u64) -> u64 {
        let coarse = ticket / COARSE_US * COARSE_US;
        let is_next = self.last_coarse / COARSE_US * COARSE_US == coarse;
        self.last_coarse = if is_next { self.last_coarse + 1 } else { coarse };
        self.last_coarse
    }

    pub(super) fn handle_waiter_reply(
        &mut self,
        env: &mut Env,
        (id, said, sent_at): Question,
        node: usize,
        reply: Option<&Reply>,
    ) {
        let now = self.now(env);
        let Some(mut waiter) = self.take_waiter(id) else { return };
        waiter.open -= 1;
        if said.life == waiter.machine.machine().life() && reply.is_some() {
            waiter.answered.insert(node);
        }
        let debt = waiter.machine.handle_answer(node, said, sent_at, reply, now);
        self.owe_release(env, node, debt);
        self.drive_waiter(env, waiter, Sending::AtOnce);
        self.arm_waiters(env);
    }

    /// The answer to the heartbeats of several waiters.
    pub(super) fn handle_heartbeat(
        &mut self,
        env: &mut Env,
        heartbeat: u32,
        node: usize,
        reply: Option<&Reply>,
    ) {
        let Some(heartbeat) = self.asked.remove(&heartbeat) else { return };
        for (question, reply) in heartbeat.answers(reply) {
            // That it is full is an error like any other.
            let reply = reply.filter(|reply| **reply != Reply::Full);
            self.handle_waiter_reply(env, *question, node, reply);
        }
    }

    /// A release that was not answered is sent again, until its key is gone.
    pub(super) fn owe_release(&self, env: &mut Env, node: usize, debt: Option<Debt>) {
        if let Some(Debt { release, until }) = debt {
            self.owe(env, node, (release, until));
        }
    }

    /// The next timer of all waiters: those who are due at the same time ask together.
    pub(super) fn handle_waiters_timeout(&mut self, env: &mut Env) {
        let now = self.now(env);
        if self.waiters_armed_at.is_some_and(|armed_at| armed_at <= now) {
            self.waiters_armed_at = None;
        }
        let is_due = |waiter: &&Waiter| waiter.planned_at.is_some_and(|at| at <= now);
        for id in self.waiters.iter().filter(is_due).map(|it| it.id).collect::<Vec<_>>() {
            let Some(mut waiter) = self.take_waiter(id) else { continue };
            waiter.planned_at = None;
            waiter.machine.handle_timeout(now);
            self.drive_waiter(env, waiter, Sending::Gathered);
        }
        self.send_heartbeats(env);
        self.arm_waiters(env);
    }

    /// A connection came up, or went down: those who wait ask on it.
    pub(super) fn tell_waiters(&mut self, env: &mut Env, node: usize, is_up: bool) {
        let now = self.now(env);
        let mut ids: Vec<u32> = self.waiters.iter().map(|waiter| waiter.id).collect();
        ids.sort_unstable();
        for id in ids {
            let Some(mut waiter) = self.take_waiter(id) else { continue };
            if is_up {
                waiter.machine.handle_up(node, now);
                self.drive_waiter(env, waiter, Sending::Gathered);
            } else {
                waiter.machine.handle_down(node, false);
                self.drive_waiter(env, waiter, Sending::AtOnce);
            }
        }
        self.send_heartbeats(env);
        self.arm_waiters(env);
    }

    fn send_heartbeats(&mut self, env: &mut Env) {
        for node in 0..env.nodes.len() {
            let link = env.net.link(self.number, node);
            let (speaker, votes) =
                (Speaker { client: self.id, session: link.session }, link.votes());
            for heartbeat in self.heartbeats[node].take(speaker) {
                let id = self.next_id();
                let waiting =
                    Waiting { whose: Whose::Heartbeat(id), command: heartbeat.command.clone() };
                self.asked.insert(id, heartbeat);
                if !votes || !self.send(env, node, waiting) {
                    self.handle_heartbeat(env, id, node, None);
                }
            }
        }
    }

    /// A node tells something unasked.
    pub(crate) fn handle_push(&mut self, env: &mut Env, node: usize, push: Push) {
        let now = self.now(env);
        let lock = env.locks.iter().position(|name| *name == push.name);
        env.trace.add(env.now, lock, || Scene::Pushed {
            client: self.number,
            node,
            text: format!("{:?} {} {}", push.news, trace::owner_name(&push.owner), push.fence),
        });
        if !push.counts_in(env.net.link(self.number, node).session) {
            self.close(env, node);
            return;
        }
        if push.news == News::Granted {
            env.check.order.hand_on(&push.owner);
        }
        match self.registry.route(&push) {
            Route::Waiter(id) => {
                let Some(mut waiter) = self.take_waiter(id) else { return };
                waiter.machine.handle_push(node, &push, now);
                self.drive_waiter(env, waiter, Sending::AtOnce);
                self.arm_waiters(env);
            }
            Route::Ignore => {}
            Route::Release => {
                // Nobody wants it any more.
                let Push { name, owner, .. } = push;
                let command = Command::Release { name, owner, yields: None };
                let until = owed_until(now, max_ttl(env));
                self.send(env, node, Waiting { whose: Whose::Debt(until), command });
            }
        }
    }

    /// The caller has gone.
    pub(super) fn abandon_waiter(&mut self, env: &mut Env, id: u32) {
        let Some(mut waiter) = self.take_waiter(id) else { return };
        waiter.task = None;
        waiter.machine.handle_abandon();
        self.drive_waiter(env, waiter, Sending::AtOnce);
        self.arm_waiters(env);
    }

    fn take_waiter(&mut self, id: u32) -> Option<Waiter> {
        let index = self.waiters.iter().position(|waiter| waiter.id == id)?;
        Some(self.waiters.swap_remove(index))
    }

    fn arm_waiters(&mut self, env: &mut Env) {
        if let Some(next) = self.waiters.iter().filter_map(|waiter| waiter.planned_at).min()
            && self.waiters_armed_at.is_none_or(|armed_at| next < armed_at)
        {
            self.waiters_armed_at = Some(next);
            self.plan_at(env, next, Due::Waiters);
        }
    }

    /// Does what the machine says until it waits, then tells the task.
    fn drive_waiter(&mut self, env: &mut Env, mut waiter: Waiter, sending: Sending) {
        waiter.planned_at = loop {
            match waiter.machine.poll_output(self) {
                Output::Wait(owner) => {
                    waiter.answered = NodeSet::EMPTY;
                    self.registry.wait(&owner, &env.locks[waiter.lock], waiter.id);
                }
                Output::Hold(owner) => {
                    self.registry.hold(&owner);
                    let removed = self.heartbeats.iter_mut().map(|it| it.remove(&owner));
                    waiter.open -= removed.sum::<usize>() as u32;
                }
                Output::Forget(owner) => self.registry.forget(&owner),
                Output::Send { node, said, command } => {
                    self.stand(env, &mut waiter);
                    self.send_said(env, &mut waiter, node, (said, command), sending);
                }
                Output::Until(until) => break Some(until),
                Output::Idle => break None,
            }
        };
        let outcome = waiter.machine.machine().outcome();
        let ended = outcome.filter(|_| !std::mem::replace(&mut waiter.is_over, outcome.is_some()));
        let task = waiter.task.take_if(|_| ended.is_some());
        let told = ended.map(|outcome| self.note_end_of_wait(env, &waiter, outcome));
        if waiter.open > 0 || outcome.is_none() {
            self.waiters.push(waiter);
        }
        if let (Some(task), Some((asked, sent_at)), Some(outcome)) = (task, told, ended) {
            self.end_wait(env, task, asked, sent_at, outcome);
        }
    }

    fn send_said(
        &mut self,
        env: &mut Env,
        waiter: &mut Waiter,
        node: usize,
        (said, mut command): (Said, Command),
        sending: Sending,
    ) {
        let now = self.now(env);
        let question = (waiter.id, said, now);
        match &command {
            Command::Acquire { ask, .. } if ask.is_waiting && sending == Sending::Gathered => {
                let (name, owner) = (ask.name.clone(), ask.owner.clone());
                self.heartbeats[node].add(Standing { name, owner }, question);
                waiter.open += 1;
                return;
            }
            Command::Release { owner, yields: None, .. } => {
                waiter.open -= self.heartbeats[node].remove(owner) as u32;
            }
            _ => {}
        }
        let link = env.net.link(self.number, node);
        command.set_session(link.session);
        let is_asking = matches!(said.what, Saying::Ask { .. });
        let is_open = if is_asking { link.votes() } else { link.is_attached };
        let waiting = Waiting { whose: Whose::Waiter(waiter.id, said, now), command };
        if is_open && self.send(env, node, waiting) {
            waiter.open += 1;
        } else {
            let debt = waiter.machine.handle_unsent(node, said, now);
            self.owe_release(env, node, debt);
        }
    }

    fn note_end_of_wait(
        &self,
        env: &mut Env,
        waiter: &Waiter,
        outcome: Outcome,
    ) -> (Asked, Moment) {
        env.check.order.step_out((self.number, waiter.id));
        let (owner, lock) = (waiter.machine.owner().clone(), waiter.lock);
        env.trace.add(env.now, Some(lock), || Scene::Outcome {
            client: self.number,
            text: format!("{}: {}", trace::owner_name(&owner), told(outcome)),
        });
        if outcome == Outcome::Contended && waiter.answered.len() < env.quorum() {
            let text = "contended although no majority has answered".to_owned();
            let owner = trace::owner_name(&owner);
            env.check.report_owner(env.now, Promise::Reason, Some(lock), owner, text);
        }
        let (terms, untaken) = (waiter.machine.want().terms, waiter.machine.untaken());
        let (from, held_until, fenced) = (None, None, None);
        let asked = Asked { lock, owner, terms, from, untaken, held_until, fenced };
        (asked, waiter.machine.came_at())
    }

    fn end_wait(
        &mut self,
        env: &mut Env,
        task: usize,
        asked: Asked,
        sent_at: Moment,
        outcome: Outcome,
    ) {
        match outcome {
            Outcome::Held { valid_until, fence } => {
                let fenced = Some(FencedLease::won(fence));
                let times = Times { sent_at, granted_at: asked.terms.granted_at(valid_until) };
                self.win(env, task, Asked { fenced, ..asked }, times, valid_until);
            }
            Outcome::Contended | Outcome::NoQuorum | Outcome::Abandoned => self.think(env, task),
        }
    }
}

fn max_ttl(env: &Env) -> Duration {
    Duration::from_nanos(env.settings.longest_ttl())
}

const fn told(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Held { .. } => "won",
        Outcome::Contended => "contended",
        Outcome::NoQuorum => "no quorum",
        Outcome::Abandoned => "abandoned",
    }
}

/// Coarse tickets are often the same for two clients.
const COARSE_US: u64 = 50_000;
