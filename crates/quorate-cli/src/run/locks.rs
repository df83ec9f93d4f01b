//! The locks that the command needs: all of them, or none.

use std::time::{Duration, Instant};

use clap::Args;
use quorate::{Client, ClientBuilder, Guard, error::ReleaseError};

use super::{
    nested,
    several::{self, Deadline},
    want::Wanted,
};
use crate::{exit::Failure, time, voice::Voice};

/// For how long a lock is waited for.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct Patience {
    /// Fails at once if another has the lock.
    #[arg(short, long, visible_alias = "nb")]
    nonblock: bool,
    /// Gives up after so long; 0 is the same as --nonblock. Without it the lock is waited for
    /// without end while nodes answer, and for 10s, or a ttl if that is longer, while too few do.
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
    /// Which of them is that of the name that the command is run under.
    main: usize,
    /// The numbers of those that are permits.
    permits: Vec<u32>,
    acquired_at: Instant,
}

impl Locks {
    /// Acquires all of them.
    pub(crate) async fn acquire(
        builder: ClientBuilder,
        wanted: &Wanted<'_>,
        ttl: Duration,
        patience: &Patience,
        voice: &Voice,
    ) -> Result<Self, Failure> {
        let client = builder.build()?;
        let Wanted { all, main, .. } = wanted;
        let place = all.iter().position(|want| want == main).unwrap_or_default();
        let until = Deadline { started: Instant::now(), limit: patience.limit() };
        let guards = several::acquire(&client, all, ttl, &until, voice).await?;
        let permits = guards.iter().filter_map(|guard| main.permit(guard.name())).collect();
        Ok(Self { client, guards, main: place, permits, acquired_at: Instant::now() })
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

    /// What the command finds in its environment, and what it does not, whatever an outer run has
    /// put there. With several locks, fence and owner are those of the name that it is run under.
    /// Several permits have a fence each, and the owner is that of the first.
    pub(crate) fn variables(&self) -> Vec<(&'static str, Option<String>)> {
        let names: Vec<&str> = self.guards.iter().map(Guard::name).collect();
        let main = self.guards.iter().skip(self.main);
        let fences = main.clone().take(self.permits.len().max(1));
        let fences: Option<Vec<String>> =
            fences.map(|guard| Some(guard.fence()?.to_string())).collect();
        let permits: Vec<String> = self.permits.iter().map(u32::to_string).collect();
        vec![
            ("QUORATE_HELD", Some("1".to_owned())),
            ("QUORATE_LOCK", Some(names.join("\n"))),
            (
                "QUORATE_OWNER",
                main.map(|guard| guard.owner_id().expose_secret().into_owned()).next(),
            ),
            ("QUORATE_FENCE", fences.map(|fences| fences.join(","))),
            ("QUORATE_PERMIT", Some(permits.join(",")).filter(|_| !permits.is_empty())),
            (nested::VARIABLE, Some(nested::value(&self.guards))),
        ]
    }

    /// Gives none of them back: somebody is at work still.
    pub(crate) fn leave(self) {
        for guard in self.guards {
            guard.leave_to_expire();
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
        // The release of each guard has reported its own failure.
        let _ = self.client.shutdown(RELEASE_GRACE).await;
        was_held
    }
}

/// How long releases are waited for at the end.
const RELEASE_GRACE: Duration = Duration::from_secs(1);
