//! Clients and nodes as they are shipped, in an environment that is searched: connections, time and
//! faults.

use std::{collections::HashSet, sync::Mutex};

use quorate_core::{
    command::{Command, Reply, SessionTerms},
    mutant,
    name::Name,
    quorum::majority,
};
use stateright::{Model, Path, Property};

use super::{
    claims::CLAIMS,
    link::{Message, Phase, Request},
    member::{Input, Member, Rules},
    memo::{Change, Memo},
    node::{Node, SESSION_MS, sender},
    property::{self, Checked, Claim, Found},
    settings::{ANY_NUMBER, Beginning, Settings},
    state::{State, client_time, node_time},
    step::Step,
    trace,
};

/// One row, as stateright searches it.
#[derive(Debug)]
pub(super) struct ProductModel {
    pub(super) settings: Settings,
    pub(super) name: Name,
    rules: Vec<Rules>,
    found: Found,
    memo: Memo,
    /// The fingerprints of states from which a client gets the lock.
    pub(super) good: Mutex<HashSet<u64>>,
}

impl ProductModel {
    pub(super) fn new(settings: Settings) -> Self {
        let name = Name::parse("l", "").expect("a valid name");
        let rules = |number: usize| Rules {
            number,
            nodes: settings.nodes,
            name: name.clone(),
            terms: settings.terms(),
            is_classic: settings.is_classic(),
            kind: settings.kind(number),
            timeouts: settings.timeouts[number],
            renewals: settings.renewals,
            learns_late: settings.cancels > 0,
            is_still: settings.clocks.is_none(),
        };
        Self {
            rules: (0..settings.attempts.len()).map(rules).collect(),
            name,
            found: Found::default(),
            memo: Memo::default(),
            good: Mutex::default(),
            settings,
        }
    }

    pub(super) fn ttl_ms(&self) -> u64 {
        self.settings.terms().ttl_ms()
    }

    /// True if the client shares the lock, or is a writer that becomes a reader.
    pub(super) fn is_reader(&self, state: &State, client: usize) -> bool {
        self.settings.is_shared(client) || state.clients[client].notes.is_reader
    }

    pub(super) fn apply(&self, state: &mut State, step: Step) {
        match step {
            Step::Tick => self.tick(state),
            Step::Start(client, ticket) => {
                let floor = state.last_fence();
                self.act(state, client, Input::Start(ticket, floor));
            }
            Step::Accept(client) => self.act(state, client, Input::Accept),
            Step::Timeout(client) => self.act(state, client, Input::Timeout),
            Step::Release(client) => self.act(state, client, Input::Release),
            Step::Downgrade(client) => self.act(state, client, Input::Downgrade),
            Step::Renew(client) => {
                if state.left.renewals != ANY_NUMBER {
                    state.left.renewals -= 1;
                }
                self.act(state, client, Input::Renew);
            }
            Step::Cancel(client) => {
                state.left.cancels -= 1;
                self.act(state, client, Input::Cancel);
            }
            Step::Die(client) => self.die(state, client),
            Step::Run(client, node) => self.run(state, client, node),
            Step::RunStale(client, node, queue) => self.run_stale(state, client, node, queue),
            Step::Receive(client, node) => {
                if let Some(message) = state.link_mut(client, node).answers.pop_front() {
                    self.receive(state, client, node, message);
                }
            }
            Step::ReceivePush(client, node) => {
                if let Some(message) = state.link_mut(client, node).pushes.pop_front() {
                    self.receive(state, client, node, message);
                }
            }
            Step::Break(client, node) => {
                state.left.breaks -= 1;
                self.cut(state, client, node);
            }
            Step::CloseOld(client, node) => {
                let link = state.link_mut(client, node);
                link.close_old();
                if !link.is_subscribed {
                    let change = Change::HangUp(client);
                    self.change(state, node, change, |node| node.hang_up(client));
                }
            }
            Step::Connect(client, node) => state.link_mut(client, node).connect(),
            Step::Lapse(client, node) => self.lapse(state, client, node),
            Step::Vanish(node) => {
                state.left.vanishings -= 1;
                self.change(state, node, Change::LoseKey, |node| node.lose_key(&self.name));
            }
            Step::Forget(node) => {
                state.left.restarts -= 1;
                self.change(state, node, Change::Forget, Node::clear);
            }
            Step::Expire(node) => {
                self.change(state, node, Change::LoseKey, |node| node.lose_key(&self.name));
            }
        }
    }

