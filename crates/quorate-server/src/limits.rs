//! Limits per token, so that one token cannot use up the service.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::problem::{Code, Problem};

/// The limits of a service.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// The longest wait for a lock in one request. Longer waits are shortened to this. 60 s by
    /// default.
    pub wait_max: Duration,
    /// How many requests of one token may wait at the same time. 10,000 by default.
    pub waits_max: usize,
    /// How many leases one token may hold through this instance. 100,000 by default.
    pub leases_max: usize,
    /// How many requests one token may send per second, on average. 10,000 by default; zero is
    /// unlimited.
    pub requests_per_second: u32,
    /// How long the body of a request may take to arrive. 10 s by default.
    pub body_time_max: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            wait_max: Duration::from_secs(60),
            waits_max: 10_000,
            leases_max: 100_000,
            requests_per_second: 10_000,
            body_time_max: Duration::from_secs(10),
        }
    }
}

/// The request rate of each token: a bucket that fills at the limit and holds the requests of one
/// second.
#[derive(Debug)]
pub(crate) struct Rates {
    per_second: u32,
    buckets: Mutex<HashMap<Arc<str>, Bucket>>,
}

#[derive(Debug)]
struct Bucket {
    left: f64,
    filled_at: Instant,
}

impl Rates {
    pub(crate) fn new(per_second: u32) -> Self {
        Self { per_second, buckets: Mutex::default() }
    }

    /// Counts one request of this token.
    pub(crate) fn take(&self, token: &Arc<str>) -> Result<(), Problem> {
        self.take_at(token, Instant::now())
    }

    fn take_at(&self, token: &Arc<str>, now: Instant) -> Result<(), Problem> {
        if self.per_second == 0 {
            return Ok(());
        }
        let rate = f64::from(self.per_second);
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let full = || Bucket { left: rate, filled_at: now };
        let bucket = buckets.entry(token.clone()).or_insert_with(full);
        let passed = now.saturating_duration_since(bucket.filled_at).as_secs_f64();
        bucket.left = rate.min(bucket.left + passed * rate);
        bucket.filled_at = now;
        if bucket.left >= 1.0 {
            bucket.left -= 1.0;
            return Ok(());
        }
        let after = Duration::from_secs_f64((1.0 - bucket.left) / rate);
        drop(buckets);
        let detail = format!("more than {} requests per second for this token", self.per_second);
        Err(Problem::new(Code::TooMany, detail).retry_after(after))
    }
}

/// The leases that each token holds through this instance. A lease that another instance releases
/// counts until its ttl has passed.
#[derive(Debug)]
pub(crate) struct Quotas {
    leases_max: usize,
    waits_max: usize,
    tokens: Mutex<HashMap<Arc<str>, Usage>>,
}

#[derive(Debug, Default)]
struct Usage {
    waits: usize,
    /// The latest end of each lease, by the key under which it is counted.
    leases: HashMap<u64, Instant>,
    /// The number of leases after ended leases were last removed.
    pruned_len: usize,
}

impl Quotas {
    pub(crate) fn new(limits: &Limits) -> Self {
        let Limits { leases_max, waits_max, .. } = *limits;
        Self { leases_max, waits_max, tokens: Mutex::default() }
    }

