//! A semaphore: one lock for each permit, and one more for the queue.

mod collect;
mod holders;
mod many;
pub(crate) mod names;
mod search;
mod wait;

use std::{sync::Arc, time::Duration};

use quorate_core::{
    backoff::Jitter, client::watchdog::Renewal, command::Value, moment::Moment, name::Name,
    terms::VOTE_TIMEOUT_MAX,
};

use self::{holders::holders, names::SemaphoreLock};
use crate::{
    Mutex,
    engine::{OwnerKind, held::Hold},
    error::{LockError, WithError},
    observe::LockKind,
    primitive::{acquire::Silence, guard::Guard, inner::Inner, permit::Permit},
    who::printable,
};

/// A number of permits, each of which at most one owner holds at a time, across processes and
/// machines.
///
/// # What it is made of
///
/// A semaphore `jobs` of four permits consists of the four locks `jobs#1` to `jobs#4`. The holder
/// of one of them has a permit. So each permit promises what a [`Mutex`] promises, and there are
/// never more holders than permits. A [`Permit`] is the guard of such a lock, and
/// [`Permit::number`] is its number. If a holder crashes, its permit is free after its ttl.
///
/// **Each lock has its own fences.** They grow from one holder of `jobs#3` to the next, and are not
/// related to those of `jobs#2`. A resource that checks fences stores the largest one for each
/// permit.
///
/// Do not lock `jobs#1` or `jobs#queue` as a mutex.
///
/// # The number of permits
///
/// It is not stored anywhere: each caller uses the first locks, up to its own number. So callers
/// that use another number resize the semaphore:
///
/// - Growing takes effect at once for callers with the larger number. The other callers get none of
///   the new permits.
/// - Shrinking takes effect as the higher permits are released. A caller with the number 2 uses
///   `jobs#1` and `jobs#2` only. While other callers still hold `jobs#3` and `jobs#4`, up to four
///   owners hold a permit.
/// - There are never more holders than the largest number of any caller.
/// - All callers share one queue. If its first waiter has a smaller number, the waiters behind it
///   wait until one of its permits is free.
///
/// # Waiting
///
/// A caller tries a random permit. If that is held, it asks which permits are free, and tries
/// those. If none is free, it waits for one more lock, `jobs#queue`. The holder of `jobs#queue` is
/// the first waiter: it waits for all permits at the same time, keeps the first one that it gets,
/// and releases `jobs#queue` to the next waiter. So waiters are served in FIFO order, as far as a
/// [`Mutex`] promises that, and a released permit is handed to the first waiter.
///
/// When the first waiter changes, which takes about two round trips, a new caller may get a permit
/// before it. If the first waiter crashes, the other waiters wait until its ttl has passed, while
/// new callers can still acquire free permits. In [classic mode](crate::ClientBuilder::classic)
/// there is no order, and the holder of `jobs#queue` retries all permits.
///
/// # What it costs
///
/// While permits are free, an acquire mostly costs one round trip and one command for each node, as
/// for a lock. It costs three round trips if the first permit that it tries is held. With K permits
/// and N nodes, the first waiter sends K·N commands to find free permits, K·N to be queued, and as
/// many to leave the queues. The other waiters cost as much as the waiters of one lock. Renewals
/// are sent in batches, as for locks.
///
/// The first waiter also sends K·N heartbeats every third of its ttl. `cargo xtask bench several`
/// measures this.
///
/// # Several permits
///
/// [`acquire_many`](Self::acquire_many) acquires several permits for one caller, all or none. A
/// caller that has to wait is queued with all others. As the first waiter, it keeps each permit
/// that it gets until it has enough. So later callers do not pass it, and a caller that wants many
/// permits does not starve. Each permit is still a lock with its own fence. If one of them is lost,
/// [`Permits`](crate::Permits) reports the loss of all.
///
/// **When not to use it.** Permits that the first waiter keeps are idle until it has enough. If the
/// parts of the work are independent, acquire one permit for each part. If all callers need the
/// same number, give the semaphore fewer permits, and acquire one.
///
/// **Do not wait for more permits while you hold permits of the same semaphore.** If there are only
/// two permits, two callers that hold one each and wait for a second one wait for each other
/// forever. One such caller is enough if another caller waits for all permits: each waits for the
/// other. Acquire all permits that are needed in one call. [`try_acquire`](Self::try_acquire) and
/// [`acquire_timeout`](Self::acquire_timeout) of a further permit are safe, because they end.
///
/// In [classic mode](crate::ClientBuilder::classic) a caller that wants several permits also keeps
/// what it gets, but new callers may acquire permits before it.
///
/// # Inspection
///
/// [`Client::locks`](crate::Client::locks) with the prefix `jobs#` lists the holders of the
/// permits. The holder of `jobs#queue` is the first waiter, and its waiters are the other waiters.
/// Observers receive the events of these locks too.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = quorate::Client::memory();
/// const TWO: u32 = 2;
/// let uploads = client.semaphore("uploads", TWO);
/// let first = uploads.acquire().await?;
/// let _second = uploads.acquire().await?;
/// assert!(uploads.try_acquire().await?.is_none(), "both permits are in use");
/// assert!([1, 2].contains(&first.number()));
/// first.release().await?;
/// assert!(uploads.try_acquire().await?.is_some());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Semaphore {
    client: Arc<Inner>,
    name: Arc<str>,
    parts: Result<Parts, LockError>,
    ttl: Duration,
    hold: Hold,
    kind: OwnerKind,
}

