//! # When things fail
//!
//! | what fails | what you see |
//! |---|---|
//! | a minority of the nodes | nothing; [`Client::node_status`](crate::Client::node_status) shows it. Keys that these nodes lost are stored again while you hold the lock, except in classic mode and for an adopted lease |
//! | a majority, when you lock | [`NoQuorum`](crate::error::LockError::NoQuorum) with the answer of each node: from `try_lock` within the vote timeout, from `lock_timeout` at its end, from `lock` after a ttl |
//! | a majority, while you hold | at risk, then lost at the deadline |
//! | another owner holds the lock | `None` from `try_lock`, [`Timeout`](crate::error::LockError::Timeout) with the holder from `lock_timeout` |
//! | wrong password, missing rights | [`Denied`](crate::error::LockError::Denied), or a [`ConnectError`](crate::error::ConnectError) at once |
//! | your future is dropped, your task panics | the lock is released, or was never acquired: stored keys are removed in the background |
//! | your process is killed | the lock expires after its ttl |
//! | your process is stopped and continues later | the first `check` is an error if the lease has ended |
//! | a node restarts without its data | with three nodes or more it does not vote until the forgotten locks have expired; with fewer nodes, or without quarantine, nodes that forget can grant a held lock again |
//! | the wall clock of a client is set | nothing: deadlines use another clock, and held locks are renewed at once. With quarantine, the wall clocks of clients must agree within 5 s |
//! | the wall clock of a node jumps forward | its keys may expire early: a jump of more than 5 s is handled like a node that forgets; a smaller one is not noticed |
//!
//! `NoQuorum` never means that another owner holds the lock, and silence never means that it is
//! free.
//!
//! # Examples
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use quorate::{Client, error::LockError, memory::{Behaviour, MemoryNodes}};
//!
//! let nodes = MemoryNodes::new(3);
//! let client = Client::builder().memory(&nodes).build()?;
//! nodes.set(0, Behaviour::Fail);
//! let _guard = client.mutex("orders:42").lock().await?; // a minority does not matter
//! nodes.set(1, Behaviour::Hang);
//! let error = client.mutex("orders:43").try_lock().await.unwrap_err();
//! assert!(matches!(error, LockError::NoQuorum { .. })); // with the answer of each node
//! # Ok(()) }
//! ```
