//! Settings: which nodes may vote after a restart, and whether the client writes at all.

use super::ClientBuilder;

impl ClientBuilder {
    /// Whether a node that may have forgotten locks does not vote until these locks have expired.
    /// Default: on with three nodes or more, off with fewer and for nodes in memory.
    ///
    /// It covers restarts, flushed data, promoted replicas, other servers behind the same address,
    /// copied and rolled-back data, and clocks that were set forward by more than 5 s. The nodes
    /// keep a record of the agreed config: which nodes there are, and
    /// [`max_ttl`](Self::max_ttl). A client with other settings is refused with
    /// [`Disagreement`](crate::error::NodeError::Disagreement).
    ///
    /// New nodes are quarantined too. [`Client::admit`](crate::Client::admit) lets them vote at
    /// once.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use quorate::Client;
    /// let nodes = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
    /// // For locks that only avoid duplicate work:
    /// let client = Client::builder().nodes(nodes).quarantine(false).connect().await?;
    /// # Ok(()) }
    /// ```
    pub const fn quarantine(mut self, is_on: bool) -> Self {
        self.quarantine = Some(is_on);
        self
    }

    /// Lets a restarted server vote at once if it writes every lock to disk before it grants it.
    /// Default: off.
    ///
    /// The client checks that `appendonly yes`, `appendfsync always` and `no-appendfsync-on-rewrite
    /// no` were set before the restart and are set now, that the last write succeeded, and that the
    /// server has and had no replica. The user needs the right to run `CONFIG GET`. A server that
    /// fails a check is quarantined as usual. The disk cannot be checked: a disk that reports a
    /// write before it is stored forgets locks.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use quorate::Client;
    /// let nodes = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
    /// let client = Client::builder().nodes(nodes).durable_nodes(true).connect().await?;
    /// # Ok(()) }
    /// ```
    pub const fn durable_nodes(mut self, are_durable: bool) -> Self {
        self.is_durable = are_durable;
        self
    }

    /// Makes the client read-only: it writes nothing, begins no session, and acquires no locks. For
    /// tools that show [nodes](crate::Client::node_status) or [locks](crate::Client::inspect), and
    /// for operators: [`admit`](crate::Client::admit),
    /// [`change_nodes`](crate::Client::change_nodes) and
    /// [`vouch_for_nodes`](crate::Client::vouch_for_nodes) write only after they have checked that
    /// the operation is possible. It does nothing for nodes in memory or in a folder.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use quorate::Client;
    /// let nodes = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
    /// let client = Client::builder().nodes(nodes).read_only().build()?;
    /// # Ok(()) }
    /// ```
    pub const fn read_only(mut self) -> Self {
        self.is_read_only = true;
        self
    }
}
