//! The heartbeats of all waiters of a client, gathered into one command for a node.

use std::sync::Arc;

use crate::{
    command::{Command, Owner, PROLONG_MAX, Reply},
    line::{Ask, Speaker, Standing},
    mutant::{self, Mutant},
};

/// What one node is to be asked with the next command. `T` names a question.
#[derive(Clone, Debug)]
pub struct Heartbeats<T> {
    gathered: Vec<(Standing, T)>,
}

impl<T> Default for Heartbeats<T> {
    fn default() -> Self {
        Self { gathered: Vec::new() }
    }
}

/// One command, and the questions that it asks, in its order.
#[derive(Clone, Debug)]
pub struct Heartbeat<T> {
    /// Each connection puts in its own session.
    pub command: Command,
    /// The questions.
    pub asked: Vec<T>,
}

impl<T> Heartbeats<T> {
    /// The waiter asks with the next command.
    pub fn add(&mut self, standing: Standing, question: T) {
        self.gathered.push((standing, question));
    }

    /// The owner leaves, or holds the lock: it must not be asked for behind its release. Returns
    /// how many questions will not be asked.
    pub fn remove(&mut self, owner: &Owner) -> usize {
        let before = self.gathered.len();
        self.gathered.retain(|(standing, _)| standing.owner != *owner);
        before.saturating_sub(self.gathered.len())
    }

    /// True if there is nothing to ask.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.gathered.is_empty()
    }

    /// Takes out everything. A waiter that is alone asks alone.
    pub fn take(&mut self, speaker: Speaker) -> Vec<Heartbeat<T>> {
        let mut gathered = std::mem::take(&mut self.gathered);
        if mutant::is_on(Mutant::HeartbeatOfFirst) {
            gathered.truncate(1);
        }
        let mut left = gathered.into_iter();
        let mut commands = Vec::new();
        loop {
            let (standing, asked): (Vec<_>, Vec<_>) = left.by_ref().take(PROLONG_MAX).unzip();
            let command = match &standing[..] {
                [] => return commands,
                [Standing { name, owner }] => {
                    let (name, owner) = (name.clone(), owner.clone());
                    let ask = Ask { name, owner, is_waiting: true, is_known: true };
                    Command::Acquire { speaker, ask }
                }
                _ => Command::Heartbeat { speaker, standing: Arc::from(standing) },
            };
            commands.push(Heartbeat { command, asked });
        }
    }
}

impl<T> Heartbeat<T> {
    /// What a reply says to each of the questions, in their order; `None` is no usable answer.
    pub fn answers<'a>(
        &'a self,
        reply: Option<&'a Reply>,
    ) -> impl Iterator<Item = (&'a T, Option<&'a Reply>)> {
        self.asked.iter().enumerate().map(move |(index, question)| {
            let index = if mutant::is_on(Mutant::HeartbeatByFirst) { 0 } else { index };
            let answer = match (&self.command, reply) {
                (Command::Heartbeat { .. }, Some(Reply::EachHeard(each))) => {
                    let each = each.get(index).filter(|_| each.len() == self.asked.len());
                    each.and_then(Option::as_ref)
                }
                (Command::Heartbeat { .. }, _) => None,
                (_, reply) => reply,
            };
            (question, answer)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        command::ClientId,
        line::{Place, Session},
        name::Name,
    };

    fn gathered(count: u64) -> Heartbeats<u64> {
        let mut heartbeats = Heartbeats::default();
        for number in 0..count {
            heartbeats.add(standing(number), number);
        }
        heartbeats
    }

    fn standing(number: u64) -> Standing {
        let name = Name::parse("orders", "").unwrap();
        Standing { name, owner: place().owner(number) }
    }

    fn place() -> Place {
        Place { ticket: 7, ttl_ms: 1_000, client: ClientId::from_random([3; 20]) }
    }

    fn speaker() -> Speaker {
        Speaker { client: ClientId::from_random([3; 20]), session: Session::UNSET }
    }

    #[test]
    fn waiters_that_are_due_together_ask_with_one_command() {
        let mut heartbeats = gathered(PROLONG_MAX as u64 + 1);
        heartbeats.remove(&place().owner(0));
        let all = heartbeats.take(speaker());
        assert_eq!(all.iter().map(|it| it.asked.len()).collect::<Vec<_>>(), [PROLONG_MAX]);
        assert!(heartbeats.is_empty() && heartbeats.take(speaker()).is_empty());
        let alone = &gathered(1).take(speaker())[0];
        assert!(matches!(alone.command, Command::Acquire { .. }), "one asks alone");
    }

    #[test]
    fn each_waiter_gets_its_own_answer() {
        let heartbeat = &gathered(3).take(speaker())[0];
        let each = [Some(Reply::Absent), None, Some(Reply::Stale)];
        let reply = Reply::EachHeard(each.clone().into());
        let answers: Vec<_> = heartbeat.answers(Some(&reply)).collect();
        let [first, second, third] = &each;
        assert_eq!(answers, [(&0, first.as_ref()), (&1, second.as_ref()), (&2, third.as_ref())]);
        let short = Reply::EachHeard(each[..2].into());
        assert!(heartbeat.answers(Some(&short)).all(|(_, answer)| answer.is_none()));
        assert!(heartbeat.answers(Some(&Reply::Stale)).all(|(_, answer)| answer.is_none()));
        assert!(heartbeat.answers(None).all(|(_, answer)| answer.is_none()));
    }
}
