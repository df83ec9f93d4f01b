//! Extending a held lease.

use std::time::Duration;

use quorate_core::{backoff::Backoff, lease::LostReason, renew};

use super::Guard;
use crate::{
    engine::{Call, Ended},
    error::{ExtendError, Lost},
    observe::Action,
};

impl Guard {
    /// Extends the lease to `ttl` from now, if a majority of the nodes still stores it. From then
    /// on the watchdog renews it with that ttl.
    ///
    /// While too few nodes answer, it tries again until the lease ends. A failed extension releases
    /// nothing. A shorter `ttl` ends this lease earlier, from the moment when it is sent. The nodes
    /// keep the key until its old end, unless the lock is released.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the lease with the earlier of its old and its new end. The
    /// watchdog renews it with the new ttl.
    ///
    /// # Errors
    ///
    /// [`ExtendError::Lost`] if the lease has ended. A lease that has ended is never revived.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// # use std::time::Duration;
    /// let guard = client.mutex("orders:42").no_renew().ttl(Duration::from_secs(5)).lock().await?;
    /// guard.extend(Duration::from_secs(20)).await?;
    /// assert!(guard.remaining() > Duration::from_secs(5));
    /// # Ok(()) }
    /// ```
    pub async fn extend(&self, ttl: Duration) -> Result<(), ExtendError> {
        let engine = self.engine();
        let terms = self.client.terms(ttl)?;
        let mut backoff = Backoff::new(RETRY_DELAY_MIN, RETRY_DELAY_MAX);
        loop {
            if self.client.is_closed() {
                return Err(self.lose(LostReason::ShutDown).into());
            }
            let call = Call::begin(engine, Action::Extend, &self.held, |shared, now| {
                shared.machine.extend(self.held.id, terms, now)
            });
            let call = call.map_err(|reason| Lost::new(&self.held.name, reason))?;
            let Ended::Renew(outcome) = call.outcome().await else {
                unreachable!("a renew ends as one")
            };
            match outcome {
                renew::Outcome::Extended { .. } => return Ok(self.check()?),
                renew::Outcome::Gone => return Err(self.lost_reason(LostReason::Gone).into()),
                // A renewal that was sent later may have extended the lease.
                renew::Outcome::TooLate => self.check()?,
                renew::Outcome::Unsure => {}
            }
            let delay = engine.draw(|jitter| backoff.next(jitter));
            let ends_at = self.held.valid_until();
            let next = engine.now().saturating_add(delay).min(ends_at);
            engine.sleep_until(next).await;
        }
    }
}

const RETRY_DELAY_MIN: Duration = Duration::from_millis(4);
const RETRY_DELAY_MAX: Duration = Duration::from_millis(100);
