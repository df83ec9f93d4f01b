//! Events of a client: for metrics, traces, logs and tests.
//!
//! An [`Observer`] receives each event when it happens, on any thread. It must not block, and must
//! not use the client that calls it: it must not acquire or extend a lock, nor drop a guard. The
//! features `tracing` and `metrics` have adapters.
//!
//! # Examples
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::{Arc, atomic::{AtomicU32, Ordering}};
//! use quorate::{Client, memory::MemoryNodes, observe::Event};
//!
//! let (held, nodes) = (Arc::new(AtomicU32::new(0)), MemoryNodes::new(1));
//! let count = held.clone();
//! let observer = move |event: &Event<'_>| {
//!     if let Event::Held { .. } = event {
//!         count.fetch_add(1, Ordering::Relaxed);
//!     }
//! };
//! let client = Client::builder().memory(&nodes).observer(observer).build()?;
//! let _guard = client.mutex("orders:42").lock().await?;
//! assert_eq!(held.load(Ordering::Relaxed), 1);
//! # Ok(()) }
//! ```

#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(feature = "tracing")]
pub mod tracing;

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use quorate_core::{
    command::Owner,
    queue::{Group, group},
};

use crate::error::{LostReason, NodeAnswer, NodeError};

/// Receives events.
///
/// # Examples
///
/// ```
/// # use quorate::{Client, memory::MemoryNodes, observe::{Event, Observer}};
/// # let nodes = MemoryNodes::new(1);
/// struct Losses;
///
/// impl Observer for Losses {
///     fn observe(&self, event: &Event<'_>) {
///         if let Event::Lost { name, reason, .. } = event {
///             eprintln!("{name} is lost: {reason}");
///         }
///     }
/// }
///
/// let client = Client::builder().memory(&nodes).observer(Losses).build()?;
/// # Ok::<(), quorate::error::ConfigError>(())
/// ```
pub trait Observer: Send + Sync + 'static {
    /// Receives an event. Threads of the client call it: it must not block, and must not call the
    /// client.
    ///
    /// # Examples
    ///
    /// ```
    /// # use quorate::observe::{Event, LockKind, Observer};
    /// // An observer that is a function can be tested without a client.
    /// let held = Event::Held { name: "orders:42", kind: LockKind::Mutex };
    /// let observer = |event: &Event<'_>| assert!(matches!(event, Event::Held { .. }));
    /// observer.observe(&held);
    /// ```
    fn observe(&self, event: &Event<'_>);
}

impl<F: Fn(&Event<'_>) + Send + Sync + 'static> Observer for F {
    fn observe(&self, event: &Event<'_>) {
        self(event);
    }
}

/// Combines observers into one that calls each of them in order. `None` if there are none.
pub(crate) fn combined(observers: &[Arc<dyn Observer>]) -> Option<Arc<dyn Observer>> {
    match observers {
        [] => None,
        [observer] => Some(observer.clone()),
        _ => Some(Arc::new(Combined(observers.into()))),
    }
}

struct Combined(Box<[Arc<dyn Observer>]>);

impl Observer for Combined {
    fn observe(&self, event: &Event<'_>) {
        // A panic of one observer must not hide the event from the next one.
        self.0.iter().for_each(|observer| tell(Some(observer), event));
    }
}

/// Calls `observer`, if there is one. Its panic must not end the client.
pub(crate) fn tell(observer: Option<&Arc<dyn Observer>>, event: &Event<'_>) {
    if let Some(observer) = observer {
        let _ = catch_unwind(AssertUnwindSafe(|| observer.observe(event)));
    }
}

impl fmt::Debug for dyn Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

/// An event of a client.
///
/// # Examples
///
/// ```
/// use quorate::observe::{Event, LockKind};
///
/// fn line(event: &Event<'_>) -> Option<String> {
///     match event {
///         Event::NodeDown { node, node_error } => Some(format!("{node} is down: {node_error}")),
///         Event::AtRisk { name, .. } => Some(format!("{name} is at risk")),
///         _ => None, // later versions may add events
///     }
/// }
/// let at_risk = Event::AtRisk { name: "orders:42", kind: LockKind::Mutex };
/// assert_eq!(line(&at_risk).unwrap(), "orders:42 is at risk");
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A round begins: all nodes are asked.
    Started {
        /// Identifies this round within its process.
        round: u64,
        /// What is asked.
        action: Action,
        /// The lock.
        name: &'a str,
        /// The kind of the lock.
        kind: LockKind,
    },
    /// One node answered or failed. This event may follow the end of the round.
    Answered {
        /// The round.
        round: u64,
        /// What was asked.
        action: Action,
        /// The node's address, without secrets.
        node: &'a str,
        /// What it answered.
        answer: &'a NodeAnswer,
        /// How long it took.
        took: Duration,
    },
    /// The outcome of a round is known.
    Ended {
        /// The round.
        round: u64,
        /// What was asked.
        action: Action,
        /// The lock.
        name: &'a str,
        /// The kind of the lock.
        kind: LockKind,
        /// The outcome.
        outcome: Outcome,
        /// How long it took.
        took: Duration,
    },
    /// A call begins to wait for a lock that another owner holds.
    WaitStarted {
        /// The lock.
        name: &'a str,
        /// The kind of the lock.
        kind: LockKind,
    },
    /// That call ends: it acquired the lock, gave up, or was dropped.
    WaitEnded {
        /// The lock.
        name: &'a str,
        /// The kind of the lock.
        kind: LockKind,
        /// How long it waited.
        waited: Duration,
    },
    /// A caller got a guard.
    Held {
        /// The lock.
        name: &'a str,
        /// The kind of the lock.
        kind: LockKind,
    },
    /// A guard ends: it was released, dropped, detached, or left to expire.
    LetGo {
        /// The lock.
        name: &'a str,
        /// The kind of the lock.
        kind: LockKind,
        /// How long it was held.
        held_for: Duration,
    },
    /// The watchdog tried to renew a lease.
    Renewed {
        /// The lock.
        name: &'a str,
        /// The kind of the lock.
        kind: LockKind,
        /// The outcome.
        outcome: Outcome,
        /// How long the lease was still valid when the answer came. A small margin is an early
        /// warning.
        margin: Duration,
    },
    /// A lock is still held, but its last renewal was not confirmed, or a clock jumped.
    AtRisk {
        /// The lock.
        name: &'a str,
        /// The kind of the lock.
        kind: LockKind,
    },
    /// A lock is lost while its guard exists.
    Lost {
        /// The lock.
        name: &'a str,
        /// The kind of the lock.
        kind: LockKind,
        /// Why.
        reason: LostReason,
    },
    /// A node is attached and may vote.
    NodeUp {
        /// The node's address, without secrets.
        node: &'a str,
    },
    /// A node is not attached.
    NodeDown {
        /// The node's address, without secrets.
        node: &'a str,
        /// Why.
        node_error: &'a NodeError,
    },
}

