//! The requests that one link sends, and those that are unanswered, in a fixed order.
//!
//! A caller that finds the link idle writes the bytes itself, which saves a switch to another
//! thread. While answers are outstanding, requests are queued and the driver writes them together.

use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use quorate_core::{
    command::{BATCH_MAX, Command, Owner, Reply, SessionTerms},
    moment::Moment,
    queue::{AcquireRequest, Session},
};
use tokio::io::AsyncWrite;

use super::{
    script::{Script, Scripts},
    wire::write_command,
};
use crate::{
    error::{NodeError, QuarantineCause},
    membership::VotingTerms,
    node::Request,
};

/// The changing part of a link.
#[derive(Debug)]
pub(crate) struct Outbox {
    pub(crate) phase: Phase,
    /// Sent or about to be sent, in this order. Replies arrive in the same order.
    pub(crate) unanswered: VecDeque<Unanswered>,
    pub(crate) scripts: Scripts,
    /// The session that commands name.
    pub(crate) session: Session,
    /// The terms of the session.
    pub(crate) terms: SessionTerms,
    /// Why the node does not vote before a read-write client connects.
    pub(crate) why_not_yet: Option<&'static str>,
    /// When the server last sent anything.
    pub(crate) received_at: Moment,
    /// The driver's timer is set and detects silence.
    pub(crate) is_monitored: bool,
    /// Counts connections: the writer of an older connection is not taken back.
    pub(crate) generation: u64,
    /// The error of a caller's write.
    pub(crate) broken: Option<io::Error>,
    pub(crate) driver: Option<Waker>,
    /// The client's machine has more requests, which the driver takes when it writes next.
    pub(crate) has_work: bool,
    /// A caller has gathered a whole batch, and writes it itself.
    is_gathered: bool,
    bytes: Vec<u8>,
    /// How many of the unanswered requests are in `bytes`, not yet being written.
    gathered: usize,
    /// Bytes were written that the stream may still buffer.
    is_unflushed: bool,
    /// Absent while the link is down, and while a task writes.
    writer: Option<Writer>,
}

/// Whether requests can be sent.
#[derive(Debug)]
pub(crate) enum Phase {
    Up,
    /// The node's quarantine has just ended. Until then no locks are requested from it: holders
    /// renew their leases there first.
    Recovering {
        until: Moment,
    },
    Down(NodeError),
    /// In quarantine. It votes at that time.
    Quarantined {
        until: Moment,
        found: NodeError,
    },
    Closed,
}

/// A request without an answer.
#[derive(Debug)]
pub(crate) struct Unanswered {
    pub(crate) request: Request,
    pub(crate) queued_at: Moment,
    /// The script was sent as text.
    is_by_text: bool,
}

impl Unanswered {
    /// The entries of a batch, each as a request of its own.
    pub(crate) fn split(self) -> impl Iterator<Item = Self> {
        let Self { request, queued_at, is_by_text } = self;
        request.split().map(move |request| Self { request, queued_at, is_by_text })
    }
}

impl Outbox {
    pub(crate) fn new(prefix: Arc<str>, now: Moment) -> Self {
        Self {
            phase: Phase::Down(NodeError::Connecting),
            unanswered: VecDeque::new(),
            scripts: Scripts::new(prefix),
            session: Session::UNSET,
            terms: SessionTerms::without_membership(0),
            why_not_yet: None,
            received_at: now,
            is_monitored: false,
            generation: 0,
            broken: None,
            driver: None,
            has_work: false,
            is_gathered: false,
            bytes: Vec::new(),
            gathered: 0,
            is_unflushed: false,
            writer: None,
        }
    }

