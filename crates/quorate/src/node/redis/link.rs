//! One server as a node of the engine.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use quorate_core::{
    command::{ClientId, Command, Reply, SessionTerms},
    dialect::Dialect,
    membership::{self, SESSION_LIFE_MS},
    moment::Moment,
    queue::Sender,
};
use tokio::sync::Notify;

use super::{
    attach::Identities,
    outbox::{Flush, Outbox, Phase, Writing},
    script::Script,
    target::Target,
    transport::Security,
};
use crate::{
    clock::Clock,
    error::NodeError,
    membership::{LinkMembership, SharedMembership},
    node::{
        IdleSignal, Inbox, Node, NodeEvent, NodeEvents, Pull, Pulled, Request, Sent, Work,
        deliver_answers,
    },
    nonces::Nonces,
    observe::{self, Event, Observer},
};

/// One server. Its driver owns the connection. All other tasks only queue and write.
pub(crate) struct Link {
    pub(crate) number: usize,
    pub(crate) target: Target,
    pub(crate) context: LinkContext,
    /// The membership of its connections.
    pub(crate) membership: LinkMembership,
    outbox: Mutex<Outbox>,
    round_trip_ns: AtomicU64,
    /// The shortest round trip of this connection: the way to the server and back, without the time
    /// in which it was busy.
    distance_ns: AtomicU64,
}

/// What the links of one client share.
#[derive(Clone, Debug)]
pub(crate) struct LinkContext {
    pub(crate) clock: Clock,
    /// The name that servers show for this client's connections.
    pub(crate) client_name: Arc<str>,
    /// The client's id.
    pub(crate) client: ClientId,
    pub(crate) who: Arc<str>,
    pub(crate) dialect: Dialect,
    /// Whether connections have sessions.
    pub(crate) has_sessions: bool,
    /// The prefix of Quorate's own keys.
    pub(crate) prefix: Arc<str>,
    pub(crate) max_ttl: Duration,
    /// Gets the events of nodes.
    pub(crate) events: Arc<NodeEvents>,
    pub(crate) identities: Arc<Identities>,
    /// The shared membership, if the nodes use quarantine.
    pub(crate) membership: Option<Arc<SharedMembership>>,
    /// The client begins no session and writes nothing, unless it acts for an operator.
    pub(crate) is_read_only: bool,
    /// Notified whenever a link comes up or goes down.
    pub(crate) status: Arc<Notify>,
    pub(crate) idle: Arc<IdleSignal>,
    /// For delays only.
    pub(crate) jitter_seed: u64,
    pub(crate) nonces: Nonces,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) security: Security,
    #[cfg(feature = "__simulation")]
    pub(crate) network: Option<Arc<dyn super::network::Network>>,
}

impl LinkContext {
    /// Describes the client, for as long as a lock of the client may exist.
    pub(crate) fn introduction(&self) -> Command {
        let held_ms = u64::try_from(self.max_ttl.as_millis()).unwrap_or(u64::MAX);
        let lifetime_ms = held_ms.saturating_add(INTRODUCTION_EVERY_MS + SESSION_LIFE_MS);
        Command::Introduce { client: self.client, who: self.who.clone(), lifetime_ms }
    }

    /// The scripts that are used repeatedly. The others are sent as text.
    pub(super) const fn scripts(&self) -> &'static [Script] {
        match (self.dialect, &self.membership) {
            (Dialect::Queue, _) => Script::QUEUE,
            (Dialect::Classic, None) => Script::CLASSIC,
            (Dialect::Classic, Some(_)) => Script::CLASSIC_MEMBERS,
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("node", &self.target.label).finish_non_exhaustive()
    }
}

impl Link {
    pub(crate) fn new(number: usize, target: Target, context: LinkContext) -> Self {
        let prefix = context.prefix.clone();
        let outbox = Mutex::new(Outbox::new(prefix, context.clock.now()));
        let membership = LinkMembership::new(number, context.membership.clone());
        let (round_trip_ns, distance_ns) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { number, target, context, membership, outbox, round_trip_ns, distance_ns }
    }

    /// Notifies the observer, if there is one.
    pub(crate) fn tell(&self, event: &Event<'_>) {
        observe::tell(self.context.observer.as_ref(), event);
    }