/// The kind of a lock: which primitive acquires it.
///
/// # Examples
///
/// ```
/// use quorate::observe::{Event, LockKind};
///
/// /// Readers do not block each other.
/// fn is_exclusive(event: &Event<'_>) -> bool {
///     matches!(event, Event::Held { kind, .. } if *kind != LockKind::Read)
/// }
/// # assert!(is_exclusive(&Event::Held { name: "orders:42", kind: LockKind::Write }));
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum LockKind {
    /// A [`Mutex`](crate::Mutex). An [adopted](crate::Client::adopt) lease of a set, of a writer or
    /// of a permit counts as one too: its text does not contain the primitive.
    Mutex,
    /// An entry of a [reentrant](crate::Mutex::reentrant) mutex.
    Reentrant,
    /// One lock of a [`MutexAll`](crate::MutexAll).
    Set,
    /// A reader of an [`RwLock`](crate::RwLock), or a writer that was
    /// [downgraded](crate::WriteGuard::downgrade).
    Read,
    /// A writer of an [`RwLock`](crate::RwLock).
    Write,
    /// One permit of a [`Semaphore`](crate::Semaphore).
    Permit,
    /// The queue of a [`Semaphore`](crate::Semaphore). The first waiter holds it while it waits for
    /// each permit.
    PermitQueue,
}

impl LockKind {
    /// One word for labels.
    ///
    /// # Examples
    ///
    /// ```
    /// use quorate::observe::LockKind;
    ///
    /// assert_eq!(LockKind::PermitQueue.as_str(), "permit_queue");
    /// ```
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Reentrant => "reentrant",
            Self::Set => "set",
            Self::Read => "read",
            Self::Write => "write",
            Self::Permit => "permit",
            Self::PermitQueue => "permit_queue",
        }
    }

    /// The kind, as far as the owner of a lease shows it.
    pub(crate) fn of(owner: &Owner) -> Self {
        match group(owner) {
            Some(Group::Readers) => Self::Read,
            Some(Group::Identity(_)) => Self::Reentrant,
            None => Self::Mutex,
        }
    }
}

/// What is asked of the nodes.
///
/// # Examples
///
/// ```
/// use quorate::observe::{Action, Event};
///
/// /// Selects the events of acquires.
/// fn is_acquire(event: &Event<'_>) -> bool {
///     matches!(event, Event::Started { action: Action::Acquire, .. })
/// }
/// # let (action, kind) = (Action::Acquire, quorate::observe::LockKind::Mutex);
/// # assert!(is_acquire(&Event::Started { round: 1, action, name: "a", kind }));
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Action {
    /// Acquires a lock.
    Acquire,
    /// Extends a lease.
    Extend,
    /// Asks whether a lease is still stored.
    Verify,
    /// Releases a lock.
    Release,
}

impl Action {
    /// One word for labels.
    ///
    /// # Examples
    ///
    /// ```
    /// use quorate::observe::Action;
    ///
    /// assert_eq!(Action::Acquire.as_str(), "acquire");
    /// ```
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Extend => "extend",
            Self::Verify => "verify",
            Self::Release => "release",
        }
    }
}

/// The outcome of a round.
///
/// # Examples
///
/// ```
/// use quorate::observe::{Event, Outcome};
///
/// /// An operator should inspect the nodes.
/// fn is_alarm(event: &Event<'_>) -> bool {
///     matches!(event, Event::Renewed { outcome: Outcome::NoQuorum, .. })
/// }
/// # let kind = quorate::observe::LockKind::Mutex;
/// # assert!(!is_alarm(&Event::AtRisk { name: "orders:42", kind }));
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// A majority did what was asked.
    Done,
    /// Another owner holds the lock.
    Busy,
    /// A majority no longer stores the lease.
    Gone,
    /// Too few nodes answered.
    NoQuorum,
    /// A majority did what was asked, but after the lease had ended.
    TooLate,
    /// The caller dropped the call.
    Cancelled,
}

impl Outcome {
    /// One word for labels.
    ///
    /// # Examples
    ///
    /// ```
    /// use quorate::observe::Outcome;
    ///
    /// assert_eq!(Outcome::NoQuorum.as_str(), "no_quorum");
    /// ```
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Busy => "busy",
            Self::Gone => "gone",
            Self::NoQuorum => "no_quorum",
            Self::TooLate => "too_late",
            Self::Cancelled => "cancelled",
        }
    }
}
