//! Why a writer has not become a reader.

use thiserror::Error;

use super::{Lost, NodeReport, Reports};

/// Why a writer has not become a reader. Whatever it is, the lock is given up: a release goes to
/// every node for both the writer and the reader, and is repeated until it is answered.
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
///     Ok(_reader) => unreachable!("the node does not know the writer any more"),
///     Err(DowngradeError::Lost(lost)) => eprintln!("look at what was written: {lost}"),
///     Err(other) => eprintln!("what was written is safe, nobody reads for us: {other}"),
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum DowngradeError {
    /// The lease of the writer had ended before a majority knew the reader: another may have
    /// written since.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// No majority of the nodes has confirmed the reader in time. The writer held the lock until it
    /// was given up.
    #[error("no quorum for the lock {lock:?}: {}", Reports(.nodes))]
    NoQuorum {
        /// The name of the lock.
        lock: String,
        /// What each node said, in the order in which they were configured.
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