    /// Answers all unanswered requests with `node_error`. The link is down or closed.
    pub(crate) fn fail(&self, phase: Phase, node_error: &NodeError) {
        let abandoned = self.outbox().close(phase);
        // A quarantined node keeps its server: only the run id shows that two new nodes are the
        // same one.
        if !matches!(node_error, NodeError::Quarantined { .. }) {
            self.context.identities.release(self.number);
        }
        self.tell(&Event::NodeDown { node: &self.target.label, node_error });
        let now = self.context.clock.now();
        let answers = abandoned.into_iter().map(|it| (it.request, Err(node_error.clone())));
        deliver_answers(self.number, answers, now);
        self.membership.leave();
        // A client without a session on the node has nothing there.
        let is_forgotten = *node_error == NodeError::SessionLost;
        self.context.events.deliver(self.number, NodeEvent::Down { is_forgotten });
        self.context.status.notify_waiters();
        self.context.idle.notify();
    }

    /// Locks can be requested from the node from now on.
    pub(crate) fn come_up(&self) {
        self.outbox().phase = Phase::Up;
        self.tell(&Event::NodeUp { node: &self.target.label });
        self.context.events.deliver(self.number, NodeEvent::Up);
        self.context.status.notify_waiters();
    }

    /// Renews the session and reads the server's time. A read-only client repeats the handshake.
    pub(crate) fn ping(self: &Arc<Self>, is_introduced: bool, now: Moment) {
        let mut outbox = self.outbox();
        if !outbox.is_open() {
            return;
        }
        let sender = Sender { client: self.context.client, session: outbox.session };
        let terms = SessionTerms { wall_ms: self.context.clock.wall_ms(), ..outbox.terms };
        let Some(ping) = self.membership.renewal(Command::Ping { sender, terms }) else { return };
        let is_introduced = is_introduced && !self.context.is_read_only;
        let introduction = is_introduced.then(|| self.context.introduction());
        for command in std::iter::once(ping).chain(introduction) {
            let inbox = Arc::new(PingInbox { link: Arc::downgrade(self), sent_at: now });
            outbox.push(Request::to_inbox(command, self.number, inbox), now);
        }
        // A server that hangs is noticed even if no request is sent to it.
        let waker = outbox.monitor();
        drop(outbox);
        wake(waker);
    }

    /// Writes in the caller's thread.
    fn write(&self, mut writing: Writing) {
        // No waker is needed: if the socket is full, the driver takes over.
        let written = writing.poll(&mut Context::from_waker(Waker::noop()));
        let mut outbox = self.outbox();
        let is_broken = matches!(written, Poll::Ready(Err(_)));
        if let Poll::Ready(Err(error)) = written {
            outbox.handle_broken(&writing, error);
        }
        let waker =
            (outbox.give_back(writing, self.distance()) || is_broken).then(|| outbox.driver.take());
        drop(outbox);
        wake(waker.flatten());
    }

    /// The server's clock showed `time_us` between `sent_at` and now.
    pub(crate) fn note_time(&self, time_us: u64, sent_at: Moment, now: Moment) {
        self.membership.know_time(time_us, sent_at);
        let half = now.saturating_since(sent_at) / 2;
        self.context
            .events
            .deliver(self.number, NodeEvent::Time { time_us, at: sent_at.saturating_add(half) });
    }

    /// Follows the round trip: down immediately, up slowly, so that one stall has little effect.
    pub(crate) fn note_round_trip(&self, sample: Duration) {
        let sample = u64::try_from(sample.as_nanos()).unwrap_or(u64::MAX);
        let known = self.round_trip_ns.load(Ordering::Relaxed);
        let next = match known {
            0 => sample,
            _ if sample <= known => sample,
            _ => known + (sample.min(known.saturating_mul(2)) - known) / 16,
        };
        self.round_trip_ns.store(next.max(1), Ordering::Relaxed);
        self.distance_ns.fetch_min(sample, Ordering::Relaxed);
    }

    /// The first round trip of a new connection.
    pub(crate) fn note_first_round_trip(&self, sample: Duration) {
        self.distance_ns.store(u64::MAX, Ordering::Relaxed);
        self.note_round_trip(sample);
    }

