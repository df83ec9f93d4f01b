//! A lock that at most one owner holds.

use std::{sync::Arc, time::Duration};

use quorate_core::{
    acquire::Wait,
    client::watchdog::Renewal,
    moment::Moment,
    name::{Name, NameError},
};

use crate::{
    engine::{OwnerKind, held::Hold, survey},
    error::{Holder, LockError, WithError},
    observe::LockKind,
    primitive::{
        acquire::{Got, Want, begin},
        guard::Guard,
        inner::Inner,
        patience::{asks_again, deny},
    },
    who::printable,
};

/// A lock that at most one owner holds at a time, across processes and machines.
///
/// # Do you need a distributed lock?
///
/// Inside one process `std::sync::Mutex` or `tokio::sync::Mutex` is enough. If the resource
/// supports a unique constraint, a conditional write or a transaction, use that: it holds under all
/// circumstances. A lock avoids duplicate work, and protects a resource that cannot protect itself.
///
/// # What it promises
///
/// Until the [`remaining`](Guard::remaining) time of a guard has passed, no other owner holds the
/// lock. This requires that the rates of all clocks differ by at most one per cent, and that nodes
/// do not forget their keys. With three nodes or more a node may forget: the
/// [quarantine](crate::ClientBuilder::quarantine) keeps a node that may have forgotten locks from
/// voting until these locks have expired. A holder that is paused for longer than its remaining
/// time does not notice the loss until it calls [`check`](Guard::check). Send the
/// [`fence`](Guard::fence) with every request, so that the resource can reject the requests of such
/// a stale client.
///
/// Waiters are queued on the nodes and acquire the lock in FIFO order, up to one round trip. A
/// release hands the lock to the next waiter at once. After a failure the order may change: if the
/// holder has crashed, the first client that asks after the ttl acquires the lock. Other libraries,
/// and clients in [classic mode](crate::ClientBuilder::classic), are excluded but are not queued.
///
/// # How long it is held
///
/// The client renews the lock at a third of its [`ttl`](Self::ttl) while the [`Guard`] exists,
/// unless [`no_renew`](Self::no_renew) is set. It renews for at most [`max_hold`](Self::max_hold),
/// by default one hour: a holder that hangs must not hold the lock forever.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = quorate::Client::memory();
/// let orders = client.mutex("orders:42");
/// let guard = orders.lock().await?;
/// assert!(orders.try_lock().await?.is_none(), "the lock is not reentrant");
/// guard.release().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Mutex {
    client: Arc<Inner>,
    name: Result<Name, NameError>,
    ttl: Duration,
    hold: Hold,
    /// Readers share the lock: see [`RwLock`](crate::RwLock).
    kind: OwnerKind,
    /// Its kind in events.
    lock_kind: LockKind,
}

impl Mutex {
    pub(crate) fn new(client: Arc<Inner>, name: &str) -> Self {
        let name = Name::parse(name, &client.defaults.prefix);
        let ttl = client.defaults.ttl;
        let hold = Hold { renewal: Renewal::On, max: client.defaults.max_hold };
        let (kind, lock_kind) = (OwnerKind::default(), LockKind::Mutex);
        Self { client, name, ttl, hold, kind, lock_kind }
    }

    /// The same lock, shared with other readers.
    pub(super) const fn shared(mut self) -> Self {
        self.kind.is_shared = true;
        self.lock_kind = LockKind::Read;
        self
    }

    /// One of several locks that the caller sees as one.
    pub(super) const fn part(
        client: Arc<Inner>,
        name: Name,
        ttl: Duration,
        hold: Hold,
        kind: OwnerKind,
    ) -> Self {
        Self { client, name: Ok(name), ttl, hold, kind, lock_kind: LockKind::Permit }
    }

    /// The same lock, with this kind in events.
    pub(super) const fn named(mut self, kind: LockKind) -> Self {
        self.lock_kind = kind;
        self
    }

