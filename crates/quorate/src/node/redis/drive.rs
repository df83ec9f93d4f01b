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
    guard::SESSION_LIFE_MS,
    line::{Push, Session},
    moment::Moment,
};
use tokio::{
    io::ReadBuf,
    time::{Instant, Sleep, sleep, timeout},
};

use super::{
    attach::attach,
    chamber::Judged,
    link::{INTRODUCED_EVERY_MS, Link},
    outbox::{Outbox, Phase, Waiting, Writer},
    script::Script,
    transport::{self, Reader, Stream, lost},
    wire::Frame,
};
use crate::{engine::Mode, error::Trouble, observe::Event};

/// Runs until it is dropped; then the link is closed, and whatever waits is told.
pub(crate) async fn drive(link: Arc<Link>) {
    let _closer = Closer(link.clone());
    let seed = link.surroundings.jitter_seed ^ link.number as u64;
    let mut jitter = Jitter::new(seed);
    let mut backoff = Backoff::new(RECONNECT_DELAY_MIN, RECONNECT_DELAY_MAX);
    loop {
        // A number that nobody has had: what was sent on an older connection, or to a server whose
        // data is here now, is not of this session.
        let session = Session::from_random(link.draw());
        // What is called for while it tries is not missed.
        let calls = link.surroundings.chamber.as_ref().map(|chamber| chamber.calls());
        let trouble = match connect(&link, session).await {
            Ok((incoming, judged, socket)) => {
                let attached_at = link.surroundings.clock.now();
                let trouble = serve(&link, incoming, judged).await;
                if let Some(socket) = socket.filter(|_| trouble == Trouble::TimedOut) {
                    transport::give_up(&socket);
                }
                let lived = link.surroundings.clock.now().saturating_since(attached_at);
                // A server that accepts and hangs up at once is not asked again and again.
                if lived >= LINK_TIMEOUT {
                    backoff.reset();
                }
                trouble
            }
            Err(trouble) => trouble,
        };
        let guarded = guarded(&link, &trouble);
        let until = |left| link.surroundings.clock.now().saturating_add(left);
        let phase = match guarded {
            Some((left, why)) => Phase::Guarded { until: until(left), why: why.to_owned() },
            None => Phase::Down(trouble.clone()),
        };
        let (first, more) = pauses(backoff.next(&mut jitter), guarded.map(|(left, _)| left));
        link.fail(phase, &trouble);
        sleep(first).await;
        if let Some(mut calls) = calls.filter(|_| !more.is_zero()) {
            // Whether it was called or the time is over, it tries again.
            let _ = timeout(more, calls.changed()).await;
        }
    }
}

/// For how long the node is guarded, if that is all that it waits for, and why.
fn guarded<'a>(link: &Link, trouble: &'a Trouble) -> Option<(Duration, &'a str)> {
    let is_placed =
        || link.surroundings.chamber.as_ref().is_some_and(|it| it.is_placed(link.number));
    match trouble {
        Trouble::Guarded { left, why } if is_placed() => Some((*left, why)),
        _ => None,
    }
}

/// How long to wait before the next try: in any case, and then until it is called for. A node
/// whose guard still lasts need not be asked often; but others may end it early, and nobody should
/// be late when it ends.
fn pauses(delay: Duration, guarded: Option<Duration>) -> (Duration, Duration) {
    match guarded {
        None => (delay, Duration::ZERO),
        Some(left) if left < GUARD_NEARLY_OVER => {
            (delay.min(left.max(RECONNECT_DELAY_MIN)), Duration::ZERO)
        }
        Some(left) => (delay, (left / 4).saturating_sub(delay)),
    }
}

