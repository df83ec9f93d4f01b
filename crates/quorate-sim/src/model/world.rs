//! The world around the clients: nodes, connections, time, and what goes wrong.

use std::sync::Arc;

use quorate_core::{moment::Moment, mutant, name::Name, quorum::majority, terms::Terms};
use stateright::{Model, Path, Property};

use super::{
    claims::CLAIMS,
    client::Client,
    desk::{Desk, Move},
    judge::{self, Claim, Found, Judged},
    link::Answer,
    settings::{Beginning, Settings},
    state::State,
    trace,
};

/// The rules of one world, for the checker.
#[derive(Debug)]
pub(super) struct World {
    settings: Settings,
    found: Found,
    terms: Terms,
    name: Name,
}

/// One step. Clients and nodes are numbers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Step {
    /// Time passes, on all clocks.
    Tick,
    /// A client does something.
    Client(usize, Move),
    /// A node runs the next request of a client.
    Run(usize, usize),
    /// A node runs the next request of a connection that broke.
    RunStale(usize, usize, usize),
    /// A client reads the next answer of a node.
    Receive(usize, usize),
    /// A client crashes. What it has sent may still run.
    Crash(usize),
    /// The connection of a client to a node breaks.
    Break(usize, usize),
    /// The key on a node goes before its time.
    Vanish(usize),
    /// A node forgets everything. If it restarts its connections break as well: that is a break.
    Restart(usize),
}

impl World {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            terms: settings.clocks.terms(),
            name: Name::parse("l", "").expect("a valid name"),
            found: Found::default(),
            settings,
        }
    }

    pub(super) fn ttl_ms(&self) -> u64 {
        self.terms.ttl_ms()
    }

    /// The clients are alike if each may do the same. Then the one that starts first can be the
    /// first one, the next one the second, and so on: every other order is this one with the
    /// clients renumbered, and no promise names a client.
    fn may_start(&self, state: &State, client: usize) -> bool {
        let attempts = &self.settings.attempts;
        let are_alike = attempts.iter().all(|number| *number == attempts[0]);
        !are_alike || state.clients[..client].iter().all(|client| client.has_started())
    }

    /// The steps before the search begins.
    fn opening(&self) -> Vec<Step> {
        let nodes = self.settings.nodes;
        let (first, others) = (0..majority(nodes), majority(nodes)..nodes);
        let votes = first.flat_map(|node| [Step::Run(0, node), Step::Receive(0, node)]);
        let held = std::iter::once(Step::Client(0, Move::Start)).chain(votes);
        let renewed = [Step::Tick, Step::Client(0, Move::Renew), Step::Client(1, Move::Start)];
        match self.settings.beginning {
            Beginning::Idle => Vec::new(),
            Beginning::Held => held.collect(),
            Beginning::Renewing => {
                held.chain(renewed).chain(others.map(|node| Step::Run(1, node))).collect()
            }
        }
    }

    fn desk(&self, now: Moment) -> Desk<'_> {
        let Self { terms, name, settings, .. } = self;
        Desk { terms: *terms, nodes: settings.nodes, name, now, sent: Vec::new() }
    }

    /// Lets a client do something, and puts on the network what it sends.
    fn with_client(
        &self,
        state: &mut State,
        number: usize,
        act: impl FnOnce(&mut Client, &mut Desk<'_>),
    ) {
        let mut desk = self.desk(state.client_now());
        act(Arc::make_mut(&mut state.clients[number]), &mut desk);
        for (node, request) in desk.sent {
            state.link_mut(number, node).requests.push_back(request);
        }
    }

    fn apply(&self, state: &mut State, step: Step) {
        let node_now = state.node_now();
        match step {
            Step::Tick => {
                state.ticks += 1;
                let now = state.node_now();
                for node in &mut state.nodes {
                    Arc::make_mut(node).look(now, &self.name);
                }
            }
            Step::Client(client, step) => {
                match step {
                    Move::Abandon => state.left.abandons -= 1,
                    Move::Renew => state.left.renewals -= 1,
                    Move::Start | Move::Accept | Move::Release | Move::GiveUp(_) => {}
                }
                self.with_client(state, client, |client, desk| client.act(step, desk));
            }
            Step::Run(client, node) => {
                let next = state.link_mut(client, node).requests.pop_front();
                let Some(request) = next else { return };
                let reply = state.node_mut(node).run(node_now, &self.name, &request.command);
                state.link_mut(client, node).answers.push_back(Answer { request, reply });
            }
            Step::RunStale(client, node, queue) => {
                if let Some(request) = state.link_mut(client, node).pop_stale(queue) {
                    state.node_mut(node).run(node_now, &self.name, &request.command);
                }
            }
            Step::Receive(client, node) => {
                let next = state.link_mut(client, node).answers.pop_front();
                let Some(answer) = next else { return };
                self.with_client(state, client, |client, desk| client.receive(node, &answer, desk));
            }
            Step::Crash(client) => {
                state.left.crashes -= 1;
                let now = state.client_now();
                Arc::make_mut(&mut state.clients[client]).crash(now);
                (0..self.settings.nodes).for_each(|node| drop(state.link_mut(client, node).cut()));
            }
            Step::Break(client, node) => {
                state.left.breaks -= 1;
                let requests = state.link_mut(client, node).cut();
                self.with_client(state, client, |client, desk| {
                    client.handle_cut(node, requests, desk);
                });
            }
            Step::Vanish(node) => {
                state.left.vanishings -= 1;
                state.node_mut(node).lose_key(node_now, &self.name);
            }
            Step::Restart(node) => {
                state.left.restarts -= 1;
                state.node_mut(node).forget();
            }
        }
    }
}

impl Model for World {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        // The checker has threads of its own, and a mutant is switched on for one thread only.
        mutant::switch(self.settings.mutant);
        let mut state = State::new(&self.settings);
        for step in self.opening() {
            self.apply(&mut state, step);
            state.settle();
        }
        vec![state]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        steps.push(Step::Tick);
        for (number, client) in state.clients.iter().enumerate() {
            let moves = client.moves(state.client_now()).into_iter().filter(|it| match it {
                Move::Start => self.may_start(state, number),
                Move::Abandon => state.left.abandons > 0,
                Move::Renew => state.left.renewals > 0,
                Move::GiveUp(_) => self.settings.gives_up,
                Move::Release => self.settings.releases,
                Move::Accept => true,
            });
            steps.extend(moves.map(|it| Step::Client(number, it)));
            if state.left.crashes > 0 && client.is_busy() {
                steps.push(Step::Crash(number));
            }
            for (node, link) in state.links[number].iter().enumerate() {
                if !link.requests.is_empty() {
                    steps.push(Step::Run(number, node));
                }
                if !link.answers.is_empty() {
                    steps.push(Step::Receive(number, node));
                }
                let queues = 0..link.stale.len();
                steps.extend(queues.map(|queue| Step::RunStale(number, node, queue)));
                // A break of an idle connection changes nothing that anyone notices.
                if state.left.breaks > 0 && !link.is_idle() {
                    steps.push(Step::Break(number, node));
                }
            }
        }
        for (number, node) in state.nodes.iter().enumerate().filter(|(_, it)| it.key().is_some()) {
            if state.left.vanishings > 0 && node.key().is_some() {
                steps.push(Step::Vanish(number));
            }
            if state.left.restarts > 0 {
                steps.push(Step::Restart(number));
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
        trace::lines(path)
    }
}
