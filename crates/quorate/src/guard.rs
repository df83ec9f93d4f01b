//! A held lock in the hand of its holder.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use quorate_core::{
    backoff::Backoff,
    command::Owner,
    lease::{Lease, LostReason},
    moment::Moment,
    name::Name,
    release::{self, Release},
    renew::{self, Renew},
    terms::Terms,
    verify::{self, Verify},
};

use crate::{
    client::Inner,
    engine::{Attempt, Ended, Machine, Sleep},
    error::{ExtendError, Lost, ReleaseError, VerifyError},
};

/// A held lock.
///
/// Dropping it releases the lock in the background; the drop neither waits nor needs a runtime.
/// [`release`](Self::release) tells how it went.
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct Guard {
    client: Arc<Inner>,
    name: Name,
    owner: Owner,
    hand: Mutex<Hand>,
    is_released: bool,
}

/// What changes while the lock is held.
struct Hand {
    lease: Lease,
    /// The terms of the longest life that any node may have given the key.
    longest: Terms,
}

impl Guard {
    pub(crate) const fn new(
        client: Arc<Inner>,
        name: Name,
        owner: Owner,
        terms: Terms,
        valid_until: Moment,
    ) -> Self {
        let hand = Hand { lease: Lease::new(valid_until), longest: terms };
        Self { client, name, owner, hand: Mutex::new(hand), is_released: false }
    }

    /// The name of the lock.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// The safe time that is left; zero when the lease has ended.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.hand().lease.remaining(self.client.engine.now())
    }

    /// Says whether the holder may act right now. It asks nobody.
    ///
    /// # Errors
    ///
    /// [`Lost`] if the lease has ended.
    pub fn check(&self) -> Result<(), Lost> {
        self.hand().lease.check(self.client.engine.now()).map_err(Lost::new)
    }

    /// Asks the nodes whether a majority still has this lock for us.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    ///
    /// # Errors
    ///
    /// [`VerifyError::Lost`] if the lease has ended or a majority does not have it any more: the
    /// guard is lost from then on. [`VerifyError::NoQuorum`] if too few nodes answered to say.
    pub async fn verify(&self) -> Result<(), VerifyError> {
        self.check()?;
        let now = self.client.engine.now();
        let terms = self.asking_terms();
        let machine = Verify::start(terms, self.client.engine.nodes.len(), now);
        let attempt = self.start(terms, now, Machine::Verify(machine));
        let Ended::Verify(outcome) = attempt.clone().outcome().await else {
            unreachable!("a verify ends as one")
        };
        match outcome {
            verify::Outcome::Confirmed => Ok(self.check()?),
            verify::Outcome::Gone => Err(self.lose(LostReason::Gone).into()),
            verify::Outcome::Unsure => Err(VerifyError::NoQuorum { nodes: attempt.reports() }),
        }
    }

    /// Lets the lock live for `ttl` from now, if it is still ours on a majority of nodes.
    ///
    /// While too few nodes answer, it tries again until the lease ends. A failed extension does not
    /// release anything. A `ttl` that shortens the lease counts from the moment when it is sent.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the lease with the earlier of its old and its new end.
    ///
    /// # Errors
    ///
    /// [`ExtendError::Lost`] if the lease has ended: nothing revives it.
    pub async fn extend(&self, ttl: Duration) -> Result<(), ExtendError> {
        let engine = &self.client.engine;
        let terms = self.client.terms(ttl)?;
        let mut backoff = Backoff::new(RETRY_DELAY_MIN, RETRY_DELAY_MAX);
        loop {
            let now = engine.now();
            let (extension, held_until) = {
                let mut hand = self.hand();
                hand.lease.check(now).map_err(Lost::new)?;
                if terms.ttl() > hand.longest.ttl() {
                    hand.longest = terms;
                }
                (hand.lease.handle_extension_sent(&terms, now), hand.lease.valid_until())
            };
            let machine = Renew::start(terms, engine.nodes.len(), held_until, now);
            let attempt = self.start(terms, now, Machine::Renew(machine));
            let Ended::Renew(outcome) = attempt.outcome().await else {
                unreachable!("a renew ends as one")
            };
            match outcome {
                renew::Outcome::Extended { valid_until } => {
                    self.hand().lease.handle_extended(extension, valid_until, engine.now());
                    return Ok(self.check()?);
                }
                renew::Outcome::Gone => return Err(self.lose(LostReason::Gone).into()),
                renew::Outcome::TooLate => return Err(self.lose(LostReason::Expired).into()),
                renew::Outcome::Unsure => {}
            }
            let delay = engine.jitter(|jitter| backoff.next(jitter));
            let next = engine.now().saturating_add(delay).min(self.hand().lease.valid_until());
            Sleep::until(engine, next).await;
        }
    }

    /// Releases the lock on all nodes and tells whether it was still ours.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not stop the release: it goes on in the background.
    ///
    /// # Errors
    ///
    /// [`ReleaseError::Lost`] if the lease had ended before: someone else may have worked inside
    /// your critical section. [`ReleaseError::NoQuorum`] if too few nodes answered; the release
    /// goes on in the background, and the keys expire by themselves.
    pub async fn release(mut self) -> Result<(), ReleaseError> {
        let was_held = self.check();
        let attempt = self.start_release();
        let Ended::Release(outcome) = attempt.clone().outcome().await else {
            unreachable!("a release ends as one")
        };
        was_held?;
        match outcome {
            release::Outcome::Released => Ok(()),
            release::Outcome::WasGone => Err(Lost::new(LostReason::Gone).into()),
            release::Outcome::Unsure => Err(ReleaseError::NoQuorum { nodes: attempt.reports() }),
        }
    }

    fn start_release(&mut self) -> Arc<Attempt> {
        self.is_released = true;
        let now = self.client.engine.now();
        let terms = self.asking_terms();
        let machine = Release::start(terms, self.client.engine.nodes.len(), now);
        self.start(terms, now, Machine::Release(machine))
    }

    fn start(&self, terms: Terms, now: Moment, machine: Machine) -> Arc<Attempt> {
        Attempt::start(&self.client.engine, &self.name, &self.owner, terms, now, machine)
    }

    /// The lock's terms with a vote timeout that fits the nodes as they are now.
    fn asking_terms(&self) -> Terms {
        let longest = self.hand().longest;
        longest.with_vote_timeout(self.client.engine.vote_timeout(longest.ttl()))
    }

    fn lose(&self, reason: LostReason) -> Lost {
        let mut hand = self.hand();
        hand.lease.handle_lost(reason);
        Lost::new(hand.lease.check(self.client.engine.now()).err().unwrap_or(reason))
    }

    fn hand(&self) -> MutexGuard<'_, Hand> {
        self.hand.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // The release is queued and lives on by itself: a drop may run anywhere, even in a panic.
        if !self.is_released {
            self.start_release();
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("name", &self.name)
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}

const RETRY_DELAY_MIN: Duration = Duration::from_millis(4);
const RETRY_DELAY_MAX: Duration = Duration::from_millis(100);
