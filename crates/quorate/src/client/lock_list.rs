//! Lists of locks, a page at a time.

use std::collections::BTreeSet;

use quorate_core::{name::Name, quorum::majority};

use crate::{
    Client, engine,
    error::{InspectError, NodeError},
    inspect::{LockCursor, LockPage, LockReport},
    primitive::inner::FIRST_CONTACT_MAX,
};

/// The locks whose names begin with a prefix, a page at a time. [`Client::locks`] returns it.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = quorate::Client::memory();
/// let _guards = [client.mutex("a").lock().await?, client.mutex("b").lock().await?];
/// let mut list = client.locks("").page_size(1);
/// let mut names = Vec::new();
/// while let Some(page) = list.next_page().await? {
///     names.extend(page.locks.into_iter().map(|lock| lock.name));
/// }
/// assert_eq!(names, ["a", "b"]);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a list asks no node until `next_page` or `all` is called"]
pub struct LockList {
    client: Client,
    prefix: String,
    page_size: usize,
    /// Where the next page begins. `None` after the last page.
    cursor: Option<LockCursor>,
    /// Why each node could not list its locks, on the pages so far.
    node_errors: Vec<Option<NodeError>>,
}

impl LockList {
    pub(crate) fn new(client: Client, prefix: &str) -> Self {
        let node_errors = vec![None; client.inner.engine.nodes.len()];
        let cursor = Some(LockCursor::default());
        Self {
            client,
            prefix: prefix.to_owned(),
            page_size: PAGE_SIZE_DEFAULT,
            cursor,
            node_errors,
        }
    }

    /// About how many locks a page has. Default: 500. A page may have more, because a node scans at
    /// least 50 keys at once, or fewer, even none.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let _permits = client.semaphore("jobs", 60).acquire_many(60).await?;
    /// let page = client.locks("jobs").page_size(50).next_page().await?.expect("the first page");
    /// assert_eq!(page.locks.len(), 50);
    /// # Ok(()) }
    /// ```
    pub fn page_size(mut self, locks: usize) -> Self {
        self.page_size = locks.max(1);
        self
    }

    /// Continues a list after the page that returned this cursor as [`LockPage::next`]. The prefix
    /// must be the same.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let _permits = client.semaphore("jobs", 60).acquire_many(60).await?;
    /// let first = client.locks("jobs").page_size(50).next_page().await?.expect("the first page");
    /// let cursor = first.next.expect("there is a second page").to_string(); // for a URL
    /// let second = client.locks("jobs").starting_at(cursor.parse()?).next_page().await?;
    /// assert_eq!(second.expect("the second page").locks.len(), 10);
    /// # Ok(()) }
    /// ```
    pub fn starting_at(mut self, cursor: LockCursor) -> Self {
        self.cursor = Some(cursor);
        self
    }

    /// The next page; `None` after the last one.
    ///
    /// A page takes about a second at most, and a second more for each node that does not answer.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect on any node. The next call reads the same page again.
    ///
    /// # Errors
    ///
    /// [`InspectError`] if no node answers. The next call reads the same page again.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let _guard = client.mutex("orders:42").lock().await?;
    /// let mut list = client.locks("orders:");
    /// let page = list.next_page().await?.expect("the first page");
    /// assert_eq!((page.locks.len(), page.next), (1, None));
    /// assert_eq!(list.next_page().await?, None);
    /// # Ok(()) }
    /// ```
    pub async fn next_page(&mut self) -> Result<Option<LockPage>, InspectError> {
        self.read_page(None).await
    }

    /// Reads the next page without the locks that were listed before: those in `known`, or else
    /// those that an earlier node has.
    async fn read_page(
        &mut self,
        known: Option<&BTreeSet<String>>,
    ) -> Result<Option<LockPage>, InspectError> {
        let Some(cursor) = self.cursor.clone() else { return Ok(None) };
        let client = &self.client;
        client.check_open()?;
        client.settle(FIRST_CONTACT_MAX).await;
        let (engine, patience) = (&client.inner.engine, client.patience());
        let listed =
            engine::list_page(engine, &self.prefix, cursor, self.page_size, patience).await;
        let (names, next) =
            listed.map_err(|node_errors| InspectError::of(client.reports(node_errors)))?;
        let failed = next.as_ref().map_or(names.failed, |next| next.failed);
        let mut all = names.all();
        all.retain(|name| known.is_none_or(|known| !known.contains(name.as_str())));
        let reports = engine::inspect_all(engine, &all, patience).await.into_iter();
        // Some locks were released since they were listed. Others were listed by another node on an
        // earlier page.
        let is_listed_here = |(name, lock): &(&Name, LockReport)| {
            !lock.is_gone() && (known.is_some() || !names.is_listed_before(name, lock))
        };
        let locks = all.iter().zip(reports).filter(is_listed_here).map(|(_, lock)| lock).collect();
        let count = engine.nodes.len();
        let is_complete = count - (failed.count_ones() as usize).min(count) >= majority(count);
        for (known, new) in self.node_errors.iter_mut().zip(names.node_errors) {
            *known = new.or_else(|| known.take());
        }
        self.cursor.clone_from(&next);
        let nodes = client.reports(self.node_errors.clone());
        Ok(Some(LockPage { locks, next, is_complete, nodes }))
    }

    /// No more pages follow.
    pub(crate) fn end(&mut self) {
        self.cursor = None;
    }

    /// Reads all remaining pages and returns them as one, in the order of the names.
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
    /// let _guards = [client.mutex("b").lock().await?, client.mutex("a").lock().await?];
    /// let list = client.locks("").all().await?;
    /// let names: Vec<_> = list.locks.into_iter().map(|lock| lock.name).collect();
    /// assert_eq!(names, ["a", "b"]);
    /// if !list.is_complete {
    ///     list.nodes.iter().for_each(|node| eprintln!("{node}"));
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn all(mut self) -> Result<LockPage, InspectError> {
        let nodes = self.client.reports(self.node_errors.clone());
        let mut all = LockPage { locks: Vec::new(), next: None, is_complete: true, nodes };
        let mut listed = BTreeSet::new();
        while let Some(page) = self.read_page(Some(&listed)).await? {
            listed.extend(page.locks.iter().map(|lock| lock.name.clone()));
            all.locks.extend(page.locks);
            all.is_complete &= page.is_complete;
            all.nodes = page.nodes;
        }
        all.locks.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(all)
    }
}

const PAGE_SIZE_DEFAULT: usize = 500;
