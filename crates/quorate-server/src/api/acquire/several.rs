//! Several locks or permits for one request: all or none.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use quorate::{DetachedLease, GuardAll, MutexAll, error::LockError};
use tokio::task::JoinSet;

use super::{
    AcquireRequest, Mode,
    acquisition::{Acquisition, Granted},
};
use crate::{
    Service, delivery,
    problem::{Code, Problem},
};

/// Rejects what cannot be combined with several names or permits.
pub(super) fn check(request: &AcquireRequest, has_key: bool) -> Result<(), Problem> {
    let detail = match request.mode {
        Mode::Mutex | Mode::Read | Mode::Write if request.take.is_some() => {
            "take requires mode permits"
        }
        Mode::Permits if request.take.is_some() && has_key => {
            "Idempotency-Key cannot be combined with take: send the request without the header"
        }
        _ if request.also.is_empty() => return Ok(()),
        Mode::Read | Mode::Permits => "also requires mode mutex or write",
        Mode::Mutex | Mode::Write if has_key => {
            "Idempotency-Key cannot be combined with also: send the request without the header"
        }
        Mode::Mutex | Mode::Write => return Ok(()),
    };
    Err(Problem::new(Code::InvalidRequest, detail))
}

impl Acquisition<'_> {
    /// Whether there may be more than one lease.
    pub(super) const fn is_set(&self) -> bool {
        !self.also.is_empty() || self.take.is_some()
    }

    /// How many leases there will be.
    pub(super) fn locks_count(&self) -> usize {
        let take = self.take.and_then(|take| usize::try_from(take).ok());
        take.unwrap_or_else(|| self.names().len())
    }

    /// A name that is listed twice counts once.
    fn names(&self) -> BTreeSet<&str> {
        self.also.iter().map(String::as_str).chain([self.name]).collect()
    }

    /// Dropping the future leaves all queues, and releases what was granted.
    pub(super) async fn acquire_all(&self) -> Result<Granted, Problem> {
        let taken = match self.wait.is_zero() {
            true => self.try_all().await?,
            false => match self.wait_for_all(self.wait).await {
                // The nodes did not report the holder in time.
                Err(LockError::Timeout { holder: None, .. }) => None,
                waited => Some(waited?),
            },
        };
        let Some(guard) = taken else { return Err(self.one_is_held().await) };
        // In this order: a pause between the two must not extend the leases.
        let (since, left) = (Instant::now(), guard.remaining());
        let mut leases = detach(self.service, guard).await?;
        // Any permit can be the first.
        let is_first = |lease: &DetachedLease| self.take.is_some() || lease.name() == self.name;
        let first = leases.iter().position(is_first);
        let missing = || Problem::new(Code::Internal, "the lease of the lock is missing");
        let lease = leases.remove(first.ok_or_else(missing)?);
        Ok(Granted { lease, more: leases, valid_until: since + left, is_findable: false })
    }

    async fn try_all(&self) -> Result<Option<GuardAll>, LockError> {
        match self.take {
            Some(take) => Ok(self.semaphore().try_acquire_many(take).await?.map(GuardAll::from)),
            None => self.set().try_lock().await,
        }
    }

    async fn wait_for_all(&self, wait: Duration) -> Result<GuardAll, LockError> {
        match self.take {
            Some(take) => {
                self.semaphore().acquire_many_timeout(take, wait).await.map(GuardAll::from)
            }
            None => self.set().lock_timeout(wait).await,
        }
    }

    fn set(&self) -> MutexAll {
        let set = self.service.client().mutex_all(self.names()).no_renew();
        let set = self.ttl.into_iter().fold(set, MutexAll::ttl);
        self.who.iter().fold(set, MutexAll::who)
    }

    async fn one_is_held(&self) -> Problem {
        if self.take.is_some() {
            return self.held().await;
        }
        for name in self.names() {
            let report = self.service.client().inspect(name).await.ok();
            if let Some(holder) = report.and_then(|report| report.holder) {
                let detail = format!("another owner holds {name:?}");
                return Problem::held(detail, Some((holder.who, holder.expires_in)));
            }
        }
        Problem::held("another owner holds one of the locks", None)
    }
}

/// Turns the guards into leases, all at the same time. If one fails, all are released.
async fn detach(service: &Service, guard: GuardAll) -> Result<Vec<DetachedLease>, Problem> {
    let leases = Arc::new(Leases { service: service.clone(), leases: Mutex::default() });
    let mut tasks = JoinSet::new();
    for guard in guard.into_guards() {
        let leases = leases.clone();
        tasks.spawn(async move { guard.detach().await.map(|lease| leases.add(lease)) });
    }
    while let Some(ended) = tasks.join_next().await {
        let failed = |_| Problem::new(Code::Internal, "a lease was not handed over");
        ended.map_err(failed)??;
    }
    let mut leases = leases.take();
    leases.sort_by(|one, other| one.name().cmp(other.name()));
    Ok(leases)
}

/// Leases that no client has received. They are released on drop: if detaching one of them fails,
/// or if the client disconnects, even by a task that ends only after that.
struct Leases {
    service: Service,
    leases: Mutex<Vec<DetachedLease>>,
}

impl Leases {
    fn add(&self, lease: DetachedLease) {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner).push(lease);
    }

    fn take(&self) -> Vec<DetachedLease> {
        std::mem::take(&mut self.leases.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Leases {
    fn drop(&mut self) {
        delivery::release(&self.service, self.take());
    }
}
