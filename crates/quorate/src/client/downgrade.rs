//! Downgrades of detached leases: a writer becomes a reader.

use std::time::Duration;

use quorate_core::queue::reader_of;

use super::{inspect::is_connecting, leases::lost};
use crate::{
    Client, DetachedLease,
    client::FIRST_CONTACT_MAX,
    engine::Claim,
    error::{LeaseError, LostReason},
};

/// The lease of a writer that has become a reader.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = quorate::Client::memory();
/// let writer = client.rwlock("prices").write().await?.into_guard().detach().await?;
/// let reader = client.downgrade_lease(&writer).await?;
/// assert!(reader.remaining <= reader.lease.ttl());
/// assert_eq!(reader.lease.fence(), None); // readers have none
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct DowngradedLease {
    /// The lease of the reader.
    pub lease: DetachedLease,
    /// The time for which it is valid from now.
    pub remaining: Duration,
}

impl Client {
    /// Replaces the writer of a [detached](crate::Guard::detach) lease by a reader, as
    /// [`WriteGuard::downgrade`](crate::WriteGuard::downgrade) does for a guard. The lease stays
    /// detached, with its whole ttl.
    ///
    /// No other owner holds the lock exclusively in between. Stop writing before the call: the
    /// first node that replaces the writer admits other readers.
    ///
    /// The call can be repeated, even by another process: it returns the same lease for as long as
    /// the reader holds the lock. After success, the lease of the writer can be neither renewed nor
    /// released.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the writer or the reader on each node. Both exclude other
    /// writers. Repeat the call, or let the lease expire.
    ///
    /// # Errors
    ///
    /// - [`LeaseError::NotWriter`] if the owner is a reader or an entry of a reentrant lock.
    /// - [`LeaseError::Lost`] if a majority of the nodes has neither the writer nor the reader.
    /// - [`LeaseError::NoQuorum`] if too few nodes answered. Some of them may have the reader, so
    ///   do not write. Repeat the call, or let the lease expire.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let lock = client.rwlock("prices");
    /// let writer = lock.write().await?.into_guard().detach().await?;
    /// let reader = client.downgrade_lease(&writer).await?.lease;
    /// assert!(client.renew_lease(&writer).await.is_err());
    /// assert!(lock.try_write().await?.is_none());
    /// let other = lock.try_read().await?.expect("readers share the lock");
    /// client.release_lease(&reader).await?;
    /// # other.release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn downgrade_lease(
        &self,
        lease: &DetachedLease,
    ) -> Result<DowngradedLease, LeaseError> {
        let is_settled = !self.node_status().iter().any(is_connecting);
        match self.try_downgrade(lease).await {
            // The nodes that have the lease and the nodes that are attached already may have only
            // one node in common.
            Err(LeaseError::NoQuorum { .. }) if !is_settled => {
                self.settle(FIRST_CONTACT_MAX).await;
                self.try_downgrade(lease).await
            }
            downgraded => downgraded,
        }
    }

    async fn try_downgrade(&self, lease: &DetachedLease) -> Result<DowngradedLease, LeaseError> {
        let (claim, terms, now) = self.claim(lease)?;
        let (name, writer) = lease.parts();
        let not_writer = || LeaseError::NotWriter { lock: name.to_string() };
        let reader = reader_of(writer).ok_or_else(not_writer)?;
        let claim = Claim { from: Some(claim.owner), owner: reader.clone(), ..claim };
        // A node replaces the writer by the reader in one step, and never stores either of them
        // anew: a detached lease is neither queued nor healed. So each node that grants has
        // excluded other writers since it granted the lock to the writer. A majority of grants
        // proves that no other writer has held the lock since, however late the call is.
        let (valid_until, call) = self.renew_claim(claim, terms, now).await?;
        // A command that a slow node executes later must not follow a release of the reader.
        call.settled(terms).await;
        let remaining = valid_until.saturating_since(self.inner.engine.now());
        if remaining.is_zero() {
            return Err(lost(name, LostReason::Expired));
        }
        let lease = DetachedLease::new(name.clone(), reader, lease.ttl(), lease.stored_fence());
        Ok(DowngradedLease { lease, remaining })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{
        Behaviour::{self, Answer, Fail, Mute},
        MemoryNodes,
    };

    fn client(nodes: &MemoryNodes) -> Client {
        Client::builder().memory(nodes).danger_engine_on_this_runtime().build().unwrap()
    }

    async fn writer(client: &Client) -> DetachedLease {
        let guard = client.rwlock("doc").write().await.unwrap();
        guard.into_guard().detach().await.unwrap()
    }

    fn behave(nodes: &MemoryNodes, behaviours: [Behaviour; 3]) {
        for (node, behaviour) in behaviours.into_iter().enumerate() {
            nodes.set(node, behaviour);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn downgrade_without_a_majority_excludes_writers_and_can_be_repeated() {
        for broken in [Fail, Mute] {
            let nodes = MemoryNodes::new(3);
            let (first, second) = (client(&nodes), client(&nodes));
            let lease = writer(&first).await;
            behave(&nodes, [Answer, broken, broken]);
            let refused = first.downgrade_lease(&lease).await;
            assert!(matches!(refused, Err(LeaseError::NoQuorum { .. })), "{refused:?}");
            // The reader is on one node, and the writer on the others.
            behave(&nodes, [Answer; 3]);
            assert!(second.rwlock("doc").try_write().await.unwrap().is_none());
            let reader = second.downgrade_lease(&lease).await.unwrap().lease;
            assert_eq!(first.downgrade_lease(&lease).await.unwrap().lease, reader);
            first.release_lease(&reader).await.unwrap();
            assert!(second.rwlock("doc").try_write().await.unwrap().is_some());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn dropped_downgrade_excludes_writers_and_can_be_repeated() {
        for patience_ms in (0..200).step_by(5) {
            let nodes = MemoryNodes::new(3);
            let (first, second) = (client(&nodes), client(&nodes));
            let lease = writer(&first).await;
            behave(&nodes, [Answer, Answer, Mute]);
            let patience = Duration::from_millis(patience_ms);
            let dropped = tokio::time::timeout(patience, first.downgrade_lease(&lease)).await;
            behave(&nodes, [Answer; 3]);
            assert!(second.rwlock("doc").try_write().await.unwrap().is_none());
            let reader = second.downgrade_lease(&lease).await.unwrap().lease;
            if let Ok(downgraded) = dropped {
                assert_eq!(downgraded.unwrap().lease, reader);
            }
            second.release_lease(&reader).await.unwrap();
            assert!(first.rwlock("doc").try_write().await.unwrap().is_some(), "{patience:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn classic_lease_is_not_downgraded() {
        let client = Client::builder().memory(&MemoryNodes::new(3)).classic();
        let client = client.danger_engine_on_this_runtime().build().unwrap();
        let lease = client.mutex("doc").lock().await.unwrap().detach().await.unwrap();
        let refused = client.downgrade_lease(&lease).await.unwrap_err();
        assert_eq!(refused, LeaseError::NotWriter { lock: "doc".to_owned() });
        client.renew_lease(&lease).await.unwrap();
    }
}
