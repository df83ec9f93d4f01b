//! Asks nodes about locks, to report to people who holds them. No decision depends on it.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Poll, Waker},
    time::Duration,
};

use quorate_core::{
    command::{ClientId, Command, KeyObservation, Owner, Reply, Value},
    moment::Moment,
    name::Name,
    queue::{Position, identity_of, is_shared, label_of},
};

use super::{Engine, report::Failure};
use crate::{
    error::{Holder, NodeError},
    node::{Inbox, Request, Sent},
    owner_id::owner_prefix,
    timers::Timed,
};

/// The holder that most nodes report, if any node replies within `patience`.
pub(crate) async fn survey(engine: &Engine, name: &Name, patience: Duration) -> Option<Holder> {
    let read_key = Command::ReadKey { name: name.clone() };
    let read = |reply| match reply {
        Reply::Key(observation) => Some(observation),
        _ => None,
    };
    let answers = ask(engine, of_all(engine, &read_key).collect(), patience, read).await;
    let observations: Vec<KeyObservation> = answers.into_iter().flatten().flatten().collect();
    let observation = most_seen(observations.iter(), |seen| &seen.value)?;
    let identity = Identity::of(&observation.value);
    let mut whos = Whos::default();
    whos.learn(engine, identity.asked(), patience).await;
    let expires_in = observation.expires_in_ms.map(Duration::from_millis);
    Some(whos.holder(engine, &observation.value, expires_in))
}

/// A question to every node.
pub(super) fn of_all(engine: &Engine, command: &Command) -> impl Iterator<Item = Question> {
    (0..engine.nodes.len()).map(|node| Question { node, command: command.clone() })
}

/// A question to a node.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) node: usize,
    pub(super) command: Command,
}

/// Asks all questions at the same time. Returns for each, in order, the result of `read` for the
/// reply, or the error of the node, after `patience` at the latest.
///
/// A node that was not connected yet or has lost its connection since is asked once more if it can
/// be reached now.
pub(super) async fn ask<T>(
    engine: &Engine,
    questions: Vec<Question>,
    patience: Duration,
    read: impl Fn(Reply) -> Option<T>,
) -> Vec<Result<T, Failure>> {
    let mut answers = ask_once(engine, &questions, patience, &read).await;
    let is_lost = |(answer, question): &(&mut Result<T, Failure>, Question)| match answer {
        Ok(_) => false,
        Err(failure) => !failure.is_current(&*engine.nodes[question.node]),
    };
    let (lost, again): (Vec<_>, Vec<_>) = answers.iter_mut().zip(questions).filter(is_lost).unzip();
    if !again.is_empty() {
        let answers = ask_once(engine, &again, patience, &read).await;
        lost.into_iter().zip(answers).for_each(|(lost, answer)| *lost = answer);
    }
    answers
}

async fn ask_once<T>(
    engine: &Engine,
    questions: &[Question],
    patience: Duration,
    read: impl Fn(Reply) -> Option<T>,
) -> Vec<Result<T, Failure>> {
    let now = engine.now();
    let survey = Arc::new(Survey::new(questions.len()));
    let nodes: BTreeSet<usize> = questions.iter().map(|question| question.node).collect();
    let connections = questions.iter().map(|question| engine.nodes[question.node].connection());
    let connections: Vec<u64> = connections.collect();
    for (number, Question { node, command }) in questions.iter().cloned().enumerate() {
        // The inbox gets the number of the question, because a node may get several.
        let request = Request::to_inbox(command, number, survey.clone());
        if let Sent::Answered(answer) = engine.nodes[node].send(request, now) {
            survey.take_in(number, answer);
        }
    }
    nodes.into_iter().for_each(|node| engine.nodes[node].flush());
    let weak: Weak<Survey> = Arc::downgrade(&survey);
    let is_ended = engine.timers.add(now.saturating_add(patience), weak).is_err();
    poll_fn(|cx| {
        let mut state = survey.lock();
        if state.pending == 0 || is_ended {
            return Poll::Ready(());
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    })
    .await;
    let silence = if is_ended { NodeError::ShutDown } else { NodeError::TimedOut };
    let answers = std::mem::take(&mut survey.lock().answers);
    let read = |(answer, connection): (Option<Result<Reply, NodeError>>, u64)| {
        let unexpected = || NodeError::Protocol("an unexpected reply".into());
        let answer = answer.unwrap_or_else(|| Err(silence.clone()));
        let answer = answer.and_then(|reply| read(reply).ok_or_else(unexpected));
        answer.map_err(|node_error| Failure::new(node_error, connection))
    };
    answers.into_iter().zip(connections).map(read).collect()
}

/// The value that most nodes report. For a moment nodes may report different holders.
pub(super) fn most_seen<'a, T>(
    seen: impl DoubleEndedIterator<Item = &'a T> + Clone,
    value: impl Fn(&T) -> &Value,
) -> Option<&'a T> {
    let count = |wanted: &T| seen.clone().filter(|it| value(it) == value(wanted)).count();
    seen.clone().rev().max_by_key(|it| count(it))
}

