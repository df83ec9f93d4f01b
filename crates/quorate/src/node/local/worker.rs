//! The thread of one client: executes its commands, receives pushes, and opens the folder again
//! after an error.

use std::{
    os::fd::AsFd,
    sync::{Arc, mpsc::SyncSender},
    time::Duration,
};

use quorate_core::{
    backoff::{Backoff, Jitter},
    command::{Command, Reply, SessionTerms},
    dialect::Dialect,
    moment::{Moment, NodeTime},
    queue::{Sender, Session},
};
use rustix::{
    event::{PollFd, PollFlags, poll},
    time::Timespec,
};

use super::{
    Shared,
    fault::Fault,
    folder::FileId,
    notifier::{Incoming, PUSH_LEN_MAX, Receiver},
    open_store::{Done, OpenStore},
    queue::{Next, Phase},
    time::Boot,
    transaction::Transaction,
};
use crate::{
    error::NodeError,
    node::{NodeEvent, Request, deliver_answers},
    observe::Event,
};

/// The worker of one client.
pub(super) struct Worker {
    shared: Arc<Shared>,
    boot: Boot,
    open: Option<Open>,
    /// The database file when it was last open.
    previous_db: Option<FileId>,
    /// When to open the folder again, if it is closed.
    retry_at: Moment,
    backoff: Backoff,
    jitter: Jitter,
    buffer: Box<[u8]>,
    /// Receives the result of the first attempt to open the folder.
    first: Option<SyncSender<Result<i64, Fault>>>,
}

/// The state while the folder is open.
struct Open {
    open_store: OpenStore,
    /// Absent in classic mode, which has no pushes.
    receiver: Option<Receiver>,
    session: Option<Session>,
    /// When the session was last renewed.
    renewed_at: Moment,
}

/// The result of a batch.
struct Answers {
    replies: Vec<Result<Reply, NodeError>>,
    /// Whether the node has forgotten the session, and with it the locks of this client.
    is_forgotten: bool,
}

impl Worker {
    pub(super) fn new(
        shared: Arc<Shared>,
        boot: Boot,
        seed: u64,
        first: SyncSender<Result<i64, Fault>>,
    ) -> Self {
        Self {
            shared,
            boot,
            open: None,
            previous_db: None,
            retry_at: Moment::ZERO,
            backoff: Backoff::new(REOPEN_DELAY_MIN, REOPEN_DELAY_MAX),
            jitter: Jitter::new(seed),
            buffer: vec![0; PUSH_LEN_MAX].into(),
            first: Some(first),
        }
    }

    /// Works until the queue is closed.
    pub(super) fn run(mut self) {
        let _end = End(self.shared.clone());
        loop {
            let now = self.shared.clock.now();
            if self.open.is_none() && self.retry_at <= now {
                self.open(now);
            }
            self.receive();
            match self.shared.queue.take() {
                Next::Work(requests) => self.handle(requests),
                Next::Sleep => self.sleep(),
                Next::End => break,
            }
        }
        // Closed before the end is reported: a caller that waits for the end finds no open file.
        self.open = None;
    }

    /// Opens the folder and begins a session.
    fn open(&mut self, now: Moment) {
        match self.try_open() {
            Ok(ahead_us) => {
                self.shared.queue.set_phase(Phase::Up);
                self.shared.notify_observer(&Event::NodeUp { node: &self.shared.label });
                self.shared.events.deliver(NODE, NodeEvent::Up);
                self.report(Ok(ahead_us));
            }
            Err(fault) => {
                self.report(Err(fault.clone()));
                self.fail(&fault, now);
            }
        }
        self.shared.status.notify_waiters();
    }

    fn report(&mut self, result: Result<i64, Fault>) {
        if let Some(first) = self.first.take() {
            // The caller that builds the client may have stopped waiting.
            let _ = first.send(result);
        }
    }

    fn try_open(&mut self) -> Result<i64, Fault> {
        let open_store = OpenStore::open(&self.shared.path, &self.boot, self.previous_db)?;
        let receiver = match self.shared.dialect {
            Dialect::Queue => Some(open_store.notifier.listen(self.shared.client)?),
            Dialect::Classic => None,
        };
        let mut open = Open { open_store, receiver, session: None, renewed_at: Moment::ZERO };
        // In classic mode too: this shows whether the folder is writable.
        let done = open.run(&self.shared, &mut [])?;
        let ahead_us = open.open_store.ahead_us();
        let (time, at) = done.at;
        self.shared.events.deliver(NODE, NodeEvent::Time { time_us: time.as_micros(), at });
        self.previous_db = open.open_store.db_id();
        self.open = Some(open);
        Ok(ahead_us)
    }

