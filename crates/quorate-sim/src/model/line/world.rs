//! The world around the clients: nodes, connections, time, and what goes wrong.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
};

use quorate_core::{
    command::{Command, Reply, Stay},
    contend::Saying,
    line::{Ask, Extend, Place, Yield},
    moment::Moment,
    mutant,
    name::Name,
    terms::Terms,
};
use stateright::{Model, Path, Property};

use super::{
    claims::CLAIMS,
    client::{Client, Desk, Doing},
    link::{Heard, Phase, Request, What},
    memo::{Change, Memo},
    node::{self, Node, SESSION_MS, speaker},
    settings::Settings,
    state::State,
    step::Step,
    trace,
};
use crate::model::judge::{self, Claim, Found, Judged};

/// The rules of one world, for the checker.
#[derive(Debug)]
pub(super) struct World {
    pub(super) settings: Settings,
    pub(super) terms: Terms,
    pub(super) name: Name,
    found: Found,
    memo: Memo,
    /// The prints of states from which somebody gets the lock.
    pub(super) good: Mutex<HashSet<u64>>,
}

impl World {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            terms: settings.terms(),
            name: Name::parse("l", "").expect("a valid name"),
            found: Found::default(),
            memo: Memo::default(),
            good: Mutex::default(),
            settings,
        }
    }

    pub(super) fn apply(&self, state: &mut State, step: Step) {
        match step {
            Step::Tick => {
                state.ticks += 1;
                for node in 0..state.nodes.len() {
                    self.change(state, node, Change::Look, |_| {});
                }
            }
            Step::Start(client, ticket) => {
                let (floor, beats) = (state.last_fence(), self.settings.beats[client]);
                self.act(state, client, |it, desk| it.start(ticket, beats, floor, desk));
            }
            Step::Beat(client) => {
                let it = state.client_mut(client);
                it.beats_left = it.beats_left.saturating_sub(1);
                self.beat(state, client);
            }
            Step::Release(client) => self.act(state, client, Client::release),
            Step::Renew(client) => self.act(state, client, Client::renew),
            Step::Cancel(client) => {
                state.left.cancels -= 1;
                self.act(state, client, Client::cancel);
            }
            Step::Die(client) => self.die(state, client),
            Step::Run(client, node) => self.run(state, client, node),
            Step::RunStale(client, node, queue) => self.run_stale(state, client, node, queue),
            Step::Receive(client, node) => {
                if let Some(heard) = state.link_mut(client, node).answers.pop_front() {
                    self.receive(state, client, node, &heard);
                }
            }
            Step::ReceivePush(client, node) => {
                if let Some(heard) = state.link_mut(client, node).pushes.pop_front() {
                    self.receive(state, client, node, &heard);
                }
            }
            Step::Break(client, node) => {
                state.left.breaks -= 1;
                self.cut(state, client, node);
            }
            Step::CloseOld(client, node) => {
                let link = state.link_mut(client, node);
                link.close_old();
                if !link.is_heard {
                    let change = Change::HangUp(client);
                    self.change(state, node, change, |node| node.hang_up(client));
                }
            }
            Step::Connect(client, node) => {
                let now = state.client_now();
                state.link_mut(client, node).connect(now);
            }
            Step::Lapse(client, node) => {
                if !state.clients[client].is_dead() {
                    state.left.lapses -= 1;
                }
                let link = state.link_mut(client, node);
                link.is_known = false;
                let session = link.session;
                let now = state.node_now();
                let change = Change::Lapse(client, session);
                self.change(state, node, change, |node| node.lapse(client, session, now));
            }
            Step::Vanish(node) => {
                state.left.vanishings -= 1;
                self.change(state, node, Change::LoseKey, |node| node.lose_key(&self.name));
            }
            Step::Expire(node) => {
                self.change(state, node, Change::LoseKey, |node| node.lose_key(&self.name));
            }
        }
    }

    /// The timer strikes. Where time stands still it may do so at any moment, so that it counts as
    /// due.
    pub(super) fn beat(&self, state: &mut State, client: usize) {
        let Doing::Waiting(waiter) = &state.clients[client].doing else { return };
        let now = waiter.due.max(state.client_now());
        self.act_at(state, client, now, Client::beat);
    }

    /// Something happens to a node that nobody hears of.
    fn change(&self, state: &mut State, node: usize, change: Change, make: impl FnOnce(&mut Node)) {
        let now = state.node_now();
        let changed = self.memo.change(&state.nodes[node], now, change, &self.name, |node| {
            make(node);
            (None, Vec::new())
        });
        state.nodes[node] = changed.node;
    }

    fn act(&self, state: &mut State, number: usize, act: impl FnOnce(&mut Client, &mut Desk)) {
        self.act_at(state, number, state.client_now(), act);
    }

    /// Lets a client do something, and puts on the network what it sends.
    fn act_at(
        &self,
        state: &mut State,
        number: usize,
        now: Moment,
        act: impl FnOnce(&mut Client, &mut Desk),
    ) {
        let Settings { nodes, renewals, .. } = self.settings;
        let is_shared = self.settings.is_shared(number);
        let up = state.up(number);
        let (terms, sent, owed, won) = (self.terms, Vec::new(), Vec::new(), None);
        let mut desk = Desk { terms, nodes, now, renewals, is_shared, up, sent, owed, won };
        let floor = state.clients[number].floor;
        act(state.client_mut(number), &mut desk);
        for (node, request) in desk.sent {
            let request = request.at(state.client_now());
            state.link_mut(number, node).requests.push_back(request);
        }
        for (node, mark) in desk.owed {
            state.link_mut(number, node).owed.push(mark);
        }
        // Among those who hold together a fence orders nothing.
        if let Some(fence) = desk.won.filter(|_| !is_shared) {
            state.note(fence, floor, self.settings.vanishings > 0);
        }
    }

    fn die(&self, state: &mut State, client: usize) {
        state.left.deaths -= 1;
        state.client_mut(client).die();
        for node in 0..self.settings.nodes {
            let link = state.link_mut(client, node);
            if link.phase != Phase::Down {
                link.cut();
            }
            link.owed.clear();
        }
    }

    fn cut(&self, state: &mut State, client: usize, node: usize) {
        let unanswered = state.link_mut(client, node).cut();
        self.act(state, client, |it, desk| it.handle_down(node, &unanswered, desk));
    }

    fn run(&self, state: &mut State, client: usize, node: usize) {
        let link = state.link_mut(client, node);
        let session = link.session;
        let Some(request) = link.requests.pop_front() else { return };
        if request.what == What::Attach {
            (link.is_heard, link.is_known) = (true, true);
        }
        if let Some(reply) = self.run_one(state, client, node, session, request) {
            state.link_mut(client, node).answers.push_back(Heard::Reply(request, reply));
        }
    }

    fn run_stale(&self, state: &mut State, client: usize, node: usize, queue: usize) {
        let next = state.link_mut(client, node).pop_stale(queue);
        let Some((session, request)) = next else { return };
        if request.what == What::Attach {
            let link = state.link_mut(client, node);
            (link.is_half_open, link.is_known) = (true, true);
        }
        self.run_one(state, client, node, session, request);
    }

    /// Runs a request, and puts on the network what the node has to tell others.
    fn run_one(
        &self,
        state: &mut State,
        client: usize,
        node: usize,
        session: u8,
        request: Request,
    ) -> Option<Reply> {
        let now = state.node_now();
        let change = Change::Run(client, session, Request { sent_at: Moment::ZERO, ..request });
        let changed = self.memo.change(&state.nodes[node], now, change, &self.name, |node| {
            if request.what == What::Attach {
                node.listen(client);
            }
            let reply = node.run(now, &self.command(client, session, request));
            (Some(self.without_noise(reply)), node.take_pushes())
        });
        state.nodes[node] = changed.node;
        for (client, heard) in changed.pushes {
            let link = state.link_mut(client, node);
            if link.is_heard {
                match self.settings.is_unordered {
                    true => link.pushes.push_back(heard),
                    false => link.answers.push_back(heard),
                }
            }
        }
        changed.reply
    }

    /// When to poll is of no interest where the timer may strike at any moment, or never does.
    fn without_noise(&self, reply: Reply) -> Reply {
        let has_polls =
            self.settings.ticks.is_some() && self.settings.beats.iter().any(|beats| *beats > 0);
        match reply {
            Reply::Queued { fence, is_foreign, .. } if !has_polls => {
                Reply::Queued { fence, expires_in_ms: None, rank: None, is_foreign }
            }
            Reply::Attached { .. } => Reply::Attached { time_us: 0 },
            reply => reply,
        }
    }

    fn receive(&self, state: &mut State, client: usize, node: usize, heard: &Heard) {
        match heard {
            Heard::Reply(_, Reply::Stale) => {
                // Without a session that the node knows, a connection is of no use.
                self.act(state, client, |it, desk| it.receive(node, heard, desk));
                self.cut(state, client, node);
            }
            Heard::Reply(Request { what: What::Attach, .. }, _) => {
                let link = state.link_mut(client, node);
                link.phase = Phase::Up;
                let now = state.client_now();
                for mark in std::mem::take(&mut state.link_mut(client, node).owed) {
                    let request = Request { what: What::Say(Saying::Leave), mark, sent_at: now };
                    state.link_mut(client, node).requests.push_back(request.at(now));
                }
                self.act(state, client, |it, desk| it.handle_up(node, desk));
            }
            heard => self.act(state, client, |it, desk| it.receive(node, heard, desk)),
        }
    }

    fn command(&self, client: usize, session: u8, request: Request) -> Command {
        let speaker = speaker(client, session);
        let Request { what, mark, .. } = request;
        let name = self.name.clone();
        let ttl_ms = self.terms.ttl_ms();
        let place = Place { ticket: mark.ticket.into(), ttl_ms, client: speaker.client };
        let owner = match self.settings.is_shared(client) {
            true => place.shared_owner(node::number(mark)),
            false => place.owner(node::number(mark)),
        };
        let extend = |fence, may_heal| {
            let (name, owner) = (name.clone(), owner.clone());
            let entries = Arc::new([Extend { name, owner, fence, ttl_ms, may_heal }]);
            Command::Extend { speaker, entries }
        };
        match what {
            What::Attach => Command::Attach { speaker, stay: Stay::unguarded(SESSION_MS) },
            What::Renew(fence) => extend(fence, true),
            What::Say(Saying::Confirm(fence)) => extend(fence, false),
            What::Say(Saying::Ask { is_waiting, is_known }) => {
                Command::Acquire { speaker, ask: Ask { name, owner, is_waiting, is_known } }
            }
            What::Say(Saying::Yield(fence) | Saying::Doubt(fence)) => {
                Command::Release { name, owner, yields: Some(Yield { fence, speaker }) }
            }
            What::Say(Saying::Leave) => Command::Release { name, owner, yields: None },
        }
    }
}

