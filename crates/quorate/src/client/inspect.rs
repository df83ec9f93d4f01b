//! Looking at locks: who holds them, since when, and who waits.

use std::time::Duration;

use quorate_core::{name::Name, quorum::majority};

use crate::{
    Client, engine,
    error::{InspectError, NodeAnswer, NodeError, NodeReport},
    inspect::{LockCursor, LockPage, LockReport, Locks, NodeView, Observation},
    primitive::inner::FIRST_CONTACT_MAX,
};

impl Client {
    /// Asks all nodes what they know about a lock. It takes no lock and changes nothing.
    ///
    /// Of a long line the first hundred are named. Nodes that do not answer within a second, or
    /// within the vote timeout if that is longer, are left out; the report says which.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect on any node.
    ///
    /// # Errors
    ///
    /// [`InspectError`] if the name cannot be a lock's, or no node answers.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let guard = client.mutex("orders:42").lock().await?;
    /// let holder = client.inspect("orders:42").await?.holder.expect("we hold it");
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

    /// All locks whose names begin with `prefix` and that are held or waited for on any node. An
    /// empty prefix means all.
    ///
    /// Of lines only the length is told: [`inspect`](Self::inspect) has who waits. Locks of classic
    /// mode and of other libraries leave nothing on the nodes by which they could be found: they
    /// are listed only if a client in the default mode waits for them, or has had them within the
    /// last day.
    ///
    /// On servers this walks through all keys, a few hundred at a time, and takes half a minute at
    /// the most. The user needs the right to run `SCAN`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect on any node.
    ///
    /// # Errors
    ///
    /// [`InspectError`] if no node can tell.
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
    /// let names: Vec<_> =
    ///     client.locks("orders:").await?.locks.into_iter().map(|lock| lock.name).collect();
    /// assert_eq!(names, ["orders:1", "orders:2"]);
    /// # Ok(()) }
    /// ```
    pub async fn locks(&self, prefix: impl AsRef<str>) -> Result<Locks, InspectError> {
        self.check_open()?;
        self.settle(FIRST_CONTACT_MAX).await;
        let (engine, patience) = (&self.inner.engine, self.patience());
        let (names, node_errors) = engine::list(engine, prefix.as_ref(), patience).await;
        let told = node_errors.iter().filter(|node_error| node_error.is_none()).count();
        let is_complete = told >= majority(node_errors.len());
        let nodes = self.reports(node_errors);
        if told == 0 && names.is_empty() {
            return Err(InspectError::of(nodes));
        }
        let names: Vec<Name> = names.into_iter().collect();
        let mut locks = engine::inspect_all(engine, &names, patience).await;
        // Some may have gone since they were listed.
        locks.retain(|lock| !lock.is_gone());
        Ok(Locks { locks, nodes, is_complete })
    }

    pub(crate) fn check_open(&self) -> Result<(), InspectError> {
        if self.inner.is_closed() { Err(InspectError::ShutDown) } else { Ok(()) }
    }

    /// Waits until something is known about every node, but no longer than `patience`.
    pub(crate) async fn settle(&self, patience: Duration) {
        let known = self.watch_nodes(patience, |nodes| {
            nodes.iter().all(|report| !is_connecting(report)).then_some(())
        });
        // Who is not known by then is told to be connecting.
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

    /// The locks whose names begin with `prefix` and that are held or waited for, about `limit` at
    /// a time: a page may have a few more, or fewer, even none. The list ends when `next` is
    /// `None`.
    ///
    /// A lock that is held the whole time is listed at least once. A lock that is acquired or
    /// released meanwhile may be listed, missing, or listed twice. Unlike
    /// [`locks`](Self::locks) a page costs the nodes no more than it shows, and there is no limit
    /// to the number of locks.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect on any node.
    ///
    /// # Errors
    ///
    /// [`InspectError`] if no node answers.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let _guard = client.mutex("orders:42").lock().await?;
    /// let page = client.locks_page("orders:", None, 100).await?;
    /// assert_eq!((page.locks.len(), page.next), (1, None));
    /// # Ok(()) }
    /// ```
    pub async fn locks_page(
        &self,
        prefix: impl AsRef<str>,
        cursor: Option<&LockCursor>,
        limit: usize,
    ) -> Result<LockPage, InspectError> {
        self.check_open()?;
        self.settle(FIRST_CONTACT_MAX).await;
        let (engine, patience) = (&self.inner.engine, self.patience());
        let nodes = engine.nodes.len();
        let cursor = cursor.cloned().unwrap_or_default();
        let listed = engine::list_page(engine, prefix.as_ref(), cursor, limit, patience).await;
        let (names, next) =
            listed.map_err(|node_errors| InspectError::of(self.reports(node_errors)))?;
        let failed = next.as_ref().map_or(names.failed, |next| next.failed);
        let all = names.all();
        let reports = engine::inspect_all(engine, &all, patience).await.into_iter();
        // Some have gone since they were listed; others were on the page of an earlier node.
        let is_listed_here = |(name, lock): &(&Name, LockReport)| {
            !lock.is_gone() && !names.is_listed_before(name, lock)
        };
        let locks = all.iter().zip(reports).filter(is_listed_here).map(|(_, lock)| lock).collect();
        let is_complete = nodes - (failed.count_ones() as usize).min(nodes) >= majority(nodes);
        Ok(LockPage { locks, next, is_complete })
    }
}

/// Nothing is known about the node yet.
pub(crate) fn is_connecting(report: &NodeReport) -> bool {
    report.answer == NodeAnswer::NodeError(NodeError::Connecting)
}

/// How long silent nodes are waited for at the least.
const PATIENCE: Duration = Duration::from_secs(1);
