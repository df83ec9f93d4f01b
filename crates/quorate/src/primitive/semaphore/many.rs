//! Several permits for one caller: all of them, or none.

use std::time::Duration;

use quorate_core::backoff::Backoff;

use super::{
    MISSED_DELAY_MAX, MISSED_DELAY_MIN, MISSES_MAX, SEARCHES_MAX, Seen, Semaphore,
    collect::Collecting,
};
use crate::{
    error::{LockError, WithError},
    primitive::permit::Permits,
};

impl Semaphore {
    /// Acquires `count` permits if enough are free; `None` if not. All or nothing: permits that
    /// were acquired before one was missing are released.
    ///
    /// `None` means that there was a moment at which others held too many permits, or that others
    /// repeatedly tried to acquire the same permits. Two callers that try at the same moment
    /// may both get `None`, although the permits were enough for one of them.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future releases every permit that was acquired already, in the background.
    ///
    /// # Errors
    ///
    /// [`LockError`] if too few nodes answered to decide, or if `count` is 0 or larger than the
    /// number of permits, or if the name, the ttl or the number of permits is invalid.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let gpus = client.semaphore("gpus", 4);
    /// let three = gpus.try_acquire_many(3).await?.expect("all are free");
    /// assert_eq!(three.numbers().count(), 3);
    /// assert!(gpus.try_acquire_many(2).await?.is_none(), "one is free");
    /// # Ok(()) }
    /// ```
    pub async fn try_acquire_many(&self, count: u32) -> Result<Option<Permits>, LockError> {
        let wanted = self.wanted(count)?;
        if wanted == 1 {
            return Ok(self
                .try_acquire()
                .await?
                .map(|permit| Permits::new(vec![permit.into_guard()])));
        }
        self.queue(self.hold)?.first_contact().await?;
        let engine = &self.client.engine;
        let mut backoff = Backoff::new(MISSED_DELAY_MIN, MISSED_DELAY_MAX);
        let (mut known, mut misses) = (None, 0);
        for _ in 0..SEARCHES_MAX {
            match self.try_several(wanted, None).await? {
                Seen::Got(guards) => return Ok(Some(Permits::new(guards))),
                Seen::Silence(_) if self.client.contact_rest().await => {}
                Seen::Silence(silence) => return Err(silence.into()),
                // As for one permit: owners that were seen twice held all of them in between.
                Seen::Taken(holders) if known.as_ref() == Some(&holders) => return Ok(None),
                Seen::Taken(holders) => known = Some(holders),
                Seen::Missed => {
                    misses += 1;
                    if misses >= MISSES_MAX {
                        return Ok(None);
                    }
                    // Callers that tried the same permits must not do so again.
                    let delay = engine.draw(|jitter| backoff.next(jitter));
                    engine.sleep_until(engine.now().saturating_add(delay)).await;
                }
            }
        }
        Ok(None)
    }