    /// Counts one request that may wait for a lock, until the result is dropped.
    pub(crate) fn wait(&self, token: &Arc<str>) -> Result<Wait<'_>, Problem> {
        self.wait_for(token, 1)
    }

    /// As [`wait`](Self::wait), for this many locks.
    pub(crate) fn wait_for(&self, token: &Arc<str>, locks: usize) -> Result<Wait<'_>, Problem> {
        let now = Instant::now();
        let mut tokens = self.lock();
        let usage = tokens.entry(token.clone()).or_default();
        let has_room = |usage: &Usage| usage.leases.len().saturating_add(locks) <= self.leases_max;
        if !has_room(usage) {
            usage.leases.retain(|_, until| *until > now);
        }
        if !has_room(usage) {
            let detail = format!("the token may have {} leases, and not more", self.leases_max);
            return Err(Problem::new(Code::TooMany, detail).retry_after(RETRY_LEASES));
        }
        if usage.waits >= self.waits_max {
            let detail = format!("{} requests of the token wait already", self.waits_max);
            return Err(Problem::new(Code::TooMany, detail).retry_after(RETRY_LEASES));
        }
        usage.waits += 1;
        drop(tokens);
        Ok(Wait { quotas: self, token: token.clone() })
    }

    /// The token holds this lease, for at most `ttl` from now.
    pub(crate) fn hold(&self, token: &Arc<str>, lease: u64, ttl: Duration) {
        let now = Instant::now();
        let mut tokens = self.lock();
        let usage = tokens.entry(token.clone()).or_default();
        usage.leases.insert(lease, now + ttl);
        // A token may renew leases that other instances have granted: only their ends limit their
        // number.
        if usage.leases.len() >= usage.pruned_len.saturating_mul(2).max(PRUNED_LEN_MIN) {
            usage.leases.retain(|_, until| *until > now);
            usage.pruned_len = usage.leases.len();
        }
    }

    /// The token no longer holds this lease.
    pub(crate) fn release(&self, token: &Arc<str>, lease: u64) {
        if let Some(usage) = self.lock().get_mut(token) {
            usage.leases.remove(&lease);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Usage>> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One request that may wait for a lock.
#[derive(Debug)]
pub(crate) struct Wait<'a> {
    quotas: &'a Quotas,
    token: Arc<str>,
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if let Some(usage) = self.quotas.lock().get_mut(&self.token) {
            usage.waits -= 1;
        }
    }
}

/// Below this number, removing ended leases is not worth the work.
const PRUNED_LEN_MIN: usize = 64;

const RETRY_LEASES: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_gets_its_rate_and_no_more() {
        let (rates, start) = (Rates::new(10), Instant::now());
        let token: Arc<str> = "ci".into();
        let count = |now| (0..100).filter(|_| rates.take_at(&token, now).is_ok()).count();
        assert_eq!(count(start), 10);
        assert_eq!(count(start + Duration::from_millis(500)), 5);
        assert_eq!(count(start + Duration::from_secs(60)), 10, "no more than one second's worth");
        assert!(rates.take_at(&"other".into(), start).is_ok());
    }

    #[test]
    fn waits_and_leases_are_counted_by_token() {
        let quotas = Quotas::new(&Limits { waits_max: 1, leases_max: 1, ..Limits::default() });
        let [ci, other]: [Arc<str>; 2] = ["ci".into(), "other".into()];
        let wait = quotas.wait(&ci).unwrap();
        assert_eq!(quotas.wait(&ci).map(|_| ()).unwrap_err().code(), Code::TooMany);
        assert!(quotas.wait(&other).is_ok());
        drop(wait);
        quotas.hold(&ci, 1, Duration::from_secs(60));
        assert_eq!(quotas.wait(&ci).map(|_| ()).unwrap_err().code(), Code::TooMany);
        quotas.release(&ci, 1);
        quotas.hold(&ci, 2, Duration::ZERO);
        assert!(quotas.wait(&ci).is_ok(), "the wait has ended");
    }

    #[test]
    fn leases_that_have_ended_take_no_memory() {
        let (quotas, ci): (_, Arc<str>) = (Quotas::new(&Limits::default()), "ci".into());
        quotas.hold(&ci, u64::MAX, Duration::from_secs(60));
        for number in 0..10_000 {
            quotas.hold(&ci, number, Duration::ZERO);
        }
        let tokens = quotas.lock();
        assert!(tokens[&ci].leases.len() < 2 * PRUNED_LEN_MIN);
        assert!(tokens[&ci].leases.contains_key(&u64::MAX));
    }
}
