//! Leaving a held lock to another process.

use std::time::Duration;

use quorate_core::{
    backoff::Backoff, client::watchdog::HeldLease, command::Owner, lease::LostReason,
    line::FencedLease, round::Finding,
};

use super::Guard;
use crate::{error::AdoptError, handover::LeaseHandover, primitive::acquire::rename};

impl Guard {
    /// Leaves the lock to another process, which [adopts](crate::Client::adopt) it, or
    /// [renews](crate::Client::renew_lease) and [releases](crate::Client::release_lease) it. If
    /// nobody does, it ends with its ttl.
    ///
    /// If every node granted the lock at once, as when nobody else wants it, the nodes are not
    /// asked again. Otherwise, except in classic mode, they are asked twice: the holder may still
    /// be queued on a node that it does not have yet, and a grant that comes later must not count
    /// for a lease that another process has by then. So it waits up to 50 ms for nodes that are
    /// about to grant, and then the lease goes on with another owner, and with its whole ttl.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future releases the lock.
    ///
    /// # Errors
    ///
    /// [`AdoptError::Lost`] if the lease has ended: as long as too few nodes answer, it waits for
    /// them. [`AdoptError::NoQuorum`] if they went away just then; the lock is released.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let guard = client.mutex("video:9").lock().await?;
    /// let lease = guard.hand_over().await?;
    /// assert!(client.mutex("video:9").try_lock().await?.is_none(), "it stays locked");
    /// println!("{lease}"); // for the process that goes on with the work
    /// # Ok(()) }
    /// ```
    pub async fn hand_over(mut self) -> Result<LeaseHandover, AdoptError> {
        self.check()?;
        let mut owner = self.held.owner.clone();
        if self.held.fenced.is_none() || self.has_left_only_keys().await {
            self.engine().lock().machine.registry().forget(&owner);
        } else {
            self.gather().await?;
            // From now on nothing is renewed: an extension would find another owner.
            self.engine().lock().machine.watchdog().retire(self.held.id);
            owner = rename(&self.client, &self.held, &self.lease()).await?;
            // What was not renamed, and places in line.
            self.engine().work(|shared, _| {
                shared.machine.forget_everywhere(&self.held.name, &self.held.owner);
            });
        }
        let held = self.end();
        // A shutdown meanwhile has given it back.
        self.check()?;
        Ok(handover(&held, owner))
    }

    /// Whether another process can go on as this very owner: it is queued nowhere, and nothing that
    /// was sent for it is still on its way. Then nothing will be.
    async fn has_left_only_keys(&self) -> bool {
        let engine = self.engine();
        let enough_at = engine.now().saturating_add(GATHER_MAX);
        self.call.has_left_only_keys(enough_at).await
            && engine.lock().machine.watchdog().retire_unextended(self.held.id, engine.now())
    }

    /// Waits until a majority of the nodes has the lease, and a little for the others: one that is
    /// handed over does not come to more nodes than it has.
    async fn gather(&self) -> Result<(), AdoptError> {
        let engine = self.engine();
        let enough_at = engine.now().saturating_add(GATHER_MAX);
        let mut backoff = Backoff::new(GATHER_DELAY_MIN, GATHER_DELAY_MAX);
        loop {
            let (call, finding) = self.ask_nodes().await;
            call.settled(self.lease().terms()).await;
            self.check()?;
            let is_everywhere = !call.is_refused_somewhere();
            match finding {
                Finding::Agreed if is_everywhere || engine.now() >= enough_at => {
                    return Ok(());
                }
                Finding::Refused => return Err(self.lost_reason(LostReason::Gone).into()),
                Finding::Agreed | Finding::Unsure => {}
            }
            let delay = engine.draw(|jitter| backoff.next(jitter));
            let ends_at = self.held.valid_until();
            engine.sleep_until(engine.now().saturating_add(delay).min(ends_at)).await;
        }
    }
}

/// How long a lease that is handed over waits for nodes that it can do without.
const GATHER_MAX: Duration = Duration::from_millis(50);
const GATHER_DELAY_MIN: Duration = Duration::from_millis(1);
const GATHER_DELAY_MAX: Duration = Duration::from_millis(20);

/// The lease, for another process that goes on as this owner.
fn handover(held: &HeldLease, owner: Owner) -> LeaseHandover {
    let (ttl, fence) = (held.terms().ttl(), held.fenced().map(FencedLease::fence));
    LeaseHandover::new(held.name().clone(), owner, ttl, fence)
}
