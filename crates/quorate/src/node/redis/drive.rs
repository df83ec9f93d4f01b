//! Keeps one link alive: connects, attaches, reads, writes what was gathered, and starts over.

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
    command::Reply,
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
    link::{INTRODUCED_EVERY_MS, Link},
    outbox::{Outbox, Phase, Waiting, Writer},
    script::Script,
    transport::{self, Reader, Stream, lost},
    wire::Frame,
};
use crate::{
    error::NodeError,
    membership::{DELAY_MIN, Permit},
    node::{NodeEvent, hand_out},
};

/// Runs until it is dropped; then the link is closed, and whatever waits is told.
pub(crate) async fn drive(link: Arc<Link>) {
    let _closer = Closer(link.clone());
    let seed = link.context.jitter_seed ^ link.number as u64;
    let mut jitter = Jitter::new(seed);
    let mut backoff = Backoff::new(DELAY_MIN, RECONNECT_DELAY_MAX);
    let mut retry = link.seat.retry();
    loop {
        retry.begin();
        let mut unattached = None;
        let node_error = match connect(&link, &mut unattached).await {
            Ok((incoming, permit, socket)) => {
                let attached_at = link.context.clock.now();
                let node_error = serve(&link, incoming, permit).await;
                if let Some(socket) = socket.filter(|_| node_error == NodeError::TimedOut) {
                    transport::give_up(&socket);
                }
                let lived = link.context.clock.now().saturating_since(attached_at);
                // A server that accepts and hangs up at once is not asked again and again.
                if lived >= LINK_TIMEOUT {
                    backoff.reset();
                }
                node_error
            }
            Err(node_error) => node_error,
        };
        let pauses = retry.pauses(backoff.next(&mut jitter), &node_error);
        // Only a quarantined node is waited for on its connection.
        let mut quarantined = unattached.filter(|_| !pauses.1.is_zero());
        let phase = match retry.quarantine(&node_error, link.context.clock.now()) {
            Some((until, why)) => Phase::Quarantined { until, why },
            None => Phase::Down(node_error.clone()),
        };
        link.fail(phase, &node_error);
        // It says nothing unless it is asked: whatever comes is its end. It is down by now, or was
        // started again.
        let is_closed = |cx: &mut Context<'_>| {
            quarantined.as_mut().is_some_and(|stream| {
                let (mut byte, reader) = ([0], Pin::new(&mut *stream.reader));
                reader.poll_read(cx, &mut ReadBuf::new(&mut byte)).is_ready()
            })
        };
        if retry.rest(pauses, is_closed).await {
            backoff.reset();
        }
    }
}

/// Opens and attaches a new connection. One that could not be attached is left in `unattached`.
async fn connect(
    link: &Arc<Link>,
    unattached: &mut Option<Stream>,
) -> Result<(Incoming, Permit, Option<OwnedFd>), NodeError> {
    // A number that nobody has had: what was sent on an older connection, or to a server whose
    // data is here now, is not of this session.
    let session = link.context.nonces.session()?;
    let attempt = async {
        let opened = transport::open(&link.target, &link.context).await?;
        let attached = attach(unattached.insert(opened), link, session).await?;
        let now = link.context.clock.now();
        link.note_round_trip(now.saturating_since(attached.asked_at));
        if let Some(time_us) = attached.time_us {
            link.note_time(time_us, attached.asked_at, now);
        }
        Ok(attached)
    };
    let attached = timeout(LINK_TIMEOUT, attempt).await.unwrap_or(Err(NodeError::TimedOut))?;
    let Stream { reader, writer, socket } = unattached.take().expect("it was opened and attached");
    let now = link.context.clock.now();
    let mut outbox = link.outbox();
    let permit = attached.permit;
    let (terms, recovers_in) = (permit.terms(0), permit.recovers_in());
    let phase = Phase::Recovering { until: now.saturating_add(recovers_in) };
    outbox.open(Writer(writer), attached.scripts, (session, terms), phase, now);
    outbox.why_not_yet = permit.why_not_yet;
    drop(outbox);
    match recovers_in.is_zero() {
        true => link.come_up(),
        false => link.context.events.tell(link.number, NodeEvent::Recovering),
    }
    Ok((Incoming::new(reader, attached.rest), permit, socket))
}

