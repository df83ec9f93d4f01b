//! Acquires the lock of a request.

use std::time::{Duration, Instant};

use quorate::{
    DetachedLease, Guard,
    error::{LeaseError, LockError},
};

use super::{AcquireRequest, Mode, several};
use crate::{
    Service,
    idempotency::{Mark, Relation},
    problem::{Code, Problem},
};

/// A lock to acquire, and how to hold it.
pub(super) struct Acquisition<'a> {
    pub(super) service: &'a Service,
    pub(super) name: &'a str,
    /// More locks to acquire together with it.
    pub(super) also: &'a [String],
    pub(super) ttl: Option<Duration>,
    pub(super) wait: Duration,
    pub(super) who: Option<String>,
    mode: Mode,
    permits: u32,
    /// How many permits to acquire, if the request contains a number.
    pub(super) take: Option<u32>,
    /// The identity of a reentrant lock.
    identity: Option<String>,
    mark: Option<Mark>,
}

/// Leases that only their client renews.
pub(super) struct Granted {
    pub(super) lease: DetachedLease,
    /// The leases of the other locks of a set.
    pub(super) more: Vec<DetachedLease>,
    pub(super) valid_until: Instant,
    /// A repeated request can find the lease, so it must not be released even if this request gets
    /// no response.
    pub(super) is_findable: bool,
}

impl<'a> Acquisition<'a> {
    pub(super) fn new(
        service: &'a Service,
        name: &'a str,
        request: &'a AcquireRequest,
        (identity, mark): (Option<String>, Option<Mark>),
    ) -> Result<Self, Problem> {
        let out_of_bounds = |detail: &str| Problem::new(Code::OutOfBounds, detail);
        let permits = match (request.mode, request.permits) {
            (Mode::Permits, None) => {
                return Err(out_of_bounds("mode permits requires the number of permits"));
            }
            (Mode::Permits, Some(0)) => return Err(out_of_bounds("permits must be at least 1")),
            (Mode::Permits, Some(permits)) => permits,
            (_, Some(_)) => {
                let detail = "permits requires mode permits";
                return Err(Problem::new(Code::InvalidRequest, detail));
            }
            (_, None) => 1,
        };
        several::check(request, mark.is_some())?;
        if request.ttl_ms.is_some_and(|ttl_ms| ttl_ms < TTL_MS_MIN) {
            return Err(out_of_bounds(
                "ttl_ms must be at least 20: a shorter lock ends on its way",
            ));
        }
        Ok(Self {
            service,
            name,
            also: &request.also,
            ttl: request.ttl_ms.map(Duration::from_millis),
            wait: Duration::from_millis(request.wait_ms).min(service.limits().wait_max),
            who: description(request.who.as_deref(), request.why.as_deref()),
            mode: request.mode,
            permits,
            take: request.take,
            identity,
            mark,
        })
    }

    /// Acquires the lock, or finds the lease that an equal request has acquired. Dropping the
    /// future leaves the queue, and releases what was granted unless another request may have found
    /// it.
    pub(super) async fn acquire_or_find(&self) -> Result<Granted, Problem> {
        let Some(mark) = self.mark else { return self.acquire().await };
        // A reader, the owner of a permit, or an identity would get a second lease.
        let is_found_first = matches!(self.mode, Mode::Read | Mode::Permits);
        if (is_found_first || self.identity.is_some())
            && let Some(granted) = self.find(mark).await?
        {
            return Ok(granted);
        }
        tokio::select! {
            biased;
            acquired = self.acquire() => match acquired {
                Err(problem) if problem.code() == Code::Held => {
                    self.find(mark).await?.ok_or(problem)
                }
                acquired => acquired,
            },
            found = self.find_later(mark) => found,
        }
    }

    async fn acquire(&self) -> Result<Granted, Problem> {
        if self.is_set() {
            return self.acquire_all().await;
        }
        let taken = match self.wait.is_zero() {
            true => self.attempt().await?,
            false => match self.wait_for(self.wait).await {
                // The nodes did not report the holder in time.
                Err(LockError::Timeout { holder: None, .. }) => None,
                waited => Some(waited?),
            },
        };
        let Some(guard) = taken else { return Err(self.held().await) };
        // In this order: a pause between the two must not extend the lease.
        let (since, left) = (Instant::now(), guard.remaining());
        let lease = guard.detach().await?;
        let valid_until = since + left;
        let Some(mark) = self.mark else {
            return Ok(Granted { lease, more: Vec::new(), valid_until, is_findable: false });
        };
        // From here on the lease is not released, even if this request fails: a repeated request
        // may have found it and returned it to the client.
        let lease = self.service.client().tag_lease(&lease, mark.tag()).await?;
        Ok(Granted { lease, more: Vec::new(), valid_until, is_findable: true })
    }

