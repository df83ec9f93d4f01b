//! The membership handshake: asks a node for its record and completes it until the node may vote.

use quorate_core::membership::{
    Command, Disagreement, Enrolment, Handshake, Mark, NodeInfo, Opinion, Quarantine, Reason, Reply,
};

use super::{
    CHANGED_LATELY, LinkMembership, SharedMembership, VotingTerms, differs_by, quarantined,
};
use crate::error::{NodeError, QuarantineCause};

/// A connection to a node, before it has a session.
pub(crate) trait Connection {
    /// Sends a command and returns the node's reply, or `None` if that is not a membership reply.
    async fn send(&mut self, command: Command) -> Result<Option<Reply>, NodeError>;

    /// Whether the server writes everything to disk before it answers, and has no replica that
    /// could be promoted without that data.
    async fn is_durable(&mut self) -> Result<bool, NodeError>;
}

impl LinkMembership {
    /// Asks whether this new connection may vote.
    pub(crate) async fn join(
        &self,
        connection: &mut impl Connection,
    ) -> Result<VotingTerms, NodeError> {
        match &self.shared {
            Some(shared) => Attempt { link: self, shared, connection }.join().await,
            None => Ok(VotingTerms::free()),
        }
    }
}

struct Attempt<'a, C> {
    link: &'a LinkMembership,
    shared: &'a SharedMembership,
    connection: &'a mut C,
}

impl<C: Connection> Attempt<'_, C> {
    async fn join(&mut self) -> Result<VotingTerms, NodeError> {
        let Self { link, shared, .. } = *self;
        let is_durable = shared.settings.is_durable && self.connection.is_durable().await?;
        // A list that comes into force during the handshake makes the answer void.
        let lists = shared.watch();
        for _ in 0..HANDSHAKES_MAX {
            let is_read_only = shared.is_read_only();
            let handshake = Handshake { is_durable, is_read_only, ..link.handshake(shared)? };
            let info = self.shake(&handshake).await?;
            let now = shared.settings.clock.now();
            let opinion = shared.handle_info(link.node, info.clone(), is_read_only, now);
            // `None`: an operator has begun to act, or has finished.
            let opinion = opinion.ok_or(NodeError::Connecting)?;
            if is_read_only || matches!(opinion, Opinion::Votes(_)) {
                let why_not_yet = match is_read_only {
                    true => read_only_report(&opinion, &info, &handshake)?,
                    false => None,
                };
                let quarantine_ms = shared.lock().view.config().map(|it| it.quarantine_ms);
                return Ok(VotingTerms::new(&info, quarantine_ms, why_not_yet, lists));
            }
            self.advance(opinion, &info).await?;
        }
        Err(NodeError::SessionLost)
    }

    async fn shake(&mut self, handshake: &Handshake) -> Result<NodeInfo, NodeError> {
        let asked_at = self.shared.settings.clock.now();
        self.shared.lock().view.ask(self.link.node);
        match self.connection.send(Command::Handshake(*handshake)).await? {
            Some(Reply::Info(info)) => {
                // A node does not record read-only clients, so it would seem to have forgotten this
                // one.
                if !handshake.is_read_only {
                    self.link.know_time(info.time_us, asked_at);
                }
                Ok(*info)
            }
            Some(Reply::OtherVersion(agreed)) => {
                Err(NodeError::Disagreement(Disagreement::Wire(agreed).to_string()))
            }
            _ => Err(NodeError::Protocol("expected a record while attaching".into())),
        }
    }

    /// Does what is needed before the next handshake.
    async fn advance(&mut self, opinion: Opinion, info: &NodeInfo) -> Result<(), NodeError> {
        let settings = &self.shared.settings;
        match opinion {
            Opinion::Votes(_) => {}
            Opinion::Quarantined(quarantine) => {
                let is_admitting = self.shared.lock().is_admitting;
                if !is_admitting || !self.admit(info.mark).await? {
                    return Err(waits(quarantine, info));
                }
            }
            Opinion::Enrol(enrolment) => {
                let wall_ms = settings.clock.wall_ms();
                // Whatever the node replies, the next handshake shows what it is.
                self.connection.send(Command::Enrol(Enrolment { wall_ms, ..enrolment })).await?;
            }
            Opinion::Update { mark, config } => {
                let fresh = settings.nonces.mark()?;
                let reply = self.connection.send(Command::Change { mark, config, fresh }).await?;
                if let Some(Reply::TooSoon { left_ms }) = reply {
                    return Err(quarantined(CHANGED_LATELY, left_ms, QuarantineCause::SetChanged));
                }
            }
            Opinion::Differs(differs) => return Err(differs_by(&differs)),
        }
        Ok(())
    }

    /// Makes the node vote immediately. Returns false if the node cannot vote yet.
    async fn admit(&mut self, mark: Mark) -> Result<bool, NodeError> {
        let fresh = self.shared.settings.nonces.mark()?;
        match self.connection.send(Command::Admit { mark, fresh }).await? {
            Some(Reply::Admitted) => Ok(true),
            Some(Reply::Holds { keys }) => {
                self.shared.lock().holding[self.link.node] = Some(keys);
                Err(NodeError::NotEmpty(keys))
            }
            _ => Ok(false),
        }
    }
}

