//! Nodes inside this process: for tests, examples, and trying things out without any server.
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
//! assert!(guard.verify().await.is_err(), "one is not");
//! # Ok(()) }
//! ```

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use quorate_core::{
    command::{Command, Value},
    debts::Debts,
    moment::Moment,
    name::Name,
    store::Store,
};

use super::{Node, Request, Sent};
use crate::{
    clock::{Clock, node_time},
    engine::Quiet,
    error::Trouble,
};

/// A set of nodes in memory, which any number of clients of this process can share.
///
/// Each node can be told to misbehave, so that programs can test what they do when nodes fail.
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
    /// As many nodes as asked for, all of them well and empty.
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

    /// From now on the node at `index` behaves like this. Going back to [`Behaviour::Answer`] runs
    /// what was held back, in its order, and what could not be sent.
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

    /// Lets the node at `index` forget everything, as a restart without persistence does.
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
        self.cells[index].lock().store.clear();
    }

    /// Stores a value as another program would: without a time at which it goes.
    ///
    /// # Panics
    ///
    /// If there is no such node, or `name` cannot be a lock's.
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
        let mut state = self.cells[index].lock();
        let value = Value::Text(value.into());
        state.store.plant(node_time(Moment::ZERO), &name, value, None);
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
        let mut state = self.cells[index].lock();
        let now = node_time(state.latest);
        state.store.names(now).iter().map(ToString::to_string).collect()
    }

    /// How many nodes there are.
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

    /// The nodes as one client sees them; `None` if clients with another kind of clock use them.
    pub(crate) fn nodes(&self, clock: Clock, quiet: &Arc<Quiet>) -> Option<Vec<Box<dyn Node>>> {
        let node = |cell: &Arc<Cell>| {
            let mut state = cell.lock();
            if *state.clock.get_or_insert(clock) != clock {
                return None;
            }
            state.clients.push(Arc::downgrade(quiet));
            let node: Box<dyn Node> = Box::new(MemoryNode { cell: cell.clone(), clock });
            Some(node)
        };
        self.cells.iter().map(node).collect()
    }
}

/// What a node in memory does with commands.
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
/// assert!(client.mutex("orders:42").try_lock().await.is_err()); // did it lock? nobody knows
/// nodes.set(0, Behaviour::Answer);
/// client.mutex("orders:42").lock().await?; // if it did, that was undone
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Behaviour {
    /// Runs and answers them.
    Answer,
    /// Neither runs nor keeps them: nothing listens there.
    Fail,
    /// Keeps them unanswered, like a stopped process, and runs them when it answers again.
    Hang,
    /// Runs them, but its answers are lost.
    Mute,
}

/// One client's view of a node.
#[derive(Debug)]
struct MemoryNode {
    cell: Arc<Cell>,
    clock: Clock,
}

impl Node for MemoryNode {
    fn send(&self, request: Request, _now: Moment) -> Sent {
        let now = self.clock.now();
        let mut state = self.cell.lock();
        match state.behaviour {
            Behaviour::Answer => {
                state.latest = now;
                Sent::Answered(Ok(state.store.apply(node_time(now), &request.command)))
            }
            Behaviour::Fail => Sent::Answered(Err(Trouble::ConnectionRefused)),
            Behaviour::Hang => {
                state.held_back.push_back((request, self.clock));
                Sent::Queued
            }
            Behaviour::Mute => {
                state.latest = now;
                state.store.apply(node_time(now), &request.command);
                state.muted.push_back((request, self.clock));
                Sent::Queued
            }
        }
    }

    fn flush(&self) {}

    fn owe(&self, free: Command, until: Moment) {
        let mut state = self.cell.lock();
        match state.behaviour {
            Behaviour::Answer | Behaviour::Mute => {
                state.store.apply(node_time(self.clock.now()), &free);
            }
            Behaviour::Fail | Behaviour::Hang => state.debts.add(free, until),
        }
    }

    fn label(&self) -> &str {
        &self.cell.label
    }

    fn trouble(&self) -> Option<Trouble> {
        match self.cell.lock().behaviour {
            Behaviour::Answer | Behaviour::Hang | Behaviour::Mute => None,
            Behaviour::Fail => Some(Trouble::ConnectionRefused),
        }
    }

    fn round_trip(&self) -> Duration {
        Duration::ZERO
    }

    fn is_busy(&self) -> bool {
        let mut state = self.cell.lock();
        state.debts.forget_expired(self.clock.now());
        !state.held_back.is_empty() || !state.debts.is_empty()
    }
}

#[derive(Debug)]
struct Cell {
    label: String,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    store: Store,
    behaviour: Behaviour,
    /// Requests that a hanging node has not run.
    held_back: VecDeque<(Request, Clock)>,
    /// Requests that a mute node ran and did not answer.
    muted: VecDeque<(Request, Clock)>,
    debts: Debts,
    /// Whose time it is: keys of one clock make no sense by another.
    clock: Option<Clock>,
    /// Who wants to hear that nothing is outstanding any more.
    clients: Vec<Weak<Quiet>>,
    /// When the last command ran.
    latest: Moment,
}

impl Cell {
    fn new(number: usize) -> Self {
        let state = State {
            store: Store::new(),
            behaviour: Behaviour::Answer,
            held_back: VecDeque::new(),
            muted: VecDeque::new(),
            debts: Debts::default(),
            clock: None,
            clients: Vec::new(),
            latest: Moment::ZERO,
        };
        Self { label: format!("memory:{number}"), state: Mutex::new(state) }
    }

    fn set(&self, behaviour: Behaviour) {
        let mut state = self.lock();
        state.behaviour = behaviour;
        let mut answered = Vec::new();
        for (request, clock) in std::mem::take(&mut state.muted) {
            let lost = Trouble::ConnectionLost("the answer was lost".into());
            answered.push((request, Err(lost), clock.now()));
        }
        if behaviour == Behaviour::Answer {
            for (request, clock) in std::mem::take(&mut state.held_back) {
                state.latest = clock.now();
                let reply = state.store.apply(node_time(clock.now()), &request.command);
                answered.push((request, Ok(reply), clock.now()));
            }
            let now = state.latest;
            for (free, _) in state.debts.collect(now) {
                state.store.apply(node_time(now), &free);
            }
        }
        state.clients.retain(|client| client.strong_count() > 0);
        let clients: Vec<_> = state.clients.iter().filter_map(Weak::upgrade).collect();
        drop(state);
        for (request, answer, now) in answered {
            request.answer(answer, now);
        }
        clients.iter().for_each(|quiet| quiet.tell());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
