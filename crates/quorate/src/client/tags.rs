//! Tags, by which any process can find a lease again.

use quorate_core::{
    name::Name,
    queue::{TAG_LEN, Tag},
};

use crate::{
    Client, DetachedLease,
    client::FIRST_CONTACT_MAX,
    engine::{self, Claim},
    error::{InspectError, LeaseError},
};

/// Marks the lease of a request, so that a caller that got no answer can find the lease again:
/// after a crash, or from another process.
///
/// The nodes store the tag with the lease, where every client can read it. It is not a secret.
///
/// # Examples
///
/// ```
/// use quorate::LeaseTag;
///
/// let tag = LeaseTag::new([7; LeaseTag::LEN]); // such as the hash of a request
/// assert_eq!(tag.bytes(), [7; LeaseTag::LEN]);
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct LeaseTag([u8; TAG_LEN]);

impl LeaseTag {
    /// The length of a tag in bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(quorate::LeaseTag::LEN, 24);
    /// ```
    pub const LEN: usize = TAG_LEN;

    /// A tag of these bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// use quorate::LeaseTag;
    ///
    /// assert_ne!(LeaseTag::new([1; LeaseTag::LEN]), LeaseTag::new([2; LeaseTag::LEN]));
    /// ```
    #[must_use]
    pub const fn new(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// The bytes of the tag.
    ///
    /// # Examples
    ///
    /// ```
    /// use quorate::LeaseTag;
    ///
    /// assert_eq!(LeaseTag::new([1; LeaseTag::LEN]).bytes()[0], 1);
    /// ```
    #[must_use]
    pub const fn bytes(self) -> [u8; Self::LEN] {
        self.0
    }
}

/// A lease with a tag, as the nodes store it.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = quorate::Client::memory();
/// use quorate::LeaseTag;
///
/// let tag = LeaseTag::new([7; LeaseTag::LEN]);
/// let lease = client.mutex("video:9").lock().await?.detach().await?;
/// let lease = client.tag_lease(&lease, tag).await?;
/// let found = &client.tagged_leases(["video:9"]).await?[0]; // usually in another process
/// assert_eq!((found.tag, &found.lease), (tag, &lease));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct TaggedLease {
    /// Its tag.
    pub tag: LeaseTag,
    /// The lease. Each process that finds it can renew and release it.
    pub lease: DetachedLease,
}

impl Client {
    /// Tags a [detached](crate::Guard::detach) lease, so that every process can
    /// [find](Self::tagged_leases) it. The lease continues under another owner, with its whole ttl.
    /// The call returns that lease.
    ///
    /// From this call on, release the lease only on behalf of the caller that asked for the lock:
    /// another process may have found it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the lease with or without the tag, and undoes nothing.
    ///
    /// # Errors
    ///
    /// [`LeaseError::Lost`] if a majority of the nodes no longer stores the lease.
    /// [`LeaseError::NoQuorum`] if too few nodes answered. In both cases the nodes that answered
    /// may store the tag. Nothing is undone.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// # use quorate::LeaseTag;
    /// let lease = client.mutex("video:9").lock().await?.detach().await?;
    /// let tagged = client.tag_lease(&lease, LeaseTag::new([7; LeaseTag::LEN])).await?;
    /// assert_eq!(tagged.fence(), lease.fence());
    /// assert!(client.renew_lease(&lease).await.is_err(), "it continues under another owner");
    /// client.renew_lease(&tagged).await?;
    /// # Ok(()) }
    /// ```
    pub async fn tag_lease(
        &self,
        lease: &DetachedLease,
        tag: LeaseTag,
    ) -> Result<DetachedLease, LeaseError> {
        let engine = &self.inner.engine;
        let (claim, terms, now) = self.claim(lease)?;
        let fence = lease.stored_fence().ok_or(LeaseError::OtherMode)?;
        let tag = Tag { bytes: tag.0, fence };
        let owner = engine.tagged_owner(&claim.owner, tag).ok_or(LeaseError::OtherMode)?;
        let claim = Claim { from: Some(claim.owner), owner: owner.clone(), ..claim };
        // The old owner is queued nowhere: where a node stores its key, the node stored it all the
        // time. So if a majority stores the new owner, the lock was held all the time, however late
        // the nodes were asked. Nothing has to be undone that another process may have found.
        let (_, call) = self.renew_claim(claim, terms, now).await?;
        // A command to a slow node must not follow a release.
        call.settled(terms).await;
        let (name, _) = lease.parts();
        Ok(DetachedLease::new(name.clone(), owner, lease.ttl(), Some(fence)))
    }

    /// The leases of these locks that have a tag and that a majority of the nodes stores.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect on any node.
    ///
    /// # Errors
    ///
    /// [`InspectError`] if a name is invalid, or no node answers.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let _guard = client.mutex("video:9").lock().await?; // without a tag
    /// assert!(client.tagged_leases(["video:9"]).await?.is_empty());
    /// # Ok(()) }
    /// ```
    pub async fn tagged_leases(
        &self,
        names: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<Vec<TaggedLease>, InspectError> {
        self.check_open()?;
        let parse = |name: &str| Name::parse(name, &self.inner.defaults.prefix);
        let names: Result<Vec<Name>, _> =
            names.into_iter().map(|name| parse(name.as_ref())).collect();
        let names = names?;
        self.settle(FIRST_CONTACT_MAX).await;
        let engine = &self.inner.engine;
        let found = engine::tagged(engine, &names, self.patience()).await;
        let found = found.map_err(|node_errors| InspectError::of(self.reports(node_errors)))?;
        let lease = |(tag, lease): (Tag, _)| TaggedLease { tag: LeaseTag(tag.bytes), lease };
        Ok(found.into_iter().map(lease).collect())
    }
}
