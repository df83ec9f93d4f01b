//! A path through a model as lines of text.

use std::fmt::Write as _;

use quorate_core::{
    command::{Command, Owner, Reply},
    queue::PushKind,
};
use stateright::Path;

use super::{
    fair,
    link::{Heard, Request},
    member::{Doing, LIVES, Member},
    node,
    product::ProductModel,
    state::State,
    step::Step,
};

/// One line for the beginning and one for each step: what was done, and what came of it.
pub(super) fn lines(model: &ProductModel, path: &Path<State, Step>) -> Vec<String> {
    let mut lines = Vec::new();
    let mut before: Option<(State, Option<Step>)> = None;
    for (state, step) in path.clone().into_vec() {
        let did = match &before {
            Some((before, Some(step))) => told(before, *step),
            Some((_, None)) | None => "in the beginning".to_owned(),
        };
        lines.push(format!("{:>3}. {did:<46} {}", lines.len(), shown(model, &state)));
        before = Some((state, step));
    }
    if let Some((last, _)) = &before {
        let and_then = fair::continuation(model, last, SHOWN_MAX);
        lines.extend(and_then.iter().map(|state| {
            format!("   + {:<46} {}", "if nothing more goes wrong", shown(model, state))
        }));
    }
    lines
}

fn told(before: &State, step: Step) -> String {
    let link = |client, node| before.link(client, node);
    match step {
        Step::Tick => "a tick".to_owned(),
        Step::Start(client, 0) => format!("{} starts an attempt", letter(client)),
        Step::Start(client, ticket) => format!("{} comes with ticket {ticket}", letter(client)),
        Step::Accept(client) => format!("{}'s caller learns that it won", letter(client)),
        Step::Timeout(client) => format!("{}'s timer strikes", letter(client)),
        Step::Release(client) => format!("{} releases", letter(client)),
        Step::Renew(client) => format!("{} renews", letter(client)),
        Step::Cancel(client) => format!("{}'s caller goes away", letter(client)),
        Step::Die(client) => format!("{} DIES", letter(client)),
        Step::Run(client, node) => {
            let request = link(client, node).requests.front();
            let request = request.map_or_else(String::new, |it| worded(client, it));
            format!("n{node} runs {request}")
        }
        Step::RunStale(client, node, queue) => {
            let stale = link(client, node).stale.get(queue).and_then(|(_, it)| it.front());
            let request = stale.map_or_else(String::new, |it| worded(client, it));
            format!("n{node} runs, from an old link, {request}")
        }
        Step::Receive(client, node) => {
            let heard = link(client, node).answers.front().map(heard_words);
            format!("{} hears from n{node}: {}", letter(client), heard.unwrap_or_default())
        }
        Step::ReceivePush(client, node) => {
            let heard = link(client, node).pushes.front().map(heard_words);
            format!("{} hears from n{node}: {}", letter(client), heard.unwrap_or_default())
        }
        Step::Break(client, node) => format!("the link of {} to n{node} BREAKS", letter(client)),
        Step::CloseOld(client, node) => {
            format!("n{node} sees that an old link of {} has ended", letter(client))
        }
        Step::Connect(client, node) => format!("{} connects to n{node}", letter(client)),
        Step::Lapse(client, node) => format!("the session of {} at n{node} LAPSES", letter(client)),
        Step::Vanish(node) => format!("the key on n{node} VANISHES"),
        Step::Forget(node) => format!("n{node} FORGETS everything"),
        Step::Expire(node) => format!("the key on n{node} expires"),
    }
}