    /// Begins a new connection.
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
        self.received_at = now;
        self.broken = None;
        self.bytes.clear();
        self.gathered = 0;
        self.is_unflushed = false;
        self.writer = Some(writer);
        self.generation += 1;
    }

    /// The connection has ended. Returns the requests that will never be answered.
    pub(crate) fn close(&mut self, phase: Phase) -> VecDeque<Unanswered> {
        self.phase = phase;
        self.writer = None;
        self.generation += 1;
        self.is_monitored = false;
        self.has_work = false;
        self.bytes.clear();
        self.gathered = 0;
        self.is_gathered = false;
        std::mem::take(&mut self.unanswered)
    }

    /// Why this command cannot be sent now, if so.
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

    /// Why no lock can be requested now, if so.
    pub(crate) fn node_error(&self, now: Moment) -> Option<NodeError> {
        match &self.phase {
            Phase::Up => None,
            Phase::Recovering { until } => {
                let (left, why) = (until.saturating_since(now), RECOVERING.to_owned());
                let cause = QuarantineCause::Recovering;
                Some(NodeError::Quarantined { left, why, cause })
            }
            Phase::Down(node_error) => Some(node_error.clone()),
            Phase::Quarantined { until, found } => {
                let mut found = found.clone();
                if let NodeError::Quarantined { left, .. } = &mut found {
                    *left = until.saturating_since(now);
                }
                Some(found)
            }
            Phase::Closed => Some(NodeError::ShutDown),
        }
    }

    /// Whether a renewed handshake shows the same node as before.
    pub(crate) fn is_as_before(
        &self,
        command: &Command,
        answer: &Result<Reply, NodeError>,
    ) -> bool {
        let found = (&self.terms, self.why_not_yet.is_some());
        VotingTerms::is_kept(found, command, answer.as_ref().ok())
    }

    /// Appends a request to the queue.
    pub(crate) fn push(&mut self, mut request: Request, now: Moment) {
        request.command.set_session(self.session);
        self.write(request, now);
    }

    /// The server has forgotten the script of this request. Sends it again, a batch as single
    /// commands. Returns what cannot be sent again.
    pub(crate) fn push_again(&mut self, unanswered: Unanswered) -> Vec<Unanswered> {
        if let Some(script) = Script::of(&unanswered.request.command) {
            self.scripts.set_forgotten(script, true);
        }
        if unanswered.is_by_text {
            // A server that does not accept the text will not accept it next time either.
            return vec![unanswered];
        }
        self.push_apart(unanswered)
    }

    /// The server has executed no entry of this batch. Sends them again as single commands. Returns
    /// what cannot be sent again.
    pub(crate) fn push_apart(&mut self, batch: Unanswered) -> Vec<Unanswered> {
        batch.split().filter_map(|single| self.push_single_again(single)).collect()
    }

    /// Sends a request again, behind the requests that were queued meanwhile, if that order does
    /// not matter: a `DeleteKey` or a final `Release` is the last command for its owner, and a read
    /// changes nothing. Most other requests are returned, since they would run after later requests
    /// of their sender.
    fn push_single_again(&mut self, unanswered: Unanswered) -> Option<Unanswered> {
        match &unanswered.request.command {
            Command::DeleteKey { .. }
            | Command::Release { yields: None, .. }
            | Command::Check { .. }
            | Command::ReadKey { .. }
            | Command::Inspect { .. }
            | Command::List { .. } => {
                self.write_again(unanswered);
                None
            }
            // Only the release of the owner may have been sent after its request.
            Command::Acquire { request: AcquireRequest { owner, .. }, .. }
            | Command::SetKey { owner, .. }
                if !self.is_released(owner) =>
            {
                self.write_again(unanswered);
                None
            }
            // Neither recreates a key, so it has no effect after that release.
            Command::ExtendKeys { entries, .. } if entries.len() == 1 => {
                self.write_again(unanswered);
                None
            }
            Command::Extend { entries, .. } => match &**entries {
                [only] if !only.may_heal => {
                    self.write_again(unanswered);
                    None
                }
                _ => Some(unanswered),
            },
            _ => Some(unanswered),
        }
    }

    fn is_released(&self, wanted: &Owner) -> bool {
        let mut entries = self.unanswered.iter().flat_map(|it| it.request.command.entries());
        entries.any(|entry| match entry {
            Command::Release { owner, .. } | Command::DeleteKey { owner, .. } => owner == wanted,
            _ => false,
        })
    }

    fn write_again(&mut self, unanswered: Unanswered) {
        self.write(unanswered.request, unanswered.queued_at);
    }

    fn write(&mut self, request: Request, queued_at: Moment) {
        let script = Script::of(&request.command);
        let is_by_text = script.is_some_and(|script| self.scripts.digest(script).is_none());
        write_command(&mut self.bytes, &request.command, &self.scripts);
        self.gathered += 1;
        self.unanswered.push_back(Unanswered { request, queued_at, is_by_text });
    }

    /// True if a request that was written, or is being written, is unanswered. The driver writes
    /// the queued requests when its answer arrives.
    pub(crate) fn is_answer_due(&self) -> bool {
        self.unanswered.len() > self.gathered
    }

    /// A caller has requests, `waiting` of them. Returns true if the link is busy, so that they are
    /// sent later, together with others.
    pub(crate) fn leave_work(&mut self, waiting: usize) -> bool {
        let is_busy = self.is_open() && self.unanswered.len() > WRITE_NOW_MAX;
        let is_gathered = is_busy && waiting >= GATHERED_MIN;
        // Another caller may have gathered a batch that is not written yet.
        self.is_gathered |= is_gathered;
        self.has_work = is_busy && !is_gathered;
        self.has_work
    }

    /// Whether the server has enough to do until requests that are sent with its next answer reach
    /// it. The driver takes all of them together when it handles that answer, so nobody needs to
    /// wake it.
    fn is_supplied(&self, distance: Duration) -> bool {
        let written = self.unanswered.len().saturating_sub(self.gathered);
        let calls = self.unanswered.iter().take(written).map(|it| {
            let entries = it.request.command.entries().len();
            CALL_TIME + ENTRY_TIME * u32::try_from(entries).unwrap_or(u32::MAX)
        });
        let mut left = distance.saturating_add(WAKE_TIME);
        // The first ones usually suffice.
        written > WRITE_NOW_MAX
            && calls.into_iter().any(|call| {
                left = left.saturating_sub(call);
                left.is_zero()
            })
    }

    /// What a caller that has queued or left requests must do without the mutex.
    pub(crate) fn flush(&mut self, distance: Duration) -> Flush {
        let is_busy = self.has_work || self.unanswered.len() > WRITE_NOW_MAX;
        if self.bytes.is_empty() && !self.has_work {
            Flush::Done
        } else if is_busy && !self.is_gathered {
            if self.is_supplied(distance) {
                return Flush::Done;
            }
            // A task that writes now sends what was queued. If no task writes, the driver must.
            self.driver.take_if(|_| self.writer.is_some()).map_or(Flush::Done, Flush::Wake)
        } else {
            self.take_to_write().map_or(Flush::Done, Flush::Write)
        }
    }

    /// Takes writer and bytes, if there is anything to write and no other task writes.
    pub(crate) fn take_to_write(&mut self) -> Option<Writing> {
        if self.bytes.is_empty() && !self.is_unflushed {
            return None;
        }
        let writer = self.writer.take()?;
        let bytes = std::mem::take(&mut self.bytes);
        self.gathered = 0;
        self.is_gathered = false;
        let generation = self.generation;
        Some(Writing { writer, bytes, written: 0, is_flushed: false, generation })
    }

    /// A write failed. The driver must handle it, unless that connection has ended.
    pub(crate) fn handle_broken(&mut self, writing: &Writing, error: io::Error) {
        if writing.generation == self.generation {
            self.broken.get_or_insert(error);
        }
    }

    /// Returns the writer. The result is true if there is more to write.
    pub(crate) fn give_back(&mut self, writing: Writing, distance: Duration) -> bool {
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
        // A caller that left work in the meantime could not wake the driver. The next answer of
        // a distant server may be far away.
        let is_work_due = self.has_work && !self.is_supplied(distance);
        is_work_due || !self.bytes.is_empty() || self.is_unflushed
    }

    /// Makes the driver detect silence. Returns its waker if it must be woken for that, without the
    /// mutex.
    pub(crate) fn monitor(&mut self) -> Option<Waker> {
        let was_monitored = std::mem::replace(&mut self.is_monitored, true);
        self.driver.take_if(|_| !was_monitored)
    }
}

