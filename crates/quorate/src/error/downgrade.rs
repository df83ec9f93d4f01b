//! Why a writer was not downgraded.

use thiserror::Error;

use super::{Lost, NodeReport, Reports};

/// Why a writer was not downgraded. The lock is released in every case: each node is asked to
/// release the writer and the reader until it answers.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let nodes = quorate::memory::MemoryNodes::new(1);
/// # let client = quorate::Client::builder().memory(&nodes).build()?;
/// # use quorate::error::DowngradeError;
/// let writer = client.rwlock("prices").write().await?;
/// nodes.forget(0); // as a restart without persistence does
/// match writer.downgrade().await {
///     Ok(_reader) => unreachable!("the node has forgotten the writer"),
///     Err(DowngradeError::Lost(lost)) => eprintln!("check what was written: {lost}"),
///     Err(other) => eprintln!("no other writer came before the release: {other}"),
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum DowngradeError {
    /// The lease of the writer ended before a majority stored the reader: another writer may have
    /// held the lock since.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// No majority of the nodes confirmed the reader in time. The writer held the lock until it was
    /// released.
    #[error("no quorum for the lock {lock:?}: {}", Reports(.nodes))]
    NoQuorum {
        /// The name of the lock.
        lock: String,
        /// What each node answered, in the order in which they were configured.
        nodes: Box<[NodeReport]>,
    },
    /// Classic mode does not support shared locks.
    #[error(
        "the lock {lock:?} cannot be shared in classic mode: build the client without classic()"
    )]
    NotShared {
        /// The name of the lock.
        lock: String,
    },
    /// The client was shut down.
    #[error("the client was shut down")]
    ShutDown,
}
