//! What can happen among clients that want several locks.

use std::time::Duration;

use quorate_core::{
    acquire::{Outcome, Wait},
    backoff::Jitter,
    client::{
        Client, Config, Ended, Hold, Transmit,
        waiter::Want,
        watchdog::{LeaseId, Renewal},
    },
    command::{Command, SessionTerms},
    dialect::Dialect,
    moment::{Moment, NodeTime},
    mutant,
    name::Name,
    store::Store,
    terms::{Drift, Terms},
};
use stateright::{Model, Path, Property};

use super::{
    Settings,
    state::{Doing, Link, Member, Message, Named, State},
};
use crate::model::{
    node::{SESSION_MS, client_id, sender},
    property::{self, Checked, Claim, Found, Kind},
};

/// The rules of one model, for the checker.
#[derive(Debug)]
pub(super) struct SetModel {
    settings: Settings,
    found: Found,
}

/// One step. Clients and nodes are numbers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Step {
    /// A client asks for its locks.
    Start(usize),
    /// A node runs the next command of a client.
    Run(usize, usize),
    /// A client receives the next message from a node.
    Receive(usize, usize),
    /// A holder releases its locks.
    Release(usize),
    /// A caller goes away while it waits.
    Cancel(usize),
}

impl SetModel {
    pub(super) fn new(settings: Settings) -> Self {
        Self { settings, found: Found::default() }
    }

    /// The first state, if the clients have these tickets.
    fn first(&self, tickets: &[u64]) -> State {
        let nodes = self.settings.nodes;
        let mut state = State {
            clients: tickets.iter().enumerate().map(|(at, it)| member(at, *it, nodes)).collect(),
            nodes: vec![Store::new(); nodes],
            links: vec![Link::default(); nodes * tickets.len()],
            cancels_left: self.settings.cancels,
            is_torn: false,
            has_yielded: false,
        };
        for store in &mut state.nodes {
            for client in 0..tickets.len() {
                let terms = SessionTerms::without_membership(SESSION_MS);
                store.subscribe(client_id(client));
                store.apply(NODE_NOW, &Command::Attach { sender: sender(client, 1), terms });
            }
        }
        state
    }

    fn apply(&self, state: &mut State, step: Step) {
        match step {
            Step::Start(client) => {
                let wants = self.settings.wants[client].iter().map(|name| want(name)).collect();
                let member = &mut state.clients[client];
                member.doing = Doing::Waiting(member.machine.acquire_all(wants, NOW));
                self.drive(state, client);
            }
            Step::Run(client, node) => self.run(state, client, node),
            Step::Receive(client, node) => {
                let message = state.link(client, node).answers.pop_front();
                let machine = &mut state.clients[client].machine;
                match message {
                    Some(Message::Reply(Transmit { about, command }, reply)) => {
                        machine.handle_answer(node, (&about, &command), Some(&reply), NOW);
                    }
                    Some(Message::Push(push)) => machine.handle_push(node, push, NOW),
                    None => {}
                }
                self.drive(state, client);
            }
            Step::Release(client) => {
                let member = &mut state.clients[client];
                if let Doing::Holding(leases) = std::mem::replace(&mut member.doing, Doing::Gone) {
                    leases.into_iter().for_each(|lease| release(&mut member.machine, lease));
                }
                self.drive(state, client);
            }
            Step::Cancel(client) => {
                state.cancels_left -= 1;
                let member = &mut state.clients[client];
                if let Doing::Waiting(calls) = std::mem::replace(&mut member.doing, Doing::Gone) {
                    calls.into_iter().for_each(|call| member.machine.abandon(call, NOW));
                }
                self.drive(state, client);
            }
        }
    }

    fn run(&self, state: &mut State, client: usize, node: usize) {
        let Some(transmit) = state.link(client, node).requests.pop_front() else { return };
        let mut command = transmit.command.clone();
        command.set_session(sender(client, 1).session);
        let reply = state.nodes[node].apply(NODE_NOW, &command);
        state.link(client, node).answers.push_back(Message::Reply(transmit, reply));
        for push in state.nodes[node].take_pushes() {
            let whose = (0..state.clients.len()).find(|client| client_id(*client) == push.client);
            let whose = whose.expect("only these clients have sent requests");
            state.link(whose, node).answers.push_back(Message::Push(push));
        }
    }

