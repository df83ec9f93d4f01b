//! The locks that the command needs: all of them, or none.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use clap::Args;
use quorate::{
    Client, ClientBuilder, Guard,
    error::{LockError, ReleaseError},
};

use super::{nested, waiting::Watch};
use crate::{
    exit::{BUSY, Failure},
    time,
    voice::Voice,
};

/// For how long a lock is waited for.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct Patience {
    /// Fails at once if another has the lock.
    #[arg(short, long, visible_alias = "nb")]
    nonblock: bool,
    /// Gives up after so long; 0 is the same as --nonblock.
    #[arg(short, long, visible_alias = "timeout", value_name = "TIME", value_parser = time::parse)]
    #[arg(conflicts_with = "nonblock")]
    wait: Option<Duration>,
}

impl Patience {
    /// `None` is for ever.
    pub(crate) fn limit(&self) -> Option<Duration> {
        if self.nonblock { Some(Duration::ZERO) } else { self.wait }
    }
}

/// Locks that are held.
#[derive(Debug)]
pub(crate) struct Locks {
    client: Client,
    guards: Vec<Guard>,
    acquired_at: Instant,
}

impl Locks {
    /// Waits for all of them, always in the same order: two who want the same ones never wait for
    /// each other.
    pub(crate) async fn acquire(
        builder: ClientBuilder,
        names: impl Iterator<Item = &String>,
        ttl: Duration,
        patience: &Patience,
        voice: &Voice,
    ) -> Result<Self, Failure> {
        let started = Instant::now();
        let limit = patience.limit();
        let client = match limit {
            // Who does not wait needs the nodes at once.
            Some(Duration::ZERO) => builder.connect().await?,
            Some(_) | None => builder.build()?,
        };
        let names: BTreeSet<&String> = names.collect();
        let mut guards = Vec::new();
        for name in names {
            let left = limit.map(|limit| limit.saturating_sub(started.elapsed()));
            guards.push(lock(&client, name, ttl, left, voice).await?);
        }
        Ok(Self { client, guards, acquired_at: Instant::now() })
    }

    /// The safe time that is left of the lease that ends first.
    pub(crate) fn left(&self) -> Duration {
        self.guards.iter().map(Guard::remaining).min().unwrap_or_default()
    }

    pub(crate) fn held_for(&self) -> Duration {
        self.acquired_at.elapsed()
    }

    /// Completes when one of them is lost, and says which and why.
    pub(crate) async fn lost(&self) -> String {
        let mut losses: Vec<_> = self.guards.iter().map(|guard| Box::pin(guard.lost())).collect();
        std::future::poll_fn(|cx| {
            for (guard, loss) in self.guards.iter().zip(&mut losses) {
                if let std::task::Poll::Ready(lost) = loss.as_mut().poll(cx) {
                    return std::task::Poll::Ready(format!("{:?}: {lost}", guard.name()));
                }
            }
            std::task::Poll::Pending
        })
        .await
    }

    /// What the command finds in its environment. With several locks, fence and owner are those of
    /// the first one by name.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let names: Vec<&str> = self.guards.iter().map(Guard::name).collect();
        let mut variables = vec![("QUORATE_HELD", "1".to_owned()), nested::variable(&self.guards)];
        if let Some(first) = self.guards.first() {
            variables.push(("QUORATE_LOCK", names.join("\n")));
            variables.push(("QUORATE_OWNER", first.owner_id().into_owned()));
            variables.extend(first.fence().map(|fence| ("QUORATE_FENCE", fence.to_string())));
        }
        variables
    }

    /// Gives none of them back: somebody is at work still.
    pub(crate) fn leave(self) {
        for guard in self.guards {
            // Nobody is to take it over.
            drop(guard.leave_to_expire());
        }
    }

    /// Gives all of them back. Returns false if one was lost before.
    pub(crate) async fn release(self, voice: &Voice) -> bool {
        let mut was_held = true;
        for guard in self.guards {
            let name = guard.name().to_owned();
            match guard.release().await {
                Ok(()) => {}
                Err(ReleaseError::Lost(lost)) => {
                    was_held = false;
                    voice.error(&format!("{name:?} was lost while the command ran: {lost}"));
                }
                Err(error) => voice.warn(&format!("{name:?} ends with its ttl: {error}")),
            }
        }
        self.client.shutdown(RELEASE_GRACE).await;
        was_held
    }
}

/// Takes one lock, within `left` if that is given, and tells those who read along how it goes.
pub(crate) async fn lock(
    client: &Client,
    name: &str,
    ttl: Duration,
    left: Option<Duration>,
    voice: &Voice,
) -> Result<Guard, Failure> {
    let (started, watch) = (Instant::now(), Watch::default());
    nested::check(client, name).await?;
    let guard = tokio::select! {
        biased;
        guard = lock_silently(client, name, ttl, left) => guard,
        never = watch.tell(client, name, voice) => match never {},
    };
    voice.status("");
    let guard = guard.map_err(|failure| named(name, failure))?;
    let (waited, fence) = (time::shown(started.elapsed()), guard.fence());
    let fence = fence.map_or_else(String::new, |fence| format!(" with fence {fence}"));
    let was_held = watch.holder().map(|who| format!("; was held by {who}"));
    let was_held = was_held.unwrap_or_default();
    voice.detail(&format!("acquired {name:?}{fence} after {waited}{was_held}"));
    Ok(guard)
}

async fn lock_silently(
    client: &Client,
    name: &str,
    ttl: Duration,
    left: Option<Duration>,
) -> Result<Guard, Failure> {
    let mutex = client.mutex(name).ttl(ttl);
    let guard = match left {
        None => mutex.lock().await,
        // This one names the holder.
        Some(Duration::ZERO) => match mutex.try_lock().await {
            Ok(None) => mutex.lock_timeout(Duration::ZERO).await,
            tried => tried.map(|guard| guard.expect("that nobody got it is dealt with")),
        },
        Some(left) => mutex.lock_timeout(left).await,
    };
    guard.map_err(|error| match error {
        LockError::Timeout { holder: Some(holder), .. } => {
            Failure::new(BUSY, format!("held by {holder}"))
        }
        LockError::Timeout { holder: None, .. } => Failure::new(BUSY, "held by another"),
        error => error.into(),
    })
}

pub(crate) fn named(name: &str, failure: Failure) -> Failure {
    Failure { text: format!("{name:?}: {}", failure.text), ..failure }
}

/// How long releases are waited for at the end.
const RELEASE_GRACE: Duration = Duration::from_secs(1);
