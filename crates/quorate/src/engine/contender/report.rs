//! What an attempt tells: callers about the nodes, and observers about everything.

use quorate_core::{command::Reply, contend::Outcome, moment::Moment, quorum::Vote};

use super::{Contender, State};
use crate::{
    error::{NodeAnswer, NodeReport, Trouble},
    observe::{self, Action, Event},
};

impl Contender {
    /// What each node said last.
    pub(crate) fn reports(&self) -> Box<[NodeReport]> {
        let state = self.lock();
        let (granted, refused) = (state.machine.granted(), state.machine.refused());
        let ended_at = state.ended_at.unwrap_or_else(|| self.engine.now());
        let is_over = ended_at
            >= match state.machine.is_waiting() {
                true => self.first_answers_by(),
                false => self.terms.give_up_at(self.started_at),
            };
        let answer = |number: usize| match &state.troubles[number] {
            _ if granted.contains(number) => NodeAnswer::Granted,
            _ if refused.contains(number) => NodeAnswer::Refused,
            Some(trouble) => NodeAnswer::Trouble(trouble.clone()),
            None => match self.engine.nodes[number].trouble() {
                Some(trouble) => NodeAnswer::Trouble(trouble),
                None => match state.machine.outcome() {
                    Some(Outcome::Held { .. } | Outcome::Contended) => NodeAnswer::NotAwaited,
                    _ if is_over => NodeAnswer::Trouble(Trouble::TimedOut),
                    _ => NodeAnswer::NotAwaited,
                },
            },
        };
        let nodes = self.engine.nodes.iter().enumerate();
        nodes.map(|(number, node)| NodeReport::new(node.label(), answer(number))).collect()
    }

    pub(super) fn tell_answer(
        &self,
        state: &mut State,
        node: usize,
        answer: &Result<Reply, Trouble>,
        (sent_at, now): (Moment, Moment),
    ) {
        let is_open = state.machine.outcome().is_none() && state.waiting_since.is_none();
        let is_refused = matches!(answer, Ok(Reply::Queued { .. }));
        if is_refused && state.machine.is_waiting() && is_open {
            state.waiting_since = Some(now);
            self.engine.tell(&Event::WaitStarted { name: self.name.as_str() });
        }
        if self.engine.is_observed() {
            let vote = match answer {
                Ok(Reply::Granted { .. }) => Vote::Grant,
                Ok(Reply::Queued { .. }) => Vote::Refuse,
                Ok(_) | Err(_) => Vote::Unknown,
            };
            let answer = NodeAnswer::of(vote, answer.as_ref().err());
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
    /// True while too few nodes can be reached, or answer anything but errors.
    pub(super) fn is_short(&self) -> bool {
        let answered = self.machine.granted().union(self.machine.refused());
        let quorum = quorate_core::quorum::majority(self.troubles.len());
        self.machine.is_short() || answered.len() < quorum
    }

    /// The outcome in the words of the observer.
    pub(super) fn told(&self, outcome: Outcome) -> observe::Outcome {
        match outcome {
            Outcome::Held { .. } => observe::Outcome::Done,
            Outcome::Abandoned if !self.is_late => observe::Outcome::Cancelled,
            Outcome::Abandoned if self.is_short() => observe::Outcome::NoQuorum,
            Outcome::Contended | Outcome::Abandoned => observe::Outcome::Busy,
            Outcome::NoQuorum => observe::Outcome::NoQuorum,
        }
    }
}
