//! Drives one link: connects, attaches, reads, writes queued requests, and reconnects.

use std::{
    future::poll_fn,
    io,
    os::fd::OwnedFd,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use quorate_core::{
    backoff::{Backoff, Jitter},
    command::{Command, Reply},
    membership::SESSION_LIFE_MS,
    moment::Moment,
    queue::Push,
};
use tokio::{
    io::ReadBuf,
    time::{Instant, Sleep, sleep, timeout},
};

use super::{
    attach::attach,
    link::{INTRODUCTION_EVERY_MS, Link},
    outbox::{Outbox, Phase, Unanswered, Writer},
    script::Script,
    transport::{self, Reader, Stream, lost},
    wire::{Answers, Frame},
};
use crate::{
    error::NodeError,
    membership::{DELAY_MIN, VotingTerms},
    node::{NodeEvent, deliver_answers},
};

/// Runs until it is dropped. Then the link is closed, and all unanswered requests fail.
pub(crate) async fn drive(link: Arc<Link>) {
    let _closer = Closer(link.clone());
    let seed = link.context.jitter_seed ^ link.number as u64;
    let mut jitter = Jitter::new(seed);
    let mut backoff = Backoff::new(DELAY_MIN, RECONNECT_DELAY_MAX);
    let mut retry = link.membership.retry();
    loop {
        retry.begin();
        let mut unattached = None;
        let node_error = match connect(&link, &mut unattached).await {
            Ok((incoming, voting, socket)) => {
                let attached_at = link.context.clock.now();
                let node_error = serve(&link, incoming, voting).await;
                if let Some(socket) = socket.filter(|_| node_error == NodeError::TimedOut) {
                    transport::give_up(&socket);
                }
                let lasted = link.context.clock.now().saturating_since(attached_at);
                // A server that accepts and closes immediately must not be asked in a tight loop.
                if lasted >= LINK_TIMEOUT {
                    backoff.reset();
                }
                node_error
            }
            Err(node_error) => node_error,
        };
        let pauses = retry.pauses(backoff.next(&mut jitter), &node_error);
        // Only a quarantined node is waited for on its connection.
        let mut quarantined = unattached.filter(|_| !pauses.1.is_zero());
        let phase = match retry.quarantined_until(&node_error, link.context.clock.now()) {
            Some(until) => Phase::Quarantined { until, found: node_error.clone() },
            None => Phase::Down(node_error.clone()),
        };
        link.fail(phase, &node_error);
        // A node sends nothing unless it is asked, so any input means that the connection has
        // ended: the node is down, or has restarted.
        let is_closed = |cx: &mut Context<'_>| {
            quarantined.as_mut().is_some_and(|stream| {
                let (mut byte, reader) = ([0], Pin::new(&mut *stream.reader));
                reader.poll_read(cx, &mut ReadBuf::new(&mut byte)).is_ready()
            })
        };
        if retry.wait(pauses, is_closed).await {
            backoff.reset();
        }
    }
}

/// Opens and attaches a new connection. A connection that could not be attached is left in
/// `unattached`.
async fn connect(
    link: &Arc<Link>,
    unattached: &mut Option<Stream>,
) -> Result<(Incoming, VotingTerms, Option<OwnedFd>), NodeError> {
    // The number is unique: commands sent on an older connection, or to a server whose data this
    // one has, do not belong to this session.
    let session = link.context.nonces.session()?;
    let attempt = async {
        let opened = transport::open(&link.target, &link.context).await?;
        let attached = attach(unattached.insert(opened), link, session).await?;
        let now = link.context.clock.now();
        link.note_first_round_trip(now.saturating_since(attached.asked_at));
        if let Some(time_us) = attached.time_us {
            link.note_time(time_us, attached.asked_at, now);
        }
        Ok(attached)
    };
    let attached = timeout(LINK_TIMEOUT, attempt).await.unwrap_or(Err(NodeError::TimedOut))?;
    let Stream { reader, writer, socket, .. } =
        unattached.take().expect("it was opened and attached");
    let now = link.context.clock.now();
    let mut outbox = link.outbox();
    let voting = attached.voting;
    let (terms, recovers_in) = (voting.terms(0), voting.recovers_in());
    let phase = Phase::Recovering { until: now.saturating_add(recovers_in) };
    outbox.open(Writer(writer), attached.scripts, (session, terms), phase, now);
    outbox.why_not_yet = voting.why_not_yet;
    drop(outbox);
    match recovers_in.is_zero() {
        true => link.come_up(),
        false => link.context.events.deliver(link.number, NodeEvent::Recovering),
    }
    Ok((Incoming::new(reader, attached.rest), voting, socket))
}

