//! Detaching a held lock, so that another process can adopt it.

use std::time::Duration;

use quorate_core::{
    backoff::Backoff, client::watchdog::HeldLease, command::Owner, lease::LostReason,
    queue::FencedLease, round::RoundOutcome,
};

use super::Guard;
use crate::{detached_lease::DetachedLease, error::LeaseError, primitive::acquire::rename};

impl Guard {
    /// Leaves the lock to another process, which [adopts](crate::Client::adopt) it, or
    /// [renews](crate::Client::renew_lease) and [releases](crate::Client::release_lease) it.
    /// Otherwise the lock expires after its ttl.
    ///
    /// If every node granted the lock at once, the nodes are not asked again. Otherwise, except in
    /// classic mode, they are asked twice: the holder may still be queued on a node, and a later
    /// grant must not count for a lease that another process has adopted. So the call waits up to
    /// 50 ms for these nodes. Then the lease continues under another owner, with its whole ttl.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future releases the lock.
    ///
    /// # Errors
    ///
    /// [`LeaseError::Lost`] if the lease has ended: the call waits while too few nodes answer.
    /// [`LeaseError::NoQuorum`] if too few nodes answered the last request: the lock is released.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let guard = client.mutex("video:9").lock().await?;
    /// let lease = guard.detach().await?;
    /// assert!(client.mutex("video:9").try_lock().await?.is_none(), "the lock is still held");
    /// println!("{}", lease.expose_secret()); // for the process that continues the work
    /// # Ok(()) }
    /// ```
    pub async fn detach(mut self) -> Result<DetachedLease, LeaseError> {
        self.check()?;
        let mut owner = self.held.owner.clone();
        let held = if self.held.fenced.is_none() || self.has_left_only_keys().await {
            self.end(|shared, lease| shared.machine.leave(lease))
        } else {
            self.gather().await?;
            // Stop renewals: an extension would find another owner.
            self.engine().lock().machine.retire(self.held.id);
            owner = rename(&self.client, &self.held, &self.lease()).await?;
            self.end(|shared, lease| shared.machine.leave_as(lease, &owner))
        };
        // A shutdown meanwhile has released it.
        self.check()?;
        Ok(detached_lease(&held, owner))
    }

    /// Whether another process can continue as this owner: the owner is queued nowhere, and no
    /// command for it is on its way. Then none will be sent.
    async fn has_left_only_keys(&self) -> bool {
        let engine = self.engine();
        let enough_at = engine.now().saturating_add(GATHER_MAX);
        self.call.has_left_only_keys(self.held.id, enough_at).await
            && engine.lock().machine.retire_unextended(self.held.id, engine.now())
    }

    /// Waits until a majority of the nodes stores the lease, and briefly for the others: a detached
    /// lease is not stored on more nodes later.
    async fn gather(&self) -> Result<(), LeaseError> {
        let engine = self.engine();
        let enough_at = engine.now().saturating_add(GATHER_MAX);
        let mut backoff = Backoff::new(GATHER_DELAY_MIN, GATHER_DELAY_MAX);
        loop {
            let (call, finding) = self.ask_nodes().await;
            call.settled(self.lease().terms()).await;
            self.check()?;
            let is_everywhere = !call.is_refused_somewhere();
            match finding {
                RoundOutcome::Agreed if is_everywhere || engine.now() >= enough_at => {
                    return Ok(());
                }
                RoundOutcome::Refused => return Err(self.lost_reason(LostReason::Gone).into()),
                RoundOutcome::Agreed | RoundOutcome::Unsure => {}
            }
            let delay = engine.draw(|jitter| backoff.next(jitter));
            let ends_at = self.held.valid_until();
            engine.sleep_until(engine.now().saturating_add(delay).min(ends_at)).await;
        }
    }
}

/// How long a detach waits for nodes that the majority does not need.
const GATHER_MAX: Duration = Duration::from_millis(50);
const GATHER_DELAY_MIN: Duration = Duration::from_millis(1);
const GATHER_DELAY_MAX: Duration = Duration::from_millis(20);

/// The lease, for another process that continues as this owner.
fn detached_lease(held: &HeldLease, owner: Owner) -> DetachedLease {
    let (ttl, fence) = (held.terms().ttl(), held.fenced().map(FencedLease::fence));
    DetachedLease::new(held.name().clone(), owner, ttl, fence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Client,
        memory::{Behaviour, MemoryNodes},
    };

    /// A lease that came from another process, so that a detach changes its owner.
    async fn adopted(nodes: &MemoryNodes) -> (Client, Guard) {
        let settings = Client::builder().memory(nodes).danger_engine_on_this_runtime();
        let client = settings.build().unwrap();
        let lease = client.mutex("orders").lock().await.unwrap().detach().await.unwrap();
        let guard = client.adopt(&lease).await.unwrap();
        assert!(knows_owners(&client));
        (client, guard)
    }

    fn knows_owners(client: &Client) -> bool {
        client.inner.engine.lock().machine.knows_owners()
    }

    #[tokio::test(start_paused = true)]
    async fn client_that_detaches_a_lease_forgets_its_owners() {
        let (client, guard) = adopted(&MemoryNodes::new(3)).await;
        let before = guard.held.owner.clone();
        let lease = guard.detach().await.unwrap();
        assert_ne!(*lease.parts().1, before, "it continues under another owner");
        assert!(!knows_owners(&client));
        client.adopt(&lease).await.unwrap().leave_to_expire();
        assert!(!knows_owners(&client));
    }

    #[tokio::test(start_paused = true)]
    async fn client_whose_detach_is_dropped_forgets_its_owners() {
        for patience_ms in (0..1_000).step_by(5) {
            let nodes = MemoryNodes::new(3);
            let (client, guard) = adopted(&nodes).await;
            // The call waits for its answers even after the other nodes changed the owner.
            nodes.set(2, Behaviour::Mute);
            let patience = Duration::from_millis(patience_ms);
            let detached = tokio::time::timeout(patience, guard.detach()).await;
            assert!(!knows_owners(&client), "after {patience:?}");
            if detached.is_ok() {
                assert!(patience_ms > 0, "the call waited for nothing");
                return;
            }
        }
        panic!("the detach never ends");
    }
}
