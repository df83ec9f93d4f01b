//! A lease as text, for another process.

use std::{fmt, str::FromStr, time::Duration};

use quorate_core::{
    command::Owner,
    dialect::Dialect,
    fence::{FENCE_MAX, Fence},
    name::{Name, NameError},
    queue::{FencedLease, Position, is_shared},
};
use thiserror::Error;

/// A detached lease, which no client renews or releases. Another process can adopt it.
///
/// It converts to one line of text by [`expose_secret`](Self::expose_secret), and back by `parse`,
/// for a pipe, a queue or an environment variable. The text is a secret: a process that knows it
/// can renew and release the lock. `Debug` shows only the name of the lock, and there is no
/// `Display`.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = quorate::Client::memory();
/// let guard = client.mutex("job").lock().await?;
/// let text = guard.detach().await?.expose_secret();
///
/// // In the other process:
/// let guard = client.adopt(&text.parse()?).await?;
/// guard.release().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Eq, PartialEq)]
pub struct DetachedLease {
    name: Name,
    owner: Owner,
    ttl: Duration,
    fence: Option<Fence>,
}

impl DetachedLease {
    pub(crate) const fn new(name: Name, owner: Owner, ttl: Duration, fence: Option<Fence>) -> Self {
        Self { name, owner, ttl, fence }
    }

    /// The name of the lock.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let lease = client.mutex("video:9").lock().await?.detach().await?;
    /// assert_eq!(lease.name(), "video:9");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Its ttl.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// # use std::time::Duration;
    /// let mutex = client.mutex("video:9").ttl(Duration::from_secs(30));
    /// let lease = mutex.lock().await?.detach().await?;
    /// assert_eq!(lease.ttl(), Duration::from_secs(30)); // adopt it before this time has passed
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub const fn ttl(&self) -> Duration {
        self.ttl
    }

    /// The fence of the holder that detached it, which is also that of the process that adopts it.
    /// `None` in classic mode and for a reader.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let guard = client.mutex("orders:42").lock().await?;
    /// let fence = guard.fence();
    /// assert_eq!(guard.detach().await?.fence(), fence);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn fence(&self) -> Option<Fence> {
        self.fence.filter(|_| !self.is_shared())
    }

    /// The lease as one line of text, which `parse` reads. A process that knows it can renew and
    /// release the lock, so keep it out of logs.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use quorate::DetachedLease;
    /// # let client = quorate::Client::memory();
    /// let lease = client.mutex("video:9").lock().await?.detach().await?;
    /// let text = lease.expose_secret();
    /// assert!(!format!("{lease:?}").contains(&text));
    /// assert_eq!(text.parse::<DetachedLease>()?, lease);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn expose_secret(&self) -> String {
        let Self { name, owner, ttl, fence } = self;
        let (fence, owner) = (fence.map_or(0, Fence::get), hex(owner.as_bytes()));
        format!("{MARK}:{}:{fence}:{owner}:{name}", ttl.as_millis())
    }

    /// The same lease with only what follows from its owner, for a service that gives leases to
    /// untrusted clients. Its [fence](Self::fence) may be smaller.
    ///
    /// A renewal stores the fence of the lease, and later fences are larger. A client that changes
    /// the text could store any fence.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let lease = client.mutex("orders:42").lock().await?.detach().await?.bound_to_owner();
    /// assert!(lease.is_bound_to_owner());
    /// client.release_lease(&lease).await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn bound_to_owner(&self) -> Self {
        let place = Position::of(self.owner.as_bytes());
        // The nodes that granted the lock have a fence no smaller than the ticket.
        let fence = place.and_then(|place| self.fence.map(|it| it.min(Fence::new(place.ticket))));
        Self { fence, ..self.clone() }
    }

    /// True if everything in it follows from its owner, which the nodes compare before they renew
    /// or release a lock. False for every lease of classic mode.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use quorate::DetachedLease;
    /// # let client = quorate::Client::memory();
    /// let lease = client.mutex("orders:42").lock().await?.detach().await?.bound_to_owner();
    /// let forged = lease.expose_secret().replacen(":10000:", ":86400000:", 1); // the ttl
    /// assert!(!forged.parse::<DetachedLease>()?.is_bound_to_owner());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn is_bound_to_owner(&self) -> bool {
        Position::of(self.owner.as_bytes()).is_some_and(|place| {
            let is_within = |fence: Fence| fence <= Fence::new(place.ticket);
            self.ttl == Duration::from_millis(place.ttl_ms) && self.fence.is_some_and(is_within)
        })
    }

    /// The fence with which it is extended. Readers have it too.
    pub(crate) const fn stored_fence(&self) -> Option<Fence> {
        self.fence
    }

    /// The dialect in which it was acquired.
    pub(crate) fn dialect(&self) -> Dialect {
        Dialect::of(self.fence.map(FencedLease::adopted))
    }

    pub(crate) fn is_shared(&self) -> bool {
        is_shared(&self.owner)
    }

    pub(crate) fn parts(&self) -> (&Name, &Owner) {
        (&self.name, &self.owner)
    }
}