    /// Closes the folder after an error, and fails what waits.
    fn fail(&mut self, fault: &Fault, now: Moment) {
        let node_error = NodeError::from(fault);
        self.open = None;
        self.retry_at = now.saturating_add(self.backoff.next(&mut self.jitter));
        let abandoned = self.shared.queue.set_phase(Phase::Down(node_error.clone()));
        self.shared.notify_observer(&Event::NodeDown {
            node: &self.shared.label,
            node_error: &node_error,
        });
        let answers = abandoned.into_iter().map(|request| (request, Err(node_error.clone())));
        deliver_answers(NODE, answers, now);
        self.shared.events.deliver(NODE, NodeEvent::Down { is_forgotten: false });
        self.shared.status.notify_waiters();
    }

    /// Receives pushes.
    fn receive(&mut self) {
        let Some(Open { receiver: Some(receiver), session: Some(session), .. }) = &self.open else {
            return;
        };
        let mut must_check = false;
        for _ in 0..PUSHES_MAX {
            match receiver.receive(&mut self.buffer) {
                // A grant for an older session does not count. Its waiter asks again.
                Some(Incoming::Push(push)) if push.counts_in(*session) => {
                    self.shared.events.deliver(NODE, NodeEvent::Push(push));
                }
                Some(Incoming::Push(_)) => {}
                Some(Incoming::Alarm) => must_check = true,
                None => break,
            }
        }
        if must_check {
            // Every transaction checks the files, even one without commands.
            self.handle(Vec::new());
        }
    }

    /// Executes requests in one transaction, sends the resulting pushes to other clients, and
    /// answers.
    fn handle(&mut self, requests: Vec<Request>) {
        let Some(open) = &mut self.open else {
            return self.answer(requests, Vec::new());
        };
        let mut commands: Vec<Command> =
            requests.iter().map(|request| request.command.clone()).collect();
        match open.run(&self.shared, &mut commands) {
            Ok(Done { value, pushes, .. }) => {
                self.backoff.reset();
                let (own, others): (Vec<_>, Vec<_>) =
                    pushes.into_iter().partition(|push| push.client == self.shared.client);
                others.iter().for_each(|push| open.open_store.notifier.send(push));
                if value.is_forgotten {
                    self.shared.events.deliver(NODE, NodeEvent::Down { is_forgotten: true });
                    self.shared.events.deliver(NODE, NodeEvent::Up);
                }
                self.answer(requests, value.replies);
                own.into_iter()
                    .for_each(|push| self.shared.events.deliver(NODE, NodeEvent::Push(push)));
                if let Some(open) = &self.open {
                    open.open_store.tidy_up();
                }
            }
            Err(fault) => {
                let now = self.shared.clock.now();
                // Down first: a reply may lead to another request.
                self.fail(&fault, now);
                let node_error = NodeError::from(&fault);
                let replies = vec![Err(node_error); requests.len()];
                self.answer(requests, replies);
            }
        }
    }

    fn answer(&self, requests: Vec<Request>, replies: Vec<Result<Reply, NodeError>>) {
        let now = self.shared.clock.now();
        let mut replies = replies.into_iter();
        let mut next = || replies.next().unwrap_or(Err(NodeError::Connecting));
        deliver_answers(NODE, requests.into_iter().map(|request| (request, next())), now);
        self.shared.queue.settle();
        self.shared.idle.notify();
    }

    /// Waits for a request, for a push, or until it is time to open the folder again.
    fn sleep(&self) {
        let queue = &self.shared.queue;
        let receiver = self.open.as_ref().and_then(|open| open.receiver.as_ref());
        let wakeup = queue.wakeup();
        let mut fds = vec![PollFd::from_borrowed_fd(wakeup, PollFlags::IN)];
        fds.extend(
            receiver.map(|receiver| PollFd::from_borrowed_fd(receiver.as_fd(), PollFlags::IN)),
        );
        let wait = self.open.is_none().then(|| {
            let left = self.retry_at.saturating_since(self.shared.clock.now());
            Timespec::try_from(left).unwrap_or_default()
        });
        // After a signal the loop checks what there is to do.
        let _ = poll(&mut fds, wait.as_ref());
        queue.clear_wakeup();
    }
}

