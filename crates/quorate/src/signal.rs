//! A flag that is raised when a lock is lost.

use std::sync::Arc;

use crate::{
    engine::Engine,
    error::Lost,
    held::{Held, Loss},
};

/// A flag that is raised when a lock is lost. Clones are the same flag.
///
/// It has the methods of the type of this name in other crates, and depends on none of them.
#[derive(Clone, Debug)]
pub struct CancellationToken {
    held: Arc<Held>,
    engine: Arc<Engine>,
}

impl CancellationToken {
    pub(crate) const fn of(held: Arc<Held>, engine: Arc<Engine>) -> Self {
        Self { held, engine }
    }

    /// True once the lock is lost, also if only its time has run out.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.held.check(self.engine.now()).is_err()
    }

    /// Completes when the lock is lost.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn cancelled(&self) -> Lost {
        Loss::of(self.held.clone()).await
    }
}
