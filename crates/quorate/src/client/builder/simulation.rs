//! The door for simulations: another network, a seed instead of randomness, a wrong wall clock, and
//! the encoder of commands.
//!
//! Nothing here is for users. With a network and a seed, on a paused runtime, one seed decides
//! everything that a client does.

use std::sync::Arc;

use tokio::time::Instant;

use super::{ClientBuilder, Source};
pub use crate::node::redis::{
    Decoded, Wire,
    network::{Connecting, Network, Reader, Writer},
};
use crate::{clock::Clock, nonces::Nonces};

impl ClientBuilder {
    /// Connects to `redis://` addresses through `network`. The danger: without TLS, without socket
    /// options, and without a hard end for what a silent server has not taken yet.
    #[doc(hidden)]
    pub fn danger_network(mut self, network: impl Network) -> Self {
        self.simulation.network = Some(Arc::new(network));
        self
    }

    /// Draws everything from `seed`, and counts time from the build on. The danger: owner ids can
    /// be guessed, and two clients with the same seed have the same.
    #[doc(hidden)]
    pub const fn danger_seed(mut self, seed: u64) -> Self {
        self.simulation.seed = Some(seed);
        self
    }

    /// Shifts the wall clock; without this it shows the time since the build. Needs a seed. The
    /// danger: nodes and the first tickets go by a wrong wall clock.
    #[doc(hidden)]
    pub const fn danger_wall_clock_ahead(mut self, ahead_ms: i64) -> Self {
        self.simulation.wall_ahead_ms = ahead_ms;
        self
    }

    /// What takes the place of the system's clock and randomness, if there is a seed.
    pub(super) fn simulated(&self, clock: Clock, nonces: Nonces) -> (Clock, Nonces) {
        let Some(seed) = self.simulation.seed else {
            return (clock, nonces);
        };
        let clock = match (clock, &self.source) {
            // Renewals keep to beats of the clock, so its origin must not depend on the process.
            (Clock::Runtime { .. }, Source::Urls(_)) => Clock::Runtime {
                origin: Instant::now(),
                wall_ahead_ms: self.simulation.wall_ahead_ms,
            },
            // Clients that share nodes in memory share their origin, too.
            (Clock::Runtime { .. }, Source::Memory(_)) | (Clock::Boot, _) => clock,
            #[cfg(feature = "local")]
            (Clock::Runtime { .. }, Source::Local(_)) => clock,
        };
        (clock, Nonces::from_seed(seed))
    }
}

/// What a simulation replaces.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    pub(super) network: Option<Arc<dyn Network>>,
    seed: Option<u64>,
    wall_ahead_ms: i64,
}
