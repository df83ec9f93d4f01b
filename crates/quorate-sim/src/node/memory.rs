//! What the checker knows about what a node has forgotten, independent of the node.

use quorate_core::{
    command::{Command, Reply},
    membership,
};

use crate::clock::Nanos;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Memory {
    /// When it last forgot a grant.
    forgot_at: Option<Nanos>,
    /// When it forgot extensions that it had confirmed after that, during its quarantine.
    forgot_extended_at: Option<Nanos>,
    /// It has a reason for a quarantine that has not begun yet.
    is_suspect: bool,
    /// The latest time that it reported to a client, by its own clock.
    pub(crate) seen_ms: u64,
    /// It was rolled back to this latest time, and no client that knew a later one has come since.
    unwitnessed: Option<u64>,
}

/// What the checker concludes from a command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Noted {
    Nothing,
    /// The quarantine of the node begins, with a reason if `is_right`.
    Doubts {
        is_right: bool,
    },
    /// The node was rolled back, and gives a session to a client that cannot know.
    Unwitnessed,
}

impl Memory {
    /// For all that clients can observe, it may have forgotten grants.
    pub(crate) const fn suspect(&mut self) {
        self.is_suspect = true;
    }

    pub(crate) const fn forget(&mut self, now: Nanos) {
        self.forgot_at = Some(now);
        self.forgot_extended_at = None;
        self.is_suspect = true;
        self.unwitnessed = None;
    }

    /// It forgets once more before it votes again. Holders extended their leases there only while
    /// their sessions lasted: that is within the quarantine.
    pub(crate) fn forget_extended(&mut self, now: Nanos, session: Nanos) {
        self.forgot_extended_at = self.forgot_at.map(|at| now.min(at + session));
    }

    /// The node has the state that it had when it reported `seen_ms`.
    pub(crate) const fn set_back(&mut self, now: Nanos, seen_ms: u64) {
        self.forget(now);
        self.unwitnessed = Some(seen_ms);
        self.seen_ms = seen_ms;
    }

    /// Whether no client knows that it was rolled back.
    pub(crate) const fn is_unwitnessed(&self) -> bool {
        self.unwitnessed.is_some()
    }

    /// Whether it forgot less than `within` ago.
    pub(crate) fn is_forgetful(&self, now: Nanos, within: Nanos) -> bool {
        self.forgot_at.is_some_and(|at| now < at + within)
    }

    /// Whether it may lack keys of holders and must not vote for others: no claim lasts longer than
    /// `carried_for` after it was forgotten.
    pub(crate) fn is_carried(&self, now: Nanos, carried_for: Nanos) -> bool {
        let last = self.forgot_extended_at.or(self.forgot_at);
        last.is_some_and(|at| now < at + carried_for)
    }

    /// A command ran at `time_ms` by its clock.
    pub(crate) fn note(&mut self, time_ms: u64, command: &Command, reply: &Reply) -> Noted {
        let noted = match (command, reply) {
            (
                Command::Membership(membership::Command::Handshake(handshake)),
                Reply::Membership(membership::Reply::Info(info)),
            ) => {
                let is_new = info.quarantine.is_some() && info.mark == handshake.mark;
                let seen_ms = handshake.known.map_or(0, |known| known.seen_ms);
                let is_blind = self.unwitnessed.take().is_some_and(|before| seen_ms <= before);
                match (is_new, is_blind) {
                    (true, _) => {
                        Noted::Doubts { is_right: std::mem::replace(&mut self.is_suspect, false) }
                    }
                    (false, true) => Noted::Unwitnessed,
                    (false, false) => Noted::Nothing,
                }
            }
            (Command::Attach { .. } | Command::Ping { .. }, Reply::Attached { .. }) => {
                match self.unwitnessed.take() {
                    Some(_) => Noted::Unwitnessed,
                    None => Noted::Nothing,
                }
            }
            _ => return Noted::Nothing,
        };
        self.seen_ms = self.seen_ms.max(time_ms);
        noted
    }
}
