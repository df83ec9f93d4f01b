//! The membership of one link: whether its connection may vote, and in which session.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use quorate_core::{
    command::{Command, Reply, SessionTerms},
    membership::{self, Handshake, Mark, NodeInfo, SESSION_LIFE_MS, slack_us},
    moment::Moment,
};

use super::{Retry, SharedMembership, version::Watch};
use crate::nonces::NoRandomness;

/// The membership of one link.
#[derive(Debug)]
pub(crate) struct LinkMembership {
    pub(super) node: usize,
    /// `None` if nodes vote without membership.
    pub(super) shared: Option<Arc<SharedMembership>>,
    /// A request to renew the session is unanswered.
    is_asked: AtomicBool,
}

impl LinkMembership {
    pub(crate) fn new(node: usize, shared: Option<Arc<SharedMembership>>) -> Self {
        Self { node, shared, is_asked: AtomicBool::new(false) }
    }

    /// The command to send instead of this ping. `None` without random numbers: then the next
    /// handshake happens with a new connection at the latest.
    pub(crate) fn renewal(&self, ping: Command) -> Option<Command> {
        let Some(shared) = &self.shared else { return Some(ping) };
        let asked = match shared.settings.is_read_only {
            true => {
                let handshake = Handshake { is_read_only: true, ..self.handshake(shared).ok()? };
                membership::Command::Handshake(handshake).into()
            }
            false => ping,
        };
        if !self.is_asked.swap(true, Ordering::SeqCst) {
            shared.lock().view.ask(self.node);
        }
        Some(asked)
    }

    /// The session was renewed, or the node is unchanged.
    pub(crate) fn handle_renewal(&self) {
        if let Some(shared) = &self.shared {
            shared.lock().view.record_ping(self.node);
            self.is_asked.store(false, Ordering::SeqCst);
        }
    }

    /// The node's clock showed `time_us` after `asked_at`.
    pub(crate) fn know_time(&self, time_us: u64, asked_at: Moment) {
        if let Some(shared) = &self.shared {
            shared.lock().view.record_time(self.node, time_us, asked_at);
        }
    }

    /// The connection has closed.
    pub(crate) fn leave(&self) {
        if let Some(shared) = &self.shared {
            shared.lock().view.leave(self.node);
            self.is_asked.store(false, Ordering::SeqCst);
        }
    }

    /// How the link waits between its attempts.
    pub(crate) fn retry(&self) -> Retry<'_> {
        Retry::new(self)
    }

    pub(super) fn handshake(&self, shared: &SharedMembership) -> Result<Handshake, NoRandomness> {
        let settings = &shared.settings;
        Ok(Handshake {
            wall_ms: settings.clock.wall_ms(),
            known: shared.lock().view.known(self.node, settings.clock.now()),
            mark: settings.nonces.mark()?,
            id: settings.nonces.node_id()?,
            lifetime_ms: SESSION_LIFE_MS,
            quarantine_ms: shared.quarantine_ms,
            is_read_only: false,
            is_durable: false,
        })
    }
}

/// The terms under which a connection votes.
#[derive(Debug)]
pub(crate) struct VotingTerms {
    mark: Option<Mark>,
    slack_us: u64,
    recovers_in: Duration,
    /// Why the node does not vote before a read-write client connects.
    pub(crate) why_not_yet: Option<&'static str>,
    /// Notifies of another list. `None` without membership.
    lists: Option<Watch>,
}

impl VotingTerms {
    /// Without membership.
    pub(super) fn free() -> Self {
        let (recovers_in, slack_us) = (Duration::ZERO, slack_us(None));
        Self { mark: None, slack_us, recovers_in, why_not_yet: None, lists: None }
    }

    /// The terms that follow from the record of a node that votes.
    pub(super) fn new(
        info: &NodeInfo,
        quarantine_ms: Option<u64>,
        why_not_yet: Option<&'static str>,
        lists: Watch,
    ) -> Self {
        let recovers_in = Duration::from_millis(info.recovers_in_ms);
        let (mark, slack_us) = (Some(info.mark), slack_us(quarantine_ms));
        Self { mark, slack_us, recovers_in, why_not_yet, lists: Some(lists) }
    }

    /// The terms of the session, with the client's wall clock.
    pub(crate) const fn terms(&self, wall_ms: u64) -> SessionTerms {
        let Self { mark, slack_us, .. } = *self;
        SessionTerms { lifetime_ms: SESSION_LIFE_MS, mark, slack_us, wall_ms }
    }

    /// For how long locks must not be requested from the node: holders renew theirs first. A node
    /// that waits for a read-write client recovers when that client connects.
    pub(crate) fn recovers_in(&self) -> Duration {
        self.why_not_yet.map_or(self.recovers_in, |_| Duration::ZERO)
    }

    /// Completes when they are void: another list of nodes is in force.
    pub(crate) async fn voided(mut self) {
        match &mut self.lists {
            Some(lists) => lists.changed().await,
            None => std::future::pending().await,
        }
    }

    /// Whether a renewed handshake shows the same node as when the terms were made.
    pub(crate) fn is_kept(
        (terms, is_waiting): (&SessionTerms, bool),
        command: &Command,
        reply: Option<&Reply>,
    ) -> bool {
        let Command::Membership(membership::Command::Handshake(handshake)) = command else {
            return true;
        };
        let Some(Reply::Membership(membership::Reply::Info(info))) = reply else { return false };
        // A waiting node takes the offered mark each time, until a read-write client connects.
        let is_same = terms.mark == Some(info.mark) || is_waiting && info.mark == handshake.mark;
        is_same && info.quarantine.is_none()
    }
}