impl Model for World {
    type State = State;
    type Action = Step;

    /// One for each choice of fences on the nodes; those with their nodes renumbered are the same.
    fn init_states(&self) -> Vec<State> {
        mutant::switch(self.settings.mutant);
        let choices = &self.settings.fences;
        let mut all: Vec<Vec<u8>> = vec![Vec::new()];
        for _ in 0..self.settings.nodes {
            let longer = |known: Vec<u8>| {
                let least = known.last().copied().unwrap_or(0);
                let more = choices.iter().filter(move |fence| **fence >= least);
                more.map(move |fence| known.iter().copied().chain([*fence]).collect())
                    .collect::<Vec<_>>()
            };
            all = all.into_iter().flat_map(longer).collect();
        }
        all.iter().map(|fences| State::new(&self.settings, fences, &self.name)).collect()
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        if self.settings.ticks.is_some() {
            steps.push(Step::Tick);
        }
        for client in 0..state.clients.len() {
            self.client_steps(state, client, steps);
            for node in 0..state.nodes.len() {
                self.link_steps(state, client, node, steps);
            }
        }
        for (number, node) in state.nodes.iter().enumerate() {
            let Some(key) = node.keys.first() else { continue };
            if state.left.vanishings > 0 {
                steps.push(Step::Vanish(number));
            } else if self.settings.ticks.is_none() && state.clients[key.client].is_dead() {
                steps.push(Step::Expire(number));
            }
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        mutant::switch(self.settings.mutant);
        let mut state = last.clone();
        self.apply(&mut state, step);
        state.settle();
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        judge::properties(self)
    }
}

impl Judged for World {
    type Settings = Settings;

    const CLAIMS: &'static [Claim<Self>] = &CLAIMS;

    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn found(&self) -> &Found {
        &self.found
    }

    fn told(&self, path: &Path<State, Step>) -> Vec<String> {
        trace::lines(self, path)
    }
}
