//! Renewing and releasing detached leases.

use std::time::Duration;

use quorate_core::{
    moment::Moment,
    name::Name,
    queue::FencedLease,
    quorum::NodeSet,
    renew::{self, Renew},
    round::{Round, RoundKind, RoundOutcome},
    terms::Terms,
};

use super::inspect::is_connecting;
use crate::{
    Client, DetachedLease,
    engine::{Asking, Call, Claim, Ended},
    error::{LeaseError, Lost, LostReason},
    observe::LockKind,
    primitive::{acquire::Silence, inner::FIRST_CONTACT_MAX},
};

impl Client {
    /// Renews a [detached](crate::Guard::detach) lease for its ttl from now, and returns how long
    /// it is valid. It stays detached: no client renews it automatically.
    ///
    /// It is for scripts, where every step is a separate process. A process that continues the work
    /// should [adopt](Self::adopt) the lease.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the lease with its old or with its new end.
    ///
    /// # Errors
    ///
    /// [`LeaseError::Lost`] if a majority of the nodes no longer stores it.
    /// [`LeaseError::NoQuorum`] if too few nodes answered: the lease has its old or its new end.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let lease = client.mutex("video:9").lock().await?.detach().await?;
    /// let left = client.renew_lease(&lease).await?; // usually in a later step
    /// assert!(left <= lease.ttl());
    /// client.release_lease(&lease).await?;
    /// assert!(client.renew_lease(&lease).await.is_err(), "it was released");
    /// # Ok(()) }
    /// ```
    pub async fn renew_lease(&self, lease: &DetachedLease) -> Result<Duration, LeaseError> {
        let is_settled = !self.node_status().iter().any(is_connecting);
        match self.try_renewal(lease).await {
            // The majority that stores it and the majority that is attached already may have only
            // one node in common.
            Err(LeaseError::NoQuorum { .. }) if !is_settled => {
                self.settle(FIRST_CONTACT_MAX).await;
                self.try_renewal(lease).await
            }
            renewed => renewed,
        }
    }

    async fn try_renewal(&self, lease: &DetachedLease) -> Result<Duration, LeaseError> {
        let (claim, terms, now) = self.claim(lease)?;
        let (valid_until, _) = self.renew_claim(claim, terms, now).await?;
        let left = valid_until.saturating_since(self.inner.engine.now());
        if left.is_zero() { Err(lost(lease.parts().0, LostReason::Expired)) } else { Ok(left) }
    }

    /// Renews a lease, perhaps under another owner, and undoes nothing if that fails.
    pub(crate) async fn renew_claim(
        &self,
        claim: Claim,
        terms: Terms,
        now: Moment,
    ) -> Result<(Moment, Call), LeaseError> {
        let engine = &self.inner.engine;
        // Its end is not known here. A key of this owner was stored all the time, because it is
        // never stored again and the owner is in no queue. While a majority stored it, no other
        // owner held the lock.
        let held_until = Moment::from_nanos(u64::MAX);
        let machine = Asking::Renew(Renew::start(terms, engine.nodes.len(), held_until, now));
        let (name, kind) = (claim.name.clone(), LockKind::of(&claim.owner));
        let call = Call::ask(engine, claim, kind, machine);
        let Ended::Renew(outcome) = call.outcome().await else {
            unreachable!("a renewal ends as one")
        };
        match outcome {
            renew::Outcome::Extended { valid_until } => Ok((valid_until, call)),
            renew::Outcome::Gone => Err(lost(&name, LostReason::Gone)),
            renew::Outcome::TooLate => Err(lost(&name, LostReason::Expired)),
            renew::Outcome::Unsure => Err(Silence { lock: name, nodes: call.reports() }.into()),
        }
    }

    /// Releases a [detached](crate::Guard::detach) lease.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not stop a release that was sent: it continues in the background.
    /// It is sent as soon as the state of every node is known, at the latest after a tenth of the
    /// ttl or two seconds.
    ///
    /// # Errors
    ///
    /// [`LeaseError::Lost`] if the lease had ended: another owner may have held the lock while you
    /// worked. [`LeaseError::NoQuorum`] if too few nodes answered: the release continues in the
    /// background, and the keys expire after their ttl.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let lease = client.mutex("video:9").lock().await?.detach().await?;
    /// client.release_lease(&lease).await?; // usually in a later step
    /// assert!(client.mutex("video:9").try_lock().await?.is_some());
    /// # Ok(()) }
    /// ```
    pub async fn release_lease(&self, lease: &DetachedLease) -> Result<(), LeaseError> {
        self.settle(others_within(lease.ttl())).await;
        let engine = &self.inner.engine;
        let (claim, terms, now) = self.claim(lease)?;
        let machine =
            Asking::Round(Round::start(RoundKind::Release, terms, engine.nodes.len(), now));
        let (name, kind) = (claim.name.clone(), LockKind::of(&claim.owner));
        let call = Call::ask(engine, claim, kind, machine);
        let Ended::Round(_, finding) = call.outcome().await else {
            unreachable!("a release ends as one")
        };
        match finding {
            RoundOutcome::Agreed => Ok(()),
            RoundOutcome::Refused => Err(lost(&name, LostReason::Gone)),
            RoundOutcome::Unsure => Err(Silence { lock: name, nodes: call.reports() }.into()),
        }
    }

    pub(crate) fn claim(
        &self,
        lease: &DetachedLease,
    ) -> Result<(Claim, Terms, Moment), LeaseError> {
        let client = &self.inner;
        if client.is_closed() {
            return Err(LeaseError::ShutDown);
        }
        let terms = client.terms(lease.ttl())?;
        if lease.dialect() != client.engine.dialect {
            return Err(LeaseError::OtherMode);
        }
        let fenced = lease.stored_fence().map(FencedLease::adopted);
        let (name, owner) = lease.parts();
        let (name, owner, untaken) = (name.clone(), owner.clone(), NodeSet::EMPTY);
        let claim = Claim { name, owner, terms, from: None, untaken, fenced };
        Ok((claim, terms, client.engine.now()))
    }
}

pub(super) fn lost(lock: &Name, reason: LostReason) -> LeaseError {
    Lost::new(lock, reason).into()
}

/// How long a call about a lease of this ttl waits for nodes that a majority does not need.
pub(crate) fn others_within(ttl: Duration) -> Duration {
    (ttl / 10).min(FIRST_CONTACT_MAX)
}