/// The client that a stored value identifies.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Identity {
    /// A client in the default mode, and the label of its owner, if any.
    Queue(ClientId, Option<String>),
    /// A client in classic mode, and its description.
    Classic(ClientId, String),
    /// A value of another library or program, as it is shown.
    Foreign(String),
}

impl Identity {
    pub(super) fn of(value: &Value) -> Self {
        match value {
            Value::Text(text) => Self::of_text(text),
            Value::Shared(shares) => {
                let first = shares.iter().next();
                Self::of_text(first.map_or(&[], |(owner, _)| owner.as_bytes()))
            }
            Value::OtherType(kind) => Self::Foreign(format!("a {kind}")),
        }
    }

    /// Parses the readable part of an owner. Other values are escaped as a whole.
    pub(super) fn of_text(text: &[u8]) -> Self {
        if let Some(Position { client, .. }) = Position::of(text) {
            return Self::Queue(client, label_of(text).map(|label| shown(label.as_bytes())));
        }
        let classic = text.iter().position(|byte| *byte == b'@').and_then(|at| {
            let (id, number) = text[..at].split_at_checked(41)?;
            let client = ClientId::parse(str::from_utf8(id).ok()?.strip_suffix(':')?)?;
            let is_number = !number.is_empty() && number.iter().all(u8::is_ascii_digit);
            is_number.then(|| Self::Classic(client, shown(&text[at + 1..])))
        });
        classic.unwrap_or_else(|| Self::Foreign(escaped(text)))
    }

    pub(super) const fn client(&self) -> Option<ClientId> {
        match self {
            Self::Queue(client, _) | Self::Classic(client, _) => Some(*client),
            Self::Foreign(_) => None,
        }
    }

    /// The client whose description the nodes must be asked for.
    pub(super) const fn asked(&self) -> Option<ClientId> {
        match self {
            Self::Queue(client, None) => Some(*client),
            Self::Queue(_, Some(_)) | Self::Classic(..) | Self::Foreign(_) => None,
        }
    }
}

/// The descriptions of clients that the nodes have reported.
#[derive(Debug, Default)]
pub(super) struct Whos(BTreeMap<ClientId, Option<String>>);

impl Whos {
    /// Asks all nodes for the descriptions of these clients, except those that were asked for
    /// already.
    pub(super) async fn learn(
        &mut self,
        engine: &Engine,
        clients: impl IntoIterator<Item = ClientId>,
        patience: Duration,
    ) {
        let mut unknown: Vec<ClientId> = clients.into_iter().collect();
        unknown.sort_unstable();
        unknown.dedup();
        unknown.retain(|client| !self.0.contains_key(client));
        if unknown.is_empty() {
            return;
        }
        let commands = unknown.iter().map(|client| Command::Who { client: *client });
        let questions = commands.flat_map(|who| of_all(engine, &who).collect::<Vec<_>>());
        let read = |reply| match reply {
            Reply::Known(who) => Some(who),
            _ => None,
        };
        let answers = ask(engine, questions.collect(), patience, read).await;
        for (client, answers) in unknown.into_iter().zip(answers.chunks(engine.nodes.len())) {
            let who = answers.iter().flatten().find_map(Option::as_deref);
            self.0.insert(client, who.map(|who| shown(who.as_bytes())));
        }
    }

