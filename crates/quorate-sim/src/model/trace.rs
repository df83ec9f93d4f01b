//! A path through a world as lines of text.

use std::fmt::Write as _;

use quorate_core::command::{Command, Reply};
use stateright::Path;

use super::{
    desk::Move,
    link::{Request, Topic},
    state::State,
    world::Step,
};

/// One line for the beginning and one for each step: what was done, and what came of it.
pub(super) fn lines(path: &Path<State, Step>) -> Vec<String> {
    let mut lines = Vec::new();
    let mut before: Option<(State, Option<Step>)> = None;
    for (state, step) in path.clone().into_vec() {
        let did = match &before {
            Some((before, Some(step))) => told(before, *step),
            Some((_, None)) | None => "in the beginning".to_owned(),
        };
        lines.push(format!("{:>3}. {did:<44} {}", lines.len(), shown(&state)));
        before = Some((state, step));
    }
    lines
}

fn told(before: &State, step: Step) -> String {
    match step {
        Step::Tick => "a tick".to_owned(),
        Step::Client(client, step) => {
            let client = letter(client);
            match step {
                Move::Start => format!("{client} starts an attempt"),
                Move::Accept => format!("{client}'s caller learns that it won"),
                Move::Abandon => format!("{client}'s caller goes away"),
                Move::Renew => format!("{client} sends a renewal"),
                Move::Release => format!("{client} releases"),
                Move::GiveUp(Topic::Renew(..)) => format!("{client} stops waiting to renew"),
                Move::GiveUp(Topic::Take(_) | Topic::Free) => {
                    format!("{client} stops waiting for votes")
                }
            }
        }
        Step::Run(client, node) => {
            let request = before.link(number(client), node).requests.front();
            format!("n{node} runs {}", request.map_or_else(String::new, worded))
        }
        Step::RunStale(client, node, queue) => {
            let stale = before.link(number(client), node).stale.get(queue);
            let request = stale.and_then(|stale| stale.front());
            format!("n{node} runs, from an old link, {}", request.map_or_else(String::new, worded))
        }
        Step::Receive(client, node) => {
            let answer = before.link(number(client), node).answers.front();
            let reply = answer.map_or_else(String::new, |answer| match &answer.reply {
                Reply::Each(fates) => format!("{fates:?}"),
                reply => format!("{reply:?}"),
            });
            format!("{} hears from n{node}: {reply}", letter(client))
        }
        Step::Crash(client) => format!("{} CRASHES", letter(client)),
        Step::Break(client, node) => format!("the link of {} to n{node} BREAKS", letter(client)),
        Step::Vanish(node) => format!("the key on n{node} VANISHES"),
        Step::Restart(node) => format!("n{node} FORGETS everything"),
    }
}

fn worded(request: &Request) -> String {
    let (verb, owner) = match &request.command {
        Command::Take { owner, .. } => ("take", owner.as_bytes()),
        Command::Free { owner, .. } => ("free", owner.as_bytes()),
        Command::Prolong { entries, .. } => ("prolong", entries[0].owner.as_bytes()),
        other => return format!("{other:?}"),
    };
    format!("{verb} {}", String::from_utf8_lossy(owner))
}

fn shown(state: &State) -> String {
    let mut text = format!("t={}", state.ticks);
    for (number, node) in state.nodes.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = match node.key() {
            Some(key) => {
                let client = letter(usize::from(key.client));
                write!(text, " n{number}[{client}{} {}ms]", key.attempt, key.left_ms)
            }
            None => write!(text, " n{number}[-]"),
        };
    }
    for (number, client) in state.clients.iter().enumerate() {
        let _ = write!(text, " {}:{}", letter(number), client.word(state.client_now()));
    }
    text
}

fn letter(client: usize) -> char {
    char::from(b'A' + number(client))
}

fn number(client: usize) -> u8 {
    u8::try_from(client).unwrap_or(u8::MAX)
}