    /// Delivers at once every message whose time of delivery has no effect. A push to a holder that
    /// is read after the release would send one more release, which changes nothing on a node.
    pub(super) fn settle(&self, state: &mut State) {
        let is_still = self.settings.clocks.is_none() && state.ticks == 0;
        let nodes = state.nodes.len();
        for at in 0..state.links.len() {
            let (client, node) = (at / nodes, at % nodes);
            let is_idle = |state: &State, message: &Message| {
                !state.clients[client].heeds(node, message, is_still)
            };
            loop {
                let link = &state.links[at];
                if let Some(idle) = link.answers.iter().position(|it| is_idle(state, it)) {
                    let message = state.link_mut(client, node).answers.remove(idle);
                    message.into_iter().for_each(|it| self.receive(state, client, node, it));
                } else if link.pushes.iter().any(|it| is_idle(state, it)) {
                    let member = state.clients[client].clone();
                    let link = state.link_mut(client, node);
                    link.pushes.retain(|it| member.heeds(node, it, is_still));
                } else {
                    break;
                }
            }
        }
    }

    fn tick(&self, state: &mut State) {
        state.ticks += 1;
        for node in 0..state.nodes.len() {
            self.change(state, node, Change::Tick, |_| {});
        }
        for client in 0..state.clients.len() {
            self.act(state, client, Input::Tick);
        }
    }

    /// Changes a node without a message to a client.
    fn change(&self, state: &mut State, node: usize, change: Change, make: impl FnOnce(&mut Node)) {
        let now = state.node_now();
        let changed = self.memo.change(&state.nodes[node], now, change, &self.name, |node| {
            make(node);
            (None, Vec::new())
        });
        state.nodes[node] = changed.node;
    }

    /// Gives an input to a client, and puts on the network what it sends.
    fn act(&self, state: &mut State, number: usize, input: Input) {
        let floor = state.clients[number].floor;
        let (clock, now) = (state.reading(), state.client_now());
        let member = &state.clients[number];
        let (member, out) = self.memo.act(member, &self.rules[number], clock, now, input);
        state.clients[number] = member;
        for (node, request) in &out.sent {
            state.link_mut(number, *node).requests.push_back(request.clone());
        }
        // The fences of readers are not ordered.
        if let Some(fence) = out.won.filter(|_| !self.settings.is_shared(number)) {
            match self.settings.is_entry(number) {
                true => state.note_entry(fence, floor),
                false => state.note(fence, floor, self.settings.vanishings > 0),
            }
        }
    }

    fn die(&self, state: &mut State, client: usize) {
        state.left.deaths -= 1;
        self.act(state, client, Input::Die);
        for node in 0..self.settings.nodes {
            let link = state.link_mut(client, node);
            if link.phase != Phase::Down {
                link.cut();
            }
        }
    }