/// Serves one connection until it breaks or is in doubt, and returns the reason.
async fn serve(link: &Arc<Link>, mut incoming: Incoming, voting: VotingTerms) -> NodeError {
    let mut timer = pin!(sleep(LINK_TIMEOUT));
    let around = &link.context;
    let is_renewed = around.membership.is_some() || around.has_sessions && !around.is_read_only;
    let mut pinger = is_renewed.then(Pinger::new);
    let recovers_in = voting.recovers_in();
    let mut recovery = (!recovers_in.is_zero()).then(|| Box::pin(sleep(recovers_in)));
    let mut voided = pin!(voting.voided());
    link.outbox().is_monitored = true;
    if let Err(node_error) = incoming.take_apart(link) {
        return node_error;
    }
    poll_fn(|cx| {
        {
            let mut outbox = link.outbox();
            if let Some(error) = outbox.broken.take() {
                return Poll::Ready(lost(&error));
            }
            match &outbox.driver {
                Some(driver) if driver.will_wake(cx.waker()) => {}
                _ => outbox.driver = Some(cx.waker().clone()),
            }
        }
        if voided.as_mut().poll(cx).is_ready() {
            return Poll::Ready(NodeError::SessionLost);
        }
        if recovery.as_mut().is_some_and(|timer| timer.as_mut().poll(cx).is_ready()) {
            recovery = None;
            link.come_up();
        }
        if let Some(pinger) = &mut pinger {
            pinger.poll(link, cx);
        }
        if let Poll::Ready(node_error) = incoming.poll(link, cx) {
            return Poll::Ready(node_error);
        }
        if let Poll::Ready(error) = poll_write(link, cx) {
            return Poll::Ready(lost(&error));
        }
        poll_silence(link, timer.as_mut(), cx)
    })
    .await
}

/// Renews a session regularly.
struct Pinger {
    timer: Pin<Box<Sleep>>,
    pings: u64,
}

impl Pinger {
    fn new() -> Self {
        Self { timer: Box::pin(sleep(PING_EVERY)), pings: 0 }
    }

    fn poll(&mut self, link: &Arc<Link>, cx: &mut Context<'_>) {
        while self.timer.as_mut().poll(cx).is_ready() {
            self.pings += 1;
            let every = INTRODUCTION_EVERY_MS * 4 / SESSION_LIFE_MS;
            link.ping(self.pings.is_multiple_of(every), link.context.clock.now());
            self.timer.as_mut().reset(Instant::now() + PING_EVERY);
        }
    }
}

/// Writes the queued requests.
fn poll_write(link: &Link, cx: &mut Context<'_>) -> Poll<io::Error> {
    loop {
        let has_work = std::mem::take(&mut link.outbox().has_work);
        if has_work && let Some(listener) = link.context.events.listener() {
            listener.serve(link.number);
        }
        let Some(mut writing) = link.outbox().take_to_write() else {
            return Poll::Pending;
        };
        let polled = writing.poll(cx);
        let has_more = link.outbox().give_back(writing, link.distance());
        match polled {
            Poll::Ready(Ok(())) if has_more => {}
            Poll::Ready(Err(error)) => return Poll::Ready(error),
            Poll::Ready(Ok(())) | Poll::Pending => return Poll::Pending,
        }
    }
}

/// Detects a server that does not answer.
fn poll_silence(
    link: &Arc<Link>,
    mut timer: Pin<&mut Sleep>,
    cx: &mut Context<'_>,
) -> Poll<NodeError> {
    loop {
        let mut outbox = link.outbox();
        if !outbox.is_monitored {
            return Poll::Pending;
        }
        drop(outbox);
        ready!(timer.as_mut().poll(cx));
        outbox = link.outbox();
        let now = link.context.clock.now();
        let Some(next) = next_check(&outbox, now) else {
            return Poll::Ready(NodeError::TimedOut);
        };
        outbox.is_monitored = !outbox.unanswered.is_empty();
        timer.as_mut().reset(Instant::now() + next);
        cx.waker().wake_by_ref();
    }
}

