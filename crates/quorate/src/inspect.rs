//! Reports about locks: who holds them, since when, and who waits. They are for people. Do not base
//! decisions on a report: the lock can change before the report is read.
//!
//! # Examples
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let nodes = quorate::memory::MemoryNodes::new(3);
//! # let client = quorate::Client::builder().memory(&nodes).who("cron/db1/77").build()?;
//! let _guard = client.mutex("orders:42").lock().await?;
//! let report = client.inspect("orders:42").await?;
//! assert!(report.to_string().starts_with("orders:42: held by cron/db1/77 for "));
//! for lock in client.locks("orders:").all().await?.locks {
//!     println!("{lock}");
//! }
//! # Ok(()) }
//! ```

mod page;

use std::{fmt, time::Duration};

use quorate_core::quorum::majority;

use crate::error::NodeError;

pub use self::page::{CursorError, LockCursor, LockPage};
pub use crate::holder::Holder;
pub use quorate_core::time_text::TimeText;

/// What the nodes know about one lock.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let nodes = quorate::memory::MemoryNodes::new(1);
/// # let client = quorate::Client::builder().memory(&nodes).build()?;
/// let report = client.inspect("orders:42").await?;
/// assert_eq!(report.to_string(), "orders:42: free");
/// nodes.plant(0, "orders:42", b"a value of another program");
/// let report = client.inspect("orders:42").await?;
/// assert_eq!(
///     report.to_string(),
///     "orders:42: held by a value of another program (not a lock of Quorate), never expires"
/// );
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct LockReport {
    /// The name of the lock.
    pub name: String,
    /// The owner whose key most of the answering nodes store. It holds the lock if they are a
    /// majority of all nodes: see [`is_held`](Self::is_held).
    pub holder: Option<Holder>,
    /// The other holders of a shared lock, the earliest first: at most about a hundred. Empty if
    /// the holder is the only one.
    pub shared_with: Vec<Holder>,
    /// How many nodes store the holder's key.
    pub votes: usize,
    /// The queue, the first waiter first: at most a hundred. Empty in a list of locks.
    pub waiting: Vec<Waiter>,
    /// The length of the queue.
    pub waiting_total: u64,
    /// What each node answered, in the order in which they were configured.
    pub nodes: Box<[NodeView]>,
}

impl LockReport {
    /// True if a majority of all nodes stores the holder's key.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let nodes = quorate::memory::MemoryNodes::new(3);
    /// # let client = quorate::Client::builder().memory(&nodes).build()?;
    /// nodes.plant(0, "orders:42", b"another owner");
    /// let report = client.inspect("orders:42").await?;
    /// assert_eq!(report.votes, 1);
    /// assert!(!report.is_held(), "two of three would be a majority");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.votes >= majority(self.nodes.len())
    }

    /// True if a majority of all nodes answered. Otherwise the lock may be held although
    /// [`is_held`](Self::is_held) is false.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use quorate::memory::{Behaviour, MemoryNodes};
    /// # let nodes = MemoryNodes::new(3);
    /// # let client = quorate::Client::builder().memory(&nodes).build()?;
    /// let _guard = client.mutex("orders:42").lock().await?;
    /// (1..3).for_each(|node| nodes.set(node, Behaviour::Fail));
    /// let report = client.inspect("orders:42").await?;
    /// assert!(!report.is_known() && !report.is_held());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn is_known(&self) -> bool {
        let is_answer = |view: &&NodeView| !matches!(view.observation, Observation::NodeError(_));
        self.nodes.iter().filter(is_answer).count() >= majority(self.nodes.len())
    }

    /// The first position of this client in the queue, counted from 0. `None` if it is not among
    /// the reported waiters.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let report = client.inspect("orders:42").await?;
    /// match report.place_of_this_client() {
    ///     Some(place) => println!("{place} waiters are before us"),
    ///     None => println!("this client does not wait"),
    /// }
    /// # assert_eq!(report.place_of_this_client(), None);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn place_of_this_client(&self) -> Option<usize> {
        self.waiting.iter().position(|waiter| waiter.is_this_client)
    }

    /// True if enough nodes answered to know that no client holds the lock or waits for it.
    pub(crate) fn is_gone(&self) -> bool {
        self.holder.is_none() && self.waiting_total == 0 && self.is_free()
    }

    /// True if too many nodes have no key for anyone to hold the lock.
    fn is_free(&self) -> bool {
        let free = self.nodes.iter().filter(|view| view.observation == Observation::Free).count();
        free > self.nodes.len() - majority(self.nodes.len())
    }
}

impl fmt::Display for LockReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.name)?;
        match &self.holder {
            Some(holder) => write!(f, "held by {holder}")?,
            None if self.is_free() => f.write_str("free")?,
            None => f.write_str("not known: too few nodes answered")?,
        }
        let identity = self.holder.as_ref().and_then(|holder| holder.identity.as_ref());
        match (self.shared_with.len(), identity) {
            (0, _) => {}
            (others @ 99.., Some(identity)) => {
                write!(f, ", entered {} times or more by {identity:?}", others + 1)?;
            }
            (others, Some(identity)) => {
                write!(f, ", entered {} times by {identity:?}", others + 1)?;
            }
            (1, None) => f.write_str(", shared with 1 other")?,
            // Nodes report no more than these.
            (others @ 99.., None) => write!(f, ", shared with {others} others or more")?,
            (others, None) => write!(f, ", shared with {others} others")?,
        }
        if self.holder.is_some() && !self.is_held() {
            write!(f, ", on {} of {} nodes only", self.votes, self.nodes.len())?;
        }
        match self.waiting_total {
            0 => Ok(()),
            total => write!(f, ", {total} waiting"),
        }
    }
}

/// A caller that waits for a lock.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = quorate::Client::memory();
/// for waiter in client.inspect("orders:42").await?.waiting {
///     println!("{} has waited for {:?}", waiter.who, waiter.waiting_for);
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Waiter {
    /// Program, host and process.
    pub who: String,
    /// True if the client that asked waits.
    pub is_this_client: bool,
    /// How long it has waited.
    pub waiting_for: Duration,
}

impl fmt::Display for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} for {}", self.who, TimeText(self.waiting_for))
    }
}

/// What one node answered about a lock.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let nodes = quorate::memory::MemoryNodes::new(3);
/// # let client = quorate::Client::builder().memory(&nodes).build()?;
/// nodes.set(2, quorate::memory::Behaviour::Fail);
/// let report = client.inspect("orders:42").await?;
/// let lines: Vec<String> = report.nodes.iter().map(ToString::to_string).collect();
/// assert_eq!(lines, ["memory:0: free", "memory:1: free", "memory:2: connection refused"]);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct NodeView {
    /// The node's address, without user and password.
    pub node: String,
    /// What it answered.
    pub observation: Observation,
}

impl fmt::Display for NodeView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.node)?;
        match &self.observation {
            Observation::Free => f.write_str("free"),
            Observation::Held(holder) => write!(f, "held by {holder}"),
            Observation::NodeError(node_error) => write!(f, "{node_error}"),
        }
    }
}

/// What one node stores under the name of a lock.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = quorate::Client::memory();
/// use quorate::inspect::Observation;
///
/// assert_eq!(client.inspect("orders:42").await?.nodes[0].observation, Observation::Free);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Observation {
    /// No key.
    Free,
    /// The key of an owner.
    Held(Holder),
    /// The node gave no usable answer.
    NodeError(NodeError),
}
