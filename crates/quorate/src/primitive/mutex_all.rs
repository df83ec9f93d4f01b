//! Several locks that are acquired together, or not at all.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use quorate_core::{acquire::Wait, client::SET_MAX, moment::Moment};

use crate::{
    error::{LockError, WithError},
    primitive::{
        acquire::{Got, Want, acquire_all},
        guard_all::GuardAll,
        inner::Inner,
        mutex::Mutex,
        patience::{asks_again, deny},
    },
};

/// Several locks that are acquired together: all of them, or none.
///
/// # When not to use it
///
/// If the same names are always locked together, use one lock for all of them: it costs less. If
/// the parts of the work are independent, lock one name after the other, and hold each for as short
/// a time as possible. A set waits until all of its locks are free at the same time, and those that
/// it has already are reserved meanwhile.
///
/// # What it promises
///
/// Each lock is what a [`Mutex`] of that name is: both exclude each other, and every lock has its
/// own [fence](GuardAll::fence). All nodes are asked about all names at the same time. The set
/// queues for all of its names at one position, and yields to everyone before it until it holds all
/// of its locks. So sets that overlap never deadlock, in whatever order their names are listed, and
/// waiters are served in FIFO order for every name. If one lock of a held set is lost, the
/// [guard](GuardAll) is lost.
///
/// A waiting set reserves those of its locks that are free. A caller that holds one of them and
/// waits for another would wait for the set, and the set for the caller: a deadlock. So acquire all
/// names that are needed at the same time as one set, and not one after the other, also not in a
/// sorted order. [`try_lock`](Mutex::try_lock) and [`lock_timeout`](Mutex::lock_timeout) of a
/// further lock are safe: they end.
///
/// In [classic mode](crate::ClientBuilder::classic) there are no queues: a set that does not get
/// all of its locks gives back what it has, and tries again after a random delay.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = quorate::Client::memory();
/// let accounts = client.mutex_all(["account:7", "account:9"]);
/// let guard = accounts.lock().await?;
/// assert!(client.mutex("account:9").try_lock().await?.is_none());
/// guard.check()?; // are both still held?
/// guard.release().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct MutexAll {
    client: Arc<Inner>,
    /// In the order of their names, each once.
    parts: Box<[Mutex]>,
}

impl MutexAll {
    /// The most names of one set.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use quorate::{MutexAll, error::LockError};
    /// # let client = quorate::Client::memory();
    /// let names = (0..=MutexAll::MAX_NAMES).map(|number| format!("account:{number}"));
    /// let refused = client.mutex_all(names).lock().await;
    /// assert!(matches!(refused, Err(LockError::TooManyNames { .. })));
    /// # Ok(()) }
    /// ```
    pub const MAX_NAMES: usize = SET_MAX;

    pub(crate) fn new(
        client: Arc<Inner>,
        names: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Self {
        let names: BTreeSet<String> = names.into_iter().map(|it| it.as_ref().to_owned()).collect();
        let parts = names.iter().map(|name| Mutex::new(client.clone(), name)).collect();
        Self { client, parts }
    }

    fn each(mut self, set: impl Fn(Mutex) -> Mutex) -> Self {
        self.parts = self.parts.into_iter().map(set).collect();
        self
    }

    /// Acquires fixed leases: the locks expire after their ttl unless they are extended by hand.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// # use std::time::Duration;
    /// let pair = client.mutex_all(["a", "b"]).ttl(Duration::from_secs(60)).no_renew();
    /// assert!(pair.lock().await?.remaining() > Duration::from_secs(50));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn no_renew(self) -> Self {
        self.each(Mutex::no_renew)
    }

