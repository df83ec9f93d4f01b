//! The locks that the command needs: acquired and released together.

use std::time::{Duration, Instant};

use clap::Args;
use quorate::{Client, ClientBuilder, Guard, error::ReleaseError};

use super::{
    acquire_all::{self, WaitLimit},
    lock::check_nodes,
    nested,
    request::Requests,
};
use crate::{exit::Failure, progress, reporter::Reporter, time};

/// How long to wait for a lock.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct WaitArgs {
    /// Fail immediately if the lock is held
    #[arg(short, long, visible_alias = "nb")]
    nonblock: bool,
    /// Give up after this long; 0 is the same as --nonblock. Without it, wait indefinitely while a
    /// majority of the nodes answers, and for 10s, or one ttl if that is longer, while too few
    /// answer
    #[arg(short, long, visible_alias = "timeout", value_name = "TIME", value_parser = time::parse)]
    #[arg(conflicts_with = "nonblock")]
    wait: Option<Duration>,
}

impl WaitArgs {
    /// `None` is unlimited.
    pub(crate) fn limit(&self) -> Option<Duration> {
        if self.nonblock { Some(Duration::ZERO) } else { self.wait }
    }
}

/// Held locks.
#[derive(Debug)]
pub(crate) struct Locks {
    client: Client,
    guards: Vec<Guard>,
    /// The index of the first guard of the main name.
    main_index: usize,
    /// The numbers of the permits.
    permits: Vec<u32>,
    acquired_at: Instant,
}

impl Locks {
    /// Acquires all of them.
    pub(crate) async fn acquire(
        builder: ClientBuilder,
        requests: &Requests<'_>,
        ttl: Duration,
        wait_args: &WaitArgs,
        reporter: &Reporter,
    ) -> Result<Self, Failure> {
        let client = builder.build()?;
        let Requests { all, main, .. } = requests;
        let main_index = all.iter().position(|request| request == main).unwrap_or_default();
        let wait_limit = WaitLimit { started: Instant::now(), limit: wait_args.limit() };
        let guards = acquire_all::acquire(&client, all, ttl, &wait_limit, reporter).await?;
        if let Err(failure) = check_nodes(&client).await {
            drop(guards);
            let _ = client.shutdown(RELEASE_GRACE).await;
            return Err(failure);
        }
        let permits = guards.iter().filter_map(|guard| main.permit_number(guard.name())).collect();
        Ok(Self { client, guards, main_index, permits, acquired_at: Instant::now() })
    }

    /// The remaining validity of the lease that expires first.
    pub(crate) fn left(&self) -> Duration {
        self.guards.iter().map(Guard::remaining).min().unwrap_or_default()
    }

    pub(crate) fn held_for(&self) -> Duration {
        self.acquired_at.elapsed()
    }

    /// Completes when one of them is lost. Returns which, and why.
    pub(crate) async fn lost(&self) -> String {
        let mut losses: Vec<_> = self.guards.iter().map(|guard| Box::pin(guard.lost())).collect();
        std::future::poll_fn(|cx| {
            for loss in &mut losses {
                if let std::task::Poll::Ready(lost) = loss.as_mut().poll(cx) {
                    return std::task::Poll::Ready(format!("{:?}: {}", lost.lock, lost.reason));
                }
            }
            std::task::Poll::Pending
        })
        .await
    }

    /// The environment variables of the command. `None` removes a variable that an outer run has
    /// set. With several locks, fence and owner are those of the main name. Several permits have a
    /// fence each, and the owner is that of the first.
    pub(crate) fn variables(&self) -> Vec<(&'static str, Option<String>)> {
        let names: Vec<&str> = self.guards.iter().map(Guard::name).collect();
        let main = self.guards.iter().skip(self.main_index);
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

    /// Leaves all of them to expire, because processes of the command are still running.
    pub(crate) fn leave_to_expire(self) {
        for guard in self.guards {
            guard.leave_to_expire();
        }
    }

    /// Releases all of them. Returns false if one had been lost.
    pub(crate) async fn release(self, reporter: &Reporter) -> bool {
        let mut was_held = true;
        for guard in self.guards {
            let name = guard.name().to_owned();
            let text = |waited| format!("releasing {name:?} for {}", time::shown(waited));
            match progress::during_async(reporter, text, guard.release()).await {
                Ok(()) => {}
                Err(ReleaseError::Lost(lost)) => {
                    was_held = false;
                    let why = lost.reason;
                    reporter.error(&format!("{name:?} was lost while the command ran: {why}"));
                }
                Err(error) => reporter.warn(&format!(
                    "the release failed, so the lock expires after its ttl: {error}"
                )),
            }
        }
        // Each guard has reported the failure of its own release.
        let _ = self.client.shutdown(RELEASE_GRACE).await;
        was_held
    }
}

/// How long to wait for unanswered releases at the end.
const RELEASE_GRACE: Duration = Duration::from_secs(1);
