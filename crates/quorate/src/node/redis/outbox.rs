//! What one link has to send and what it waits for: a queue that nobody can reorder.
//!
//! Bytes are written by whoever finds the link idle, so that a lone caller pays for no hop to
//! another thread. When answers are outstanding, requests are gathered and the driver writes them
//! together.

use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use quorate_core::{
    command::{Command, Owner, Reply, SessionTerms},
    moment::Moment,
    queue::{AcquireRequest, Session},
};
use tokio::io::AsyncWrite;

use super::{
    script::{Script, Scripts},
    wire::write_command,
};
use crate::{error::NodeError, membership::Permit, node::Request};

/// The changing part of a link.
#[derive(Debug)]
pub(crate) struct Outbox {
    pub(crate) phase: Phase,
    /// Sent or about to be sent, in that order; replies come in the same order.
    pub(crate) waiting: VecDeque<Waiting>,
    pub(crate) scripts: Scripts,
    /// With which every command is said that needs one.
    pub(crate) session: Session,
    /// On which terms.
    pub(crate) terms: SessionTerms,
    /// Why the node does not vote before another client comes: this one only looks.
    pub(crate) why_not_yet: Option<&'static str>,
    /// When the server last sent anything.
    pub(crate) heard_at: Moment,
    /// The driver has its timer set and will look after silence.
    pub(crate) is_watched: bool,
    /// Counts connections: a writer of an older one is not taken back.
    pub(crate) generation: u64,
    /// What a write by a caller ran into.
    pub(crate) broken: Option<io::Error>,
    pub(crate) driver: Option<Waker>,
    /// The client's machine has more for us, which the driver takes when it writes next.
    pub(crate) has_work: bool,
    bytes: Vec<u8>,
    /// How many of those that wait are in `bytes`: nobody has begun to write them.
    gathered: usize,
    /// Bytes were written that the stream may still keep to itself.
    is_unflushed: bool,
    /// Absent while down, and while somebody writes.
    writer: Option<Writer>,
}

/// Whether requests can be sent.
#[derive(Debug)]
pub(crate) enum Phase {
    Up,
    /// The node's quarantine has just ended. Until then it is not asked for locks: their holders
    /// give it back their keys first.
    Recovering {
        until: Moment,
    },
    Down(NodeError),
    /// In quarantine until then.
    Quarantined {
        until: Moment,
        why: String,
    },
    Closed,
}

/// A request whose answer is awaited.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) request: Request,
    pub(crate) queued_at: Moment,
    /// The script went as text.
    is_by_text: bool,
}

impl Outbox {
    pub(crate) fn new(prefix: Arc<str>, now: Moment) -> Self {
        Self {
            phase: Phase::Down(NodeError::Connecting),
            waiting: VecDeque::new(),
            scripts: Scripts::new(prefix),
            session: Session::UNSET,
            terms: SessionTerms::without_membership(0),
            why_not_yet: None,
            heard_at: now,
            is_watched: false,
            generation: 0,
            broken: None,
            driver: None,
            has_work: false,
            bytes: Vec::new(),
            gathered: 0,
            is_unflushed: false,
            writer: None,
        }
    }

    /// A new connection is attached.
    pub(crate) fn open(
        &mut self,
        writer: Writer,
        scripts: Scripts,
        (session, terms): (Session, SessionTerms),
        phase: Phase,
        now: Moment,
    ) {
        self.phase = phase;
        self.scripts = scripts;
        self.session = session;
        self.terms = terms;
        self.why_not_yet = None;
        self.heard_at = now;
        self.broken = None;
        self.bytes.clear();
        self.gathered = 0;
        self.is_unflushed = false;
        self.writer = Some(writer);
        self.generation += 1;
    }

    /// The connection is gone. Returns what will never be answered.
    pub(crate) fn close(&mut self, phase: Phase) -> VecDeque<Waiting> {
        self.phase = phase;
        self.writer = None;
        self.generation += 1;
        self.is_watched = false;
        self.has_work = false;
        self.bytes.clear();
        self.gathered = 0;
        std::mem::take(&mut self.waiting)
    }

    /// Why this cannot be sent now, if so.
    pub(crate) fn obstacle(&self, command: &Command, now: Moment) -> Option<NodeError> {
        match &self.phase {
            Phase::Recovering { .. } if !command.is_acquire() => None,
            _ => self.node_error(now),
        }
    }