    /// How long the locks are held at most, even if they are renewed. See [`Mutex::max_hold`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// # use {quorate::error::LostReason, std::time::Duration};
    /// let pair = client.mutex_all(["a", "b"]).max_hold(Duration::from_millis(20));
    /// assert_eq!(pair.lock().await?.lost().await.reason, LostReason::MaxHold);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn max_hold(self, max_hold: Duration) -> Self {
        self.each(|mutex| mutex.max_hold(max_hold))
    }

    /// How the holder is shown. See [`Mutex::who`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let _guard = client.mutex_all(["a", "b"]).who("transfer 42").lock().await?;
    /// let report = client.inspect("b").await?;
    /// assert_eq!(report.holder.expect("the lock is held").who, "transfer 42");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn who(self, who: impl AsRef<str>) -> Self {
        self.each(|mutex| mutex.who(who.as_ref()))
    }

    /// How long the locks outlive a holder that crashed. Default: the client's ttl.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// # use std::time::Duration;
    /// let guard = client.mutex_all(["a", "b"]).ttl(Duration::from_secs(2)).lock().await?;
    /// assert!(guard.remaining() < Duration::from_secs(2)); // until the next renewal
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        self.each(|mutex| mutex.ttl(ttl))
    }

    /// Acquires all locks if all are free; `None` if another owner holds one of them.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future releases whatever was acquired already, in the background.
    ///
    /// # Errors
    ///
    /// [`LockError`] if too few nodes answered, or if a name, the number of names or the ttl is
    /// invalid.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let _b = client.mutex("b").lock().await?;
    /// assert!(client.mutex_all(["a", "b"]).try_lock().await?.is_none());
    /// assert!(client.mutex("a").try_lock().await?.is_some(), "nothing is left behind");
    /// # Ok(()) }
    /// ```
    pub async fn try_lock(&self) -> Result<Option<GuardAll>, LockError> {
        let wants = self.wants()?;
        self.client.first_contact().await;
        let mut got = deny(acquire_all(&self.client, wants, Wait::Never, None).await?)?;
        if matches!(got, Got::Silence(_)) && self.client.contact_rest().await {
            got = deny(acquire_all(&self.client, self.wants()?, Wait::Never, None).await?)?;
        }
        Ok(got.into_guard()?.map(GuardAll::new))
    }

    /// Acquires all locks, waiting while another owner holds one of them.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves all queues and releases whatever was acquired already, in the
    /// background.
    ///
    /// # Errors
    ///
    /// [`LockError`] if no majority of nodes answers for a whole ttl, or if a name, the number of
    /// names or the ttl is invalid.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let first = client.mutex("b").lock().await?;
    /// tokio::spawn(async move { drop(first) });
    /// let _pair = client.mutex_all(["a", "b"]).lock().await?; // once `first` is released
    /// # Ok(()) }
    /// ```
    pub async fn lock(&self) -> Result<GuardAll, LockError> {
        self.wait(None).await
    }

    /// Acquires all locks, waiting up to `wait` while another owner holds one of them or too few
    /// nodes answer.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves all queues and releases whatever was acquired already, in the
    /// background.
    ///
    /// # Errors
    ///
    /// [`LockError::Timeout`] names a holder. [`LockError::NoQuorum`] if too few nodes answered in
    /// the end, with the answer of each.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// # use {quorate::error::LockError, std::time::Duration};
    /// let _b = client.mutex("b").lock().await?;
    /// match client.mutex_all(["a", "b"]).lock_timeout(Duration::from_millis(20)).await {
    ///     Err(LockError::Timeout { holder: Some(holder), .. }) => println!("{holder} holds b"),
    ///     other => panic!("{other:?}"),
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn lock_timeout(&self, wait: Duration) -> Result<GuardAll, LockError> {
        self.wait(Some(wait)).await
    }

    /// Acquires all locks, runs `work`, and releases them. If one of them is lost, `work` is
    /// dropped at its next await.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work` and releases the locks in the background.
    ///
    /// # Errors
    ///
    /// [`WithError::Lock`] if the locks were not acquired: `work` did not run. [`WithError::Lost`]
    /// if one of them was lost before `work` was done.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = quorate::Client::memory();
    /// let sum = client.mutex_all(["a", "b"]).with(async |_guard| 1 + 1).await?;
    /// assert_eq!(sum, 2);
    /// # Ok(()) }
    /// ```
    pub async fn with<T>(&self, work: impl AsyncFnOnce(&GuardAll) -> T) -> Result<T, WithError> {
        let guard = self.lock().await?;
        let value = guard.run(work(&guard)).await?;
        // Without a quorum the work is still done, and the release continues in the background.
        let _ = guard.release().await;
        Ok(value)
    }

    async fn wait(&self, wait: Option<Duration>) -> Result<GuardAll, LockError> {
        let engine = &self.client.engine;
        let started = engine.now();
        let deadline = wait.map(|wait| started.saturating_add(wait));
        match self.wait_until(deadline).await? {
            Some(guard) => Ok(guard),
            None => {
                let waited = engine.now().saturating_since(started);
                let (mut lock, mut holder) = (String::new(), None);
                for part in &self.parts {
                    if lock.is_empty() {
                        part.name().clone_into(&mut lock);
                    }
                    holder = part.holder().await;
                    if holder.is_some() {
                        part.name().clone_into(&mut lock);
                        break;
                    }
                }
                Err(LockError::Timeout { lock, waited, holder: holder.map(Box::new) })
            }
        }
    }

    async fn wait_until(&self, deadline: Option<Moment>) -> Result<Option<GuardAll>, LockError> {
        let wants = self.wants()?;
        let ttl = wants.iter().map(|want| want.terms.ttl()).min().unwrap_or_default();
        // Without a deadline, the ttl limits the wait for nodes that are down.
        let wait = Wait::Patiently(deadline.map_or(ttl, |_| Duration::MAX));
        loop {
            let got = deny(acquire_all(&self.client, self.wants()?, wait, deadline).await?)?;
            if !asks_again(&self.client.engine, &got, deadline) {
                return Ok(got.into_guard()?.map(GuardAll::new));
            }
        }
    }

    fn wants(&self) -> Result<Vec<Want>, LockError> {
        match self.parts.len() {
            0 => Err(LockError::NoNames),
            names if names > Self::MAX_NAMES => {
                Err(LockError::TooManyNames { names, max: Self::MAX_NAMES })
            }
            _ => self.parts.iter().map(Mutex::want).collect(),
        }
    }
}
