//! Acquires one lock, exclusive or shared, or permits, and reports the result.

use std::{
    num::NonZeroU32,
    time::{Duration, Instant},
};

use quorate::{
    Client, Guard, Mutex, Permit, Permits, ReadGuard,
    error::{Holder, LockError, NodeAnswer, NodeError},
    inspect::LockReport,
};

use super::{
    nested,
    request::{Mode, Request},
    wait_status::WaitStatus,
};
use crate::{
    exit::{BUSY, Failure, UNAVAILABLE, check_distinct, quorum_failure_code},
    inspect::{holders, truncated},
    reporter::Reporter,
    time,
};

/// Acquires one lock or one permit. See [`lock_each`].
pub(crate) async fn lock(
    client: &Client,
    request: &Request<'_>,
    ttl: Duration,
    left: Option<Duration>,
    reporter: &Reporter,
) -> Result<Guard, Failure> {
    let mut guards = lock_each(client, request, ttl, left, reporter).await?;
    Ok(guards.pop().expect("one was requested"))
}

/// Acquires the request, within `left` if that is given, and reports the progress. Several permits
/// are several guards, ordered by number.
pub(super) async fn lock_each(
    client: &Client,
    request: &Request<'_>,
    ttl: Duration,
    left: Option<Duration>,
    reporter: &Reporter,
) -> Result<Vec<Guard>, Failure> {
    let (started, status) = (Instant::now(), WaitStatus::default());
    nested::check(client, request).await?;
    let guards = tokio::select! {
        biased;
        guards = lock_quietly(client, request, ttl, left) => guards,
        failure = status.report(client, std::slice::from_ref(request), reporter) => Err(failure),
    };
    reporter.status("");
    let guards = guards.map_err(|failure| with_name(request.name, failure))?;
    let waited = time::shown(started.elapsed());
    let fence = match &guards[..] {
        [guard] => guard.fence().map(|fence| format!(" with fence {fence}")),
        // Each permit has its own fence.
        _ => None,
    };
    let fence = fence.unwrap_or_default();
    let was_held = status.holder().map(|who| format!("; was held by {who}"));
    let was_held = was_held.unwrap_or_default();
    let what = acquired(request, &guards);
    reporter.detail(&format!("acquired {what}{fence} after {waited}{was_held}"));
    Ok(guards)
}

/// The failure with the name of the lock, unless the text already contains it.
pub(crate) fn with_name(name: &str, failure: Failure) -> Failure {
    let name = format!("{name:?}");
    match failure.text.contains(&name) {
        true => failure,
        false => Failure { text: format!("{name}: {}", failure.text), ..failure },
    }
}

fn acquired(request: &Request<'_>, guards: &[Guard]) -> String {
    let name = request.name;
    let numbers = guards.iter().filter_map(|guard| request.permit_number(guard.name()));
    let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
    let numbers = numbers.join(", ");
    match request.mode {
        Mode::Permit(of) => format!("permit {numbers} of {of} of {name:?}"),
        Mode::Permits { of, .. } => format!("permits {numbers} of {of} of {name:?}"),
        Mode::Exclusive | Mode::Reentrant => format!("{name:?}"),
        Mode::Shared => format!("{name:?}, shared,"),
    }
}

async fn lock_quietly(
    client: &Client,
    request: &Request<'_>,
    ttl: Duration,
    left: Option<Duration>,
) -> Result<Vec<Guard>, Failure> {
    // A try reports only that the lock is held. If so, the call with a timeout names the holder.
    let tried = match left {
        Some(Duration::ZERO) => try_acquire(client, request, ttl).await.transpose(),
        Some(_) | None => None,
    };
    let acquired = match (tried, left) {
        (Some(result), _) => result,
        (None, Some(_)) => acquire(client, request, ttl, left).await,
        (None, None) => {
            retry_until_answered(ttl, async || acquire(client, request, ttl, None).await).await
        }
    };
    match acquired {
        Ok(guards) => Ok(guards),
        Err(LockError::Timeout { holder, .. }) => {
            Err(Failure::new(BUSY, busy_text(client, request, holder.map(|it| *it)).await))
        }
        Err(error) => Err(error.into()),
    }
}