    /// Puts on the network what a client sends, and takes what it has won.
    fn drive(&self, state: &mut State, client: usize) {
        for node in 0..self.settings.nodes {
            while let Some(transmit) =
                state.clients[client].machine.poll_transmit(node, |_, _| true)
            {
                state.has_yielded |= is_yield(&transmit.command);
                state.link(client, node).requests.push_back(transmit);
            }
        }
        let Member { machine, doing } = &mut state.clients[client];
        while machine.poll_event().is_some() {}
        let Doing::Waiting(calls) = doing else { return };
        let is_held = |ended: &Ended| matches!(ended, Ended::Acquire(Outcome::Held { .. }));
        let ended: Vec<_> =
            calls.iter().map(|id| machine.call(*id).and_then(|call| call.ended())).collect();
        let held = ended.iter().flatten().filter(|it| is_held(it)).count();
        state.is_torn |= held > 0 && held < calls.len();
        if ended.iter().all(Option::is_some) {
            let calls = std::mem::take(calls);
            let hold = Hold { renewal: Renewal::On, until: Moment::from_nanos(u64::MAX) };
            let mut leases = Vec::new();
            for call in calls {
                machine.take_outcome(call);
                leases.extend(machine.keep(call, hold, NOW));
                machine.close_call(call);
            }
            *doing = if leases.is_empty() { Doing::Gone } else { Doing::Holding(leases) };
            while machine.poll_event().is_some() {}
        }
    }

    fn steps(&self, state: &State) -> Vec<Step> {
        let mut steps = Vec::new();
        for (client, member) in state.clients.iter().enumerate() {
            match &member.doing {
                Doing::Nothing => steps.push(Step::Start(client)),
                Doing::Waiting(_) if state.cancels_left > 0 => steps.push(Step::Cancel(client)),
                Doing::Holding(_) => steps.push(Step::Release(client)),
                Doing::Waiting(_) | Doing::Gone => {}
            }
            for node in 0..self.settings.nodes {
                let link = &state.links[client * self.settings.nodes + node];
                steps.extend((!link.requests.is_empty()).then_some(Step::Run(client, node)));
                steps.extend((!link.answers.is_empty()).then_some(Step::Receive(client, node)));
            }
        }
        steps
    }
}

fn member(number: usize, ticket: u64, nodes: usize) -> Member {
    let client = client_id(number);
    let config =
        Config { client, nodes, has_sessions: true, max_ttl: Duration::from_millis(SESSION_MS) };
    let source = Named { client, ticket, owners: 0 };
    let mut machine = Client::new(config, source, Jitter::new(1));
    for node in 0..nodes {
        machine.handle_time(node, NODE_NOW.as_micros(), NOW);
        machine.handle_up(node, NOW);
    }
    Member { machine, doing: Doing::Nothing }
}

fn want(name: &str) -> Want {
    let none = Drift { ppm: 0, fixed: Duration::ZERO };
    let terms = Terms::new(Duration::from_secs(10), Duration::from_secs(1), none);
    Want {
        name: Name::parse(name, "").expect("a valid name"),
        terms: terms.expect("fair terms"),
        kind: None,
        wait: Wait::Patiently(Duration::from_secs(10)),
        dialect: Dialect::Queue,
        adopts: None,
    }
}

fn release(machine: &mut Client<Named>, lease: LeaseId) {
    let patience = |_| Duration::from_secs(1);
    if let Some(call) = machine.release(lease, &patience, NOW) {
        machine.close_call(call);
    }
}

fn is_yield(command: &Command) -> bool {
    match command {
        Command::Release { yields, .. } => yields.is_some(),
        Command::Batch(entries) => entries.iter().any(is_yield),
        _ => false,
    }
}