/// Opens and attaches a new connection.
async fn connect(
    link: &Arc<Link>,
    session: Session,
) -> Result<(Incoming, Option<Judged>, Option<OwnedFd>), Trouble> {
    let attempt = async {
        let mut stream = transport::open(&link.target, &link.surroundings).await?;
        let attached = attach(&mut stream, link, session).await?;
        let now = link.surroundings.clock.now();
        link.note_round_trip(now.saturating_since(attached.asked_at));
        if let Some(time_us) = attached.time_us {
            link.note_time(time_us, attached.asked_at, now);
        }
        Ok((stream, attached))
    };
    let (stream, attached) =
        timeout(LINK_TIMEOUT, attempt).await.unwrap_or(Err(Trouble::TimedOut))?;
    let Stream { reader, writer, socket } = stream;
    let now = link.surroundings.clock.now();
    let mut outbox = link.outbox();
    let stay = link.surroundings.stay(attached.judged.as_ref());
    outbox.open(Writer(writer), attached.scripts, (session, stay), now);
    link.pay_debts(&mut outbox, now);
    drop(outbox);
    link.tell(&Event::NodeUp { node: &link.target.label });
    link.surroundings.ears.handle_up(link.number, now);
    link.surroundings.status.notify_waiters();
    Ok((Incoming::new(reader, attached.rest), attached.judged, socket))
}

/// Serves one connection until it breaks or is in doubt, and says why.
async fn serve(link: &Arc<Link>, mut incoming: Incoming, judged: Option<Judged>) -> Trouble {
    let mut timer = pin!(sleep(LINK_TIMEOUT));
    let has_session = link.surroundings.mode == Mode::Line || judged.is_some();
    let mut pulse = has_session.then(Pulse::new);
    let mut voided = pin!(voided(judged));
    link.outbox().is_watched = true;
    if let Err(trouble) = incoming.take_apart(link) {
        return trouble;
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
            return Poll::Ready(Trouble::SessionLost);
        }
        if let Some(pulse) = &mut pulse {
            pulse.poll(link, cx);
        }
        if let Poll::Ready(trouble) = incoming.poll(link, cx) {
            return Poll::Ready(trouble);
        }
        if let Poll::Ready(error) = poll_write(link, cx) {
            return Poll::Ready(lost(&error));
        }
        poll_silence(link, timer.as_mut(), cx)
    })
    .await
}

/// Ends when another list of nodes is in force than the one by which the node was judged.
async fn voided(judged: Option<Judged>) {
    match judged {
        Some(mut judged) => drop(judged.lists.changed().await),
        None => std::future::pending().await,
    }
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
            link.ping(self.beats.is_multiple_of(beats), link.surroundings.clock.now());
            self.timer.as_mut().reset(Instant::now() + PING_EVERY);
        }
    }
}