impl FromStr for DetachedLease {
    type Err = ParseLeaseError;

    fn from_str(text: &str) -> Result<Self, ParseLeaseError> {
        let mut parts = text.splitn(5, ':');
        let mut part = || parts.next().ok_or(ParseLeaseError::Malformed);
        if part()? != MARK {
            return Err(ParseLeaseError::Malformed);
        }
        let ttl_ms = part()?.parse().map_err(|_| ParseLeaseError::Malformed)?;
        let fence = part()?.parse().map(Fence::new).map_err(|_| ParseLeaseError::Malformed)?;
        // A renewal stores this fence, and later fences are larger.
        if fence > FENCE_MAX {
            return Err(ParseLeaseError::Malformed);
        }
        let owner = bytes(part()?).ok_or(ParseLeaseError::Malformed)?;
        let name = Name::parse(part()?, "")?;
        let (owner, ttl) = (Owner::from_bytes(&owner), Duration::from_millis(ttl_ms));
        // A lease of classic mode has fence zero.
        Ok(Self::new(name, owner, ttl, Some(fence).filter(|fence| *fence != Fence::ZERO)))
    }
}

impl fmt::Debug for DetachedLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DetachedLease").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Why a text is not a lease.
///
/// # Examples
///
/// ```
/// use quorate::{ParseLeaseError, DetachedLease};
///
/// assert_eq!("video:9".parse::<DetachedLease>(), Err(ParseLeaseError::Malformed));
/// ```
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum ParseLeaseError {
    /// It is not the text of a detached lease.
    #[error("invalid lease: use the text of a DetachedLease, unchanged")]
    Malformed,
    /// The name in it is invalid.
    #[error(transparent)]
    InvalidName(#[from] NameError),
}

/// A service writes every lease as text, and `format!` would take longer than the rest.
fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let pairs = hex.as_bytes().chunks_exact(2);
    if hex.is_empty() || !pairs.remainder().is_empty() || hex.len() > OWNER_HEX_MAX {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

/// Identifies the text and its version.
const MARK: &str = "quorate-lease-1";

const OWNER_HEX_MAX: usize = 1_024;

#[cfg(test)]
mod tests {
    use quorate_core::command::ClientId;

    use super::*;

    #[test]
    fn lease_converts_to_text_and_back_and_debug_hides_it() {
        let owner = Owner::new(&ClientId::from_random([9; 20]), 3, "me/host/1");
        let name = Name::parse("a:b c:d", "").unwrap();
        for fence in [None, Some(Fence::new(7))] {
            let (name, owner) = (name.clone(), owner.clone());
            let lease = DetachedLease::new(name, owner, Duration::from_millis(1_500), fence);
            assert_eq!(lease.expose_secret().parse(), Ok(lease.clone()));
            assert_eq!(lease.fence(), fence);
        }
        let lease = DetachedLease::new(name, owner, Duration::ZERO, None);
        assert_eq!(format!("{lease:?}"), "DetachedLease { name: \"a:b c:d\", .. }");
    }

    #[test]
    fn only_what_follows_from_the_owner_is_bound_to_it() {
        let place = Position { ticket: 50, ttl_ms: 1_500, client: ClientId::from_random([9; 20]) };
        let name = Name::parse("a", "").unwrap();
        let lease = |ttl_ms, fence| {
            let (name, ttl) = (name.clone(), Duration::from_millis(ttl_ms));
            DetachedLease::new(name, place.owner(3), ttl, Some(Fence::new(fence)))
        };
        assert_eq!(lease(1_500, 70).bound_to_owner(), lease(1_500, 50));
        assert_eq!(lease(1_500, 30).bound_to_owner(), lease(1_500, 30), "it was adopted");
        assert!(lease(1_500, 50).is_bound_to_owner());
        assert!(!lease(1_500, 51).is_bound_to_owner());
        assert!(!lease(1_501, 50).is_bound_to_owner());
        let foreign = Owner::from_bytes(b"0000000000000050");
        let foreign = DetachedLease::new(name, foreign, Duration::ZERO, Some(Fence::new(1)));
        assert!(!foreign.is_bound_to_owner());
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "x",
            "quorate-lease-1",
            "quorate-lease-1:1:0:zz:a",
            "quorate-lease-1:1:0:a:a",
            "quorate-lease-1::0:00:a",
            "quorate-lease-1:1:0::a",
            "quorate-lease-1:1:0:00:",
            "quorate-lease-1:1::00:a",
            "quorate-lease-1:1:x:00:a",
            "quorate-lease-2:1:0:00:a",
            "quorate-lease-1:1:0:0é:a",
            "quorate-lease-1:1:0:+1:a",
            "quorate-lease-1:1:4503599627370497:00:a",
            "quorate-lease-1:1:18446744073709551615:00:a",
        ] {
            assert!(text.parse::<DetachedLease>().is_err(), "{text}");
        }
        assert!("quorate-lease-1:1:4503599627370496:00:a".parse::<DetachedLease>().is_ok());
    }
}