    /// True while there is a connection and a session.
    pub(crate) const fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Up | Phase::Recovering { .. })
    }

    /// Why no lock can be asked for now, if so.
    pub(crate) fn node_error(&self, now: Moment) -> Option<NodeError> {
        match &self.phase {
            Phase::Up => None,
            Phase::Recovering { until } => {
                let (left, why) = (until.saturating_since(now), RECOVERING.to_owned());
                Some(NodeError::Quarantined { left, why })
            }
            Phase::Down(node_error) => Some(node_error.clone()),
            Phase::Quarantined { until, why } => {
                Some(NodeError::Quarantined { left: until.saturating_since(now), why: why.clone() })
            }
            Phase::Closed => Some(NodeError::ShutDown),
        }
    }

    /// Whether a node that is looked at again is what it was.
    pub(crate) fn is_as_before(
        &self,
        command: &Command,
        answer: &Result<Reply, NodeError>,
    ) -> bool {
        let found = (&self.terms, self.why_not_yet.is_some());
        Permit::is_kept(found, command, answer.as_ref().ok())
    }

    /// Puts a request at the end of the queue.
    pub(crate) fn push(&mut self, mut request: Request, now: Moment) {
        request.command.set_session(self.session);
        let script = Script::of(&request.command);
        let is_by_text = script.is_some_and(|script| self.scripts.digest(script).is_none());
        write_command(&mut self.bytes, &request.command, &self.scripts);
        self.gathered += 1;
        self.waiting.push_back(Waiting { request, queued_at: now, is_by_text });
    }

    /// The server has forgotten the script of this request. Sends it again as text, behind what was
    /// queued meanwhile, where that order does not matter: a `Free` or a `Release` for good is the
    /// last that is said for its owner, and a look changes nothing. Most else is handed back,
    /// since it would run later than what its sender asked for afterwards.
    pub(crate) fn push_again(&mut self, waiting: Waiting) -> Option<Waiting> {
        let command = &waiting.request.command;
        if let Some(script) = Script::of(command) {
            self.scripts.set_forgotten(script, true);
        }
        match command {
            // A server that has no script for its text will not have it next time either.
            _ if waiting.is_by_text => Some(waiting),
            Command::DeleteKey { .. }
            | Command::Release { yields: None, .. }
            | Command::Check { .. }
            | Command::ReadKey { .. }
            | Command::Inspect { .. }
            | Command::List { .. } => {
                self.write_again(waiting);
                None
            }
            // Nothing but its end may have been said for an owner behind its question.
            Command::Acquire { request: AcquireRequest { owner, .. }, .. }
            | Command::SetKey { owner, .. }
                if !self.is_released(owner) =>
            {
                self.write_again(waiting);
                None
            }
            // A fence that is to be confirmed does nothing behind that end: it takes no key again.
            Command::Extend { entries, .. } => match &**entries {
                [only] if !only.may_heal => {
                    self.write_again(waiting);
                    None
                }
                _ => Some(waiting),
            },
            _ => Some(waiting),
        }
    }

    fn is_released(&self, wanted: &Owner) -> bool {
        let mut entries = self.waiting.iter().flat_map(|it| it.request.command.entries());
        entries.any(|entry| match entry {
            Command::Release { owner, .. } | Command::DeleteKey { owner, .. } => owner == wanted,
            _ => false,
        })
    }

    fn write_again(&mut self, waiting: Waiting) {
        write_command(&mut self.bytes, &waiting.request.command, &self.scripts);
        self.gathered += 1;
        self.waiting.push_back(Waiting { is_by_text: true, ..waiting });
    }

    /// True if an answer is due to something that was written, or is being written. The driver
    /// writes what was gathered when it comes.
    pub(crate) fn is_answer_due(&self) -> bool {
        self.waiting.len() > self.gathered
    }

    /// A caller has something to send. Returns true if the link is busy, and the driver is to send
    /// it together with more.
    pub(crate) fn leave_work(&mut self) -> bool {
        let is_left = self.is_open() && self.waiting.len() > WRITE_AT_ONCE_MAX;
        self.has_work |= is_left;
        is_left
    }

    /// Takes out writer and bytes if the caller should write them now.
    pub(crate) fn take_to_write_at_once(&mut self) -> Option<Writing> {
        if self.bytes.is_empty() && !self.has_work {
            return None;
        }
        if self.has_work || self.waiting.len() > WRITE_AT_ONCE_MAX {
            // Whoever writes now will see what we queued; if nobody does, the driver must.
            if self.writer.is_some() {
                self.wake_driver();
            }
            return None;
        }
        self.take_to_write()
    }

    /// Takes out writer and bytes, if there is anything to write and nobody else writes.
    pub(crate) fn take_to_write(&mut self) -> Option<Writing> {
        if self.bytes.is_empty() && !self.is_unflushed {
            return None;
        }
        let writer = self.writer.take()?;
        let bytes = std::mem::take(&mut self.bytes);
        self.gathered = 0;
        let generation = self.generation;
        Some(Writing { writer, bytes, written: 0, is_flushed: false, generation })
    }

    /// A write failed: the driver will see to it, unless that connection is gone anyway.
    pub(crate) fn handle_broken(&mut self, writing: &Writing, error: io::Error) {
        if writing.generation == self.generation {
            self.broken.get_or_insert(error);
            self.wake_driver();
        }
    }

    /// Takes back what was taken out to write. Returns true if there is more to write.
    pub(crate) fn give_back(&mut self, writing: Writing) -> bool {
        if writing.generation != self.generation {
            return false;
        }
        self.writer = Some(writing.writer);
        self.is_unflushed = !writing.is_flushed;
        let mut bytes = writing.bytes;
        bytes.drain(..writing.written);
        if bytes.is_empty() && self.bytes.is_empty() && bytes.capacity() <= BYTES_KEPT_MAX {
            self.bytes = bytes;
        } else if !bytes.is_empty() {
            bytes.append(&mut self.bytes);
            self.bytes = bytes;
        }
        // A caller that left work in the meantime could not wake the driver.
        self.has_work || !self.bytes.is_empty() || self.is_unflushed
    }

    /// Sees to it that the driver looks after silence.
    pub(crate) fn watch(&mut self) {
        if !std::mem::replace(&mut self.is_watched, true) {
            self.wake_driver();
        }
    }

    pub(crate) fn wake_driver(&mut self) {
        if let Some(driver) = self.driver.take() {
            driver.wake();
        }
    }
}