    fn lapse(&self, state: &mut State, client: usize, node: usize) {
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

    fn cut(&self, state: &mut State, client: usize, node: usize) {
        let unanswered = state.link_mut(client, node).cut();
        self.act(state, client, Input::Cut(node, unanswered));
        if self.settings.is_classic() {
            state.link_mut(client, node).reopen();
            self.act(state, client, Input::Up(node));
        }
    }

    fn run(&self, state: &mut State, client: usize, node: usize) {
        let link = state.link_mut(client, node);
        let session = link.session;
        let Some(request) = link.requests.pop_front() else { return };
        if request.is_attach() {
            (link.is_subscribed, link.is_known) = (true, true);
        }
        if let Some(reply) = self.run_one(state, client, node, session, &request) {
            state.link_mut(client, node).answers.push_back(Message::Reply(request, reply));
        }
    }

    fn run_stale(&self, state: &mut State, client: usize, node: usize, queue: usize) {
        let next = state.link_mut(client, node).pop_stale(queue);
        let Some((session, request)) = next else { return };
        if request.is_attach() {
            let link = state.link_mut(client, node);
            (link.is_half_open, link.is_known) = (true, true);
        }
        self.run_one(state, client, node, session, &request);
    }

    /// Runs a request, and puts on the network what the node pushes to others.
    fn run_one(
        &self,
        state: &mut State,
        client: usize,
        node: usize,
        session: u8,
        request: &Request,
    ) -> Option<Reply> {
        let now = state.node_now();
        let change = Change::Run(client, session, request.print());
        let changed = self.memo.change(&state.nodes[node], now, change, &self.name, |node| {
            if request.is_attach() {
                node.listen(client);
            }
            let command = command(client, session, request);
            let reply = node.run(&self.name, now, &command);
            (Some(self.without_noise(reply)), node.take_pushes())
        });
        state.nodes[node] = changed.node;
        for (client, push) in changed.pushes {
            let link = state.link_mut(client, node);
            if link.is_subscribed {
                match self.settings.is_unordered {
                    true => link.pushes.push_back(Message::Push(push)),
                    false => link.answers.push_back(Message::Push(push)),
                }
            }
        }
        changed.reply
    }

    /// Removes the polling hints where a timer may fire at any moment, or never does.
    fn without_noise(&self, reply: Reply) -> Reply {
        let has_polls =
            self.settings.clocks.is_some() && self.settings.timeouts.iter().any(|it| *it > 0);
        match reply {
            Reply::Queued { fence, is_foreign, .. } if !has_polls => {
                Reply::Queued { fence, expires_in_ms: None, rank: None, is_foreign }
            }
            Reply::Attached { .. } => Reply::Attached { time_us: 0 },
            reply => reply,
        }
    }

    fn receive(&self, state: &mut State, client: usize, node: usize, message: Message) {
        match &message {
            // The node does not know the session: the client closes the connection.
            Message::Reply(_, Reply::Stale) => {
                self.act(state, client, Input::Receive(node, message));
                self.cut(state, client, node);
            }
            Message::Reply(request, _) if request.is_attach() => {
                state.link_mut(client, node).phase = Phase::Up;
                self.act(state, client, Input::Up(node));
            }
            _ => self.act(state, client, Input::Receive(node, message)),
        }
    }

    /// The steps before the search.
    fn opening(&self) -> Vec<Step> {
        let nodes = self.settings.nodes;
        let (first, others) = (0..majority(nodes), majority(nodes)..nodes);
        let votes = first.flat_map(|node| [Step::Run(0, node), Step::Receive(0, node)]);
        let start = |client| {
            let tickets = self.settings.tickets_of(client, 1, 0);
            tickets.into_iter().take(1).map(move |ticket| Step::Start(client, ticket))
        };
        let ask = |client| {
            let each = (0..nodes)
                .flat_map(move |node| [Step::Run(client, node), Step::Receive(client, node)]);
            start(client).chain(each)
        };
        let held = start(0).chain(votes);
        let renewed = [Step::Tick, Step::Renew(0), Step::Start(1, 0)];
        match self.settings.beginning {
            Beginning::Idle => Vec::new(),
            Beginning::Held => held.collect(),
            Beginning::Queued => ask(0).chain(ask(1)).collect(),
            Beginning::Renewing => {
                held.chain(renewed).chain(others.map(|node| Step::Run(1, node))).collect()
            }
        }
    }

    /// The first state, if the nodes have these fences.
    fn first(&self, fences: &[u8]) -> State {
        let Settings { clocks, attempts, .. } = &self.settings;
        let now = node_time(*clocks, 0);
        let nodes = fences.iter().map(|fence| Node::new(*fence, attempts.len(), &self.name, now));
        let clients = self.rules.iter().zip(attempts);
        let clients =
            clients.map(|(rules, left)| Member::new(rules, *left, client_time(*clocks, 0)));
        let mut state = State::new(&self.settings, nodes.collect(), clients.collect());
        (0..attempts.len()).for_each(|client| self.act(&mut state, client, Input::Tick));
        for step in self.opening() {
            self.apply(&mut state, step);
            self.settle(&mut state);
        }
        state
    }
}

fn command(client: usize, session: u8, request: &Request) -> Command {
    let sender = sender(client, session);
    match &request.transmit {
        None => Command::Attach { sender, terms: SessionTerms::without_membership(SESSION_MS) },
        Some(transmit) => {
            let mut command = transmit.command.clone();
            command.set_session(sender.session);
            command
        }
    }
}

impl Model for ProductModel {
    type State = State;
    type Action = Step;

    /// One for each choice of fences on the nodes, up to the numbers of the nodes.
    fn init_states(&self) -> Vec<State> {
        // Stateright starts threads, and a mutant is switched on for one thread only.
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
        all.iter().map(|fences| self.first(fences)).collect()
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        if self.settings.clocks.is_some() {
            steps.push(Step::Tick);
        }
        for client in 0..state.clients.len() {
            self.client_steps(state, client, steps);
            for node in 0..state.nodes.len() {
                self.link_steps(state, client, node, steps);
            }
        }
        (0..state.nodes.len()).for_each(|node| self.node_steps(state, node, steps));
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        mutant::switch(self.settings.mutant);
        let mut state = last.clone();
        self.apply(&mut state, step);
        self.settle(&mut state);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        property::properties(self)
    }
}

impl Checked for ProductModel {
    type Settings = Settings;

    const CLAIMS: &'static [Claim<Self>] = &CLAIMS;

    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn found(&self) -> &Found {
        &self.found
    }

    fn lines(&self, path: &Path<State, Step>) -> Vec<String> {
        trace::lines(self, path)
    }
}