/// When to check again. `None` if the link is in doubt: a request has been unanswered for long, and
/// nothing arrived meanwhile.
fn next_check(outbox: &Outbox, now: Moment) -> Option<Duration> {
    let Some(first) = outbox.unanswered.front() else {
        return Some(LINK_TIMEOUT);
    };
    let silent_since = first.queued_at.max(outbox.received_at);
    let left = LINK_TIMEOUT.checked_sub(now.saturating_since(silent_since))?;
    (!left.is_zero()).then_some(left)
}

/// Bytes that came from the server and are not parsed yet.
struct Incoming {
    reader: Reader,
    /// Reused for each read, so that nothing is zeroed twice.
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    arrived: Vec<Arrived>,
}

/// A parsed message of the server.
#[expect(clippy::large_enum_variant, reason = "almost all are answers")]
enum Arrived {
    Answer(Unanswered, Result<Reply, NodeError>),
    Push(Push),
}

impl Incoming {
    /// `rest` was already read.
    fn new(reader: Reader, rest: Vec<u8>) -> Self {
        let (end, mut bytes) = (rest.len(), rest);
        bytes.resize(READ_LEN.max(end), 0);
        Self { reader, bytes, start: 0, end, arrived: Vec::new() }
    }

    /// Reads and delivers everything that has arrived. Ready only when the connection has ended.
    fn poll(&mut self, link: &Link, cx: &mut Context<'_>) -> Poll<NodeError> {
        loop {
            if self.end == self.bytes.len() {
                self.bytes.resize(self.end * 2, 0);
            }
            let mut buffer = ReadBuf::new(&mut self.bytes[self.end..]);
            let polled = Pin::new(&mut *self.reader).poll_read(cx, &mut buffer);
            let len = buffer.filled().len();
            match ready!(polled) {
                Ok(()) if len == 0 => {
                    return Poll::Ready(NodeError::ConnectionLost("closed by the server".into()));
                }
                Ok(()) => self.end += len,
                Err(error) => return Poll::Ready(lost(&error)),
            }
            if let Err(node_error) = self.take_apart(link) {
                return Poll::Ready(node_error);
            }
        }
    }

    /// Matches replies with requests by order, then delivers them.
    fn take_apart(&mut self, link: &Link) -> Result<(), NodeError> {
        let now = link.context.clock.now();
        let mut outbox = link.outbox();
        outbox.received_at = now;
        let result = self.match_replies(&mut outbox);
        let is_empty = outbox.unanswered.is_empty();
        drop(outbox);
        // If the caller shares this core, it runs before the next read: what follows a grant and
        // the answers of slower nodes can wait. On a busy link this would only cost.
        let is_pushed = |arrived: &Arrived| matches!(arrived, Arrived::Push(_));
        let is_alone = is_empty && self.arrived.len() == 1;
        let awaited = self.arrived.iter().rposition(is_pushed).or_else(|| is_alone.then_some(0));

        if let Some(Arrived::Answer(unanswered, _)) = self.arrived.last() {
            link.note_round_trip(now.saturating_since(unanswered.queued_at));
        }
        let mut arrived = self.arrived.drain(..).enumerate().peekable();
        while let Some((place, first)) = arrived.next() {
            match first {
                Arrived::Answer(unanswered, answer) => {
                    let more = std::iter::from_fn(|| {
                        let is_answer = |it: &(usize, Arrived)| matches!(it.1, Arrived::Answer(..));
                        match arrived.next_if(is_answer)?.1 {
                            Arrived::Answer(unanswered, answer) => {
                                Some((unanswered.request, answer))
                            }
                            Arrived::Push(_) => None,
                        }
                    });
                    let all = std::iter::once((unanswered.request, answer)).chain(more);
                    deliver_answers(link.number, all, now);
                }
                Arrived::Push(push) => {
                    link.context.events.deliver(link.number, NodeEvent::Push(push));
                }
            }
            if Some(place) == awaited {
                std::thread::yield_now();
            }
        }
        if is_empty {
            link.context.idle.notify();
        }
        result
    }