/// The locks that a client holds.
fn held<'a>(model: &'a SetModel, state: &'a State, client: usize) -> &'a [&'static str] {
    match state.clients[client].doing {
        Doing::Holding(_) => model.settings.wants[client],
        Doing::Nothing | Doing::Waiting(_) | Doing::Gone => &[],
    }
}

/// Every client has ended, and no node stores anything.
fn is_over(state: &State) -> bool {
    let is_gone = |member: &Member| matches!(member.doing, Doing::Gone) && member.machine.is_idle();
    let is_empty = |store: &Store| {
        let mut store = store.clone();
        store.names(NODE_NOW).is_empty() && store.queued_names(NODE_NOW).is_empty()
    };
    state.clients.iter().all(is_gone) && state.nodes.iter().all(is_empty)
}

const CLAIMS: [Claim<SetModel>; 5] = [
    Claim {
        name: "at most one client holds a lock",
        kind: Kind::Always,
        applies: |_| true,
        is_true: |model, state| {
            let clients = 0..state.clients.len();
            let mut all: Vec<&str> =
                clients.flat_map(|it| held(model, state, it)).copied().collect();
            let count = all.len();
            all.sort_unstable();
            all.dedup();
            all.len() == count
        },
    },
    Claim {
        name: "the locks of a set are held together or not at all",
        kind: Kind::Always,
        applies: |_| true,
        is_true: |_, state| !state.is_torn,
    },
    Claim {
        name: "all sets are held in turn, and nothing is left behind",
        kind: Kind::Always,
        applies: |_| true,
        is_true: |model, state| !model.steps(state).is_empty() || is_over(state),
    },
    Claim {
        name: "a set gives a lock back to an earlier ticket",
        kind: Kind::Sometimes,
        // One node runs the requests of a whole set at once.
        applies: |settings| settings.nodes > 1 || settings.wants.len() > 2,
        is_true: |_, state| state.has_yielded,
    },
    Claim {
        name: "the last set is held after all others",
        kind: Kind::Sometimes,
        applies: |_| true,
        is_true: |_, state| {
            let gone = state.clients.iter().filter(|it| matches!(it.doing, Doing::Gone));
            let holding = state.clients.iter().filter(|it| matches!(it.doing, Doing::Holding(_)));
            (gone.count(), holding.count()) == (state.clients.len() - 1, 1)
        },
    },
];

impl Model for SetModel {
    type State = State;
    type Action = Step;

    /// One for each order of the tickets.
    fn init_states(&self) -> Vec<State> {
        mutant::switch(self.settings.mutant);
        let clients = self.settings.wants.len() as u64;
        let mut orders: Vec<Vec<u64>> = vec![Vec::new()];
        for _ in 0..clients {
            let longer = |known: Vec<u64>| {
                let free = (1..=clients).filter(|it| !known.contains(it)).collect::<Vec<_>>();
                free.into_iter().map(move |it| known.iter().copied().chain([it]).collect())
            };
            orders = orders.into_iter().flat_map(longer).collect();
        }
        orders.iter().map(|tickets| self.first(tickets)).collect()
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        steps.extend(self.steps(state));
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        // The checker has threads of its own, and a mutant is switched on for one thread only.
        mutant::switch(self.settings.mutant);
        let mut state = state.clone();
        self.apply(&mut state, step);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        property::properties(self)
    }
}

impl Checked for SetModel {
    type Settings = Settings;

    const CLAIMS: &'static [Claim<Self>] = &CLAIMS;

    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn found(&self) -> &Found {
        &self.found
    }

    fn lines(&self, path: &Path<State, Step>) -> Vec<String> {
        let steps = path.clone().into_vec();
        let told = steps.iter().map(|(state, step)| {
            let doing: Vec<_> = state.clients.iter().map(|it| &it.doing).collect();
            format!("{doing:?} then {step:?}")
        });
        told.collect()
    }
}

/// Time stands still.
const NOW: Moment = Moment::from_nanos(1_000_000_000);
const NODE_NOW: NodeTime = NodeTime::from_micros(1_000_000);