    /// Acquires a fixed lease: the lock expires after its ttl unless [`extend`](Guard::extend) is
    /// called.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// # use std::time::Duration;
    /// let minute = client.mutex("reports").ttl(Duration::from_secs(60)).no_renew();
    /// minute.lock().await?.leave_to_expire(); // one report a minute, by all clients
    /// assert!(minute.try_lock().await?.is_none());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub const fn no_renew(mut self) -> Self {
        self.hold.renewal = Renewal::Off;
        self
    }

    /// The longest time for which the lock is held and renewed. Then it is lost, with
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
    /// let guard = client.mutex("orders:42").max_hold(Duration::from_millis(20)).lock().await?;
    /// assert_eq!(guard.lost().await.reason, LostReason::MaxHold);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub const fn max_hold(mut self, max_hold: Duration) -> Self {
        self.hold.max = Some(max_hold);
        self
    }

    /// The same lock, which its holder can acquire again: callers with this identity hold it
    /// together, in any number of tasks and processes. All other callers wait.
    ///
    /// # Do you need it?
    ///
    /// Mostly not: acquire the lock once, in the outermost caller, and pass the guard or a
    /// reference to it down. That costs nothing and shows which lock protects what. A reentrant
    /// lock is for code that cannot know whether its caller holds the lock: a script that calls
    /// itself, a job whose steps are separate processes, a library used by another one.
    ///
    /// # What it promises
    ///
    /// Each acquire is an entry with its own lease, which the process that acquired it renews. The
    /// lock is held while at least one entry is. When the last entry is released, the next waiter
    /// acquires the lock. An entry is not queued while its identity holds the lock. If the lease of
    /// one entry is lost, only the guard of that entry is lost.
    ///
    /// The [fence](Guard::fence) of an entry is at least as large as the fence of every entry that
    /// held the lock when it was acquired, and mostly equal. It is larger if some nodes had lost
    /// the lock. Then a resource that checks fences may reject the older entry. So give each step
    /// the fence of its own guard.
    ///
    /// It is the same lock as without an identity and as [`rwlock`](crate::Client::rwlock) of this
    /// name: all of them exclude each other.
    ///
    /// # The identity
    ///
    /// It is any text of 1 to 128 bytes: [`Client::identity`](crate::Client::identity), or the id
    /// of a job or a request that all its tasks and processes know. It is not a thread: tasks move
    /// between threads. Every caller that knows the identity can enter, and inspecting the lock
    /// shows it: it is a name, not a password. Two different jobs with one identity do not exclude
    /// each other.
    ///
    /// [Classic mode](crate::ClientBuilder::classic) has no identities: there the acquire fails
    /// with [`LockError::NotReentrant`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let job = client.mutex("orders:42").reentrant("invoice 7");
    /// let outer = job.lock().await?;
    /// let inner = job.lock().await?; // does not wait, here or in another process
    /// assert_eq!(inner.fence(), outer.fence());
    /// outer.release().await?;
    /// let other = client.mutex("orders:42").reentrant("invoice 8");
    /// assert!(other.try_lock().await?.is_none(), "the inner entry holds it");
    /// inner.release().await?;
    /// assert!(other.try_lock().await?.is_some());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn reentrant(mut self, identity: impl AsRef<str>) -> Self {
        self.kind.identity = Some(identity.as_ref().into());
        self.lock_kind = LockKind::Reentrant;
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
    /// let mutex = client.mutex("orders:42").who("invoice 42 (nightly)");
    /// let _guard = mutex.lock().await?;
    /// let report = client.inspect("orders:42").await?;
    /// assert_eq!(report.holder.expect("the lock is held").who, "invoice 42 (nightly)");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn who(mut self, who: impl AsRef<str>) -> Self {
        self.kind.label = Some(printable(who.as_ref()).into());
        self
    }

    /// How long the lock is held after its holder has crashed. The client renews it at a third of
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
    /// let guard = client.mutex("leader").ttl(Duration::from_secs(2)).lock().await?;
    /// assert!(guard.remaining() < Duration::from_secs(2)); // until the next renewal
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Acquires the lock if it is free; `None` if another owner holds it.
    ///
    /// A [new](crate::ClientBuilder::build) client first waits until a majority of the nodes is
    /// attached, or until every node is attached or has failed. A silent node fails after a second.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future removes any key that was stored already, in the background.
    ///
    /// # Errors
    ///
    /// [`LockError`] if too few nodes answered to decide, or if the name or the ttl is invalid. It
    /// is no error that another owner holds the lock.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = quorate::Client::memory();
    /// if let Some(guard) = client.mutex("orders:42").try_lock().await? {
    ///     // No other client works on order 42 now.
    ///     guard.release().await?;
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn try_lock(&self) -> Result<Option<Guard>, LockError> {
        self.first_contact().await?;
        let got = self.try_once(None).await?;
        if matches!(got, Got::Silence(_)) && self.client.contact_rest().await {
            return self.try_once(None).await?.into_guard();
        }
        got.into_guard()
    }

    /// Acquires the lock, waiting while another owner holds it.
    ///
    /// The nodes queue the caller and grant it the lock in FIFO order. In classic mode the client
    /// tries again after random delays.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the queue and removes any key that was stored already, in the
    /// background.
    ///
    /// # Errors
    ///
    /// [`LockError`] if no majority of the nodes answers for a whole ttl, or if the name or the ttl
    /// is invalid.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let mutex = client.mutex("orders:42");
    /// let first = mutex.lock().await?;
    /// tokio::spawn(async move { drop(first) });
    /// let _second = mutex.lock().await?; // after the release of the first one
    /// # Ok(()) }
    /// ```
    pub async fn lock(&self) -> Result<Guard, LockError> {
        self.wait(None).await
    }

    /// Acquires the lock, waiting up to `wait` while another owner holds it or too few nodes
    /// answer.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the queue and removes any key that was stored already, in the
    /// background.
    ///
    /// # Errors
    ///
    /// [`LockError::Timeout`] names the holder. [`LockError::NoQuorum`] if too few nodes answered
    /// in the end, with the answer of each node.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// # use {quorate::error::LockError, std::time::Duration};
    /// let _guard = client.mutex("orders:42").lock().await?;
    /// match client.mutex("orders:42").lock_timeout(Duration::from_millis(20)).await {
    ///     Err(LockError::Timeout { holder: Some(holder), .. }) => println!("held by {holder}"),
    ///     other => panic!("{other:?}"),
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn lock_timeout(&self, wait: Duration) -> Result<Guard, LockError> {
        self.wait(Some(wait)).await
    }

    /// Acquires the lock, runs `work`, and releases the lock. If the lock is lost, `work` is
    /// dropped at its next await.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work` and releases the lock in the background.
    ///
    /// # Errors
    ///
    /// [`WithError::Lock`] if the lock was not acquired: `work` did not run. [`WithError::Lost`] if
    /// the lock was lost before `work` was done.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = quorate::Client::memory();
    /// let sum = client.mutex("sum").with(async |guard| { guard.check().map(|()| 1 + 1) }).await??;
    /// assert_eq!(sum, 2);
    /// # Ok(()) }
    /// ```
    pub async fn with<T>(&self, work: impl AsyncFnOnce(&Guard) -> T) -> Result<T, WithError> {
        let guard = self.lock().await?;
        let value = guard.run(work(&guard)).await?;
        // The work is done even if the release is not confirmed: it continues in the background.
        let _ = guard.release().await;
        Ok(value)
    }

    async fn wait(&self, wait: Option<Duration>) -> Result<Guard, LockError> {
        let started = self.client.engine.now();
        let deadline = wait.map(|wait| started.saturating_add(wait));
        match self.wait_until(deadline).await? {
            Got::Held(guard) => Ok(guard),
            // Boxed: other callers need no room for it.
            Got::Contended => Err(Box::pin(self.timeout(started)).await),
            Got::Silence(silence) => Err(silence.into()),
        }
    }

    /// Waits while another owner holds the lock, until the deadline.
    pub(super) async fn wait_until(&self, deadline: Option<Moment>) -> Result<Got, LockError> {
        let engine = &self.client.engine;
        // Without a deadline, the caller waits for silent nodes for one ttl only.
        let patience = deadline.map_or(self.ttl, |_| Duration::MAX);
        loop {
            let got = self.acquire(Wait::Patiently(patience), deadline).await?;
            if !asks_again(engine, &got, deadline) {
                return Ok(got);
            }
        }
    }

    /// Asks for the lock once. Silent nodes are not waited for beyond `deadline`.
    pub(super) async fn try_once(&self, deadline: Option<Moment>) -> Result<Got, LockError> {
        self.acquire(Wait::Never, deadline).await
    }

    /// Waits for the first connections, if there is anything to ask for.
    pub(super) async fn first_contact(&self) -> Result<(), LockError> {
        if !self.client.was_contacted() {
            self.want()?;
            self.client.first_contact().await;
        }
        Ok(())
    }

    async fn acquire(&self, wait: Wait, deadline: Option<Moment>) -> Result<Got, LockError> {
        let begun = begin(&self.client, self.want()?, wait)?;
        deny(begun.outcome(deadline).await.ok_or(LockError::ShutDown)?)
    }

    pub(super) fn want(&self) -> Result<Want, LockError> {
        let name = self.name.as_ref().map_err(Clone::clone)?.clone();
        let (terms, hold, kind) = (self.client.terms(self.ttl)?, self.hold, self.kind.clone());
        if kind.is_shared && !self.client.engine.dialect.has_queue() {
            return Err(LockError::NotShared { lock: name.to_string() });
        }
        if let Some(identity) = &kind.identity {
            if !self.client.engine.dialect.has_queue() {
                return Err(LockError::NotReentrant { lock: name.to_string() });
            }
            if !(1..=IDENTITY_MAX).contains(&identity.len()) {
                let (lock, len) = (name.to_string(), identity.len());
                return Err(LockError::InvalidIdentity { lock, len, max: IDENTITY_MAX });
            }
        }
        Ok(Want { name, terms, hold, kind, lock_kind: self.lock_kind })
    }

    async fn timeout(&self, started: Moment) -> LockError {
        let waited = self.client.engine.now().saturating_since(started);
        let lock = self.name().to_owned();
        LockError::Timeout { lock, waited, holder: self.holder().await.map(Box::new) }
    }

    /// The name; empty if it is invalid.
    pub(super) fn name(&self) -> &str {
        self.name.as_ref().map(Name::as_str).unwrap_or_default()
    }

    /// The holder, if the nodes can report it.
    pub(super) async fn holder(&self) -> Option<Holder> {
        let (engine, name) = (&self.client.engine, self.name.as_ref().ok()?);
        survey(engine, name, engine.vote_timeout(self.ttl)).await
    }
}

/// Nodes store the identity with every entry, and with every waiter.
const IDENTITY_MAX: usize = 128;
