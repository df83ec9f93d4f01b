//! Who holds a lock.

use std::{fmt, time::Duration};

use quorate_core::{fence::Fence, time_text::TimeText};

/// The holder of a lock, as reported by the nodes.
///
/// A [`LockError::Timeout`](crate::error::LockError::Timeout) has only what a node stores with the
/// lock: `fence` and `held_for` are `None` there. [`Client::inspect`](crate::Client::inspect) asks
/// for all of it.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = quorate::Client::memory();
/// # use std::time::Duration;
/// let _guard = client.mutex("orders:42").ttl(Duration::from_secs(9)).lock().await?;
/// let holder = client.inspect("orders:42").await?.holder.expect("the lock is held");
/// assert!(!holder.is_foreign);
/// assert!(holder.held_for < Some(Duration::from_secs(5)));
/// assert!(holder.expires_in <= Some(Duration::from_secs(9)));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Holder {
    /// Program, host and process id of a Quorate client. For another library's lock, the stored
    /// value, escaped.
    pub who: String,
    /// A short id of the holder's client, equal to its
    /// [`Client::owner_prefix`](crate::Client::owner_prefix). It identifies the client but gives no
    /// right to act for it. `None` for another library's lock.
    pub owner_prefix: Option<String>,
    /// The holder's fence. `None` for a reader, in classic mode and for another library's lock.
    pub fence: Option<Fence>,
    /// How long the lock has been held, as far as a node remembers. A node that lost its data
    /// counts from when it granted the lock again. Detaching and adopting a lease does not reset
    /// it. Exact for a hundred days, and at least a hundred days after that. `None` in classic mode
    /// and for another library's lock.
    pub held_for: Option<Duration>,
    /// How long the nodes keep the lock unless the holder renews it. `None` if it never expires.
    pub expires_in: Option<Duration>,
    /// True if the lock was acquired by another library or program.
    pub is_foreign: bool,
    /// True if the client that asked holds the lock.
    pub is_this_client: bool,
    /// True for a [reader](crate::RwLock::read), which shares the lock with other readers.
    pub is_shared: bool,
    /// The identity of a [reentrant](crate::Mutex::reentrant) entry. Other entries of the same
    /// identity may hold the lock too.
    pub identity: Option<String>,
}

impl Holder {
    /// Combines what two nodes report about the same holder: a node may have learned about it late.
    pub(crate) fn and(self, other: Self) -> Self {
        let expires_in = match (self.expires_in, other.expires_in) {
            (Some(one), Some(two)) => Some(one.max(two)),
            (None, _) | (_, None) => None,
        };
        Self {
            fence: self.fence.max(other.fence),
            held_for: self.held_for.max(other.held_for),
            expires_in,
            ..self
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.who)?;
        if self.is_foreign {
            f.write_str(" (not a lock of Quorate)")?;
        }
        if let Some(held_for) = self.held_for {
            write!(f, " for {}", TimeText(held_for))?;
        }
        match self.expires_in {
            Some(left) => write!(f, ", expires in {} unless renewed", TimeText(left)),
            None => f.write_str(", never expires"),
        }
    }
}