/// Acquires without a time limit. The library gives up when no majority has answered for a ttl,
/// which may be less than a server needs to restart. A caller without a limit waits longer.
pub(super) async fn retry_until_answered<T>(
    ttl: Duration,
    acquire: impl AsyncFn() -> Result<T, LockError>,
) -> Result<T, LockError> {
    let silence_max = ttl.max(UNREACHABLE_MIN);
    let mut silent_since = Instant::now();
    loop {
        let attempt_started = Instant::now();
        let result = acquire().await;
        let Err(LockError::NoQuorum { nodes, .. }) = &result else { return result };
        // Nodes that reject the credentials will reject them again.
        if quorum_failure_code(nodes) != UNAVAILABLE {
            return result;
        }
        let now = Instant::now();
        // An attempt that took much longer was answered before the nodes became unreachable.
        if now - attempt_started > ttl * 2 + UNREACHABLE_DETECTED_AFTER {
            silent_since = now.checked_sub(ttl).unwrap_or(now);
        }
        if now - silent_since >= silence_max {
            return result;
        }
        tokio::time::sleep(RETRY_AFTER).await;
    }
}

async fn try_acquire(
    client: &Client,
    request: &Request<'_>,
    ttl: Duration,
) -> Result<Option<Vec<Guard>>, LockError> {
    let acquired = match request.mode {
        Mode::Exclusive | Mode::Reentrant => mutex(client, request).ttl(ttl).try_lock().await?,
        Mode::Shared => {
            client.rwlock(request.name).ttl(ttl).try_read().await?.map(ReadGuard::into_guard)
        }
        Mode::Permit(of) => {
            let semaphore = client.semaphore(request.name, of.get()).ttl(ttl);
            semaphore.try_acquire().await?.map(Permit::into_guard)
        }
        Mode::Permits { take, of } => {
            let semaphore = client.semaphore(request.name, of.get()).ttl(ttl);
            let acquired = semaphore.try_acquire_many(take.get()).await?;
            return Ok(acquired.map(guards));
        }
    };
    Ok(acquired.map(|guard| vec![guard]))
}

async fn acquire(
    client: &Client,
    request: &Request<'_>,
    ttl: Duration,
    left: Option<Duration>,
) -> Result<Vec<Guard>, LockError> {
    let acquired = match request.mode {
        Mode::Exclusive | Mode::Reentrant => {
            let mutex = mutex(client, request).ttl(ttl);
            match left {
                Some(left) => mutex.lock_timeout(left).await,
                None => mutex.lock().await,
            }
        }
        Mode::Shared => {
            let rwlock = client.rwlock(request.name).ttl(ttl);
            let reader = match left {
                Some(left) => rwlock.read_timeout(left).await,
                None => rwlock.read().await,
            };
            reader.map(ReadGuard::into_guard)
        }
        Mode::Permit(permits) => {
            let semaphore = client.semaphore(request.name, permits.get()).ttl(ttl);
            let permit = match left {
                Some(left) => semaphore.acquire_timeout(left).await,
                None => semaphore.acquire().await,
            };
            permit.map(Permit::into_guard)
        }
        Mode::Permits { take, of } => {
            let semaphore = client.semaphore(request.name, of.get()).ttl(ttl);
            let acquired = match left {
                Some(left) => semaphore.acquire_many_timeout(take.get(), left).await,
                None => semaphore.acquire_many(take.get()).await,
            };
            return acquired.map(guards);
        }
    };
    acquired.map(|guard| vec![guard])
}

fn guards(permits: Permits) -> Vec<Guard> {
    permits.into_guard().into_guards()
}

