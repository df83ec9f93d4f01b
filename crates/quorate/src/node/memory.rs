//! Nodes inside this process: for tests, examples, and experiments without a server.
//!
//! # Examples
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use quorate::{Client, memory::{Behaviour, MemoryNodes}};
//!
//! let nodes = MemoryNodes::new(3);
//! let client = Client::builder().memory(&nodes).build()?;
//! nodes.set(0, Behaviour::Fail);
//! let guard = client.mutex("orders:42").lock().await?; // two of three are a majority
//! nodes.set(1, Behaviour::Fail);
//! assert!(guard.verify().await.is_err(), "one is no majority");
//! # Ok(()) }
//! ```

mod cell;
mod member;

use std::sync::Arc;

use quorate_core::name::Name;

use self::cell::Cell;
pub(crate) use self::member::View;
use super::Node;

/// A set of nodes in memory that any number of clients of this process can share.
///
/// Each node can be made to fail, so that programs can test how they handle failing nodes.
///
/// # Examples
///
/// ```
/// use quorate::{Client, memory::{Behaviour, MemoryNodes}};
///
/// let nodes = MemoryNodes::new(3);
/// let client = Client::builder().memory(&nodes).build()?;
/// nodes.set(0, Behaviour::Fail);
/// # Ok::<(), quorate::error::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct MemoryNodes {
    cells: Arc<[Arc<Cell>]>,
}

impl MemoryNodes {
    /// Creates this number of nodes. They are empty and answer.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use quorate::{Client, memory::MemoryNodes};
    ///
    /// let nodes = MemoryNodes::new(5);
    /// let client = Client::builder().memory(&nodes).build()?;
    /// let guard = client.mutex("orders:42").lock().await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn new(nodes: usize) -> Self {
        Self { cells: (0..nodes).map(|number| Arc::new(Cell::new(number))).collect() }
    }

    /// Sets the behaviour of the node at `index`. A change to [`Behaviour::Answer`] runs the
    /// requests that were held back, in order, and those that could not be sent.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use quorate::{Client, memory::{Behaviour, MemoryNodes}};
    /// # let nodes = MemoryNodes::new(1);
    /// # let client = Client::builder().memory(&nodes).build()?;
    /// nodes.set(0, Behaviour::Fail);
    /// assert!(client.mutex("orders:42").try_lock().await.is_err());
    /// nodes.set(0, Behaviour::Answer);
    /// assert!(client.mutex("orders:42").try_lock().await?.is_some());
    /// # Ok(()) }
    /// ```
    pub fn set(&self, index: usize, behaviour: Behaviour) {
        self.cells[index].set(behaviour);
    }

    /// Makes the node at `index` forget everything, like a restart without persistence.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let nodes = quorate::memory::MemoryNodes::new(1);
    /// # let client = quorate::Client::builder().memory(&nodes).build()?;
    /// let guard = client.mutex("orders:42").lock().await?;
    /// nodes.forget(0);
    /// assert!(guard.verify().await.is_err());
    /// # Ok(()) }
    /// ```
    pub fn forget(&self, index: usize) {
        self.cells[index].forget();
    }

    /// Stores a value like another program: without an expiry.
    ///
    /// # Panics
    ///
    /// If there is no such node, or `name` is not a valid lock name.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let nodes = quorate::memory::MemoryNodes::new(1);
    /// # let client = quorate::Client::builder().memory(&nodes).build()?;
    /// nodes.plant(0, "orders:42", b"a value of another program");
    /// assert!(client.mutex("orders:42").try_lock().await?.is_none(), "it counts as locked");
    /// # Ok(()) }
    /// ```
    pub fn plant(&self, index: usize, name: &str, value: &[u8]) {
        let name = Name::parse(name, "").expect("the name of a lock");
        self.cells[index].plant(&name, value);
    }

    /// The names that are locked on the node at `index`, as of the last command that it ran.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let nodes = quorate::memory::MemoryNodes::new(1);
    /// # let client = quorate::Client::builder().memory(&nodes).build()?;
    /// let guard = client.mutex("orders:42").lock().await?;
    /// assert_eq!(nodes.names(0), ["orders:42"]);
    /// guard.release().await?;
    /// assert!(nodes.names(0).is_empty());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn names(&self, index: usize) -> Vec<String> {
        self.cells[index].names()
    }

    /// The number of nodes.
    ///
    /// # Examples
    ///
    /// ```
    /// # use quorate::memory::{Behaviour, MemoryNodes};
    /// let nodes = MemoryNodes::new(3);
    /// for node in 0..nodes.len() {
    ///     nodes.set(node, Behaviour::Hang); // all of them
    /// }
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// True if there is no node.
    ///
    /// # Examples
    ///
    /// ```
    /// # use quorate::{Client, error::ConfigError, memory::MemoryNodes};
    /// let nodes = MemoryNodes::new(0);
    /// assert!(nodes.is_empty()); // no client can be built with them
    /// assert_eq!(Client::builder().memory(&nodes).build().unwrap_err(), ConfigError::NoNodes);
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// The nodes for one client. `None` if clients with another kind of clock use them.
    pub(crate) fn nodes(&self, view: &View) -> Option<Vec<Box<dyn Node>>> {
        let join = |cell: &Arc<Cell>| -> Option<Box<dyn Node>> { Some(Box::new(cell.join(view)?)) };
        self.cells.iter().map(join).collect()
    }
}

/// How a node in memory handles commands.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let nodes = quorate::memory::MemoryNodes::new(1);
/// # let client = quorate::Client::builder().memory(&nodes).build()?;
/// use quorate::memory::Behaviour;
///
/// nodes.set(0, Behaviour::Mute);
/// assert!(client.mutex("orders:42").try_lock().await.is_err()); // the outcome is unknown
/// nodes.set(0, Behaviour::Answer);
/// client.mutex("orders:42").lock().await?; // the attempt was undone
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Behaviour {
    /// Executes and answers them.
    Answer,
    /// Rejects them, as if nothing listened at the address.
    Fail,
    /// Keeps them unanswered, like a stopped process, and executes them when it answers again.
    Hang,
    /// Executes them, but its answers are lost.
    Mute,
}
