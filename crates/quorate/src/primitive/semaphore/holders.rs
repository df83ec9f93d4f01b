//! Asks for the holders of several locks in one round trip, to choose which locks to try.
//!
//! Unlike an inspection, which waits for every node, this ends as soon as a majority has answered
//! about each lock. A node that hangs delays no call.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Poll, Waker},
    time::Duration,
};

use quorate_core::{
    command::{Command, Reply, Value},
    moment::Moment,
    name::Name,
    quorum::majority,
};

use crate::{
    engine::Engine,
    error::NodeError,
    node::{Inbox, Request, Sent},
};

/// For each lock, the value that a majority of the nodes stores. A lock without an answer within
/// `patience` counts as free.
pub(super) async fn holders(
    engine: &Engine,
    names: &[Name],
    patience: Duration,
) -> Vec<Option<Value>> {
    let now = engine.now();
    let survey = Arc::new(Survey::new(names.len(), engine.nodes.len()));
    for node in &engine.nodes {
        for (slot, name) in names.iter().enumerate() {
            let command = Command::ReadKey { name: name.clone() };
            // The inbox needs the index of the lock, not that of the node.
            let request = Request::to_inbox(command, slot, survey.clone());
            if let Sent::Answered(answer) = node.send(request, now) {
                survey.count(slot, answer);
            }
        }
        node.flush();
    }
    let mut sleep = engine.sleep_until(now.saturating_add(patience));
    poll_fn(|cx| {
        let mut state = survey.lock();
        if state.open == 0 {
            return Poll::Ready(());
        }
        state.waker = Some(cx.waker().clone());
        drop(state);
        Pin::new(&mut sleep).poll(cx)
    })
    .await;
    // Later answers are dropped.
    let seen = std::mem::take(&mut survey.lock().seen);
    seen.into_iter().map(|seen| seen.holder(survey.quorum)).collect()
}

#[derive(Debug)]
struct Survey {
    quorum: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    seen: Vec<Seen>,
    /// How many locks are not decided.
    open: usize,
    waker: Option<Waker>,
}

/// What the nodes have answered about one lock.
#[derive(Clone, Debug)]
struct Seen {
    values: Vec<(Value, usize)>,
    /// How many nodes have not answered.
    pending: usize,
}

impl Seen {
    fn holder(self, quorum: usize) -> Option<Value> {
        self.values.into_iter().find(|(_, count)| *count >= quorum).map(|(value, _)| value)
    }

    /// The largest number of nodes with the same holder.
    fn most(&self) -> usize {
        self.values.iter().map(|(_, count)| *count).max().unwrap_or_default()
    }

    /// True while further answers may decide.
    fn is_open(&self, quorum: usize) -> bool {
        self.most() < quorum && self.most() + self.pending >= quorum
    }
}

impl Survey {
    fn new(names: usize, nodes: usize) -> Self {
        let seen = vec![Seen { values: Vec::new(), pending: nodes }; names];
        let state = Mutex::new(State { seen, open: names, waker: None });
        Self { quorum: majority(nodes), state }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, slot: usize, answer: Result<Reply, NodeError>) {
        let mut state = self.lock();
        let Some(seen) = state.seen.get_mut(slot) else { return };
        let was_open = seen.is_open(self.quorum);
        seen.pending = seen.pending.saturating_sub(1);
        if let Ok(Reply::Key(Some(observation))) = answer {
            match seen.values.iter_mut().find(|(value, _)| *value == observation.value) {
                Some((_, count)) => *count += 1,
                None => seen.values.push((observation.value, 1)),
            }
        }
        if was_open && !seen.is_open(self.quorum) {
            state.open -= 1;
        }
        let waker = if state.open == 0 { state.waker.take() } else { None };
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Inbox for Survey {
    fn handle_answer(
        self: Arc<Self>,
        slot: usize,
        _command: Command,
        answer: Result<Reply, NodeError>,
        _now: Moment,
    ) {
        self.count(slot, answer);
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::command::KeyObservation;

    use super::*;

    fn shows(value: &str) -> Result<Reply, NodeError> {
        let value = Value::Text(value.as_bytes().into());
        Ok(Reply::Key(Some(KeyObservation { value, expires_in_ms: None })))
    }

    fn after(answers: Vec<Result<Reply, NodeError>>) -> (usize, bool) {
        let survey = Survey::new(1, 3);
        answers.into_iter().for_each(|answer| survey.count(0, answer));
        let state = survey.lock();
        (state.open, state.seen[0].clone().holder(survey.quorum).is_some())
    }

    #[test]
    fn a_lock_is_held_as_soon_as_a_majority_shows_one_holder() {
        assert_eq!(after(vec![shows("a")]), (1, false));
        assert_eq!(after(vec![shows("a"), shows("b")]), (1, false));
        assert_eq!(after(vec![shows("a"), shows("a")]), (0, true));
        assert_eq!(after(vec![shows("a"), shows("b"), shows("a")]), (0, true));
        assert_eq!(after(vec![shows("a"), shows("a"), shows("b")]), (0, true));
    }

    #[test]
    fn it_is_not_as_soon_as_no_majority_can_show_one() {
        let free = || Ok(Reply::Key(None));
        assert_eq!(after(vec![free(), free()]), (0, false));
        assert_eq!(after(vec![shows("a"), shows("b"), shows("c")]), (0, false));
        assert_eq!(after(vec![shows("a"), Err(NodeError::TimedOut), free()]), (0, false));
    }
}
