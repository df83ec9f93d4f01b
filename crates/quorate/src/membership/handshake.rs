//! Asks a node what it is, and tells it what it does not know, until it may vote.

use quorate_core::membership::{
    Command, Disagreement, Enrolment, Handshake, Mark, NodeInfo, Opinion, Quarantine, Reply,
};

use super::{CHANGED_LATELY, Permit, Seat, SharedMembership, differs_by, quarantined};
use crate::error::NodeError;

/// A connection to a node, before it has a session.
pub(crate) trait Connection {
    /// Says a command, and returns what the node replies; `None` if that is no membership reply.
    async fn say(&mut self, command: Command) -> Result<Option<Reply>, NodeError>;

    /// Whether the server writes everything to disk before it answers, and has no replica that
    /// could take its place without that.
    async fn is_durable(&mut self) -> Result<bool, NodeError>;
}

impl Seat {
    /// Asks whether this new connection may vote.
    pub(crate) async fn join(&self, connection: &mut impl Connection) -> Result<Permit, NodeError> {
        match &self.shared {
            Some(shared) => Joining { seat: self, shared, connection }.join().await,
            None => Ok(Permit::free()),
        }
    }
}

struct Joining<'a, C> {
    seat: &'a Seat,
    shared: &'a SharedMembership,
    connection: &'a mut C,
}

impl<C: Connection> Joining<'_, C> {
    async fn join(&mut self) -> Result<Permit, NodeError> {
        let Self { seat, shared, .. } = *self;
        let is_durable = shared.settings.is_durable && self.connection.is_durable().await?;
        // What comes into force while we ask makes the answer void.
        let lists = shared.watch();
        for _ in 0..HANDSHAKES_MAX {
            let is_read_only = shared.is_read_only();
            let handshake = Handshake { is_durable, is_read_only, ..seat.handshake(shared)? };
            let info = self.shake(&handshake).await?;
            let now = shared.settings.clock.now();
            let opinion = shared.hear(seat.node, info.clone(), is_read_only, now);
            // An operator has begun to act, or is done.
            let opinion = opinion.ok_or(NodeError::Connecting)?;
            if is_read_only || matches!(opinion, Opinion::Votes(_)) {
                let why_not_yet = match is_read_only {
                    true => looked_at(&opinion, &info, &handshake)?,
                    false => None,
                };
                let quarantine_ms = shared.lock().view.config().map(|it| it.quarantine_ms);
                return Ok(Permit::new(&info, quarantine_ms, why_not_yet, lists));
            }
            self.advance(opinion, &info).await?;
        }
        Err(NodeError::SessionLost)
    }

    async fn shake(&mut self, handshake: &Handshake) -> Result<NodeInfo, NodeError> {
        let asked_at = self.shared.settings.clock.now();
        self.shared.lock().view.ask(self.seat.node);
        match self.connection.say(Command::Handshake(*handshake)).await? {
            Some(Reply::Info(info)) => {
                // A node does not remember who has looked at it, and would seem to have forgotten.
                if !handshake.is_read_only {
                    self.seat.know_time(info.time_us, asked_at);
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
                    return Err(waits(quarantine, info.is_enrolled));
                }
            }
            Opinion::Enrol(enrolment) => {
                let wall_ms = settings.clock.wall_ms();
                // Whatever the node replies, the next handshake shows what it is.
                self.connection.say(Command::Enrol(Enrolment { wall_ms, ..enrolment })).await?;
            }
            Opinion::Tell { mark, config } => {
                let fresh = settings.nonces.mark()?;
                let told = self.connection.say(Command::Change { mark, config, fresh }).await?;
                if let Some(Reply::TooSoon { left_ms }) = told {
                    return Err(quarantined(CHANGED_LATELY, left_ms));
                }
            }
            Opinion::Differs(differs) => return Err(differs_by(&differs)),
        }
        Ok(())
    }

    /// Lets the node vote at once. Returns false if it cannot yet.
    async fn admit(&mut self, mark: Mark) -> Result<bool, NodeError> {
        let fresh = self.shared.settings.nonces.mark()?;
        match self.connection.say(Command::Admit { mark, fresh }).await? {
            Some(Reply::Admitted) => Ok(true),
            Some(Reply::Holds { keys }) => {
                self.shared.lock().holding[self.seat.node] = Some(keys);
                Err(NodeError::NotEmpty(keys))
            }
            _ => Ok(false),
        }
    }
}

/// What is told of a node that was only looked at: it can be asked, and votes now or with the next
/// client; or why not.
fn looked_at(
    opinion: &Opinion,
    info: &NodeInfo,
    handshake: &Handshake,
) -> Result<Option<&'static str>, NodeError> {
    match (opinion, info.quarantine) {
        // It takes the mark that it was offered, from whoever comes next.
        (Opinion::Votes(mark), _) => Ok((*mark == handshake.mark).then_some(QUARANTINE_IS_OVER)),
        (Opinion::Differs(differs), _) => Err(differs_by(differs)),
        (Opinion::Enrol(_), Some(Quarantine { reason, left_ms })) => {
            Err(quarantined(&format!("{reason}; {BEGINS_LATER}"), left_ms))
        }
        (Opinion::Tell { .. }, Some(quarantine)) => Err(waits(quarantine, info.is_enrolled)),
        (Opinion::Quarantined(quarantine), _) => Err(waits(*quarantine, info.is_enrolled)),
        (Opinion::Tell { .. }, None) if info.changes_in_ms > 0 => {
            Err(quarantined(CHANGED_LATELY, info.changes_in_ms))
        }
        (Opinion::Tell { .. } | Opinion::Enrol(_), None) => Ok(Some(IS_BEHIND)),
    }
}

fn waits(Quarantine { reason, left_ms }: Quarantine, is_enrolled: bool) -> NodeError {
    match is_enrolled {
        true => quarantined(&reason.to_string(), left_ms),
        false => quarantined(&format!("{reason}, and {UNCONFIRMED}"), left_ms),
    }
}

/// What is told of a node that does nothing before another client comes.
const QUARANTINE_IS_OVER: &str =
    "the quarantine has ended: the node votes 5 s after the next read-write client connects";
const IS_BEHIND: &str = "it has missed a change of the set of nodes: it votes after the \
                         next read-write client has reported the change to it";
const BEGINS_LATER: &str = "the time begins when the next read-write client connects";

const UNCONFIRMED: &str = "too few other nodes have confirmed its place yet";

/// A node that is told something tells anew what it is; more than this is a node that does not keep
/// it.
const HANDSHAKES_MAX: usize = 6;
