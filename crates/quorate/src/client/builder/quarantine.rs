//! Settings: which nodes may vote after a restart, and whether the client writes at all.

use super::ClientBuilder;

impl ClientBuilder {
    /// Whether a node that may have forgotten locks is kept from voting until they would be over.
    /// Default: on with three nodes or more, off with fewer, and for nodes in memory.
    ///
    /// It covers restarts, flushed data, promoted replicas, other servers behind the same address,
    /// copied and rolled-back data, and clocks that were set forward by 5 s or more. The nodes keep
    /// a record of what all clients have agreed upon: which nodes there are, and
    /// [`max_ttl`](Self::max_ttl). A client that differs is refused with
    /// [`Disagreement`](crate::error::NodeError::Disagreement).
    ///
    /// Nodes that were never used wait, too; [`Client::admit`](crate::Client::admit) lets them in
    /// at once.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use quorate::Client;
    /// let nodes = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
    /// // For locks whose loss costs no more than work that is done twice:
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
    /// That is so only if `appendonly yes`, `appendfsync always` and `no-appendfsync-on-rewrite no`
    /// were found when a client attached before the restart, are found again, the last write was
    /// well, and the server has and had no replica: each is checked, for which the user needs the
    /// right to `CONFIG GET`. A server that fails any of it is guarded as the others are. What
    /// cannot be checked is the disk: one that lies about what it has written forgets locks.
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

    /// Only looks at servers: the client writes nothing, begins no session, and takes no locks. For
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