    fn match_replies(&mut self, outbox: &mut Outbox) -> Result<(), NodeError> {
        while let Some((frame, len)) = Frame::decode(&self.bytes[self.start..self.end])? {
            let bytes = &self.bytes[self.start..self.start + len];
            self.start += len;
            if frame.is_push() {
                let push = frame.push(bytes, outbox.scripts.prefix());
                if push.as_ref().is_some_and(|it| !it.counts_in(outbox.session)) {
                    // The server has the data of another node, including this client's session
                    // there.
                    return Err(NodeError::SessionLost);
                }
                self.arrived.extend(push.map(Arrived::Push));
                continue;
            }
            let Some(unanswered) = outbox.unanswered.pop_front() else {
                return Err(NodeError::Protocol("a reply without a request".into()));
            };
            let error = frame.error(bytes);
            let has_code = |code| error.as_deref().is_some_and(|text| text.starts_with(code));
            let is_batch = matches!(unanswered.request.command, Command::Batch(_));
            // A server checks all locks of a call before it executes anything. In cluster mode it
            // rejects a call about locks in different slots, even if it has all slots.
            let is_denied = is_batch && (has_code("NOPERM") || has_code("CROSSSLOT"));
            if is_denied || has_code("NOSCRIPT") {
                let unsent = match is_denied {
                    true => outbox.push_apart(unanswered),
                    false => outbox.push_again(unanswered),
                };
                for unsent in unsent {
                    let answer = frame.reply(bytes, &unsent.request.command);
                    self.arrived.push(Arrived::Answer(unsent, answer));
                }
                continue;
            }
            if let Some(script) = Script::of(&unanswered.request.command) {
                outbox.scripts.set_forgotten(script, false);
            }
            take_answers(&mut self.arrived, outbox, unanswered, (&frame, bytes))?;
        }
        self.bytes.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        Ok(())
    }
}

/// Records the answer to a request. In a batch, entries that failed are answered separately, each
/// with its own error. Fails if the connection must end.
fn take_answers(
    arrived: &mut Vec<Arrived>,
    outbox: &Outbox,
    unanswered: Unanswered,
    (frame, bytes): (&Frame, &[u8]),
) -> Result<(), NodeError> {
    let command = &unanswered.request.command;
    let answer = match command {
        Command::Batch(entries) => match frame.answers(bytes, entries) {
            Ok(Answers { replies, errors }) if errors.is_empty() => Ok(Reply::Batch(replies)),
            Ok(Answers { replies, errors }) => {
                let mut errors = errors.into_iter();
                for (single, reply) in unanswered.split().zip(replies) {
                    let error = || errors.next().expect("each missing reply has an error");
                    arrived.push(Arrived::Answer(single, reply.ok_or_else(error)));
                }
                return Ok(());
            }
            Err(node_error) => Err(node_error),
        },
        single => frame.reply(bytes, single),
    };
    let answer = match answer {
        Ok(reply) if reply.is_stale() => Err(NodeError::SessionLost),
        answer => answer,
    };
    let is_as_before = outbox.is_as_before(command, &answer);
    let end = match &answer {
        // A new connection inspects the node from the start and reports what it is now.
        _ if !is_as_before => Some(NodeError::Connecting),
        // After a reply that cannot be understood, later replies cannot be matched with requests.
        Err(node_error @ NodeError::Protocol(_)) => Some(node_error.clone()),
        // Without a session on the server, the connection is of no use.
        Err(NodeError::SessionLost) => Some(NodeError::SessionLost),
        Ok(_) | Err(_) => None,
    };
    arrived.push(Arrived::Answer(unanswered, answer));
    end.map_or(Ok(()), Err)
}

/// Closes the link when its driver is dropped.
struct Closer(Arc<Link>);

impl Drop for Closer {
    fn drop(&mut self) {
        self.0.fail(Phase::Closed, &NodeError::ShutDown);
    }
}

/// A link without any answer for this long is in doubt. It also limits connect and attach.
const LINK_TIMEOUT: Duration = Duration::from_secs(1);

const RECONNECT_DELAY_MAX: Duration = Duration::from_secs(1);

/// How often a session is renewed.
const PING_EVERY: Duration = Duration::from_millis(SESSION_LIFE_MS / 4);

/// The minimum size of the read buffer.
const READ_LEN: usize = 16 * 1024;