impl Open {
    /// Executes commands in one transaction with the current session. If the node does not know the
    /// session any more, starts another one first.
    fn run(&mut self, shared: &Shared, commands: &mut [Command]) -> Result<Done<Answers>, Fault> {
        let (known, renewed_at) = (self.session, self.renewed_at);
        let (mut session, mut is_renewing) = (None, false);
        let done = self.open_store.transact(|transaction, now| {
            if shared.dialect.has_queue() {
                let stored = transaction.session(now, shared.client)?;
                let known = known.filter(|known| stored == Some(*known));
                let silence = shared.clock.now().saturating_since(renewed_at);
                is_renewing = known.is_none() || silence >= PING_EVERY;
                session = Some(match known {
                    Some(known) => known,
                    None => shared.fresh_session()?,
                });
            }
            if let Some(session) = session.filter(|_| is_renewing) {
                let sender = Sender { client: shared.client, session };
                transaction.run(now, &shared.introduction())?;
                let terms = SessionTerms::without_membership(shared.lifetime_ms);
                transaction.run(now, &Command::Attach { sender, terms })?;
            }
            // The client may have closed while this waited for the folder's lock. Then nothing
            // would release a lock that is acquired now.
            let is_over = matches!(shared.queue.phase(), Phase::Closed);
            let mut replies = Vec::with_capacity(commands.len());
            for command in commands {
                if let Some(session) = session {
                    command.set_session(session);
                }
                replies.push(run_one(transaction, now, command, is_over)?);
            }
            let is_forgotten = known.is_some() && session != known;
            Ok(Answers { replies, is_forgotten })
        })?;
        self.session = session;
        if is_renewing {
            self.renewed_at = done.at.1;
        }
        Ok(done)
    }
}

/// Executes one command, or each entry of a batch. For a client that has closed, executes only
/// releases.
fn run_one(
    transaction: &mut Transaction<'_>,
    now: NodeTime,
    command: &Command,
    is_over: bool,
) -> Result<Result<Reply, NodeError>, Fault> {
    if let Command::Batch(entries) = command {
        let each = entries.iter().map(|entry| Ok(run_one(transaction, now, entry, is_over)?.ok()));
        return Ok(Ok(Reply::Batch(each.collect::<Result<_, Fault>>()?)));
    }
    let is_release = matches!(command, Command::Release { .. } | Command::DeleteKey { .. });
    if is_over && !is_release {
        return Ok(Err(NodeError::ShutDown));
    }
    if !Transaction::supports(command) {
        return Ok(Err(NodeError::Unsupported("a local node has no membership".into())));
    }
    Ok(match transaction.run(now, command)? {
        Reply::Stale => Err(NodeError::SessionLost),
        reply => Ok(reply),
    })
}

/// Closes the queue when the worker ends, even by a panic.
struct End(Arc<Shared>);

impl Drop for End {
    fn drop(&mut self) {
        let now = self.0.clock.now();
        self.0.queue.close();
        let abandoned = self.0.queue.set_phase(Phase::Closed);
        self.0.notify_observer(&Event::NodeDown {
            node: &self.0.label,
            node_error: &NodeError::ShutDown,
        });
        let answers = abandoned.into_iter().map(|request| (request, Err(NodeError::ShutDown)));
        deliver_answers(NODE, answers, now);
        self.0.events.deliver(NODE, NodeEvent::Down { is_forgotten: false });
        self.0.status.notify_waiters();
        self.0.idle.notify();
        self.0.queue.report_end();
    }
}

/// The only node.
const NODE: usize = 0;

/// A session is renewed this often at most. An idle client renews none.
const PING_EVERY: Duration = Duration::from_secs(1);

/// The largest number of pushes that are received before requests are executed.
const PUSHES_MAX: usize = 256;

const REOPEN_DELAY_MIN: Duration = Duration::from_millis(10);
const REOPEN_DELAY_MAX: Duration = Duration::from_secs(1);
