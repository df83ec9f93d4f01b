//! Inspecting locks: who holds them, since when, and who waits.

use std::time::Duration;

use quorate_core::name::Name;

use crate::{
    Client, LockList, engine,
    error::{InspectError, NodeAnswer, NodeError, NodeReport},
    inspect::{LockReport, NodeView, Observation},
    primitive::inner::FIRST_CONTACT_MAX,
};

impl Client {
    /// Asks all nodes what they know about a lock. It acquires no lock and changes nothing.
    ///
    /// It names the first hundred waiters of a queue. It waits for the nodes for a second, or for
    /// the vote timeout if that is longer. The report shows which nodes did not answer.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect on any node.
    ///
    /// # Errors
    ///
    /// [`InspectError`] if the name is invalid, or no node answers.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let guard = client.mutex("orders:42").lock().await?;
    /// let holder = client.inspect("orders:42").await?.holder.expect("the lock is held");
    /// assert!(holder.is_this_client);
    /// assert_eq!(holder.fence, guard.fence());
    /// # Ok(()) }
    /// ```
    pub async fn inspect(&self, name: impl AsRef<str>) -> Result<LockReport, InspectError> {
        let name = Name::parse(name.as_ref(), &self.inner.defaults.prefix)?;
        self.check_open()?;
        self.settle(FIRST_CONTACT_MAX).await;
        let report = engine::inspect(&self.inner.engine, name, self.patience()).await;
        let node_error = |view: &NodeView| match &view.observation {
            Observation::NodeError(node_error) => Some(node_error.clone()),
            Observation::Free | Observation::Held(_) => None,
        };
        let node_errors: Vec<Option<NodeError>> = report.nodes.iter().map(node_error).collect();
        if node_errors.iter().all(Option::is_some) {
            return Err(InspectError::of(self.reports(node_errors)));
        }
        Ok(report)
    }

    /// Lists the locks whose names begin with `prefix` and that are held or waited for on any node,
    /// a page at a time. An empty prefix means all locks.
    ///
    /// It asks no node before [`LockList::next_page`] or [`LockList::all`] is called.
    ///
    /// A lock that is held the whole time is listed at least once. There is one exception, for
    /// single pages but not for [`LockList::all`]: a lock is missing if a node that was listed
    /// without it stores it again before the page on which another node lists it. A lock that is
    /// acquired or released meanwhile may be listed, missing, or listed on two pages. Only the
    /// length of a queue is reported: [`inspect`](Self::inspect) reports who waits.
    ///
    /// Nodes cannot list the locks of classic mode and of other libraries, except those that a
    /// client in the default mode waits for or held within the last day.
    ///
    /// On servers the user needs the right to run `SCAN`.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let _one = client.mutex("orders:1").lock().await?;
    /// let _two = client.mutex("orders:2").lock().await?;
    /// let _other = client.mutex("videos:1").lock().await?;
    /// let mut list = client.locks("orders:");
    /// while let Some(page) = list.next_page().await? {
    ///     for lock in page.locks {
    ///         println!("{lock}");
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    pub fn locks(&self, prefix: impl AsRef<str>) -> LockList {
        LockList::new(self.clone(), prefix.as_ref())
    }

    pub(crate) fn check_open(&self) -> Result<(), InspectError> {
        if self.inner.is_closed() { Err(InspectError::ShutDown) } else { Ok(()) }
    }

    /// Waits until something is known about every node, but no longer than `patience`.
    pub(crate) async fn settle(&self, patience: Duration) {
        let known = self.watch_nodes(patience, |nodes| {
            nodes.iter().all(|report| !is_connecting(report)).then_some(())
        });
        // A node of which nothing is known by then is reported as connecting.
        let _ = known.await;
    }

    /// People can wait longer than a lock can.
    pub(crate) fn patience(&self) -> Duration {
        self.inner.engine.vote_timeout(self.inner.defaults.ttl).max(PATIENCE)
    }

    pub(crate) fn reports(&self, node_errors: Vec<Option<NodeError>>) -> Box<[NodeReport]> {
        let report = |(node, node_error): (usize, Option<NodeError>)| {
            let answer = node_error.map_or(NodeAnswer::Attached, NodeAnswer::NodeError);
            NodeReport::new(self.inner.engine.nodes[node].label(), answer)
        };
        node_errors.into_iter().enumerate().map(report).collect()
    }
}

/// Nothing is known about the node yet.
pub(crate) fn is_connecting(report: &NodeReport) -> bool {
    report.answer == NodeAnswer::NodeError(NodeError::Connecting)
}

/// The least time for which silent nodes are waited for.
const PATIENCE: Duration = Duration::from_secs(1);
