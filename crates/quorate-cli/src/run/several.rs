//! Several locks for one command, without a deadlock between commands that want the same ones.
//!
//! A set of locks reserves those that are free while it waits for the others. A command that held
//! one of them and waited for another would wait for the set, and the set for the command. So no
//! command waits for a lock while it holds another. A permit is the exception: a
//! command acquires it first, so it never waits for a permit while it holds a lock.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use quorate::{
    Client, Guard, GuardAll, MutexAll,
    error::{Holder, LockError},
};

use super::{
    lock::{busy, lock, lock_each, named, patiently},
    nested,
    waiting::{All, Watch},
    want::{How, Want},
};
use crate::{
    exit::{BUSY, Failure},
    time,
    voice::Voice,
};

/// Until when a command waits.
pub(super) struct Deadline {
    pub(super) started: Instant,
    /// `None` is for ever.
    pub(super) limit: Option<Duration>,
}

impl Deadline {
    fn left(&self) -> Option<Duration> {
        self.limit.map(|limit| limit.saturating_sub(self.started.elapsed()))
    }
}

/// Acquires all of them. The guards are in the order of `wants`, several permits by number.
pub(super) async fn acquire(
    client: &Client,
    wants: &BTreeSet<Want<'_>>,
    ttl: Duration,
    until: &Deadline,
    voice: &Voice,
) -> Result<Vec<Guard>, Failure> {
    let locks: Vec<Want<'_>> = wants.iter().copied().filter(|want| !want.is_permit()).collect();
    let mut permits = None;
    if let Some((place, want)) = wants.iter().enumerate().find(|(_, want)| want.is_permit()) {
        permits = Some((place, lock_each(client, want, ttl, until.left(), voice).await?));
    }
    let is_set = locks.iter().all(|want| want.how == How::Alone);
    let mut guards = match &locks[..] {
        [] => Vec::new(),
        [want] => vec![lock(client, want, ttl, until.left(), voice).await?],
        locks if is_set && locks.len() <= MutexAll::MAX_NAMES => {
            lock_all(client, locks, ttl, until.left(), voice).await?.into_guards()
        }
        locks => gather(client, locks, ttl, until, voice).await?,
    };
    if let Some((place, permits)) = permits {
        guards.splice(place..place, permits);
    }
    Ok(guards)
}

/// Waits for one of them, and tries the others. If one is held by another owner, that is the next
/// to wait for, with nothing in hand.
async fn gather(
    client: &Client,
    wants: &[Want<'_>],
    ttl: Duration,
    until: &Deadline,
    voice: &Voice,
) -> Result<Vec<Guard>, Failure> {
    let mut awaited = 0;
    loop {
        let first = lock(client, &wants[awaited], ttl, until.left(), voice).await?;
        let mut guards = Vec::with_capacity(wants.len());
        let mut first = Some(first);
        for (place, want) in wants.iter().enumerate() {
            let tried = match first.take_if(|_| place == awaited) {
                Some(first) => Ok(first),
                None => lock(client, want, ttl, Some(Duration::ZERO), voice).await,
            };
            match tried {
                Ok(guard) => guards.push(guard),
                Err(failure) if until.left().is_some_and(|left| left.is_zero()) => {
                    return Err(failure);
                }
                Err(_) => {
                    awaited = place;
                    break;
                }
            }
        }
        if guards.len() == wants.len() {
            return Ok(guards);
        }
    }
}

/// Acquires a set of mutexes, within `left` if that is given, and tells those who read along how it
/// goes.
async fn lock_all(
    client: &Client,
    wants: &[Want<'_>],
    ttl: Duration,
    left: Option<Duration>,
    voice: &Voice,
) -> Result<GuardAll, Failure> {
    let (started, watch) = (Instant::now(), Watch::default());
    for want in wants {
        nested::check(client, want).await?;
    }
    let set = client.mutex_all(wants.iter().map(|want| want.name)).ttl(ttl);
    let taken = tokio::select! {
        biased;
        taken = lock_silently(&set, ttl, left) => taken,
        never = watch.tell(client, wants, voice) => match never {},
    };
    voice.status("");
    let guard = match taken {
        Ok(guard) => guard,
        Err(LockError::Timeout { holder, .. }) => {
            return Err(held(client, wants, holder.map(|it| *it)).await);
        }
        Err(error) => return Err(of_all(wants, error.into())),
    };
    let fences = guard.guards().iter().map(|guard| {
        let fence = guard.fence().map_or_else(String::new, |fence| format!(" with fence {fence}"));
        format!("{:?}{fence}", guard.name())
    });
    let (all, waited) = (fences.collect::<Vec<_>>().join(", "), time::shown(started.elapsed()));
    let was_held = watch.holder().map(|who| format!("; was held by {who}"));
    voice.detail(&format!("acquired {all} after {waited}{}", was_held.unwrap_or_default()));
    Ok(guard)
}

async fn lock_silently(
    set: &MutexAll,
    ttl: Duration,
    left: Option<Duration>,
) -> Result<GuardAll, LockError> {
    // What does not wait names the holder if it is asked again.
    let taken = match left {
        Some(Duration::ZERO) => set.try_lock().await.transpose(),
        Some(_) | None => None,
    };
    match (taken, left) {
        (Some(taken), _) => taken,
        (None, Some(left)) => set.lock_timeout(left).await,
        (None, None) => patiently(ttl, async || set.lock().await).await,
    }
}

/// Which of them was not had, and why.
async fn held(client: &Client, wants: &[Want<'_>], holder: Option<Holder>) -> Failure {
    for want in wants {
        let Ok(report) = client.inspect(want.name).await else { continue };
        let is_it = report.holder.is_some_and(|it| {
            !it.is_this_client && holder.as_ref().is_none_or(|holder| holder.who == it.who)
        });
        if is_it {
            return named(want.name, Failure::new(BUSY, busy(client, want, holder).await));
        }
    }
    of_all(wants, Failure::new(BUSY, busy(client, &wants[0], holder).await))
}

fn of_all(wants: &[Want<'_>], failure: Failure) -> Failure {
    Failure { text: format!("{}: {}", All(wants), failure.text), ..failure }
}