/// Serves one connection until it breaks or is in doubt, and says why.
async fn serve(link: &Arc<Link>, mut incoming: Incoming, permit: Permit) -> NodeError {
    let mut timer = pin!(sleep(LINK_TIMEOUT));
    let around = &link.context;
    let is_renewed = around.membership.is_some() || around.has_sessions && !around.is_read_only;
    let mut pulse = is_renewed.then(Pulse::new);
    let recovers_in = permit.recovers_in();
    let mut recovery = (!recovers_in.is_zero()).then(|| Box::pin(sleep(recovers_in)));
    let mut voided = pin!(permit.voided());
    link.outbox().is_watched = true;
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
        if let Some(pulse) = &mut pulse {
            pulse.poll(link, cx);
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

/// Lets a session live on.
struct Pulse {
    timer: Pin<Box<Sleep>>,
    beats: u64,
}

impl Pulse {
    fn new() -> Self {
        Self { timer: Box::pin(sleep(PING_EVERY)), beats: 0 }
    }

    fn poll(&mut self, link: &Arc<Link>, cx: &mut Context<'_>) {
        while self.timer.as_mut().poll(cx).is_ready() {
            self.beats += 1;
            let beats = INTRODUCED_EVERY_MS * 4 / SESSION_LIFE_MS;
            link.ping(self.beats.is_multiple_of(beats), link.context.clock.now());
            self.timer.as_mut().reset(Instant::now() + PING_EVERY);
        }
    }
}

/// Writes what was gathered.
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
        let has_more = link.outbox().give_back(writing);
        match polled {
            Poll::Ready(Ok(())) if has_more => {}
            Poll::Ready(Err(error)) => return Poll::Ready(error),
            Poll::Ready(Ok(())) | Poll::Pending => return Poll::Pending,
        }
    }
}

/// Looks after a server that is silent although it was asked.
fn poll_silence(
    link: &Arc<Link>,
    mut timer: Pin<&mut Sleep>,
    cx: &mut Context<'_>,
) -> Poll<NodeError> {
    loop {
        let mut outbox = link.outbox();
        if !outbox.is_watched {
            return Poll::Pending;
        }
        drop(outbox);
        ready!(timer.as_mut().poll(cx));
        outbox = link.outbox();
        let now = link.context.clock.now();
        let Some(next) = next_look(&outbox, now) else {
            return Poll::Ready(NodeError::TimedOut);
        };
        outbox.is_watched = !outbox.waiting.is_empty();
        timer.as_mut().reset(Instant::now() + next);
        cx.waker().wake_by_ref();
    }
}

/// When to look again; `None` if the link is in doubt: something was asked long ago, and nothing
/// was heard for as long.
fn next_look(outbox: &Outbox, now: Moment) -> Option<Duration> {
    let Some(first) = outbox.waiting.front() else {
        return Some(LINK_TIMEOUT);
    };
    let quiet_since = first.queued_at.max(outbox.heard_at);
    let left = LINK_TIMEOUT.checked_sub(now.saturating_since(quiet_since))?;
    (!left.is_zero()).then_some(left)
}

/// What came from the server and is not taken apart yet.
struct Incoming {
    reader: Reader,
    /// Read into again and again, so that nothing is zeroed twice.
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    arrived: Vec<Arrived>,
}

/// What a server sent, taken apart.
enum Arrived {
    Answer(Waiting, Result<Reply, NodeError>),
    Push(Push),
}

impl Incoming {
    /// `rest` was read already.
    fn new(reader: Reader, rest: Vec<u8>) -> Self {
        let (end, mut bytes) = (rest.len(), rest);
        bytes.resize(READ_LEN.max(end), 0);
        Self { reader, bytes, start: 0, end, arrived: Vec::new() }
    }

    /// Reads and hands out everything that is there. Ready only when the connection is over.
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