    /// The time until an answer of a server that is not busy.
    pub(crate) fn distance(&self) -> Duration {
        Duration::from_nanos(self.distance_ns.load(Ordering::Relaxed))
    }

    /// Why this command cannot be sent now, if so.
    fn obstacle(&self, outbox: &Outbox, command: &Command, now: Moment) -> Option<NodeError> {
        if self.context.is_read_only && !command.is_read_only() {
            return Some(NodeError::Unsupported(IS_READ_ONLY.into()));
        }
        let is_full = || outbox.unanswered.len() >= UNANSWERED_MAX;
        outbox.obstacle(command, now).or_else(|| is_full().then_some(NodeError::Overloaded))
    }

    pub(crate) fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Node for Arc<Link> {
    fn send(&self, request: Request, now: Moment) -> Sent {
        let mut outbox = self.outbox();
        match self.obstacle(&outbox, &request.command, now) {
            Some(node_error) => Sent::Answered(Err(node_error)),
            None => {
                outbox.push(request, now);
                Sent::Queued
            }
        }
    }

    fn pull(&self, work: &mut dyn Work, how: Pull, now: Moment) -> Pulled {
        let mut outbox = self.outbox();
        if how == Pull::IfIdle && outbox.leave_work(work.len()) {
            return Pulled::Later;
        }
        outbox.has_work = false;
        let mut pulled = Pulled::Answered;
        while let Some(request) = work.next(Command::shares_call) {
            match self.obstacle(&outbox, &request.command, now) {
                Some(node_error) => work.answer(request, Err(node_error), outbox.generation),
                None => {
                    outbox.push(request, now);
                    pulled = Pulled::Queued;
                }
            }
        }
        pulled
    }

    fn flush(&self) {
        let mut outbox = self.outbox();
        let waker = outbox.monitor();
        let flush = outbox.flush(self.distance());
        drop(outbox);
        // Without the mutex: the driver needs it at once.
        wake(waker);
        match flush {
            Flush::Done => {}
            Flush::Wake(driver) => driver.wake(),
            Flush::Write(writing) => self.write(writing),
        }
    }

    fn flush_behind(&self) {
        let mut outbox = self.outbox();
        let (waker, is_answer_due) = (outbox.monitor(), outbox.is_answer_due());
        drop(outbox);
        wake(waker);
        if !is_answer_due {
            self.flush();
        }
    }

    fn label(&self) -> &str {
        &self.target.label
    }

    fn node_error(&self) -> Option<NodeError> {
        self.outbox().node_error(self.context.clock.now())
    }

    fn why_not_yet(&self) -> Option<&'static str> {
        self.outbox().why_not_yet
    }

    fn connection(&self) -> u64 {
        self.outbox().generation
    }

    fn round_trip(&self) -> Duration {
        Duration::from_nanos(self.round_trip_ns.load(Ordering::Relaxed))
    }

    fn is_busy(&self) -> bool {
        let outbox = self.outbox();
        outbox.has_work || !outbox.unanswered.is_empty()
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Handles the answers to the link's own requests.
#[derive(Debug)]
struct PingInbox {
    link: Weak<Link>,
    sent_at: Moment,
}

impl Inbox for PingInbox {
    fn handle_answer(
        self: Arc<Self>,
        _node: usize,
        _command: Command,
        answer: Result<Reply, NodeError>,
        now: Moment,
    ) {
        let Some(link) = self.link.upgrade() else { return };
        match answer {
            Ok(Reply::Attached { time_us }) => link.note_time(time_us, self.sent_at, now),
            // The node is unchanged, or the link would be down.
            Ok(Reply::Membership(membership::Reply::Info(_))) => {}
            Ok(_) | Err(_) => return,
        }
        link.membership.handle_renewal();
    }
}

const IS_READ_ONLY: &str = "this client is read-only: it does not acquire or release locks";

/// How often the description of the client is renewed.
pub(crate) const INTRODUCTION_EVERY_MS: u64 = 20_000;

/// The maximum number of unanswered requests of one link.
const UNANSWERED_MAX: usize = 1 << 20;
