//! What an attempt tells: callers about the nodes, and observers about everything.

use quorate_core::{command::Reply, contend::Outcome, moment::Moment, quorum::Vote};

use super::{
    super::report::{Heard, answer_now, trouble_now},
    Contender, State,
};
use crate::{
    error::{NodeAnswer, NodeReport, Trouble},
    node::Node,
    observe::{self, Action, Event},
};

impl Contender {
    /// What each node has to say to this attempt, as of now.
    pub(crate) fn reports(&self) -> Box<[NodeReport]> {
        let state = self.lock();
        let answer = |number: usize, node: &dyn Node| {
            let (vote, silence) = (state.vote(number, node), self.silence(&state, number));
            answer_now(node, vote, state.heard[number].as_ref(), silence)
        };
        let nodes = self.engine.nodes.iter().enumerate();
        nodes.map(|(number, it)| NodeReport::new(it.label(), answer(number, &**it))).collect()
    }

    /// Waiting does not help if so many nodes deny us that no majority is left.
    pub(super) fn give_up_if_denied(&self, state: &mut State) {
        if state.waiter.machine().outcome().is_some() {
            return;
        }
        let known = self.engine.nodes.iter().zip(&state.heard);
        let troubles = known.filter_map(|(node, heard)| trouble_now(&**node, heard.as_ref()));
        let denials = troubles.filter(Trouble::is_denial).count();
        if self.nodes() - denials < quorate_core::quorum::majority(self.nodes()) {
            state.waiter.handle_abandon();
        }
    }

    /// What to say of a node that can be asked, and has no answer to tell.
    fn silence(&self, state: &State, node: usize) -> NodeAnswer {
        if !state.waiter.machine().unanswered().contains(node) {
            // Nobody is asked while too few can be.
            return NodeAnswer::Attached;
        }
        let patience = match state.waiter.machine().is_waiting() {
            true => self.patience_with_first_answers(),
            false => self.terms.vote_timeout(),
        };
        let ended_at = state.ended_at.unwrap_or_else(|| self.engine.now());
        let is_late = ended_at >= state.asked_at[node].saturating_add(patience);
        match state.waiter.machine().outcome() {
            Some(Outcome::Held { .. } | Outcome::Contended) => NodeAnswer::NotAwaited,
            Some(Outcome::NoQuorum | Outcome::Abandoned) | None => match is_late {
                true => NodeAnswer::Trouble(Trouble::TimedOut),
                false => NodeAnswer::NotAwaited,
            },
        }
    }

    pub(super) fn tell_answer(
        &self,
        state: &mut State,
        node: usize,
        answer: &Result<Reply, Heard>,
        (sent_at, now): (Moment, Moment),
    ) {
        let is_open = state.waiter.machine().outcome().is_none() && state.waiting_since.is_none();
        let is_refused = matches!(answer, Ok(Reply::Queued { .. }));
        if is_refused && state.waiter.machine().is_waiting() && is_open {
            state.waiting_since = Some(now);
            self.engine.tell(&Event::WaitStarted { name: self.name.as_str() });
        }
        if self.engine.is_observed() {
            let vote = match answer {
                Ok(Reply::Granted { .. }) => Vote::Grant,
                Ok(Reply::Queued { .. }) => Vote::Refuse,
                Ok(_) | Err(_) => Vote::Unknown,
            };
            let answer = NodeAnswer::of(vote, answer.as_ref().err().map(|heard| &heard.trouble));
            let (round, node) = (self.round, self.engine.nodes[node].label());
            let (action, took) = (Action::Acquire, now.saturating_since(sent_at));
            self.engine.tell(&Event::Answered { round, action, node, answer: &answer, took });
        }
    }

    pub(super) fn tell_end(
        &self,
        outcome: observe::Outcome,
        waiting_since: Option<Moment>,
        now: Moment,
    ) {
        let (round, name, action) = (self.round, self.name.as_str(), Action::Acquire);
        let took = now.saturating_since(self.started_at);
        self.engine.tell(&Event::Ended { round, action, name, outcome, took });
        if let Some(since) = waiting_since {
            let waited = now.saturating_since(since);
            self.engine.tell(&Event::WaitEnded { name, waited });
        }
    }
}

impl State {
    /// The vote of a node, for as long as it stands. A waiter asks again and again: a refusal is
    /// over with the next error, and either vote with the connection. What was won was won.
    fn vote(&self, number: usize, node: &dyn Node) -> Option<Vote> {
        let is_held = matches!(self.waiter.machine().outcome(), Some(Outcome::Held { .. }));
        let is_last = self.heard[number].is_none();
        match node.trouble() {
            Some(_) if !is_held => None,
            _ if self.waiter.machine().granted().contains(number) => Some(Vote::Grant),
            _ if self.waiter.machine().refused().contains(number) && is_last => Some(Vote::Refuse),
            _ => None,
        }
    }

    /// True while too few nodes can be reached, or answer anything but errors; and while a majority
    /// has granted and not agreed on a fence yet, since no other owner is in the way.
    pub(super) fn is_short(&self) -> bool {
        let refused = self.waiter.machine().refused();
        let answered = self.waiter.machine().granted().union(refused);
        let quorum = quorate_core::quorum::majority(self.heard.len());
        self.waiter.machine().is_short() || answered.len() < quorum || refused.is_empty()
    }

    /// The outcome in the words of the observer.
    pub(super) fn told(&self, outcome: Outcome) -> observe::Outcome {
        match outcome {
            Outcome::Held { .. } => observe::Outcome::Done,
            Outcome::NoQuorum => observe::Outcome::NoQuorum,
            Outcome::Abandoned if !self.is_late => observe::Outcome::Cancelled,
            Outcome::Abandoned if self.is_short() => observe::Outcome::NoQuorum,
            Outcome::Contended | Outcome::Abandoned => observe::Outcome::Busy,
        }
    }
}