    /// Acquires `count` permits, waiting until enough are free. All or nothing.
    ///
    /// A caller that has to wait joins the same queue as callers that want one permit. As the first
    /// waiter, it keeps every permit that it gets until it has enough, and renews them meanwhile.
    /// If it loses one, it acquires it again. See [Several permits](Semaphore#several-permits) for
    /// when not to use it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves all queues and releases every permit that was acquired already,
    /// in the background.
    ///
    /// # Errors
    ///
    /// [`LockError`] if no majority of nodes answers for a whole ttl, or if `count` is 0 or larger
    /// than the number of permits, or if the name, the ttl or the number of permits is invalid.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let gpus = client.semaphore("gpus", 4);
    /// let (one, _other) = (gpus.acquire().await?, gpus.acquire().await?);
    /// tokio::spawn(async move { drop(one) });
    /// let three = gpus.acquire_many(3).await?; // once `one` is released
    /// for number in three.numbers() {
    ///     println!("use GPU {}", number - 1);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn acquire_many(&self, count: u32) -> Result<Permits, LockError> {
        self.wait_for_many(count, None).await
    }

    /// Acquires `count` permits, waiting up to `wait` until enough are free or enough nodes
    /// answer. All or nothing.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves all queues and releases every permit that was acquired already,
    /// in the background.
    ///
    /// # Errors
    ///
    /// [`LockError::Timeout`] names one of the holders. [`LockError::NoQuorum`] if too few nodes
    /// answered in the end, with the answer of each. The others are those of
    /// [`acquire_many`](Self::acquire_many).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// # use {quorate::error::LockError, std::time::Duration};
    /// let gpus = client.semaphore("gpus", 4);
    /// let _one = gpus.acquire().await?;
    /// match gpus.acquire_many_timeout(4, Duration::from_millis(20)).await {
    ///     Err(LockError::Timeout { holder: Some(holder), .. }) => println!("{holder} holds one"),
    ///     other => panic!("{other:?}"),
    /// }
    /// assert!(gpus.try_acquire_many(3).await?.is_some(), "none of them is held");
    /// # Ok(()) }
    /// ```
    pub async fn acquire_many_timeout(
        &self,
        count: u32,
        wait: Duration,
    ) -> Result<Permits, LockError> {
        self.wait_for_many(count, Some(wait)).await
    }

    /// Acquires `count` permits, runs `work`, and releases them. If one of them is lost, `work` is
    /// dropped at its next await.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work` and releases the permits in the background.
    ///
    /// # Errors
    ///
    /// [`WithError::Lock`] if the permits were not acquired: `work` did not run.
    /// [`WithError::Lost`] if one of them was lost before `work` was done.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let gpus = client.semaphore("gpus", 4);
    /// let used = gpus.with_many(2, async |permits| permits.numbers().count()).await?;
    /// assert_eq!(used, 2);
    /// # Ok(()) }
    /// ```
    pub async fn with_many<T>(
        &self,
        count: u32,
        work: impl AsyncFnOnce(&Permits) -> T,
    ) -> Result<T, WithError> {
        let permits = self.acquire_many(count).await?;
        let value = permits.run(work(&permits)).await?;
        // The work is done even if the release is not confirmed: it continues in the background.
        let _ = permits.release().await;
        Ok(value)
    }

    async fn wait_for_many(
        &self,
        count: u32,
        wait: Option<Duration>,
    ) -> Result<Permits, LockError> {
        let wanted = self.wanted(count)?;
        if wanted == 1 {
            return Ok(Permits::new(vec![self.wait(wait).await?]));
        }
        let engine = &self.client.engine;
        let started = engine.now();
        let deadline = wait.map(|wait| started.saturating_add(wait));
        let is_over = || deadline.is_some_and(|deadline| engine.now() >= deadline);
        // Once: later callers must not pass this one while it tries again.
        match self.try_several(wanted, deadline).await? {
            Seen::Got(guards) => return Ok(Permits::new(guards)),
            Seen::Taken(_) | Seen::Missed if is_over() => return Err(self.timeout(started).await),
            Seen::Silence(silence) if is_over() => return Err(silence.into()),
            Seen::Taken(_) | Seen::Missed | Seen::Silence(_) => {}
        }
        match Collecting::new(self, wanted, deadline)?.run().await? {
            Some(guards) => Ok(Permits::new(guards)),
            None => Err(self.timeout(started).await),
        }
    }

    /// The number of permits, if it is valid.
    fn wanted(&self, count: u32) -> Result<usize, LockError> {
        let permits = self.parts()?.slots.len();
        let wanted = usize::try_from(count).unwrap_or(usize::MAX);
        match (1..=permits).contains(&wanted) {
            true => Ok(wanted),
            false => Err(LockError::InvalidCount {
                lock: self.name.to_string(),
                count,
                permits: u32::try_from(permits).unwrap_or(u32::MAX),
            }),
        }
    }
}
