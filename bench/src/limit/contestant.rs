//! The clients that are compared: each locks and unlocks with a number of tasks for a while.

use std::{rc::Rc, time::Duration};

use quorate::Client;
use rslock::LockManager;

use crate::{
    bare::Bare,
    cpu,
    multiplexed::Multiplexed,
    options::Mode,
    setup::{Pairs, VOTE_TIMEOUT, pairs},
};

/// A connected client.
pub(crate) enum Contestant {
    Bare(Rc<Bare>),
    Multiplexed(Rc<Multiplexed>),
    Rslock(LockManager),
    Quorate(Client),
}

/// What a contestant did in one round.
pub(crate) struct Round {
    pub(crate) pairs: Pairs,
    /// The processor time of its process.
    pub(crate) cpu: Duration,
}

impl Contestant {
    /// Our client in one of its modes.
    pub(crate) async fn quorate(mode: Mode, urls: &[String]) -> Self {
        let settings = Client::builder().nodes(urls).vote_timeout(VOTE_TIMEOUT);
        let settings = settings.quarantine(mode.has_quarantine(urls.len()));
        let settings = match mode {
            Mode::Default => settings,
            Mode::Classic | Mode::ClassicNoQuarantine => settings.classic(),
        };
        Self::Quorate(settings.connect().await.expect("servers are up"))
    }

    pub(crate) fn rslock(urls: &[String]) -> Self {
        Self::Rslock(LockManager::new(urls.to_vec()))
    }

    /// The names differ between contestants: a release may still be on its way to a minority when
    /// the next one starts.
    pub(crate) async fn round(&self, prefix: &str, callers: usize, time: Duration) -> Round {
        let cpu = cpu::of_this_process();
        let name = |caller: usize| format!("bench:{prefix}:{caller}");
        let pairs = match self {
            Self::Bare(bare) => {
                let of_caller = |caller: usize| {
                    let (bare, name) = (bare.clone(), name(caller));
                    async move || bare.pair(&name).await
                };
                pairs(callers, time, of_caller).await
            }
            Self::Multiplexed(multiplexed) => {
                let of_caller = |caller: usize| {
                    let (multiplexed, name) = (multiplexed.clone(), name(caller));
                    async move || multiplexed.pair(&name).await
                };
                pairs(callers, time, of_caller).await
            }
            Self::Rslock(manager) => {
                let of_caller = |caller: usize| {
                    let (manager, name) = (manager.clone(), name(caller));
                    async move || {
                        let lock = manager.lock(name.as_str(), TTL).await.expect("nobody else");
                        manager.unlock(&lock).await;
                    }
                };
                pairs(callers, time, of_caller).await
            }
            Self::Quorate(client) => {
                let of_caller = |caller: usize| {
                    let mutex = client.mutex(name(caller));
                    async move || {
                        let guard = mutex.try_lock().await.expect("servers answer");
                        let guard = guard.expect("nobody else");
                        guard.release().await.expect("servers answer");
                    }
                };
                pairs(callers, time, of_caller).await
            }
        };
        Round { pairs, cpu: cpu::of_this_process() - cpu }
    }
}

const TTL: Duration = Duration::from_secs(10);
