//! A path through a model as lines of text.

use std::fmt::Write as _;

use quorate_core::{
    command::{Command, Owner, Reply},
    queue::PushKind,
};
use stateright::Path;

use super::{
    fair,
    link::{Message, Request},
    member::{Doing, Member, OWNERS_PER_ATTEMPT},
    node,
    product::ProductModel,
    state::State,
    step::Step,
};

/// One line for the initial state and one for each step: the step, and the state after it.
pub(super) fn lines(model: &ProductModel, path: &Path<State, Step>) -> Vec<String> {
    let mut lines = Vec::new();
    let mut before: Option<(State, Option<Step>)> = None;
    for (state, step) in path.clone().into_vec() {
        let did = match &before {
            Some((before, Some(step))) => step_text(before, *step),
            Some((_, None)) | None => "the initial state".to_owned(),
        };
        lines.push(format!("{:>3}. {did:<46} {}", lines.len(), state_text(model, &state)));
        before = Some((state, step));
    }
    if let Some((last, _)) = &before {
        let and_then = fair::continuation(model, last, SHOWN_MAX);
        lines.extend(and_then.iter().map(|state| {
            format!("   + {:<46} {}", "if nothing more goes wrong", state_text(model, state))
        }));
    }
    lines
}

fn step_text(before: &State, step: Step) -> String {
    let link = |client, node| before.link(client, node);
    match step {
        Step::Tick => "a tick".to_owned(),
        Step::Start(client, 0) => format!("{} starts an attempt", letter(client)),
        Step::Start(client, ticket) => format!("{} asks with ticket {ticket}", letter(client)),
        Step::Accept(client) => {
            format!("{}'s caller learns that it holds the lock", letter(client))
        }
        Step::Timeout(client) => format!("{}'s timer fires", letter(client)),
        Step::Release(client) => format!("{} releases", letter(client)),
        Step::Renew(client) => format!("{} renews", letter(client)),
        Step::Downgrade(client) => format!("{} asks to become a reader", letter(client)),
        Step::Cancel(client) => format!("{}'s caller cancels", letter(client)),
        Step::Die(client) => format!("{} CRASHES", letter(client)),
        Step::Run(client, node) => {
            let request = link(client, node).requests.front();
            let request = request.map_or_else(String::new, |it| request_text(client, it));
            format!("n{node} runs {request}")
        }
        Step::RunStale(client, node, queue) => {
            let stale = link(client, node).stale.get(queue).and_then(|(_, it)| it.front());
            let request = stale.map_or_else(String::new, |it| request_text(client, it));
            format!("n{node} runs, from an old link, {request}")
        }
        Step::Receive(client, node) => {
            let message = link(client, node).answers.front().map(message_text);
            format!("{} receives from n{node}: {}", letter(client), message.unwrap_or_default())
        }
        Step::ReceivePush(client, node) => {
            let message = link(client, node).pushes.front().map(message_text);
            format!("{} receives from n{node}: {}", letter(client), message.unwrap_or_default())
        }
        Step::Break(client, node) => format!("the link of {} to n{node} BREAKS", letter(client)),
        Step::CloseOld(client, node) => {
            format!("n{node} notices that an old link of {} is closed", letter(client))
        }
        Step::Connect(client, node) => format!("{} connects to n{node}", letter(client)),
        Step::Lapse(client, node) => {
            format!("the session of {} on n{node} EXPIRES", letter(client))
        }
        Step::Vanish(node) => format!("the key on n{node} VANISHES"),
        Step::Forget(node) => format!("n{node} FORGETS everything"),
        Step::Expire(node) => format!("the key on n{node} expires"),
    }
}

fn request_text(client: usize, request: &Request) -> String {
    let Some(transmit) = &request.transmit else {
        return format!("{}'s attach", letter(client));
    };
    let name = |owner| name(client, owner);
    match &transmit.command {
        Command::SetKey { owner, .. } => format!("set {}", name(owner)),
        Command::DeleteKey { owner, .. } => format!("delete {}", name(owner)),
        Command::ExtendKeys { entries, .. } => format!("extend {}", name(&entries[0].owner)),
        Command::Acquire { request: ask, .. } => format!("acquire {}", name(&ask.owner)),
        Command::Adopt { from, owner, .. } => format!("{} becomes {}", name(from), name(owner)),
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

fn message_text(message: &Message) -> String {
    match message {
        Message::Push(push) => match push.kind {
            PushKind::Granted => format!("push: granted, fence {}", push.fence),
            PushKind::Inquired => format!("push: asked for fence {}", push.fence),
        },
        Message::Reply(_, Reply::Granted { fence, is_earlier }) => {
            format!("granted {fence}{}", if *is_earlier { ", another is earlier" } else { "" })
        }
        Message::Reply(_, Reply::Queued { fence, .. }) => format!("queued, fence {fence}"),
        Message::Reply(_, Reply::ExtendedLeases(fates)) => format!("{fates:?}"),
        Message::Reply(_, Reply::ExtendedKeys(fates)) => format!("{fates:?}"),
        Message::Reply(_, reply) => format!("{reply:?}"),
    }
}

fn state_text(model: &ProductModel, state: &State) -> String {
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
        let _ = write!(text, "{}:{} ", letter(number), client_text(state, client));
    }
    text.truncate(text.trim_end().len());
    text
}

fn client_text(state: &State, client: &Member) -> String {
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
        Doing::Holding(_) | Doing::Downgrading(..) if client.holds(state.client_now()) => {
            let verb = if client.notes.is_reader { "READS" } else { "HOLDS" };
            client.fence().map_or_else(|| verb.to_owned(), |fence| format!("{verb} {fence}"))
        }
        Doing::Holding(_) | Doing::Downgrading(..) => "ended".to_owned(),
        Doing::Dead => "crashed".to_owned(),
    }
}

/// The owner of a client: `A1`, and `A1'` after a withdrawal.
fn name(client: usize, owner: &Owner) -> String {
    let number = node::number_of(owner);
    let marks = "'".repeat(usize::from(number % OWNERS_PER_ATTEMPT));
    format!("{}{}{marks}", letter(client), number / OWNERS_PER_ATTEMPT)
}

fn letter(client: usize) -> char {
    char::from(b'A' + client as u8)
}

/// The number of states that are shown of a schedule that does not end well.
const SHOWN_MAX: usize = 40;