impl Semaphore {
    /// The largest number of permits. A waiter asks every node about each permit.
    ///
    /// A larger number, or zero, is [`LockError::InvalidPermits`] when a permit is acquired.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// use quorate::{Semaphore, error::LockError};
    ///
    /// for permits in [0, Semaphore::MAX_PERMITS + 1] {
    ///     let error = client.semaphore("uploads", permits).try_acquire().await.unwrap_err();
    ///     assert!(matches!(error, LockError::InvalidPermits { .. }));
    /// }
    /// # Ok(()) }
    /// ```
    pub const MAX_PERMITS: u32 = 1_024;

    pub(crate) fn new(client: Arc<Inner>, name: &str, permits: u32) -> Self {
        let parts = Parts::new(name, permits, &client.defaults.prefix);
        let ttl = client.defaults.ttl;
        let hold = Hold { renewal: Renewal::On, max: client.defaults.max_hold };
        let (name, kind) = (name.into(), OwnerKind::default());
        Self { client, name, parts, ttl, hold, kind }
    }

    /// Acquires fixed leases: a permit expires after its ttl unless [`extend`](Guard::extend) is
    /// called.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// # use std::time::Duration;
    /// // At most five calls a minute, by all clients.
    /// let calls = client.semaphore("calls", 5);
    /// let calls = calls.ttl(Duration::from_secs(60)).no_renew();
    /// for _ in 0..5 {
    ///     calls.acquire().await?.leave_to_expire();
    /// }
    /// assert!(calls.try_acquire().await?.is_none());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub const fn no_renew(mut self) -> Self {
        self.hold.renewal = Renewal::Off;
        self
    }

    /// The longest time for which a permit is held and renewed. Then it is lost, with
    /// [`LostReason::MaxHold`](crate::error::LostReason::MaxHold). Default: the
    /// [`max_hold`](crate::ClientBuilder::max_hold) of the client, which is one hour unless it is
    /// set.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// # use {quorate::error::LostReason, std::time::Duration};
    /// let uploads = client.semaphore("uploads", 2);
    /// let guard = uploads.max_hold(Duration::from_millis(20)).acquire().await?;
    /// assert_eq!(guard.lost().await.reason, LostReason::MaxHold);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub const fn max_hold(mut self, max_hold: Duration) -> Self {
        self.hold.max = Some(max_hold);
        self
    }

    /// The name under which other clients see the holder of this lock, instead of the client's
    /// [`who`](crate::ClientBuilder::who). At most 96 characters. Characters that a log cannot show
    /// are replaced.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let semaphore = client.semaphore("api", 1).who("invoice 42 (nightly)");
    /// let guard = semaphore.acquire().await?;
    /// let report = client.inspect(guard.name()).await?;
    /// assert_eq!(report.holder.expect("the lock is held").who, "invoice 42 (nightly)");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn who(mut self, who: impl AsRef<str>) -> Self {
        self.kind.label = Some(printable(who.as_ref()).into());
        self
    }

    /// How long a permit is held after its holder has crashed. The client renews it at a third of
    /// this time, for at most [`max_hold`](Self::max_hold). Default: the
    /// [`ttl`](crate::ClientBuilder::ttl) of the client.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// # use std::time::Duration;
    /// let uploads = client.semaphore("uploads", 2);
    /// let guard = uploads.ttl(Duration::from_secs(2)).acquire().await?;
    /// assert!(guard.remaining() < Duration::from_secs(2)); // until the next renewal
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Acquires a permit if one is free; `None` if all are held.
    ///
    /// It tries one permit after another, so that it never blocks a permit that another caller
    /// could have. `None` means that there was a moment at which others held all permits, or were
    /// about to be granted one. If permits change hands too quickly to see such a moment, it gives
    /// up after a few attempts. A new client first waits for its connections, as
    /// [`Mutex::try_lock`] does.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future removes any key that was stored already, in the background.
    ///
    /// # Errors
    ///
    /// [`LockError`] if too few nodes answered to decide, or if the name, the ttl or the number of
    /// permits is invalid. It is no error that others hold all permits.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let uploads = client.semaphore("uploads", 2);
    /// if let Some(permit) = uploads.try_acquire().await? {
    ///     // At most one other client uploads now.
    ///     permit.release().await?;
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn try_acquire(&self) -> Result<Option<Permit>, LockError> {
        let tried = self.try_one().await;
        tried.map(|guard| guard.map(Permit::new)).map_err(|error| error.of(&self.name))
    }

    async fn try_one(&self) -> Result<Option<Guard>, LockError> {
        self.queue(self.hold)?.first_contact().await?;
        let mut known = None;
        let mut seen = self.try_any(MISSES_MAX, None).await?;
        for _ in 1..SEARCHES_MAX {
            match seen {
                Seen::Got(guard) => return Ok(Some(guard)),
                Seen::Silence(_) if self.client.contact_rest().await => {}
                Seen::Silence(silence) => return Err(silence.into()),
                // One owner that moves from permit to permit may be seen on each of them. Owners
                // that are seen twice held all of them in between.
                Seen::Taken(holders) if known.as_ref() == Some(&holders) => return Ok(None),
                Seen::Taken(holders) => known = Some(holders),
                Seen::Missed => return Ok(None),
            }
            seen = self.try_free(MISSES_MAX, None).await?;
        }
        match seen {
            Seen::Got(guard) => Ok(Some(guard)),
            Seen::Silence(silence) => Err(silence.into()),
            Seen::Taken(_) | Seen::Missed => Ok(None),
        }
    }

    /// Acquires a permit, waiting while others hold all of them.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the queue and removes any key that was stored already, in the
    /// background.
    ///
    /// # Errors
    ///
    /// [`LockError`] if no majority of the nodes answers for a whole ttl, or if the name, the ttl
    /// or the number of permits is invalid.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let uploads = client.semaphore("uploads", 2);
    /// let (first, _second) = (uploads.acquire().await?, uploads.acquire().await?);
    /// tokio::spawn(async move { drop(first) });
    /// let _third = uploads.acquire().await?; // after the release of the first one
    /// # Ok(()) }
    /// ```
    pub async fn acquire(&self) -> Result<Permit, LockError> {
        self.wait_for_one(None).await
    }

    /// Acquires a permit, waiting up to `wait` while others hold all of them or too few nodes
    /// answer.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the queue and removes any key that was stored already, in the
    /// background.
    ///
    /// # Errors
    ///
    /// [`LockError::Timeout`] names one of the holders. [`LockError::NoQuorum`] if too few nodes
    /// answered in the end, with the answer of each node.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// # use {quorate::error::LockError, std::time::Duration};
    /// let uploads = client.semaphore("uploads", 1);
    /// let _permit = uploads.acquire().await?;
    /// match uploads.acquire_timeout(Duration::from_millis(20)).await {
    ///     Err(LockError::Timeout { holder: Some(holder), .. }) => println!("{holder} holds one"),
    ///     other => panic!("{other:?}"),
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn acquire_timeout(&self, wait: Duration) -> Result<Permit, LockError> {
        self.wait_for_one(Some(wait)).await
    }

    /// Acquires a permit, runs `work`, and releases the permit. If the permit is lost, `work` is
    /// dropped at its next await.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work` and releases the permit in the background.
    ///
    /// # Errors
    ///
    /// [`WithError::Lock`] if no permit was acquired: `work` did not run. [`WithError::Lost`] if
    /// the permit was lost before `work` was done.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let uploads = client.semaphore("uploads", 2);
    /// let size = uploads.with(async |_permit| 40 + 2).await?;
    /// assert_eq!(size, 42);
    /// # Ok(()) }
    /// ```
    pub async fn with<T>(&self, work: impl AsyncFnOnce(&Permit) -> T) -> Result<T, WithError> {
        let permit = self.acquire().await?;
        let value = permit.run(work(&permit)).await?;
        // The work is done even if the release is not confirmed: it continues in the background.
        let _ = permit.release().await;
        Ok(value)
    }

    async fn wait_for_one(&self, wait: Option<Duration>) -> Result<Permit, LockError> {
        self.wait(wait).await.map(Permit::new).map_err(|error| error.of(&self.name))
    }

    fn part(&self, name: Name, hold: Hold) -> Mutex {
        Mutex::part(self.client.clone(), name, self.ttl, hold, self.kind.clone())
    }

    /// The lock of the first in the queue.
    fn queue(&self, hold: Hold) -> Result<Mutex, LockError> {
        let part = self.part(self.parts()?.queue.clone(), hold);
        Ok(part.named(LockKind::PermitQueue))
    }

    fn parts(&self) -> Result<&Parts, LockError> {
        self.parts.as_ref().map_err(Clone::clone)
    }

    /// The same in a random order, so that callers do not try the same permits.
    fn shuffled(&self, mut slots: Vec<Name>) -> Vec<Name> {
        self.shuffle(&mut slots);
        slots
    }

    fn shuffle<T>(&self, slots: &mut [T]) {
        self.client.engine.draw(|jitter| {
            for last in (1..slots.len()).rev() {
                slots.swap(last, below(jitter, last + 1));
            }
        });
    }

    /// How long silent nodes are waited for.
    fn patience(&self, deadline: Option<Moment>) -> Duration {
        let engine = &self.client.engine;
        let left = deadline.map_or(Duration::MAX, |at| at.saturating_since(engine.now()));
        engine.vote_timeout(self.ttl).min(left.max(VOTE_TIMEOUT_MAX))
    }
}