/// Why a node whose guard has ended is not asked for locks yet.
const RECOVERING: &str = "holders renew their locks there before others ask for them";

/// The writing half of a connection.
pub(crate) struct Writer(pub(crate) Box<dyn AsyncWrite + Send + Sync + Unpin>);

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Writer")
    }
}

/// Bytes on their way to the socket.
pub(crate) struct Writing {
    writer: Writer,
    bytes: Vec<u8>,
    written: usize,
    is_flushed: bool,
    generation: u64,
}

impl Writing {
    /// Writes as much as the socket takes. `Pending` wakes `cx` when it takes more.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.bytes.len() {
            let rest = &self.bytes[self.written..];
            match Pin::new(&mut *self.writer.0).poll_write(cx, rest) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(len)) => self.written += len,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        // A plain socket has nothing to flush; TLS keeps records that the socket did not take.
        let flushed = Pin::new(&mut *self.writer.0).poll_flush(cx);
        self.is_flushed = matches!(flushed, Poll::Ready(Ok(())));
        flushed
    }
}

/// A caller writes by itself while no more requests than this are unanswered. More of them mean
/// that the link is busy, and gathering pays.
const WRITE_AT_ONCE_MAX: usize = 2;

/// A buffer that grew larger than this in a burst is not kept.
const BYTES_KEPT_MAX: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use quorate_core::name::Name;

    use super::*;
    use crate::node::Inbox;

    #[derive(Debug)]
    struct Deaf;

    impl Inbox for Deaf {
        fn handle_answer(
            self: Arc<Self>,
            _node: usize,
            _command: Command,
            _answer: Result<Reply, NodeError>,
            _now: Moment,
        ) {
        }
    }

    fn open(outbox: &mut Outbox) {
        let (writer, scripts) = (tokio::io::sink(), Scripts::new("quorate:".into()));
        let terms = (Session::UNSET, SessionTerms::without_membership(0));
        outbox.open(Writer(Box::new(writer)), scripts, terms, Phase::Up, Moment::ZERO);
    }

    fn push(outbox: &mut Outbox) {
        let command = Command::ReadKey { name: Name::parse("a", "").expect("valid") };
        outbox.push(Request::to_inbox(command, 0, Arc::new(Deaf)), Moment::ZERO);
    }

    /// The driver is not woken while somebody else writes.
    #[test]
    fn work_that_is_left_while_somebody_writes_is_not_forgotten() {
        let mut outbox = Outbox::new("quorate:".into(), Moment::ZERO);
        open(&mut outbox);
        assert!(!outbox.leave_work(), "the link is idle");
        (0..3).for_each(|_| push(&mut outbox));
        let mut writing = outbox.take_to_write().expect("there are three");
        assert!(outbox.leave_work(), "three answers are due");
        assert!(outbox.take_to_write_at_once().is_none(), "somebody writes");
        assert!(writing.poll(&mut Context::from_waker(Waker::noop())).is_ready());
        assert!(outbox.give_back(writing), "the writer takes the work that was left");
    }

    /// Two who come at the same time must not each leave the writing to the other.
    #[test]
    fn what_nobody_has_begun_to_write_is_not_waited_for() {
        let mut outbox = Outbox::new("quorate:".into(), Moment::ZERO);
        open(&mut outbox);
        push(&mut outbox);
        assert!(!outbox.is_answer_due());
        push(&mut outbox);
        assert!(!outbox.is_answer_due(), "neither is written");
        let writing = outbox.take_to_write().expect("there are two");
        assert!(outbox.is_answer_due(), "somebody writes them");
        push(&mut outbox);
        assert!(outbox.is_answer_due());
        assert!(outbox.give_back(writing), "the third is not written");
        outbox.waiting.drain(..2);
        assert!(!outbox.is_answer_due(), "both are answered");
        outbox.close(Phase::Closed);
        open(&mut outbox);
        push(&mut outbox);
        assert!(!outbox.is_answer_due(), "on a new connection nothing is written");
    }
}
