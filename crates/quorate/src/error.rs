//! Errors: one type for each operation. Their fields have the facts, and `Display` describes them.
//!
//! # Examples
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let client = quorate::Client::memory();
//! use quorate::error::LockError;
//!
//! match client.mutex("orders:42").try_lock().await {
//!     Ok(Some(guard)) => guard.release().await?,
//!     Ok(None) => println!("another owner holds it"),
//!     Err(LockError::NoQuorum { nodes, .. }) => nodes.iter().for_each(|node| eprintln!("{node}")),
//!     Err(other) => return Err(other.into()),
//! }
//! # Ok(()) }
//! ```

mod downgrade;
mod operator;
mod quarantine;
mod setup;

use std::{fmt, time::Duration};

pub use self::{
    downgrade::DowngradeError,
    operator::{AdmitError, ChangeError},
    quarantine::QuarantineNotice,
    setup::{ConfigError, ConnectError, InspectError, WouldDeadlock},
};
pub use quorate_core::{lease::LostReason, name::NameError, terms::TermsError};
use quorate_core::{name::Name, time_text::TimeText};
use thiserror::Error;

pub use crate::{
    holder::Holder,
    node_error::{NodeAnswer, NodeError, NodeReport, QuarantineCause},
};

/// Why a lock was not acquired.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let nodes = quorate::memory::MemoryNodes::new(1);
/// # let client = quorate::Client::builder().memory(&nodes).build()?;
/// use quorate::{error::{LockError, NodeAnswer, NodeError}, memory::Behaviour};
///
/// nodes.set(0, Behaviour::Fail);
/// let Err(LockError::NoQuorum { nodes, .. }) = client.mutex("orders:42").try_lock().await else {
///     panic!("no node answered");
/// };
/// assert_eq!(nodes[0].answer, NodeAnswer::NodeError(NodeError::ConnectionRefused));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum LockError {
    /// Another owner held the lock during the whole wait.
    #[error(
        "timed out after {} waiting for the lock {lock:?}{}",
        TimeText(*.waited),
        HeldBy(.holder)
    )]
    Timeout {
        /// The name of the lock. For a semaphore, its name.
        lock: String,
        /// How long the caller waited.
        waited: Duration,
        /// The holder, if the nodes could report it.
        holder: Option<Box<Holder>>,
    },
    /// Too few nodes answered to decide. It does not mean that another owner holds the lock.
    #[error("no quorum for the lock {lock:?}: {}", Reports(.nodes))]
    NoQuorum {
        /// The name of the lock.
        lock: String,
        /// What each node answered, in the order in which they were configured.
        nodes: Box<[NodeReport]>,
    },
    /// Too many nodes denied the right to lock for a majority.
    #[error("denied access to the lock {lock:?}: {}", Reports(.nodes))]
    Denied {
        /// The name of the lock.
        lock: String,
        /// What each node answered, in the order in which they were configured.
        nodes: Box<[NodeReport]>,
    },
    /// The name is invalid.
    #[error(transparent)]
    InvalidName(#[from] NameError),
    /// The ttl is invalid.
    #[error(transparent)]
    InvalidTtl(#[from] TtlError),
    /// Classic mode does not support shared locks.
    #[error(
        "the lock {lock:?} cannot be shared in classic mode: build the client without classic()"
    )]
    NotShared {
        /// The name of the lock.
        lock: String,
    },
    /// Classic mode does not support reentrant locks.
    #[error(
        "the lock {lock:?} cannot be reentrant in classic mode: build the client without classic()"
    )]
    NotReentrant {
        /// The name of the lock.
        lock: String,
    },
    /// The identity of a reentrant lock is empty or too long.
    #[error("invalid identity of {len} bytes for the lock {lock:?}: use 1 to {max} bytes")]
    InvalidIdentity {
        /// The name of the lock.
        lock: String,
        /// How many bytes the identity has.
        len: usize,
        /// The longest valid identity.
        max: usize,
    },
    /// A set of locks must have at least one name.
    #[error("a set of locks needs at least one name")]
    NoNames,
    /// A set of locks has too many names.
    #[error("invalid set of {names} locks: use at most {max}, or one lock for several resources")]
    TooManyNames {
        /// The number of names.
        names: usize,
        /// The largest valid number.
        max: usize,
    },
    /// A semaphore cannot have this number of permits.
    #[error("invalid number of permits {permits} for the semaphore {lock:?}: use 1 to {max}")]
    InvalidPermits {
        /// The name of the semaphore.
        lock: String,
        /// The requested number of permits.
        permits: u32,
        /// The largest valid number.
        max: u32,
    },
    /// A caller cannot acquire this number of permits together.
    #[error("cannot acquire {count} permits of the semaphore {lock:?}: use 1 to {permits}")]
    InvalidCount {
        /// The name of the semaphore.
        lock: String,
        /// The requested number of permits.
        count: u32,
        /// How many permits the semaphore has.
        permits: u32,
    },
    /// The client was shut down.
    #[error("the client was shut down")]
    ShutDown,
}

