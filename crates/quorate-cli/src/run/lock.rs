//! Takes one lock, a share of it, or a permit, and says how it went.

use std::{
    num::NonZeroU32,
    time::{Duration, Instant},
};

use quorate::{
    Client, Guard, Mutex, Permit, Permits, ReadGuard,
    error::{Holder, LockError},
    inspect::LockReport,
};

use super::{
    nested,
    waiting::Watch,
    want::{How, Want},
};
use crate::{
    exit::{BUSY, Failure, UNAVAILABLE, silence},
    look::{beginning, holders},
    time,
    voice::Voice,
};

/// Acquires one lock or one permit. See [`lock_each`].
pub(crate) async fn lock(
    client: &Client,
    want: &Want<'_>,
    ttl: Duration,
    left: Option<Duration>,
    voice: &Voice,
) -> Result<Guard, Failure> {
    let mut guards = lock_each(client, want, ttl, left, voice).await?;
    Ok(guards.pop().expect("one is wanted"))
}

/// Acquires it, within `left` if that is given, and reports the progress. Several permits are
/// several guards, ordered by number.
pub(super) async fn lock_each(
    client: &Client,
    want: &Want<'_>,
    ttl: Duration,
    left: Option<Duration>,
    voice: &Voice,
) -> Result<Vec<Guard>, Failure> {
    let (started, watch) = (Instant::now(), Watch::default());
    nested::check(client, want).await?;
    let guards = tokio::select! {
        biased;
        guards = lock_silently(client, want, ttl, left) => guards,
        never = watch.tell(client, std::slice::from_ref(want), voice) => match never {},
    };
    voice.status("");
    let guards = guards.map_err(|failure| named(want.name, failure))?;
    let waited = time::shown(started.elapsed());
    let fence = match &guards[..] {
        [guard] => guard.fence().map(|fence| format!(" with fence {fence}")),
        _ => None, // Each has its own.
    };
    let fence = fence.unwrap_or_default();
    let was_held = watch.holder().map(|who| format!("; was held by {who}"));
    let was_held = was_held.unwrap_or_default();
    let what = acquired(want, &guards);
    voice.detail(&format!("acquired {what}{fence} after {waited}{was_held}"));
    Ok(guards)
}

pub(crate) fn named(name: &str, failure: Failure) -> Failure {
    Failure { text: format!("{name:?}: {}", failure.text), ..failure }
}

fn acquired(want: &Want<'_>, guards: &[Guard]) -> String {
    let name = want.name;
    let numbers = guards.iter().filter_map(|guard| want.permit(guard.name()));
    let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
    let numbers = numbers.join(", ");
    match want.how {
        How::Permit(of) => format!("permit {numbers} of {of} of {name:?}"),
        How::Permits { of, .. } => format!("permits {numbers} of {of} of {name:?}"),
        How::Alone | How::Reentrant => format!("{name:?}"),
        How::Shared => format!("{name:?}, shared,"),
    }
}

async fn lock_silently(
    client: &Client,
    want: &Want<'_>,
    ttl: Duration,
    left: Option<Duration>,
) -> Result<Vec<Guard>, Failure> {
    // What does not wait names the holder if it is asked again.
    let taken = match left {
        Some(Duration::ZERO) => try_take(client, want, ttl).await.transpose(),
        Some(_) | None => None,
    };
    let taken = match (taken, left) {
        (Some(taken), _) => taken,
        (None, Some(_)) => take(client, want, ttl, left).await,
        (None, None) => patiently(ttl, async || take(client, want, ttl, None).await).await,
    };
    match taken {
        Ok(guards) => Ok(guards),
        Err(LockError::Timeout { holder, .. }) => {
            Err(Failure::new(BUSY, busy(client, want, holder.map(|it| *it)).await))
        }
        Err(error) => Err(error.into()),
    }
}

/// Takes it without a limit. The library gives up when no majority has answered for a ttl, which
/// may be less than a server needs to start again: who waits for ever waits for that.
pub(super) async fn patiently<T>(
    ttl: Duration,
    take: impl AsyncFn() -> Result<T, LockError>,
) -> Result<T, LockError> {
    let patience = ttl.max(SILENCE_MIN);
    let mut silent_since = Instant::now();
    loop {
        let asked_at = Instant::now();
        let taken = take().await;
        let Err(LockError::NoQuorum { nodes, .. }) = &taken else { return taken };
        // Nodes that turn us away will do so again.
        if silence(nodes) != UNAVAILABLE {
            return taken;
        }
        let now = Instant::now();
        // What took so much longer was answered before the nodes fell silent.
        if now - asked_at > ttl * 2 + SILENCE_NOTICED {
            silent_since = now.checked_sub(ttl).unwrap_or(now);
        }
        if now - silent_since >= patience {
            return taken;
        }
        tokio::time::sleep(ASK_AGAIN).await;
    }
}

