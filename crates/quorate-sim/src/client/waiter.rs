//! A lock in the default mode: waiting in line on the nodes, and what they push.

use quorate_core::{
    command::{Command, Owner, Reply},
    contend::{Contend, Mode, Outcome, Output, Said, Saying},
    line::{Ask, Extend, News, Place, Push, Speaker, Yield, owed_until},
    moment::Moment,
    mutant::{self, Mutant},
    quorum::NodeSet,
    terms::Terms,
};
use std::{sync::Arc, time::Duration};

use super::{
    Client,
    round::{Asked, Fenced},
};
use crate::{
    check::Promise,
    event::Due,
    net::{Waiting, Whose},
    trace::{self, Scene},
    world::Env,
};

/// One attempt in line.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) id: u32,
    lock: usize,
    is_shared: bool,
    terms: Terms,
    place: Place,
    /// The owner of each life; the last one is that of today.
    owners: Vec<Owner>,
    machine: Contend,
    /// Who waits for the outcome, if somebody still does.
    task: Option<usize>,
    asked_at: Moment,
    planned_at: Option<Moment>,
    /// Nodes that have answered today's owner, without the machine's counting.
    answered: NodeSet,
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
        let terms = self.terms(env, ttl_ms);
        let now = self.now(env);
        let place = Place { ticket: self.next_ticket(env), ttl_ms, client: self.id };
        let up = self.nodes_up(env);
        let machine = Contend::start(terms, env.nodes.len(), up, mode, now);
        let machine = if is_shared { machine.shared() } else { machine };
        let id = self.next_id();
        let owner = self.place_owner(&place, is_shared);
        if matches!(mode, Mode::Wait(_)) && env.cut_off != Some(self.number) {
            env.check.order.stand(env.now, (self.number, id), lock, place.ticket);
        }
        let waiter = Waiter {
            id,
            lock,
            is_shared,
            terms,
            place,
            owners: vec![owner],
            machine,
            task: Some(task),
            asked_at: now,
            planned_at: None,
            answered: NodeSet::EMPTY,
        };
        self.drive_waiter(env, waiter);
        id
    }

    pub(super) fn nodes_up(&self, env: &mut Env) -> NodeSet {
        let mut up = NodeSet::EMPTY;
        for node in 0..env.nodes.len() {
            if env.net.link(self.number, node).is_attached {
                up.insert(node);
            }
        }
        up
    }

    /// An owner that has a place in line, also one that takes over a lease.
    pub(super) fn next_place(&mut self, env: &Env, ttl_ms: u64, is_shared: bool) -> Owner {
        let place = Place { ticket: self.next_ticket(env), ttl_ms, client: self.id };
        self.place_owner(&place, is_shared)
    }

    fn place_owner(&mut self, place: &Place, is_shared: bool) -> Owner {
        self.sequence += 1;
        match is_shared {
            true => place.shared_owner(self.sequence),
            false => place.owner(self.sequence),
        }
    }

    /// The nodes' time as far as it is known, but never the same twice.
    fn next_ticket(&mut self, env: &Env) -> u64 {
        let now = self.now(env);
        let since =
            |(time_us, at): (u64, Moment)| time_us + now.saturating_since(at).as_micros() as u64;
        let time = self.node_time.map_or(0, since);
        let time = if env.settings.is_coarse { time / COARSE_US * COARSE_US } else { time };
        self.last_ticket = time.max(self.last_ticket + 1);
        self.last_ticket
    }

    pub(super) fn handle_waiter_reply(
        &mut self,
        env: &mut Env,
        (id, said, sent_at): (u32, Said, Moment),
        node: usize,
        command: Command,
        reply: Option<&Reply>,
    ) {
        if reply.is_none() && said.what == Saying::Leave {
            self.owe_release(env, node, command);
        }
        let now = self.now(env);
        let Some(mut waiter) = self.take_waiter(id) else { return };
        if said.life == waiter.machine.life() && reply.is_some() {
            waiter.answered.insert(node);
        }
        waiter.machine.handle_reply(node, said, sent_at, reply, now);
        self.drive_waiter(env, waiter);
    }

    /// A release that was not answered is sent again, until its key is gone.
    fn owe_release(&self, env: &mut Env, node: usize, command: Command) {
        let until = owed_until(self.now(env), Duration::from_nanos(env.settings.longest_ttl()));
        self.owe(env, node, (command, until));
    }

    pub(super) fn handle_waiter_timeout(&mut self, env: &mut Env, id: u32) {
        let now = self.now(env);
        let Some(mut waiter) = self.take_waiter(id) else { return };
        if waiter.planned_at.is_some_and(|at| at <= now) {
            waiter.planned_at = None;
        }
        waiter.machine.handle_timeout(now);
        self.drive_waiter(env, waiter);
    }

    /// A connection came up: those who wait ask on it.
    pub(super) fn tell_waiters(&mut self, env: &mut Env, node: usize, is_up: bool) {
        let now = self.now(env);
        for id in self.waiters.iter().map(|waiter| waiter.id).collect::<Vec<_>>() {
            let Some(mut waiter) = self.take_waiter(id) else { continue };
            if is_up {
                waiter.machine.handle_up(node, now);
            } else {
                waiter.machine.handle_down(node);
            }
            self.drive_waiter(env, waiter);
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
        let is_of = |waiter: &Waiter| {
            waiter.owners.get(waiter.machine.life() as usize) == Some(&push.owner)
        };
        if let Some(index) = self.waiters.iter().position(is_of) {
            let mut waiter = self.waiters.swap_remove(index);
            let life = waiter.machine.life();
            waiter.machine.handle_push(node, life, push.news, push.fence, now);
            self.drive_waiter(env, waiter);
        } else if !self.is_ours(&push.owner, push.news)
            && mutant::current() != Some(Mutant::OrphansKept)
        {
            // Nobody wants it any more.
            let Push { name, owner, .. } = push;
            let command = Command::Release { name, owner, yields: None };
            let waiting = Waiting { whose: Whose::Nobody, command };
            self.send(env, node, waiting);
        }
    }

    /// Whether somebody holds as this owner, or is about to take over a lease as it: what nodes
    /// tell about that is no news. What is asked for may be a lease that others hold by now.
    fn is_ours(&self, owner: &Owner, news: News) -> bool {
        news == News::Inquired
            || self.held.iter().any(|held| held.owner == *owner)
            || self.is_adopting(owner)
    }

    /// The caller has gone.
    pub(super) fn abandon_waiter(&mut self, env: &mut Env, id: u32) {
        let Some(mut waiter) = self.take_waiter(id) else { return };
        waiter.task = None;
        waiter.machine.handle_abandon();
        self.drive_waiter(env, waiter);
    }

    fn take_waiter(&mut self, id: u32) -> Option<Waiter> {
        let index = self.waiters.iter().position(|waiter| waiter.id == id)?;
        Some(self.waiters.swap_remove(index))
    }

    /// Does what the machine says until it waits, then tells the task.
    fn drive_waiter(&mut self, env: &mut Env, mut waiter: Waiter) {
        let wait_until = loop {
            match waiter.machine.poll_output() {
                Output::Say { node, said } => self.say(env, &mut waiter, node, said),
                Output::Wait { until } => break Some(until),
                Output::Idle => break None,
            }
        };
        if let Some(until) = wait_until
            && waiter.planned_at.is_none_or(|planned| until < planned)
        {
            waiter.planned_at = Some(until);
            self.plan_at(env, until, Due::Waiter(waiter.id));
        }
        match waiter.machine.outcome() {
            None => self.waiters.push(waiter),
            Some(outcome) => self.end_wait(env, waiter, outcome),
        }
    }

    fn say(&mut self, env: &mut Env, waiter: &mut Waiter, node: usize, said: Said) {
        while waiter.owners.len() <= said.life as usize {
            let owner = self.place_owner(&waiter.place, waiter.is_shared);
            waiter.owners.push(owner);
            waiter.answered = NodeSet::EMPTY;
        }
        let name = env.locks[waiter.lock].clone();
        let owner = waiter.owners[said.life as usize].clone();
        let session = env.net.link(self.number, node).session;
        let speaker = Speaker { client: self.id, session };
        let command = match said.what {
            Saying::Ask { is_waiting, is_known } => {
                Command::Acquire { speaker, ask: Ask { name, owner, is_waiting, is_known } }
            }
            Saying::Yield(fence) | Saying::Doubt(fence) => {
                Command::Release { name, owner, yields: Some(Yield { fence, speaker }) }
            }
            Saying::Leave => Command::Release { name, owner, yields: None },
            Saying::Confirm(fence) => {
                let ttl_ms = waiter.terms.ttl_ms();
                let entry = Extend { name, owner, fence, ttl_ms, may_heal: false };
                Command::Extend { speaker, entries: Arc::new([entry]) }
            }
        };
        let whose = Whose::Waiter(waiter.id, said, self.now(env));
        let waiting = Waiting { whose, command: command.clone() };
        if !env.net.link(self.number, node).is_attached || !self.send(env, node, waiting) {
            if said.what == Saying::Leave {
                self.owe_release(env, node, command);
            }
            waiter.machine.handle_reply(node, said, self.now(env), None, self.now(env));
        }
    }

    fn end_wait(&mut self, env: &mut Env, waiter: Waiter, outcome: Outcome) {
        env.check.order.step_out((self.number, waiter.id));
        let Some(task) = waiter.task else { return };
        let owner = waiter.owners.last().cloned().expect("a waiter has an owner");
        let asked = Asked {
            lock: waiter.lock,
            owner,
            terms: waiter.terms,
            from: None,
            untaken: NodeSet::EMPTY,
            held_until: None,
            fenced: None,
        };
        env.trace.add(env.now, Some(waiter.lock), || Scene::Outcome {
            client: self.number,
            text: format!("{}: {}", trace::owner_name(&asked.owner), told(outcome)),
        });
        if outcome == Outcome::Contended && waiter.answered.len() < env.quorum() {
            let (lock, owner) = (Some(waiter.lock), trace::owner_name(&asked.owner));
            let text = "contended although no majority has answered".to_owned();
            env.check.report_owner(env.now, Promise::Reason, lock, owner, text);
        }
        match outcome {
            Outcome::Held { valid_until, fence } => {
                let fenced = Some(Fenced { fence, may_heal: true });
                let asked = Asked { fenced, ..asked };
                self.win(env, task, asked, waiter.asked_at, valid_until);
            }
            Outcome::Contended | Outcome::NoQuorum | Outcome::Abandoned => self.think(env, task),
        }
    }
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