/// Why locks are not requested yet from a node whose quarantine has ended.
const RECOVERING: &str = "holders renew their leases before other clients request locks";

/// The writing half of a connection.
pub(crate) struct Writer(pub(crate) Box<dyn AsyncWrite + Send + Sync + Unpin>);

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Writer")
    }
}

/// What a caller does after it has queued requests.
#[must_use]
pub(crate) enum Flush {
    /// Another task writes them, or the driver does when it handles the next answer.
    Done,
    /// Wake the driver, which writes them.
    Wake(Waker),
    /// Write them.
    Write(Writing),
}

/// Bytes that are being written.
pub(crate) struct Writing {
    writer: Writer,
    bytes: Vec<u8>,
    written: usize,
    is_flushed: bool,
    generation: u64,
}

impl Writing {
    /// Writes as much as the socket accepts. `Pending` wakes `cx` when it accepts more.
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
        // A plain socket needs no flush. TLS buffers records that the socket did not accept.
        let flushed = Pin::new(&mut *self.writer.0).poll_flush(cx);
        self.is_flushed = matches!(flushed, Poll::Ready(Ok(())));
        flushed
    }
}

/// A caller writes by itself while at most this many requests are unanswered. More of them mean
/// that the link is busy, and batching pays.
const WRITE_NOW_MAX: usize = 2;

/// About what a server needs for a call, and for each of its entries, with a script as short as
/// those of the default mode. Less than that would leave it idle, more would make batches smaller.
const CALL_TIME: Duration = Duration::from_micros(8);
const ENTRY_TIME: Duration = Duration::from_micros(3);

/// About how long it takes until the threads of both sides run after something has arrived.
const WAKE_TIME: Duration = Duration::from_micros(80);

/// A caller that finds a whole batch waiting writes it, although the link is busy: waking the
/// driver would cost a switch to another thread.
const GATHERED_MIN: usize = BATCH_MAX;

/// A buffer that grew larger in a burst is dropped.
const BYTES_KEPT_MAX: usize = 64 * 1024;

#[cfg(test)]
mod tests;
