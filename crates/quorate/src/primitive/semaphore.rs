//! A semaphore: so many locks, and one more for those who wait.

mod collect;
mod look;
mod many;
mod search;
mod wait;

use std::{sync::Arc, time::Duration};

use quorate_core::{
    backoff::Jitter, client::watchdog::Renewal, command::Value, moment::Moment, name::Name,
    terms::VOTE_TIMEOUT_MAX,
};

use self::look::holders;
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
/// A semaphore `jobs` of four permits is the four locks `jobs#1` to `jobs#4`. Who holds one of them
/// has a permit, so all that is said about a [`Mutex`] holds for each permit, and there are never
/// more holders than permits. A [`Guard`] of a permit is that of its lock: [`Guard::name`] says
/// which one it is, and the permit of a holder that died is free again after its ttl.
///
/// **Fences are those of each lock.** They grow from one holder of `jobs#3` to the next, and say
/// nothing about the holder of `jobs#2`. A resource that checks them keeps the largest one for each
/// [`Guard::name`].
///
/// Do not lock `jobs#1` or `jobs#line` as a mutex.
///
/// # The number of permits
///
/// It is not stored anywhere: each caller uses the first locks of its own number. So a semaphore is
/// resized by callers that say another number:
///
/// - Growing takes effect at once, for those that say more. Whoever still says less gets none of
///   the new permits.
/// - Shrinking takes effect as the higher permits are released. A caller that says 2 looks at
///   `jobs#1` and `jobs#2` only: while others still hold `jobs#3` and `jobs#4`, up to four owners
///   hold a permit.
/// - There are never more holders than the largest number that any caller says.
/// - All callers share one queue. While one that says less is the first of it, those behind it wait
///   until one of its permits is free.
///
/// # Waiting
///
/// Who wants a permit tries a lock at random; if that is taken, it asks which ones are free, and
/// tries those. If none is, it waits for one more lock, `jobs#line`: whoever has that one is the
/// first in line. It waits for all permits at the same time, takes the first that it gets, and lets
/// the next one step up. So those who wait are served in the order in which they came, as far as
/// [`Mutex`] promises that, and a permit that is released goes straight to the first in line.
///
/// A newcomer may take a permit that becomes free while the next in line is stepping up, which
/// takes about two round trips. If the first in line dies, the others wait until its ttl is over,
/// while newcomers find what is free. In [classic mode](crate::ClientBuilder::classic) there is no
/// order, and the one that has `jobs#line` tries all permits again and again.
///
/// # What it costs
///
/// While permits are free, mostly one round trip and one command for each node, as a lock does; if
/// the first one that is tried is taken, three round trips. Who has to wait sends, for K permits
/// and N nodes, K·N commands to look, K·N to stand in line, and as many to leave it. All others in
/// line cost what those who wait for one lock cost. Renewals are gathered as always.
///
/// While it is the first in line, it also sends K·N entries of heartbeats every third of its ttl.
/// `cargo xtask bench several` measures what that takes.
///
/// # Several permits
///
/// [`acquire_many`](Self::acquire_many) acquires several permits for one caller, all or none. A
/// caller that has to wait is served in its turn. When it is the first in line, it keeps each
/// permit that it gets until it has enough, so those who come later do not pass it, and one that
/// wants many is not starved by those who want one. Each permit is still a lock with a fence of its
/// own; when one of them is lost, the [guard](crate::GuardAll) reports the loss of all.
///
/// **When not to use it.** Permits that are kept while others are missing are of use to nobody. If
/// the pieces of the work are independent, acquire one permit for each piece. If all callers need
/// the same number, let the semaphore have fewer permits, and acquire one.
///
/// **Do not wait for more permits while you hold some of the same semaphore.** Two callers that
/// hold one permit each and wait for a second one wait for each other for ever, if there are only
/// two. If another caller waits for all permits, one such caller is enough: it waits behind the
/// other, which waits for its permit. Acquire as many as are needed in one call.
/// [`try_acquire`](Self::try_acquire) and [`acquire_timeout`](Self::acquire_timeout) of a further
/// permit are safe: they end.
///
/// In [classic mode](crate::ClientBuilder::classic) a caller that wants several keeps what it gets
/// as well, but newcomers may take a permit before it, again and again.
///
/// # Looking at it
///
/// [`Client::locks`](crate::Client::locks) with the prefix `jobs#` shows who holds the permits; who
/// has `jobs#line` is the first in line, and who waits for it are the others. Observers are told
/// about these locks as well.
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
/// assert!(["uploads#1", "uploads#2"].contains(&first.name()));
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

    /// Takes fixed leases: a permit ends with its ttl unless it is extended by hand.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// # use std::time::Duration;
    /// // No more than five calls a minute, whoever makes them.
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

    /// How long a permit is held at the most, however often it is renewed: then it is lost, with
    /// [`LostReason::MaxHold`](crate::error::LostReason::MaxHold). Default: the client's.
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

    /// How the holder is shown to others who look at the lock or fail to get it, instead of the
    /// client's [`who`](crate::ClientBuilder::who). At most 96 characters; those that would garble
    /// a log are replaced.
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
    /// assert_eq!(report.holder.expect("it is held").who, "invoice 42 (nightly)");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn who(mut self, who: impl AsRef<str>) -> Self {
        self.kind.label = Some(printable(who.as_ref()).into());
        self
    }

    /// How long a permit outlives a holder that crashed. It is renewed at a third of it. Default:
    /// the client's.
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

    /// Takes a permit if there is one; `None` if all are taken.
    ///
    /// Permits are tried one after another, so that nobody is refused by one who takes more than
    /// it needs. `None` says that there was a moment in which others had all of them; one that is
    /// on its way to somebody in line counts as taken. Where others come and go so quickly that no
    /// such moment can be seen, it gives up after a few looks. A new client waits for its first
    /// connections, as with [`Mutex::try_lock`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future removes any key that was stored already, in the background.
    ///
    /// # Errors
    ///
    /// [`LockError`] if too few nodes answered to decide, or if name, ttl or the number of permits
    /// are wrong. That others have all permits is not an error.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let uploads = client.semaphore("uploads", 2);
    /// if let Some(permit) = uploads.try_acquire().await? {
    ///     // No more than one other uploads now.
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
        for _ in 1..LOOKS_MAX {
            match seen {
                Seen::Got(guard) => return Ok(Some(guard)),
                Seen::Silence(silence) => return Err(silence.into()),
                // One that moves from permit to permit may be seen on each of them. Those who are
                // seen twice had all of them in between.
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

    /// Takes a permit, waiting for as long as others have all of them.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the line and removes any key that was stored already, in the
    /// background.
    ///
    /// # Errors
    ///
    /// [`LockError`] if no majority of nodes answers for a whole ttl, or if name, ttl or the number
    /// of permits are wrong.
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
    /// let _third = uploads.acquire().await?; // comes when the first one is gone
    /// # Ok(()) }
    /// ```
    pub async fn acquire(&self) -> Result<Permit, LockError> {
        self.wait_for_one(None).await
    }

    /// Takes a permit, waiting up to `wait` while others have all of them or too few nodes answer.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the line and removes any key that was stored already, in the
    /// background.
    ///
    /// # Errors
    ///
    /// [`LockError::Timeout`] names one of the holders. [`LockError::NoQuorum`] says that in the
    /// end too few nodes answered, and what each of them said.
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
    ///     Err(LockError::Timeout { holder: Some(holder), .. }) => println!("{holder} has one"),
    ///     other => panic!("{other:?}"),
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn acquire_timeout(&self, wait: Duration) -> Result<Permit, LockError> {
        self.wait_for_one(Some(wait)).await
    }

    /// Takes a permit, runs `work`, and releases the permit. When the permit is lost, `work` is
    /// dropped at its next await.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work` and releases the permit in the background.
    ///
    /// # Errors
    ///
    /// [`WithError::Lock`] if no permit was taken: `work` did not run. [`WithError::Lost`] if the
    /// permit was lost before `work` was done.
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
        let part = self.part(self.parts()?.line.clone(), hold);
        Ok(part.named(LockKind::PermitQueue))
    }

    fn parts(&self) -> Result<&Parts, LockError> {
        self.parts.as_ref().map_err(Clone::clone)
    }

    /// The same in a random order, so that callers do not run after each other.
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
    line: Name,
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
        let line = part(&"line")?;
        let slots = (1..=permits).map(|number| part(&number)).collect::<Result<_, _>>()?;
        Ok(Self { slots, line })
    }
}

/// What became of looking for a permit.
enum Seen<T = Guard> {
    Got(T),
    /// Each permit was in the hands of another, who are these.
    Taken(Vec<Option<Value>>),
    /// Some looked free, but others were quicker, or were after it at the same moment.
    Missed,
    Silence(Silence),
}

fn below(jitter: &mut Jitter, bound: usize) -> usize {
    usize::try_from(jitter.next() % bound.max(1) as u64).expect("below a usize")
}

/// So often one who does not wait looks at the permits, if they change hands meanwhile.
const LOOKS_MAX: usize = 10;

/// So often one who does not wait looks for what others were after as well.
const MISSES_MAX: usize = 6;

const MISSED_DELAY_MIN: Duration = Duration::from_millis(2);
const MISSED_DELAY_MAX: Duration = Duration::from_millis(50);
