//! Acquires several locks for one command, without a deadlock between commands that request the
//! same locks.
//!
//! A set of locks reserves those that are free while it waits for the others. A command that held
//! one of them and waited for another would wait for the set, and the set for the command. So no
//! command waits for a lock while it holds another. A permit is the exception: a command acquires
//! it first, so it never waits for a permit while it holds a lock.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use quorate::{
    Client, Guard, GuardAll, MutexAll,
    error::{Holder, LockError},
};

use super::{
    lock::{busy_text, lock, lock_each, retry_until_answered, with_name},
    nested,
    request::{Mode, Request},
    wait_status::{All, WaitStatus},
};
use crate::{
    exit::{BUSY, Failure},
    reporter::Reporter,
    time,
};

/// How long a command waits.
pub(super) struct WaitLimit {
    pub(super) started: Instant,
    /// `None` is unlimited.
    pub(super) limit: Option<Duration>,
}

impl WaitLimit {
    fn left(&self) -> Option<Duration> {
        self.limit.map(|limit| limit.saturating_sub(self.started.elapsed()))
    }
}

/// Acquires all of them. The guards are in the order of `requests`, several permits by number.
pub(super) async fn acquire(
    client: &Client,
    requests: &BTreeSet<Request<'_>>,
    ttl: Duration,
    wait_limit: &WaitLimit,
    reporter: &Reporter,
) -> Result<Vec<Guard>, Failure> {
    let locks: Vec<Request<'_>> =
        requests.iter().copied().filter(|request| !request.is_permit()).collect();
    let mut permits = None;
    if let Some((index, request)) =
        requests.iter().enumerate().find(|(_, request)| request.is_permit())
    {
        permits =
            Some((index, lock_each(client, request, ttl, wait_limit.left(), reporter).await?));
    }
    let is_set = locks.iter().all(|request| request.mode == Mode::Exclusive);
    let mut guards = match &locks[..] {
        [] => Vec::new(),
        [request] => vec![lock(client, request, ttl, wait_limit.left(), reporter).await?],
        locks if is_set && locks.len() <= MutexAll::MAX_NAMES => {
            lock_all(client, locks, ttl, wait_limit.left(), reporter).await?.into_guards()
        }
        locks => acquire_one_by_one(client, locks, ttl, wait_limit, reporter).await?,
    };
    if let Some((index, permits)) = permits {
        guards.splice(index..index, permits);
    }
    Ok(guards)
}

/// Waits for one of the locks, then tries the others. If another owner holds one of those, releases
/// everything and waits for that lock next.
async fn acquire_one_by_one(
    client: &Client,
    requests: &[Request<'_>],
    ttl: Duration,
    wait_limit: &WaitLimit,
    reporter: &Reporter,
) -> Result<Vec<Guard>, Failure> {
    let mut waited_for = 0;
    loop {
        let first = lock(client, &requests[waited_for], ttl, wait_limit.left(), reporter).await?;
        let mut guards = Vec::with_capacity(requests.len());
        let mut first = Some(first);
        for (index, request) in requests.iter().enumerate() {
            let tried = match first.take_if(|_| index == waited_for) {
                Some(first) => Ok(first),
                None => lock(client, request, ttl, Some(Duration::ZERO), reporter).await,
            };
            match tried {
                Ok(guard) => guards.push(guard),
                Err(failure) if wait_limit.left().is_some_and(|left| left.is_zero()) => {
                    return Err(failure);
                }
                Err(_) => {
                    waited_for = index;
                    break;
                }
            }
        }
        if guards.len() == requests.len() {
            return Ok(guards);
        }
    }
}

/// Acquires a set of mutexes, within `left` if that is given, and reports the progress.
async fn lock_all(
    client: &Client,
    requests: &[Request<'_>],
    ttl: Duration,
    left: Option<Duration>,
    reporter: &Reporter,
) -> Result<GuardAll, Failure> {
    let (started, status) = (Instant::now(), WaitStatus::default());
    for request in requests {
        nested::check(client, request).await?;
    }
    let set = client.mutex_all(requests.iter().map(|request| request.name)).ttl(ttl);
    let acquired = tokio::select! {
        biased;
        acquired = lock_quietly(&set, ttl, left) => acquired,
        failure = status.report(client, requests, reporter) => return Err(failure),
    };
    reporter.status("");
    let guard = match acquired {
        Ok(guard) => guard,
        Err(LockError::Timeout { holder, .. }) => {
            return Err(busy_failure(client, requests, holder.map(|it| *it)).await);
        }
        Err(error) => return Err(with_names(requests, error.into())),
    };
    let fences = guard.guards().iter().map(|guard| {
        let fence = guard.fence().map_or_else(String::new, |fence| format!(" with fence {fence}"));
        format!("{:?}{fence}", guard.name())
    });
    let (all, waited) = (fences.collect::<Vec<_>>().join(", "), time::shown(started.elapsed()));
    let was_held = status.holder().map(|who| format!("; was held by {who}"));
    reporter.detail(&format!("acquired {all} after {waited}{}", was_held.unwrap_or_default()));
    Ok(guard)
}

async fn lock_quietly(
    set: &MutexAll,
    ttl: Duration,
    left: Option<Duration>,
) -> Result<GuardAll, LockError> {
    // A try reports only that the lock is held. If so, the call with a timeout names the holder.
    let tried = match left {
        Some(Duration::ZERO) => set.try_lock().await.transpose(),
        Some(_) | None => None,
    };
    match (tried, left) {
        (Some(result), _) => result,
        (None, Some(left)) => set.lock_timeout(left).await,
        (None, None) => retry_until_answered(ttl, async || set.lock().await).await,
    }
}

/// Which of the locks was not acquired, and why.
async fn busy_failure(
    client: &Client,
    requests: &[Request<'_>],
    holder: Option<Holder>,
) -> Failure {
    for request in requests {
        let Ok(report) = client.inspect(request.name).await else { continue };
        let is_held = report.holder.is_some_and(|it| {
            !it.is_this_client && holder.as_ref().is_none_or(|holder| holder.who == it.who)
        });
        if is_held {
            return with_name(
                request.name,
                Failure::new(BUSY, busy_text(client, request, holder).await),
            );
        }
    }
    with_names(requests, Failure::new(BUSY, busy_text(client, &requests[0], holder).await))
}

fn with_names(requests: &[Request<'_>], failure: Failure) -> Failure {
    match requests.iter().any(|it| failure.text.contains(&format!("{:?}", it.name))) {
        true => failure,
        false => Failure { text: format!("{}: {}", All(requests), failure.text), ..failure },
    }
}
