//! A path through a world in line, as lines of text.

use std::fmt::Write as _;

use quorate_core::{command::Reply, contend::Saying, line::News};
use stateright::Path;

use super::{
    client::{Client, Doing},
    fair,
    link::{Heard, Mark, Request, What},
    state::State,
    step::Step,
    world::World,
};

/// One line for the beginning and one for each step: what was done, and what came of it.
pub(super) fn lines(world: &World, path: &Path<State, Step>) -> Vec<String> {
    let mut lines = Vec::new();
    let mut before: Option<(State, Option<Step>)> = None;
    for (state, step) in path.clone().into_vec() {
        let did = match &before {
            Some((before, Some(step))) => told(before, *step),
            Some((_, None)) | None => "in the beginning".to_owned(),
        };
        lines.push(format!("{:>3}. {did:<46} {}", lines.len(), shown(world, &state)));
        before = Some((state, step));
    }
    if let Some((last, _)) = &before {
        let and_then = fair::continuation(world, last, SHOWN_MAX);
        lines.extend(and_then.iter().map(|state| {
            format!("   + {:<46} {}", "if nothing more goes wrong", shown(world, state))
        }));
    }
    lines
}

fn told(before: &State, step: Step) -> String {
    let link = |client, node| before.link(client, node);
    match step {
        Step::Tick => "a tick".to_owned(),
        Step::Start(client, ticket) => format!("{} comes with ticket {ticket}", letter(client)),
        Step::Beat(client) => format!("{}'s timer strikes", letter(client)),
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
            let heard = link(client, node).answers.front();
            let heard = heard.map_or_else(String::new, |it| heard_words(client, it));
            format!("{} hears from n{node}: {heard}", letter(client))
        }
        Step::ReceivePush(client, node) => {
            let heard = link(client, node).pushes.front();
            let heard = heard.map_or_else(String::new, |it| heard_words(client, it));
            format!("{} hears from n{node}: {heard}", letter(client))
        }
        Step::Break(client, node) => format!("the link of {} to n{node} BREAKS", letter(client)),
        Step::CloseOld(client, node) => {
            format!("n{node} sees that an old link of {} has ended", letter(client))
        }
        Step::Connect(client, node) => format!("{} connects to n{node}", letter(client)),
        Step::Lapse(client, node) => format!("the session of {} at n{node} LAPSES", letter(client)),
        Step::Vanish(node) => format!("the key on n{node} VANISHES"),
        Step::Expire(node) => format!("the key on n{node} expires"),
    }
}

fn worded(client: usize, request: &Request) -> String {
    let owner = name(client, request.mark);
    match request.what {
        What::Attach => format!("{}'s attach", letter(client)),
        What::Renew(fence) => format!("extend {owner} {fence}"),
        What::Say(Saying::Ask { .. }) => format!("acquire {owner}"),
        What::Say(Saying::Yield(fence)) => format!("yield {owner} {fence}"),
        What::Say(Saying::Doubt(fence)) => format!("yield {owner} {fence} (doubted)"),
        What::Say(Saying::Confirm(fence)) => format!("confirm {owner} {fence}"),
        What::Say(Saying::Leave) => format!("release {owner}"),
    }
}

fn heard_words(client: usize, heard: &Heard) -> String {
    match heard {
        Heard::Push { mark, fence, news: News::Granted } => {
            format!("push: {} has it, fence {fence}", name(client, *mark))
        }
        Heard::Push { mark, fence, news: News::Inquired } => {
            format!("push: {} is asked for fence {fence}", name(client, *mark))
        }
        Heard::Reply(_, Reply::Granted { fence, is_earlier }) => {
            format!("granted {fence}{}", if *is_earlier { ", another is earlier" } else { "" })
        }
        Heard::Reply(_, Reply::Queued { fence, .. }) => format!("queued, fence {fence}"),
        Heard::Reply(_, Reply::EachExtended(fates)) => format!("{fates:?}"),
        Heard::Reply(_, reply) => format!("{reply:?}"),
    }
}

fn shown(world: &World, state: &State) -> String {
    let mut text = String::new();
    if world.settings.ticks.is_some() {
        // Writing to a string cannot fail.
        let _ = write!(text, "t={} ", state.ticks);
    }
    for (number, node) in state.nodes.iter().enumerate() {
        let keys = node.keys.iter().map(|key| name(key.client, key.mark));
        let keys = keys.collect::<Vec<_>>().join("+");
        let key = if keys.is_empty() { "-".to_owned() } else { keys };
        let _ = write!(text, "n{number}[{key} f{}", node.fence);
        if let Some(key) = node.keys.first().filter(|_| world.settings.ticks.is_some()) {
            let _ = write!(text, " {}ms", key.left_ms);
        }
        for (client, mark) in node.waiting(&world.name, state.node_now()) {
            let _ = write!(text, " <{}", name(client, mark));
        }
        text.push_str("] ");
    }
    for (number, client) in state.clients.iter().enumerate() {
        let _ = write!(text, "{}:{} ", letter(number), word(state, client));
    }
    text.truncate(text.trim_end().len());
    text
}

fn word(state: &State, client: &Client) -> String {
    match &client.doing {
        Doing::Nothing => "idle".to_owned(),
        Doing::Waiting(waiter) => {
            let grants = waiter.machine.grants();
            let grants: Vec<String> =
                grants.map(|(node, fence, _)| format!("n{node}={fence}")).collect();
            format!("waits({})", grants.join(" "))
        }
        Doing::Holding(hand) if client.holds(state.client_now()) => format!("HOLDS {}", hand.fence),
        Doing::Holding(_) => "ended".to_owned(),
        Doing::Dead => "dead".to_owned(),
    }
}

/// The owner of a client: `A1`, and `A1'` in its second life.
fn name(client: usize, mark: Mark) -> String {
    let lives = "'".repeat(mark.life.into());
    format!("{}{}{lives}", letter(client), mark.attempt)
}

fn letter(client: usize) -> char {
    char::from(b'A' + client as u8)
}

/// So much is told of a schedule that leads nowhere.
const SHOWN_MAX: usize = 40;