/// What a read-only client reports about a node: `Ok` if the node can be read. It votes now
/// (`None`), or after the next read-write client for the given reason.
fn read_only_report(
    opinion: &Opinion,
    info: &NodeInfo,
    handshake: &Handshake,
) -> Result<Option<&'static str>, NodeError> {
    match (opinion, info.quarantine) {
        // The node takes the mark that the next read-write client offers.
        (Opinion::Votes(mark), _) => Ok((*mark == handshake.mark).then_some(QUARANTINE_IS_OVER)),
        (Opinion::Differs(differs), _) => Err(differs_by(differs)),
        (Opinion::Enrol(_), Some(Quarantine { reason, left_ms })) => Err(quarantined(
            &format!("{reason}; {TIME_HAS_NOT_BEGUN}"),
            left_ms,
            cause(reason, info),
        )),
        (Opinion::Update { .. }, Some(quarantine)) => Err(waits(quarantine, info)),
        (Opinion::Quarantined(quarantine), _) => Err(waits(*quarantine, info)),
        (Opinion::Update { .. }, None) if info.changes_in_ms > 0 => {
            Err(quarantined(CHANGED_LATELY, info.changes_in_ms, QuarantineCause::SetChanged))
        }
        (Opinion::Update { .. } | Opinion::Enrol(_), None) => Ok(Some(IS_BEHIND)),
    }
}

fn waits(Quarantine { reason, left_ms }: Quarantine, info: &NodeInfo) -> NodeError {
    let cause = cause(reason, info);
    match info.is_enrolled {
        true => quarantined(&reason.to_string(), left_ms, cause),
        false => quarantined(&format!("{reason}, and {UNCONFIRMED}"), left_ms, cause),
    }
}

/// As `Client::admit` decides.
fn cause(reason: Reason, info: &NodeInfo) -> QuarantineCause {
    match reason {
        Reason::Unknown if info.keys == 0 => QuarantineCause::New,
        Reason::Unknown | Reason::OtherRun | Reason::RolledBack | Reason::ClockStepped => {
            QuarantineCause::Forgotten
        }
    }
}

/// Why a node does nothing before a read-write client connects.
const QUARANTINE_IS_OVER: &str =
    "the quarantine has ended: the node votes 5 s after the next read-write client connects";
const IS_BEHIND: &str = "it has missed a change of the set of nodes: it votes after the \
                         next read-write client has reported the change to it";
const TIME_HAS_NOT_BEGUN: &str = "the time begins when the next read-write client connects";

const UNCONFIRMED: &str = "too few other nodes have confirmed its place yet";

/// A node reports its record again after each command. A node that needs more handshakes than this
/// does not store what it receives.
const HANDSHAKES_MAX: usize = 6;