    /// Matches replies with requests by their order, then tells those who wait.
    fn take_apart(&mut self, link: &Link) -> Result<(), NodeError> {
        let now = link.context.clock.now();
        let mut outbox = link.outbox();
        outbox.heard_at = now;
        let result = self.match_replies(&mut outbox);
        let is_empty = outbox.waiting.is_empty();
        drop(outbox);
        // Where the caller shares our core, it runs before we look for more: what comes behind a
        // grant and the answers of slower nodes can wait. On a busy link that would only cost.
        let is_pushed = |arrived: &Arrived| matches!(arrived, Arrived::Push(_));
        let is_alone = is_empty && self.arrived.len() == 1;
        let awaited = self.arrived.iter().rposition(is_pushed).or_else(|| is_alone.then_some(0));

        if let Some(Arrived::Answer(waiting, _)) = self.arrived.last() {
            link.note_round_trip(now.saturating_since(waiting.queued_at));
        }
        let mut arrived = self.arrived.drain(..).enumerate().peekable();
        while let Some((place, first)) = arrived.next() {
            match first {
                Arrived::Answer(waiting, answer) => {
                    let more = std::iter::from_fn(|| {
                        let is_answer = |it: &(usize, Arrived)| matches!(it.1, Arrived::Answer(..));
                        match arrived.next_if(is_answer)?.1 {
                            Arrived::Answer(waiting, answer) => Some((waiting.request, answer)),
                            Arrived::Push(_) => None,
                        }
                    });
                    let all = std::iter::once((waiting.request, answer)).chain(more);
                    hand_out(link.number, all, now);
                }
                Arrived::Push(push) => {
                    link.context.events.tell(link.number, NodeEvent::Push(push));
                }
            }
            if Some(place) == awaited {
                std::thread::yield_now();
            }
        }
        if is_empty {
            link.context.idle.tell();
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
                    // It has another's data, and with that another's session of ours.
                    return Err(NodeError::SessionLost);
                }
                self.arrived.extend(push.map(Arrived::Push));
                continue;
            }
            let Some(waiting) = outbox.waiting.pop_front() else {
                return Err(NodeError::Protocol("a reply that nobody asked for".into()));
            };
            let error = frame.error(bytes);
            let is_forgotten = error.is_some_and(|text| text.starts_with("NOSCRIPT"));
            let waiting = if is_forgotten { outbox.push_again(waiting) } else { Some(waiting) };
            if let Some(waiting) = waiting {
                let command = &waiting.request.command;
                if let Some(script) = Script::of(command).filter(|_| !is_forgotten) {
                    outbox.scripts.set_forgotten(script, false);
                }
                let answer = match frame.reply(bytes, command) {
                    Ok(reply) if reply.is_stale() => Err(NodeError::SessionLost),
                    answer => answer,
                };
                let is_as_before = outbox.is_as_before(&waiting.request.command, &answer);
                let end = match &answer {
                    // What it is now is told when it was looked at from the start.
                    _ if !is_as_before => Some(NodeError::Connecting),
                    // After a reply that makes no sense, none can be trusted to belong to its
                    // request.
                    Err(node_error @ NodeError::Protocol(_)) => Some(node_error.clone()),
                    // Without a session that the server knows, the connection is of no use.
                    Err(NodeError::SessionLost) => Some(NodeError::SessionLost),
                    Ok(_) | Err(_) => None,
                };
                self.arrived.push(Arrived::Answer(waiting, answer));
                if let Some(node_error) = end {
                    return Err(node_error);
                }
            }
        }
        self.bytes.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        Ok(())
    }
}

/// Closes the link when its driver goes, however that comes about.
struct Closer(Arc<Link>);

impl Drop for Closer {
    fn drop(&mut self) {
        self.0.fail(Phase::Closed, &NodeError::ShutDown);
    }
}

/// No answer to anything for this long puts a link in doubt; also the time to connect and attach.
const LINK_TIMEOUT: Duration = Duration::from_secs(1);

const RECONNECT_DELAY_MAX: Duration = Duration::from_secs(1);

/// How often a session is heard of.
const PING_EVERY: Duration = Duration::from_millis(SESSION_LIFE_MS / 4);

/// How much is read at once.
const READ_LEN: usize = 16 * 1024;