impl LockError {
    /// The name of the lock or semaphore, or of one lock of a set. `None` if a name or the ttl is
    /// invalid, if a set has no names or too many, and after a shutdown.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// # use std::time::Duration;
    /// let orders = client.mutex("orders:42");
    /// let _guard = orders.lock().await?;
    /// let error = orders.lock_timeout(Duration::ZERO).await.expect_err("the lock is held");
    /// assert_eq!(error.lock(), Some("orders:42"));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn lock(&self) -> Option<&str> {
        match self {
            Self::Timeout { lock, .. }
            | Self::NoQuorum { lock, .. }
            | Self::Denied { lock, .. }
            | Self::NotShared { lock }
            | Self::NotReentrant { lock }
            | Self::InvalidIdentity { lock, .. }
            | Self::InvalidPermits { lock, .. }
            | Self::InvalidCount { lock, .. } => Some(lock),
            Self::InvalidName(_)
            | Self::InvalidTtl(_)
            | Self::NoNames
            | Self::TooManyNames { .. }
            | Self::ShutDown => None,
        }
    }

    /// The same error about the semaphore that the lock is a part of.
    pub(crate) fn of(mut self, semaphore: &str) -> Self {
        if let Self::Timeout { lock, .. }
        | Self::NoQuorum { lock, .. }
        | Self::Denied { lock, .. } = &mut self
        {
            semaphore.clone_into(lock);
        }
        self
    }
}

/// Why a ttl is invalid.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = quorate::Client::memory();
/// use std::time::Duration;
/// use quorate::error::{LockError, TtlError};
///
/// let hour = client.mutex("orders:42").ttl(Duration::from_secs(3_600));
/// let Err(LockError::InvalidTtl(TtlError::AboveMax { max, .. })) = hour.try_lock().await else {
///     panic!("an hour is too long");
/// };
/// assert_eq!(max, Duration::from_secs(60));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum TtlError {
    /// It is longer than the client's `max_ttl`.
    #[error(
        "invalid ttl {}: this client's max_ttl is {}; raise max_ttl on every client of these nodes",
        TimeText(*.ttl),
        TimeText(*.max)
    )]
    AboveMax {
        /// The requested ttl.
        ttl: Duration,
        /// The client's limit.
        max: Duration,
    },
    /// No lock can have it.
    #[error(transparent)]
    Terms(#[from] TermsError),
}

/// The lease has ended: another owner may hold the lock.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = quorate::Client::memory();
/// # use std::time::Duration;
/// let guard = client.mutex("orders:42").max_hold(Duration::from_millis(20)).lock().await?;
/// let lost = guard.lost().await;
/// let text = lost.to_string();
/// assert!(text.starts_with("the lock \"orders:42\" is lost: it was held for max_hold"));
/// assert_eq!(lost.reason.as_str(), "max_hold");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error("the lock {lock:?} is lost: {reason}")]
#[non_exhaustive]
pub struct Lost {
    /// The name of the lock.
    pub lock: String,
    /// Why it ended.
    pub reason: LostReason,
}

impl Lost {
    pub(crate) fn new(lock: &Name, reason: LostReason) -> Self {
        Self { lock: lock.to_string(), reason }
    }
}

/// Why a lease could not be detached, adopted, renewed, released, downgraded or tagged.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let nodes = quorate::memory::MemoryNodes::new(1);
/// # let client = quorate::Client::builder().memory(&nodes).build()?;
/// # use quorate::error::LeaseError;
/// let lease = client.mutex("video:9").lock().await?.detach().await?;
/// nodes.forget(0);
/// assert!(matches!(client.adopt(&lease).await, Err(LeaseError::Lost(_))));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum LeaseError {
    /// The lease has ended.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// Too few nodes answered to decide.
    #[error("no quorum for the lock {lock:?}: {}", Reports(.nodes))]
    NoQuorum {
        /// The name of the lock.
        lock: String,
        /// What each node answered, in the order in which they were configured.
        nodes: Box<[NodeReport]>,
    },
    /// Its ttl is invalid for this client.
    #[error(transparent)]
    InvalidTtl(#[from] TtlError),
    /// The client was shut down.
    #[error("the client was shut down")]
    ShutDown,
    /// The lease was detached by a client in classic mode and this client is in the default mode,
    /// or the other way round.
    #[error(
        "the lease was detached in another mode: build this client with or without classic(), as \
         the client that detached it"
    )]
    OtherMode,
    /// The lease cannot be downgraded: its owner is a reader or an entry of a reentrant lock, or
    /// acquired the lock in classic mode.
    #[error("the lease of the lock {lock:?} is not a write lease: only a writer can be downgraded")]
    NotWriter {
        /// The name of the lock.
        lock: String,
    },
}