/// The names of the locks.
#[derive(Clone, Debug)]
struct Parts {
    slots: Arc<[Name]>,
    queue: Name,
}

impl Parts {
    fn new(name: &str, permits: u32, reserved: &str) -> Result<Self, LockError> {
        // A semaphore's name must be a valid lock name.
        Name::parse(name, reserved)?;
        let max = Semaphore::MAX_PERMITS;
        if !(1..=max).contains(&permits) {
            return Err(LockError::InvalidPermits { lock: name.into(), permits, max });
        }
        let part =
            |suffix: &dyn std::fmt::Display| Name::parse(&format!("{name}#{suffix}"), reserved);
        let queue = part(&SemaphoreLock::Queue)?;
        let slots = (1..=permits).map(|number| part(&number)).collect::<Result<_, _>>()?;
        Ok(Self { slots, queue })
    }
}

/// How the search for a permit ended.
enum Seen<T = Guard> {
    Got(T),
    /// Others held each permit: these.
    Taken(Vec<Option<Value>>),
    /// Some permits looked free, but others acquired them or tried them at the same moment.
    Missed,
    Silence(Silence),
}

fn below(jitter: &mut Jitter, bound: usize) -> usize {
    usize::try_from(jitter.next() % bound.max(1) as u64).expect("below a usize")
}

/// How often `try_acquire` asks for the holders, if they change meanwhile.
const SEARCHES_MAX: usize = 10;

/// How often `try_acquire` tries permits that others try too.
const MISSES_MAX: usize = 6;

const MISSED_DELAY_MIN: Duration = Duration::from_millis(2);
const MISSED_DELAY_MAX: Duration = Duration::from_millis(50);
