//! What a client can do at one step, and what it has at hand for it: its clock, its terms, and
//! where it puts what it sends.

use quorate_core::{
    command::{Command, Owner, Prolongation},
    moment::Moment,
    name::Name,
    round::{Output, Verb},
    terms::Terms,
};

use super::link::{Request, Topic};

/// What a client may do of its own accord, or because its time has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Move {
    /// Begins an attempt.
    Start,
    /// The caller learns that the lock was won.
    Accept,
    /// The caller goes away while it waits for the lock.
    Abandon,
    /// Sends a renewal.
    Renew,
    /// Gives back what it has in hand, whether that has ended or not.
    Release,
    /// The vote timeout of a machine strikes; it may be late.
    GiveUp(Topic),
}

/// What a client knows at a step, and where it puts what it sends.
#[derive(Debug)]
pub(super) struct Desk<'a> {
    pub(super) terms: Terms,
    pub(super) nodes: usize,
    pub(super) name: &'a Name,
    pub(super) now: Moment,
    pub(super) sent: Vec<(usize, Request)>,
}

impl Desk<'_> {
    /// Sends what a machine asks for until it waits. Returns true if it waits for nothing.
    pub(super) fn drive(
        &mut self,
        owner: &Owner,
        topic: Topic,
        mut poll: impl FnMut() -> Output,
    ) -> bool {
        loop {
            let (nodes, verb) = match poll() {
                Output::Send { nodes, verb } => (nodes, verb),
                Output::Wait { .. } => return false,
                Output::Idle => return true,
            };
            let (name, owner, ttl_ms) = (self.name.clone(), owner.clone(), self.terms.ttl_ms());
            let (topic, command) = match verb {
                Verb::Take => (topic, Command::Take { name, owner, ttl_ms, speaker: None }),
                Verb::Free => (Topic::Free, Command::Free { name, owner }),
                Verb::Prolong => {
                    let entries = [Prolongation { name, owner, ttl_ms }].into();
                    (topic, Command::Prolong { entries, speaker: None })
                }
                Verb::Check => (topic, Command::Check { name, owner }),
            };
            let request = Request { topic, command };
            self.sent.extend(nodes.iter().map(|node| (node, request.clone())));
        }
    }
}

/// The mark of one attempt of one client: two letters, as few as possible since they are hashed in
/// every state.
pub(super) fn owner(client: u8, attempt: u8) -> Owner {
    Owner::from_bytes(&[b'A' + client, b'0' + attempt])
}
