//! Whether a client gets the lock if nothing more goes wrong.
//!
//! From every state the search follows one fair schedule: messages in flight arrive, clients
//! reconnect, and when nothing else is left to do, time passes and timers fire. The schedule must
//! lead to a holder. So every state has a way out, but not every path need be one.

use std::collections::HashSet;

use super::{link::Phase, product::ProductModel, state::State, step::Step};

/// True if a client holds the lock in the end, or no client waits for it.
pub(super) fn ends_well(model: &ProductModel, state: &State) -> bool {
    let mut good = model.good.lock().expect("no thread panics here");
    let mut chain: Vec<u64> = Vec::new();
    let mut seen: HashSet<u64> = HashSet::new();
    let mut state = state.clone();
    loop {
        let print = state.print();
        if is_over(model, &state) || good.contains(&print) {
            good.extend(chain);
            return true;
        }
        if !seen.insert(print) || chain.len() > STEPS_MAX {
            return false;
        }
        chain.push(print);
        go_on(model, &mut state);
        model.settle(&mut state);
    }
}

/// The states that the schedule leads through, up to `most`; none if it ends well.
pub(super) fn continuation(model: &ProductModel, state: &State, most: usize) -> Vec<State> {
    if !model.settings.has_progress || ends_well(model, state) {
        return Vec::new();
    }
    let mut states = vec![state.clone()];
    for _ in 0..most {
        let mut next = states[states.len() - 1].clone();
        go_on(model, &mut next);
        model.settle(&mut next);
        states.push(next);
    }
    states.split_off(1)
}

/// True if the schedule has reached its goal. Waiting readers must join readers unless a writer
/// waits, and waiting entries must join the entries of their identity.
fn is_over(model: &ProductModel, state: &State) -> bool {
    let clients = || state.clients.iter().enumerate();
    let mut waiting = clients().filter(|(_, it)| it.is_acquire()).map(|(number, _)| number);
    let mut holding = clients().filter(|(_, it)| it.is_holding()).map(|(number, _)| number);
    let (is_shared, is_entry) = (
        |client: usize| model.is_reader(state, client),
        |client: usize| model.settings.is_entry(client),
    );
    let is_held = holding.clone().next().is_some();
    let is_joinable = holding.clone().all(is_entry) && waiting.clone().any(is_entry);
    let is_open = is_joinable || holding.all(is_shared) && waiting.clone().all(is_shared);
    waiting.next().is_none() || is_held && !is_open
}

/// The next step of the schedule.
fn go_on(model: &ProductModel, state: &mut State) {
    let pairs = || 0..state.clients.len() * state.nodes.len();
    let of = |at: usize| (at / state.nodes.len(), at % state.nodes.len());
    let find = |step: fn(&State, usize, usize) -> Option<Step>| {
        pairs().map(of).find_map(|(client, node)| step(state, client, node))
    };
    let step = find(old).or_else(|| find(request)).or_else(|| find(kind));
    match step {
        Some(step) => model.apply(state, step),
        None => {
            model.apply(state, Step::Tick);
            for client in 0..state.clients.len() {
                let due = state.clients[client].due(false);
                if due.is_some_and(|due| due <= state.client_now()) {
                    model.apply(state, Step::Timeout(client));
                }
            }
        }
    }
}

fn old(state: &State, client: usize, node: usize) -> Option<Step> {
    let link = state.link(client, node);
    if !link.stale.is_empty() {
        return Some(Step::RunStale(client, node, 0));
    }
    link.is_half_open.then_some(Step::CloseOld(client, node))
}

fn request(state: &State, client: usize, node: usize) -> Option<Step> {
    (!state.link(client, node).requests.is_empty()).then_some(Step::Run(client, node))
}

fn kind(state: &State, client: usize, node: usize) -> Option<Step> {
    let (link, it) = (state.link(client, node), &state.clients[client]);
    if !link.answers.is_empty() {
        Some(Step::Receive(client, node))
    } else if !link.pushes.is_empty() {
        Some(Step::ReceivePush(client, node))
    } else if it.is_dead() {
        link.is_known.then_some(Step::Lapse(client, node))
    } else if it.has_won() {
        Some(Step::Accept(client))
    } else {
        let is_wanted = !it.is_done() || it.owes(node, state.client_now());
        (link.phase == Phase::Down && is_wanted).then_some(Step::Connect(client, node))
    }
}

/// No schedule of a row is as long.
const STEPS_MAX: usize = 600;