/// Writes what was gathered.
fn poll_write(link: &Link, cx: &mut Context<'_>) -> Poll<io::Error> {
    loop {
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

/// Looks after a server that is silent although it was asked, and after releases that are owed.
fn poll_silence(
    link: &Arc<Link>,
    mut timer: Pin<&mut Sleep>,
    cx: &mut Context<'_>,
) -> Poll<Trouble> {
    loop {
        let mut outbox = link.outbox();
        if !outbox.is_watched {
            return Poll::Pending;
        }
        drop(outbox);
        ready!(timer.as_mut().poll(cx));
        outbox = link.outbox();
        let now = link.surroundings.clock.now();
        let Some(next) = next_look(&outbox, now) else {
            return Poll::Ready(Trouble::TimedOut);
        };
        link.pay_debts(&mut outbox, now);
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
    Answer(Waiting, Result<Reply, Trouble>),
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
    fn poll(&mut self, link: &Link, cx: &mut Context<'_>) -> Poll<Trouble> {
        loop {
            if self.end == self.bytes.len() {
                self.bytes.resize(self.end * 2, 0);
            }
            let mut buffer = ReadBuf::new(&mut self.bytes[self.end..]);
            let polled = Pin::new(&mut *self.reader).poll_read(cx, &mut buffer);
            let len = buffer.filled().len();
            match ready!(polled) {
                Ok(()) if len == 0 => {
                    return Poll::Ready(Trouble::ConnectionLost("closed by the server".into()));
                }
                Ok(()) => self.end += len,
                Err(error) => return Poll::Ready(lost(&error)),
            }
            if let Err(trouble) = self.take_apart(link) {
                return Poll::Ready(trouble);
            }
        }
    }

    /// Matches replies with requests by their order, then tells those who wait.
    fn take_apart(&mut self, link: &Link) -> Result<(), Trouble> {
        let now = link.surroundings.clock.now();
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
        for (place, arrived) in self.arrived.drain(..).enumerate() {
            match arrived {
                Arrived::Answer(waiting, answer) => waiting.request.answer(answer, now),
                Arrived::Push(push) => link.surroundings.ears.handle_push(link.number, push, now),
            }
            if Some(place) == awaited {
                std::thread::yield_now();
            }
        }
        if is_empty {
            link.surroundings.quiet.tell();
        }
        result
    }

    fn match_replies(&mut self, outbox: &mut Outbox) -> Result<(), Trouble> {
        while let Some((frame, len)) = Frame::decode(&self.bytes[self.start..self.end])? {
            let bytes = &self.bytes[self.start..self.start + len];
            self.start += len;
            if frame.is_push() {
                let push = frame.news(bytes, outbox.scripts.prefix());
                if push.as_ref().is_some_and(|it| !it.counts_in(outbox.session)) {
                    // It has another's data, and with that another's session of ours.
                    return Err(Trouble::SessionLost);
                }
                self.arrived.extend(push.map(Arrived::Push));
                continue;
            }
            let Some(waiting) = outbox.waiting.pop_front() else {
                return Err(Trouble::Protocol("a reply that nobody asked for".into()));
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
                    Ok(Reply::Stale) => Err(Trouble::SessionLost),
                    answer => answer,
                };
                let end = match &answer {
                    // After a reply that makes no sense, none can be trusted to belong to its
                    // request.
                    Err(trouble @ Trouble::Protocol(_)) => Some(trouble.clone()),
                    // Without a session that the server knows, the connection is of no use.
                    Err(Trouble::SessionLost) => Some(Trouble::SessionLost),
                    Ok(_) | Err(_) => None,
                };
                self.arrived.push(Arrived::Answer(waiting, answer));
                if let Some(trouble) = end {
                    return Err(trouble);
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
        self.0.fail(Phase::Closed, &Trouble::ShutDown);
    }
}

/// No answer to anything for this long puts a link in doubt; also the time to connect and attach.
const LINK_TIMEOUT: Duration = Duration::from_secs(1);

const RECONNECT_DELAY_MIN: Duration = Duration::from_millis(10);
const RECONNECT_DELAY_MAX: Duration = Duration::from_secs(1);

/// A guard that lasts for less is asked for as often as anything else.
const GUARD_NEARLY_OVER: Duration = Duration::from_secs(5);

/// How often a session is heard of.
const PING_EVERY: Duration = Duration::from_millis(SESSION_LIFE_MS / 4);

/// How much is read at once.
const READ_LEN: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_is_asked_for_less_often_while_it_is_long_and_never_late() {
        let (ms, zero) = (Duration::from_millis, Duration::ZERO);
        assert_eq!(pauses(ms(700), None), (ms(700), zero));
        assert_eq!(pauses(ms(700), Some(ms(68_200))), (ms(700), ms(16_350)));
        assert_eq!(pauses(ms(700), Some(ms(4_999))), (ms(700), zero));
        assert_eq!(pauses(ms(700), Some(ms(300))), (ms(300), zero));
        assert_eq!(pauses(ms(700), Some(zero)), (RECONNECT_DELAY_MIN, zero));
        let (mut left, mut times) = (ms(68_200), 0);
        while left > zero {
            let (first, more) = pauses(RECONNECT_DELAY_MAX, Some(left));
            assert!(first <= RECONNECT_DELAY_MAX && first + more <= left.max(RECONNECT_DELAY_MIN));
            left = left.saturating_sub(first + more);
            times += 1;
        }
        assert!(times < 20, "{times} times");
    }
}