fn worded(client: usize, request: &Request) -> String {
    let Some(transmit) = &request.transmit else {
        return format!("{}'s attach", letter(client));
    };
    let name = |owner| name(client, owner);
    match &transmit.command {
        Command::SetKey { owner, .. } => format!("take {}", name(owner)),
        Command::DeleteKey { owner, .. } => format!("free {}", name(owner)),
        Command::ExtendKeys { entries, .. } => format!("prolong {}", name(&entries[0].owner)),
        Command::Acquire { request: ask, .. } => format!("acquire {}", name(&ask.owner)),
        Command::Release { owner, yields: Some(it), .. } => {
            format!("yield {} {}", name(owner), it.fence)
        }
        Command::Release { owner, yields: None, .. } => format!("release {}", name(owner)),
        Command::Extend { entries, .. } => {
            let verb = if entries[0].may_heal { "extend" } else { "confirm" };
            format!("{verb} {} {}", name(&entries[0].owner), entries[0].fence)
        }
        other => format!("{other:?}"),
    }
}

fn heard_words(heard: &Heard) -> String {
    match heard {
        Heard::Push(push) => match push.kind {
            PushKind::Granted => format!("push: granted, fence {}", push.fence),
            PushKind::Inquired => format!("push: asked for fence {}", push.fence),
        },
        Heard::Reply(_, Reply::Granted { fence, is_earlier }) => {
            format!("granted {fence}{}", if *is_earlier { ", another is earlier" } else { "" })
        }
        Heard::Reply(_, Reply::Queued { fence, .. }) => format!("queued, fence {fence}"),
        Heard::Reply(_, Reply::ExtendedLeases(fates)) => format!("{fates:?}"),
        Heard::Reply(_, Reply::ExtendedKeys(fates)) => format!("{fates:?}"),
        Heard::Reply(_, reply) => format!("{reply:?}"),
    }
}

fn shown(model: &ProductModel, state: &State) -> String {
    let mut text = String::new();
    let is_timed = model.settings.clocks.is_some();
    // Writing to a string cannot fail.
    if is_timed {
        let _ = write!(text, "t={} ", state.ticks);
    }
    for (number, node) in state.nodes.iter().enumerate() {
        let keys = node.keys.iter().map(|key| name(key.client, &key.owner));
        let keys = keys.collect::<Vec<_>>().join("+");
        let key = if keys.is_empty() { "-".to_owned() } else { keys };
        let _ = write!(text, "n{number}[{key}");
        if !model.settings.is_classic() {
            let _ = write!(text, " f{}", node.fence);
        }
        if let Some(key) = node.keys.first().filter(|_| is_timed) {
            let _ = write!(text, " {}ms", key.left_ms);
        }
        for owner in node.waiting(&model.name, state.node_now()) {
            let client = node::client_of(owner.as_bytes());
            let _ = write!(text, " <{}", name(client, &owner));
        }
        text.push_str("] ");
    }
    for (number, client) in state.clients.iter().enumerate() {
        let _ = write!(text, "{}:{} ", letter(number), word(state, client));
    }
    text.truncate(text.trim_end().len());
    text
}

fn word(state: &State, client: &Member) -> String {
    match client.doing {
        Doing::Nothing if client.is_idle() => "idle".to_owned(),
        Doing::Nothing => "undoes".to_owned(),
        Doing::Asking(_) if client.has_won() => "has won".to_owned(),
        Doing::Asking(_) => match client.waiter() {
            None => "tries".to_owned(),
            Some(waiter) => {
                let grants = waiter.grants().map(|(node, fence, _)| format!("n{node}={fence}"));
                format!("waits({})", grants.collect::<Vec<_>>().join(" "))
            }
        },
        Doing::Holding(_) if client.holds(state.client_now()) => match client.fence() {
            Some(fence) => format!("HOLDS {fence}"),
            None => "HOLDS".to_owned(),
        },
        Doing::Holding(_) => "ended".to_owned(),
        Doing::Dead => "dead".to_owned(),
    }
}

/// The owner of a client: `A1`, and `A1'` after a withdrawal.
fn name(client: usize, owner: &Owner) -> String {
    let number = node::number_of(owner);
    let lives = "'".repeat(usize::from(number % LIVES));
    format!("{}{}{lives}", letter(client), number / LIVES)
}

fn letter(client: usize) -> char {
    char::from(b'A' + client as u8)
}

/// This many states are shown of a schedule that leads nowhere.
const SHOWN_MAX: usize = 40;