async fn try_take(
    client: &Client,
    want: &Want<'_>,
    ttl: Duration,
) -> Result<Option<Vec<Guard>>, LockError> {
    let taken = match want.how {
        How::Alone | How::Reentrant => mutex(client, want).ttl(ttl).try_lock().await?,
        How::Shared => {
            client.rwlock(want.name).ttl(ttl).try_read().await?.map(ReadGuard::into_guard)
        }
        How::Permit(of) => {
            let semaphore = client.semaphore(want.name, of.get()).ttl(ttl);
            semaphore.try_acquire().await?.map(Permit::into_guard)
        }
        How::Permits { take, of } => {
            let semaphore = client.semaphore(want.name, of.get()).ttl(ttl);
            let taken = semaphore.try_acquire_many(take.get()).await?;
            return Ok(taken.map(guards));
        }
    };
    Ok(taken.map(|guard| vec![guard]))
}

async fn take(
    client: &Client,
    want: &Want<'_>,
    ttl: Duration,
    left: Option<Duration>,
) -> Result<Vec<Guard>, LockError> {
    let taken = match want.how {
        How::Alone | How::Reentrant => {
            let mutex = mutex(client, want).ttl(ttl);
            match left {
                Some(left) => mutex.lock_timeout(left).await,
                None => mutex.lock().await,
            }
        }
        How::Shared => {
            let rwlock = client.rwlock(want.name).ttl(ttl);
            let reader = match left {
                Some(left) => rwlock.read_timeout(left).await,
                None => rwlock.read().await,
            };
            reader.map(ReadGuard::into_guard)
        }
        How::Permit(permits) => {
            let semaphore = client.semaphore(want.name, permits.get()).ttl(ttl);
            let permit = match left {
                Some(left) => semaphore.acquire_timeout(left).await,
                None => semaphore.acquire().await,
            };
            permit.map(Permit::into_guard)
        }
        How::Permits { take, of } => {
            let semaphore = client.semaphore(want.name, of.get()).ttl(ttl);
            let taken = match left {
                Some(left) => semaphore.acquire_many_timeout(take.get(), left).await,
                None => semaphore.acquire_many(take.get()).await,
            };
            return taken.map(guards);
        }
    };
    taken.map(|guard| vec![guard])
}

fn guards(permits: Permits) -> Vec<Guard> {
    permits.into_guard().into_guards()
}

fn mutex(client: &Client, want: &Want<'_>) -> Mutex {
    let mutex = client.mutex(want.name);
    match want.how {
        How::Reentrant => mutex.reentrant(client.identity()),
        How::Alone | How::Shared | How::Permit(_) | How::Permits { .. } => mutex,
    }
}

/// Why it was not had.
pub(super) async fn busy(client: &Client, want: &Want<'_>, holder: Option<Holder>) -> String {
    let report = match want.how {
        How::Alone | How::Reentrant | How::Shared => client.inspect(want.name).await.ok(),
        // Which of its locks was another's is not known, and no other library has those.
        How::Permit(_) | How::Permits { .. } => None,
    };
    let holder = holder.map(|mut holder| {
        if !want.is_permit() && !is_ours(&holder, report.as_ref()) {
            holder.who = beginning(&holder.who);
        }
        holder
    });
    let by = |words: &str| holder.as_ref().map(|holder| format!("{words} {holder}"));
    match want.how {
        How::Alone | How::Reentrant => by("held by").unwrap_or_else(|| HELD.into()),
        How::Shared => match report.as_ref().and_then(in_between) {
            Some(text) => text,
            None => by("held by").unwrap_or_else(|| HELD.into()),
        },
        How::Permit(NonZeroU32::MIN) => {
            format!("the only permit is in use{}", by(", by").unwrap_or_default())
        }
        How::Permit(permits) => {
            let by = by(", one of them by").unwrap_or_default();
            format!("all {permits} permits are in use{by}")
        }
        How::Permits { take, of } => {
            let by = by("; one of the others is held by").unwrap_or_default();
            format!("fewer than {take} of {of} permits are free{by}")
        }
    }
}

/// True if the holder is known to be Quorate's: what is not may be a value that releases the lock.
fn is_ours(holder: &Holder, report: Option<&LockReport>) -> bool {
    let Some(report) = report else { return false };
    let waiting = report.waiting.iter().map(|waiter| &waiter.who);
    let ours = report.holder.iter().chain(&report.shared_with).filter(|it| !it.is_foreign);
    ours.map(|it| &it.who).chain(waiting).any(|who| *who == holder.who)
}

/// What keeps us from a lock that is shared: one who wants it alone, and came before us.
fn in_between(report: &LockReport) -> Option<String> {
    report.holder.as_ref().filter(|holder| holder.is_shared)?;
    let (holders, first) = (holders(report)?, report.waiting.first()?);
    Some(format!("shared by {holders}, and {} waits to have it alone", first.who))
}

/// Nodes that are silent for no longer than this are waited for, if there is no limit.
const SILENCE_MIN: Duration = Duration::from_secs(10);

/// How much longer than a ttl it may take until the library has noticed.
const SILENCE_NOTICED: Duration = Duration::from_millis(500);

const ASK_AGAIN: Duration = Duration::from_millis(20);

const HELD: &str = "held by another";
