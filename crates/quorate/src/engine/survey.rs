//! Asks all nodes what is stored under a name, to tell people who holds a lock.

use std::{
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Poll, Waker},
    time::Duration,
};

use quorate_core::{
    command::{Command, Reply, Sighting, Value},
    line::Place,
    moment::Moment,
    name::Name,
};

use super::{Engine, timers::Timed};
use crate::{
    error::{Holder, Trouble},
    node::{Inbox, Request, Sent},
};

/// The holder that most nodes know, if any of them answers within `patience`.
pub(crate) async fn survey(engine: &Engine, name: &Name, patience: Duration) -> Option<Holder> {
    let replies = ask_all(engine, &Command::Look { name: name.clone() }, patience).await;
    let sightings = replies.into_iter().filter_map(|reply| match reply {
        Reply::Seen(sighting) => sighting,
        _ => None,
    });
    let sighting = most_seen(sightings.collect())?;
    let Value::Text(text) = &sighting.value else { return Some(holder(sighting)) };
    let Some(Place { client, .. }) = Place::of(text) else { return Some(holder(sighting)) };
    let replies = ask_all(engine, &Command::Who { client }, patience).await;
    let known = replies.into_iter().find_map(|reply| match reply {
        Reply::Known(who) => who,
        _ => None,
    });
    let who = match known {
        Some(who) => shown(who.as_bytes()),
        None => format!("the client {:.8}", client.to_string()),
    };
    Some(Holder { who, ..holder(sighting) })
}

/// Asks all nodes, and returns what they answer within `patience`.
async fn ask_all(engine: &Engine, command: &Command, patience: Duration) -> Vec<Reply> {
    let now = engine.now();
    let survey = Arc::new(Survey::default());
    survey.lock().pending = engine.nodes.len();
    for (number, node) in engine.nodes.iter().enumerate() {
        let command = command.clone();
        match node.send(Request { command, node: number, inbox: survey.clone() }, now) {
            Sent::Queued => node.flush(),
            Sent::Answered(answer) => survey.take_in(answer),
        }
    }
    let weak: std::sync::Weak<Survey> = Arc::downgrade(&survey);
    if engine.timers.add(now.saturating_add(patience), weak).is_err() {
        return Vec::new();
    }
    poll_fn(|cx| {
        let mut state = survey.lock();
        if state.pending == 0 {
            return Poll::Ready(());
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    })
    .await;
    std::mem::take(&mut survey.lock().replies)
}

/// Different nodes may show different holders for a moment: the one on most nodes has it.
fn most_seen(sightings: Vec<Sighting>) -> Option<Sighting> {
    let count = |wanted: &Value| sightings.iter().filter(|seen| seen.value == *wanted).count();
    sightings.iter().rev().max_by_key(|seen| count(&seen.value)).cloned()
}

fn holder(sighting: Sighting) -> Holder {
    let who = match sighting.value {
        Value::Text(text) => who(&text),
        Value::OtherType(kind) => format!("a key of type {kind}, not of a lock known here"),
    };
    Holder { who, expires_in: sighting.expires_in_ms.map(Duration::from_millis) }
}

/// The readable part of an owner of ours; for another library's, the value as it is, escaped.
fn who(text: &[u8]) -> String {
    let ours = text.iter().position(|byte| *byte == b'@').filter(|at| {
        let (id, number) = text[..*at].split_at_checked(41).unwrap_or_default();
        let is_hex = id.iter().take(40).all(u8::is_ascii_hexdigit);
        id.ends_with(b":") && is_hex && !number.is_empty() && number.iter().all(u8::is_ascii_digit)
    });
    ours.map_or_else(|| escaped(text), |at| shown(&text[at + 1..]))
}

/// What a client of ours says of itself, if it is fit to be shown.
fn shown(who: &[u8]) -> String {
    let is_plain = who.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ');
    match is_plain && who.len() <= SHOWN_LEN_MAX {
        true => String::from_utf8_lossy(who).into_owned(),
        false => escaped(who),
    }
}

fn escaped(text: &[u8]) -> String {
    let cut = &text[..text.len().min(SHOWN_LEN_MAX)];
    let more = if cut.len() < text.len() { "…" } else { "" };
    format!("{}{more}", cut.escape_ascii())
}

const SHOWN_LEN_MAX: usize = 128;

#[derive(Debug, Default)]
struct Survey(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    pending: usize,
    replies: Vec<Reply>,
    waker: Option<Waker>,
}

impl Survey {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_in(&self, answer: Result<Reply, Trouble>) {
        let mut state = self.lock();
        state.pending = state.pending.saturating_sub(1);
        state.replies.extend(answer);
        Self::wake_if_over(state);
    }

    fn wake_if_over(mut state: MutexGuard<'_, State>) {
        let waker = if state.pending == 0 { state.waker.take() } else { None };
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Inbox for Survey {
    fn handle_answer(
        self: Arc<Self>,
        _node: usize,
        _command: Command,
        answer: Result<Reply, Trouble>,
        _now: Moment,
    ) {
        self.take_in(answer);
    }
}

impl Timed for Survey {
    fn handle_timeout(self: Arc<Self>, _now: Moment) {
        let mut state = self.lock();
        state.pending = 0;
        Self::wake_if_over(state);
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::command::{ClientId, Owner};

    use super::*;

    #[test]
    fn our_owner_is_shown_by_its_readable_part() {
        for name in ["cron/db1/77", "O'Brien \\ \"sons\""] {
            let owner = Owner::new(&ClientId::from_random([0xab; 20]), 12, name);
            assert_eq!(who(owner.as_bytes()), name);
        }
    }

    #[test]
    fn a_foreign_value_is_shown_escaped_and_cut() {
        assert_eq!(who(b"\x00\xffa\n\x1b["), r"\x00\xffa\n\x1b[");
        assert_eq!(who(b"user@host"), "user@host");
        assert_eq!(who(&[b'x'; 500]).chars().count(), 129);
        assert_eq!(who(b""), "");
    }

    #[test]
    fn the_holder_on_most_nodes_is_the_one() {
        let seen =
            |text: &[u8]| Sighting { value: Value::Text(text.into()), expires_in_ms: Some(5) };
        let found = most_seen(vec![seen(b"a"), seen(b"b"), seen(b"b")]).map(holder);
        assert_eq!(found.map(|holder| holder.who).as_deref(), Some("b"));
        assert_eq!(most_seen(Vec::new()), None);
    }
}