    /// The first of two equal requests may get the lock while the second one waits for it, or may
    /// hold it already.
    async fn find_later(&self, mark: Mark) -> Result<Granted, Problem> {
        let mut pause = FIRST_SEARCH_AFTER;
        loop {
            tokio::time::sleep(pause).await;
            pause = SEARCH_EVERY;
            match self.find(mark).await {
                Ok(Some(granted)) => return Ok(granted),
                Err(problem) if problem.code() == Code::IdempotencyConflict => return Err(problem),
                // A temporary failure of the nodes does not cost the position in the queue.
                Ok(None) | Err(_) => {}
            }
        }
    }

    /// The lease that an equal request has acquired, renewed. Both requests have the same lease.
    async fn find(&self, mark: Mark) -> Result<Option<Granted>, Problem> {
        let client = self.service.client();
        let mut found = None;
        for tagged in client.tagged_leases(self.locks()).await? {
            match mark.relation(tagged.tag) {
                Relation::Same => found = Some(tagged.lease),
                Relation::Conflict => return Err(conflict()),
                Relation::Unrelated => {}
            }
        }
        let Some(lease) = found else { return Ok(None) };
        let since = Instant::now();
        match client.renew_lease(&lease).await {
            Ok(left) => {
                let (more, valid_until) = (Vec::new(), since + left);
                Ok(Some(Granted { lease, more, valid_until, is_findable: true }))
            }
            // The lease has ended since.
            Err(LeaseError::Lost(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The locks that can be acquired.
    fn locks(&self) -> Vec<String> {
        match self.mode {
            Mode::Mutex | Mode::Read | Mode::Write => vec![self.name.to_owned()],
            Mode::Permits => {
                let permits = self.permits.min(quorate::Semaphore::MAX_PERMITS);
                (1..=permits).map(|number| format!("{}#{number}", self.name)).collect()
            }
        }
    }

    async fn attempt(&self) -> Result<Option<Guard>, LockError> {
        match self.mode {
            Mode::Mutex | Mode::Write => self.mutex().try_lock().await,
            Mode::Read => Ok(self.rwlock().try_read().await?.map(Guard::from)),
            Mode::Permits => Ok(self.semaphore().try_acquire().await?.map(Guard::from)),
        }
    }

    async fn wait_for(&self, wait: Duration) -> Result<Guard, LockError> {
        match self.mode {
            Mode::Mutex | Mode::Write => self.mutex().lock_timeout(wait).await,
            Mode::Read => self.rwlock().read_timeout(wait).await.map(Guard::from),
            Mode::Permits => self.semaphore().acquire_timeout(wait).await.map(Guard::from),
        }
    }

    pub(super) async fn held(&self) -> Problem {
        if self.mode == Mode::Permits {
            return Problem::held(
                match self.take {
                    None | Some(1) => "all permits are in use",
                    Some(_) => "too many permits are in use",
                },
                None,
            );
        }
        let report = self.service.client().inspect(self.name).await.ok();
        let holder = report.and_then(|report| report.holder);
        let holder = holder.map(|holder| (holder.who, holder.expires_in));
        Problem::held("another owner holds the lock", holder)
    }

    fn mutex(&self) -> quorate::Mutex {
        let mutex = self.service.client().mutex(self.name).no_renew();
        let mutex = self.ttl.into_iter().fold(mutex, quorate::Mutex::ttl);
        let mutex = self.identity.iter().fold(mutex, quorate::Mutex::reentrant);
        self.who.iter().fold(mutex, quorate::Mutex::who)
    }

    fn rwlock(&self) -> quorate::RwLock {
        let lock = self.service.client().rwlock(self.name).no_renew();
        let lock = self.ttl.into_iter().fold(lock, quorate::RwLock::ttl);
        self.who.iter().fold(lock, quorate::RwLock::who)
    }

    pub(super) fn semaphore(&self) -> quorate::Semaphore {
        let semaphore = self.service.client().semaphore(self.name, self.permits).no_renew();
        let semaphore = self.ttl.into_iter().fold(semaphore, quorate::Semaphore::ttl);
        self.who.iter().fold(semaphore, quorate::Semaphore::who)
    }
}

fn conflict() -> Problem {
    let detail = "another request with this Idempotency-Key holds the lock: use a new key for \
                  every new request";
    Problem::new(Code::IdempotencyConflict, detail)
}

/// The description of the holder: who it is, followed by its purpose.
fn description(who: Option<&str>, why: Option<&str>) -> Option<String> {
    match (who, why) {
        (None, None) => None,
        (Some(who), None) => Some(who.to_owned()),
        (None, Some(why)) => Some(format!("({why})")),
        (Some(who), Some(why)) => Some(format!("{who} ({why})")),
    }
}

/// When a repeated request first searches for the lease of the original: a free lock is acquired
/// faster than this.
const FIRST_SEARCH_AFTER: Duration = Duration::from_millis(20);

/// How often a waiting repeated request searches for the lease of the original.
const SEARCH_EVERY: Duration = Duration::from_secs(1);

/// A lease must outlast the transmission to its client.
const TTL_MS_MIN: u64 = 20;