    /// The holder whose key has this value.
    pub(super) fn holder(
        &self,
        engine: &Engine,
        value: &Value,
        expires_in: Option<Duration>,
    ) -> Holder {
        let identity = Identity::of(value);
        let owner = match value {
            Value::Text(text) => Owner::from_bytes(text),
            Value::Shared(shares) => {
                shares.iter().next().map_or_else(|| Owner::from_bytes(&[]), |(it, _)| it.clone())
            }
            Value::OtherType(_) => Owner::from_bytes(&[]),
        };
        Holder {
            who: self.words(&identity),
            owner_prefix: identity.client().map(owner_prefix),
            fence: None,
            held_for: None,
            expires_in,
            is_foreign: matches!(identity, Identity::Foreign(_)),
            is_this_client: identity.client() == Some(engine.client),
            is_shared: is_shared(&owner),
            identity: identity_of(&owner),
        }
    }

    /// The description of the client that a stored value identifies.
    pub(super) fn words(&self, identity: &Identity) -> String {
        match identity {
            Identity::Queue(client, None) => self.of(*client),
            Identity::Queue(_, Some(who)) | Identity::Classic(_, who) | Identity::Foreign(who) => {
                who.clone()
            }
        }
    }

    /// The description of a client, or the first digits of its id if there is none.
    pub(super) fn of(&self, client: ClientId) -> String {
        let known = self.0.get(&client).cloned().flatten();
        known.unwrap_or_else(|| format!("the client {}", owner_prefix(client)))
    }
}

/// The description that a client gave of itself, escaped unless it is short and plain.
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

#[derive(Debug)]
struct Survey(Mutex<State>);

#[derive(Debug)]
struct State {
    pending: usize,
    answers: Vec<Option<Result<Reply, NodeError>>>,
    waker: Option<Waker>,
}

impl Survey {
    fn new(questions: usize) -> Self {
        let answers = (0..questions).map(|_| None).collect();
        Self(Mutex::new(State { pending: questions, answers, waker: None }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_in(&self, question: usize, answer: Result<Reply, NodeError>) {
        let mut state = self.lock();
        state.pending = state.pending.saturating_sub(1);
        // A late reply is ignored.
        if let Some(place) = state.answers.get_mut(question) {
            *place = Some(answer);
        }
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
        question: usize,
        _command: Command,
        answer: Result<Reply, NodeError>,
        _now: Moment,
    ) {
        self.take_in(question, answer);
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
    use super::*;

    fn who(text: &[u8]) -> String {
        Whos::default().words(&Identity::of(&Value::Text(text.into())))
    }

    #[test]
    fn owner_is_shown_by_its_readable_part() {
        let client = ClientId::from_random([0xab; 20]);
        for name in ["cron/db1/77", "O'Brien \\ \"sons\""] {
            let owner = Owner::new(&client, 12, name);
            assert_eq!(who(owner.as_bytes()), name);
        }
        let place = Position { ticket: 7, ttl_ms: 1, client };
        assert_eq!(who(place.owner(3).as_bytes()), "the client abababab");
    }

    #[test]
    fn foreign_value_is_shown_escaped_and_cut() {
        assert_eq!(who(b"\x00\xffa\n\x1b["), r"\x00\xffa\n\x1b[");
        assert_eq!(who(b"user@host"), "user@host");
        assert_eq!(who(&[b'x'; 500]).chars().count(), 129);
        assert_eq!(who(b""), "");
    }

    #[test]
    fn value_on_most_nodes_is_reported() {
        let values: Vec<Value> = ["a", "b", "b"].map(|it| Value::Text(it.as_bytes().into())).into();
        assert_eq!(most_seen(values.iter(), |it| it), Some(&values[1]));
        assert_eq!(most_seen([].iter(), |it: &Value| it), None);
    }
}