fn mutex(client: &Client, request: &Request<'_>) -> Mutex {
    let mutex = client.mutex(request.name);
    match request.mode {
        Mode::Reentrant => mutex.reentrant(client.identity()),
        Mode::Exclusive | Mode::Shared | Mode::Permit(_) | Mode::Permits { .. } => mutex,
    }
}

/// Fails if two addresses lead to one server. A majority may have answered before that is known.
pub(crate) async fn check_nodes(client: &Client) -> Result<(), Failure> {
    let started = Instant::now();
    loop {
        let nodes = client.node_status();
        check_distinct(&nodes)?;
        let connecting = NodeAnswer::NodeError(NodeError::Connecting);
        let is_known = nodes.iter().all(|it| it.answer != connecting);
        if is_known || started.elapsed() >= CONNECTED_AFTER {
            return Ok(());
        }
        tokio::time::sleep(RETRY_AFTER).await;
    }
}

/// Why the lock was not acquired.
pub(super) async fn busy_text(
    client: &Client,
    request: &Request<'_>,
    holder: Option<Holder>,
) -> String {
    let report = match request.mode {
        Mode::Exclusive | Mode::Reentrant | Mode::Shared => client.inspect(request.name).await.ok(),
        // It is not known which permit's lock the holder has, and other libraries do not use those.
        Mode::Permit(_) | Mode::Permits { .. } => None,
    };
    // The nodes that refused may not have answered the question who holds the lock in time.
    let holder = holder.or_else(|| report.as_ref()?.holder.clone());
    let holder = holder.map(|mut holder| {
        if !request.is_permit() && !is_ours(&holder, report.as_ref()) {
            holder.who = truncated(&holder.who);
        }
        holder
    });
    let by = |words: &str| holder.as_ref().map(|holder| format!("{words} {holder}"));
    match request.mode {
        Mode::Exclusive | Mode::Reentrant => by("held by").unwrap_or_else(|| HELD.into()),
        Mode::Shared => match report.as_ref().and_then(why_shared_waits) {
            Some(text) => text,
            None => by("held by").unwrap_or_else(|| HELD.into()),
        },
        Mode::Permit(NonZeroU32::MIN) => {
            format!("the only permit is in use{}", by(", by").unwrap_or_default())
        }
        Mode::Permit(permits) => {
            let by = by(", one of them by").unwrap_or_default();
            format!("all {permits} permits are in use{by}")
        }
        Mode::Permits { take, of } => {
            let by = by("; one of the others is held by").unwrap_or_default();
            format!("fewer than {take} of {of} permits are free{by}")
        }
    }
}

/// Whether the holder is known to use Quorate. If not, its text may be a value that releases the
/// lock.
fn is_ours(holder: &Holder, report: Option<&LockReport>) -> bool {
    let Some(report) = report else { return false };
    let waiting = report.waiting.iter().map(|waiter| &waiter.who);
    let ours = report.holder.iter().chain(&report.shared_with).filter(|it| !it.is_foreign);
    ours.map(|it| &it.who).chain(waiting).any(|who| *who == holder.who)
}

/// Why a shared request waits although the lock is shared: an exclusive waiter is ahead of it.
fn why_shared_waits(report: &LockReport) -> Option<String> {
    report.holder.as_ref().filter(|holder| holder.is_shared)?;
    let (holders, first) = (holders(report)?, report.waiting.first()?);
    Some(format!("shared by {holders}, and {} waits for it exclusively", first.who))
}

/// Without a limit, unreachable nodes are waited for at least this long.
const UNREACHABLE_MIN: Duration = Duration::from_secs(10);

/// How much longer than a ttl the library may take to report that the nodes are unreachable.
const UNREACHABLE_DETECTED_AFTER: Duration = Duration::from_millis(500);

/// A node that answers is connected after this time.
const CONNECTED_AFTER: Duration = Duration::from_millis(100);

const RETRY_AFTER: Duration = Duration::from_millis(20);

const HELD: &str = "held by another owner";