/// Why a lease was not extended.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = quorate::Client::memory();
/// # use {quorate::error::ExtendError, std::time::Duration};
/// let guard = client.mutex("orders:42").lock().await?;
/// let refused = guard.extend(Duration::from_secs(3_600)).await;
/// assert!(matches!(refused, Err(ExtendError::InvalidTtl(_))));
/// guard.check()?; // the lease has not changed
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum ExtendError {
    /// The lease has ended, or ended before a majority could be reached.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// The ttl is invalid. The lease has not changed.
    #[error(transparent)]
    InvalidTtl(#[from] TtlError),
}

/// Why a lease was not confirmed.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let nodes = quorate::memory::MemoryNodes::new(1);
/// # let client = quorate::Client::builder().memory(&nodes).build()?;
/// # use quorate::{error::VerifyError, memory::Behaviour};
/// let guard = client.mutex("orders:42").lock().await?;
/// nodes.set(0, Behaviour::Fail);
/// assert!(matches!(guard.verify().await, Err(VerifyError::NoQuorum { .. })));
/// guard.check()?; // the lease is valid until its deadline
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum VerifyError {
    /// The lease has ended.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// Too few nodes answered to decide. The lease is valid until its deadline.
    #[error("no quorum for the lock {lock:?}: {}", Reports(.nodes))]
    NoQuorum {
        /// The name of the lock.
        lock: String,
        /// What each node answered, in the order in which they were configured.
        nodes: Box<[NodeReport]>,
    },
}

/// Why a release was not confirmed.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let nodes = quorate::memory::MemoryNodes::new(1);
/// # let client = quorate::Client::builder().memory(&nodes).build()?;
/// # use quorate::error::ReleaseError;
/// let guard = client.mutex("orders:42").lock().await?;
/// nodes.forget(0); // from now on another owner could hold it
/// assert!(matches!(guard.release().await, Err(ReleaseError::Lost(_))));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum ReleaseError {
    /// The lease had ended: another owner may have held the lock while you worked.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// Too few nodes answered. The release continues in the background, and the keys expire after
    /// their ttl.
    #[error("no quorum for the lock {lock:?}: {}", Reports(.nodes))]
    NoQuorum {
        /// The name of the lock.
        lock: String,
        /// What each node answered, in the order in which they were configured.
        nodes: Box<[NodeReport]>,
    },
}

/// Why [`Mutex::with`](crate::Mutex::with), [`MutexAll::with`](crate::MutexAll::with),
/// [`Semaphore::with`](crate::Semaphore::with), or `with_read` or `with_write` of an
/// [`RwLock`](crate::RwLock) did not return the value of the work.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = quorate::Client::memory();
/// # use quorate::error::WithError;
/// match client.mutex("orders:42").with(async |_guard| 40 + 2).await {
///     Ok(sum) => assert_eq!(sum, 42),
///     Err(WithError::Lock(error)) => eprintln!("nothing was done: {error}"),
///     Err(WithError::Lost(lost)) => eprintln!("the work may be half done: {lost}"),
///     Err(other) => return Err(other.into()),
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum WithError {
    /// The lock was not acquired, and the work did not start.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The lease ended before the work did.
    #[error(transparent)]
    Lost(#[from] Lost),
}

struct HeldBy<'a>(&'a Option<Box<Holder>>);

impl fmt::Display for HeldBy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |holder| write!(f, ": held by {holder}"))
    }
}

/// What each node answered, and how long a quarantine lasts that keeps them from voting. New nodes
/// have one sentence in common.
pub(crate) struct Reports<'a>(pub(crate) &'a [NodeReport]);

impl fmt::Display for Reports<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match QuarantineNotice::of(self.0) {
            Some(notice) if notice.is_admissible => {
                let nodes: Vec<&str> = self.0.iter().map(|report| report.node.as_str()).collect();
                write!(f, "{}: {notice}", nodes.join(", "))
            }
            Some(notice) => write!(f, "{}; {notice}", Answers(self.0)),
            None => Answers(self.0).fmt(f),
        }
    }
}

/// What each node answered. Operator actions report nothing else: they decide themselves what ends
/// a quarantine.
struct Answers<'a>(&'a [NodeReport]);

impl fmt::Display for Answers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, report) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{report}")?;
        }
        Ok(())
    }
}
