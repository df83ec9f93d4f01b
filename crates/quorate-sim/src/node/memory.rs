//! What the checker knows of a node's memory, whatever the node itself makes of it.

use quorate_core::{
    command::{Command, Reply},
    membership,
};

use crate::clock::Nanos;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Memory {
    /// When it last forgot something that it had granted.
    forgot_at: Option<Nanos>,
    /// When it forgot extensions that it had granted after that, in its guard.
    forgot_extended_at: Option<Nanos>,
    /// It has reason to doubt itself, and has not yet.
    is_suspect: bool,
    /// The latest time that it told anybody, by its own clock.
    pub(crate) seen_ms: u64,
    /// It was set back to this latest time, and nobody who knew a later one has come since.
    unwitnessed: Option<u64>,
}

/// What the checker makes of a command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Noted {
    Nothing,
    /// The node doubts itself from now on, and has reason to if `is_right`.
    Doubts {
        is_right: bool,
    },
    /// The node was set back, and lets somebody in who cannot know.
    Unwitnessed,
}

impl Memory {
    /// It may have forgotten, for all that anybody can see.
    pub(crate) const fn suspect(&mut self) {
        self.is_suspect = true;
    }

    pub(crate) const fn forget(&mut self, now: Nanos) {
        self.forgot_at = Some(now);
        self.forgot_extended_at = None;
        self.is_suspect = true;
        self.unwitnessed = None;
    }

    /// It forgets once more before it votes again. Holders extended what they have there for as
    /// long as their sessions lasted, and no longer: that is in the guard.
    pub(crate) fn forget_extended(&mut self, now: Nanos, session: Nanos) {
        self.forgot_extended_at = self.forgot_at.map(|at| now.min(at + session));
    }

    /// The machine is what it was when it told `seen_ms`.
    pub(crate) const fn set_back(&mut self, now: Nanos, seen_ms: u64) {
        self.forget(now);
        self.unwitnessed = Some(seen_ms);
        self.seen_ms = seen_ms;
    }

    /// Whether it is unknown to all that it was set back.
    pub(crate) const fn is_unwitnessed(&self) -> bool {
        self.unwitnessed.is_some()
    }

    /// Whether it forgot less than `within` ago.
    pub(crate) fn is_forgetful(&self, now: Nanos, within: Nanos) -> bool {
        self.forgot_at.is_some_and(|at| now < at + within)
    }

    /// Whether it may lack what is held, and must not vote for others: no claim lasts longer than
    /// `carried_for` after it was forgotten.
    pub(crate) fn is_carried(&self, now: Nanos, carried_for: Nanos) -> bool {
        let last = self.forgot_extended_at.or(self.forgot_at);
        last.is_some_and(|at| now < at + carried_for)
    }

    /// Something was run at `time_ms` by its clock.
    pub(crate) fn note(&mut self, time_ms: u64, command: &Command, reply: &Reply) -> Noted {
        let noted = match (command, reply) {
            (
                Command::Membership(membership::Command::Handshake(greeting)),
                Reply::Membership(membership::Reply::Info(met)),
            ) => {
                let is_new = met.quarantine.is_some() && met.mark == greeting.mark;
                let seen_ms = greeting.known.map_or(0, |known| known.seen_ms);
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
