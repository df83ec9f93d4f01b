//! Changes of locks, for watchers: one poll of the nodes serves all of them.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use quorate::{Client, error::InspectError};
use serde::Serialize;
use tokio::sync::{Notify, broadcast};
use utoipa::ToSchema;

use crate::api::Lock;

/// A change of a lock.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Change {
    /// The lock has another holder.
    Held {
        /// What the nodes know.
        lock: Lock,
    },
    /// The number of waiters has changed.
    Waiting {
        /// What the nodes know.
        lock: Lock,
    },
    /// The lock has neither a holder nor waiters.
    Free {
        /// Its name.
        name: String,
    },
}

impl Change {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Held { lock } | Self::Waiting { lock } => &lock.name,
            Self::Free { name } => name,
        }
    }

    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Held { .. } => "held",
            Self::Waiting { .. } => "waiting",
            Self::Free { .. } => "free",
        }
    }
}

/// A change and its number.
#[derive(Clone, Debug)]
pub(crate) struct Numbered {
    pub(crate) number: u64,
    pub(crate) change: Arc<Change>,
}

/// Polls all locks while there are watchers.
#[derive(Debug)]
pub(crate) struct Watch {
    state: Mutex<State>,
    /// Distinguishes the events of this instance from those of others.
    epoch: String,
    /// Notified after every poll.
    known: Notify,
}

#[derive(Debug)]
struct State {
    known: BTreeMap<String, Lock>,
    /// Set once the nodes have answered.
    is_known: bool,
    log: VecDeque<Numbered>,
    next: u64,
    is_watched: bool,
    sender: broadcast::Sender<Numbered>,
}

/// What a new watcher gets first.
pub(crate) struct Start {
    /// All locks, unless the watcher resumes.
    pub(crate) snapshot: Option<Vec<Lock>>,
    /// The changes that it missed.
    pub(crate) missed: Vec<Numbered>,
    /// The number of the last change that the snapshot includes.
    pub(crate) number: u64,
    pub(crate) changes: broadcast::Receiver<Numbered>,
}

impl Watch {
    pub(crate) fn new(epoch: String) -> Self {
        let sender = broadcast::Sender::new(BACKLOG_MAX);
        let state = State {
            known: BTreeMap::new(),
            is_known: false,
            log: VecDeque::new(),
            next: 1,
            is_watched: false,
            sender,
        };
        Self { state: Mutex::new(state), epoch, known: Notify::new() }
    }

    /// The id of a change in the stream.
    pub(crate) fn id(&self, number: u64) -> String {
        format!("{}-{number}", self.epoch)
    }

    /// Starts to watch locks with this prefix, or resumes after the change with this id.
    pub(crate) async fn start(
        self: &Arc<Self>,
        client: &Client,
        prefix: &str,
        last: Option<&str>,
    ) -> Start {
        let changes = self.subscribe(client);
        loop {
            let is_known = self.known.notified();
            if self.lock().is_known {
                break;
            }
            // The first poll is in progress.
            is_known.await;
        }
        let state = self.lock();
        // The snapshot includes the changes up to now.
        drop(changes);
        let changes = state.sender.subscribe();
        let number = state.next.saturating_sub(1);
        let seen = last.and_then(|id| id.strip_prefix(&*self.epoch)?.strip_prefix('-'));
        let seen = seen.and_then(|number| number.parse::<u64>().ok());
        let oldest = state.log.front().map_or(state.next, |first| first.number);
        match seen.filter(|seen| seen.saturating_add(1) >= oldest && *seen < state.next) {
            Some(seen) => {
                let missed = state.log.iter().filter(|it| it.number > seen).cloned().collect();
                Start { snapshot: None, missed, number, changes }
            }
            None => {
                let is_seen = |lock: &&Lock| lock.name.starts_with(prefix);
                let snapshot = Some(state.known.values().filter(is_seen).cloned().collect());
                Start { snapshot, missed: Vec::new(), number, changes }
            }
        }
    }

    fn subscribe(self: &Arc<Self>, client: &Client) -> broadcast::Receiver<Numbered> {
        let mut state = self.lock();
        let changes = state.sender.subscribe();
        if !std::mem::replace(&mut state.is_watched, true) {
            tokio::spawn(self.clone().watch_forever(client.clone()));
        }
        changes
    }

    async fn watch_forever(self: Arc<Self>, client: Client) {
        loop {
            let started = Instant::now();
            if let Ok(seen) = poll(&client).await {
                self.learn(seen);
            }
            // Many locks or slow nodes must not be polled all the time.
            let pause = POLL_EVERY.max(started.elapsed() * PAUSE_SHARE);
            tokio::time::sleep(pause).await;
            let mut state = self.lock();
            if state.sender.receiver_count() == 0 {
                (state.is_watched, state.is_known) = (false, false);
                return;
            }
        }
    }

    fn learn(&self, seen: Seen) {
        let Seen { locks: mut fresh, is_all } = seen;
        let mut state = self.lock();
        let mut changes = Vec::new();
        for (name, lock) in &fresh {
            let before = state.known.get(name);
            let is_changed = before.is_none_or(|before| !before.has_same_holders(lock));
            if is_changed && lock.holder.is_some() {
                changes.push(Change::Held { lock: lock.clone() });
            } else if before.map(|it| it.waiting) != Some(lock.waiting) {
                changes.push(Change::Waiting { lock: lock.clone() });
            }
        }
        let gone: Vec<String> =
            state.known.keys().filter(|name| !fresh.contains_key(*name)).cloned().collect();
        match is_all {
            true => changes.extend(gone.into_iter().map(|name| Change::Free { name })),
            // Locks that were not listed may still be held.
            false => {
                let unseen = gone.into_iter().filter_map(|name| state.known.remove_entry(&name));
                fresh.extend(unseen.take(LOCKS_MAX));
            }
        }
        state.known = fresh;
        state.is_known = true;
        for change in changes {
            let numbered = Numbered { number: state.next, change: Arc::new(change) };
            state.next += 1;
            state.log.push_back(numbered.clone());
            if state.log.len() > LOG_MAX {
                state.log.pop_front();
            }
            // The watcher may be gone.
            let _ = state.sender.send(numbered);
        }
        drop(state);
        self.known.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The locks on the nodes.
struct Seen {
    locks: BTreeMap<String, Lock>,
    /// False if there are too many locks, or too few nodes answered.
    is_all: bool,
}

async fn poll(client: &Client) -> Result<Seen, InspectError> {
    let mut seen = Seen { locks: BTreeMap::new(), is_all: true };
    let mut list = client.locks("").page_size(PAGE_LEN);
    while let Some(page) = list.next_page().await? {
        seen.is_all &= page.is_complete;
        seen.locks.extend(page.locks.iter().map(|lock| (lock.name.clone(), Lock::from(lock))));
        if page.next.is_some() && seen.locks.len() >= LOCKS_MAX {
            return Ok(Seen { is_all: false, ..seen });
        }
    }
    Ok(seen)
}

/// How often the nodes are polled.
const POLL_EVERY: Duration = Duration::from_millis(250);

/// The pause after a poll is at least this many times its duration.
const PAUSE_SHARE: u32 = 10;

/// About this many locks are watched. With more, changes of some are missed.
const LOCKS_MAX: usize = 10_000;

const PAGE_LEN: usize = 500;

/// A watcher can miss this many changes and still resume.
const LOG_MAX: usize = 10_000;

/// This many changes may be pending for a slow watcher before it gets a snapshot.
const BACKLOG_MAX: usize = 1_024;
