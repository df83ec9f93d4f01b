//! # When things fail
//!
//! | what fails | what you see |
//! |---|---|
//! | a minority of the nodes | nothing; [`Client::node_status`](crate::Client::node_status) shows it, and the keys that they lost are put back while you hold, except in classic mode and for a lease that was adopted |
//! | a majority, when you lock | [`NoQuorum`](crate::error::LockError::NoQuorum) with what each node said: from `try_lock` within the vote timeout, from `lock_timeout` at its end, from `lock` after a ttl |
//! | a majority, while you hold | at risk, then lost at the deadline |
//! | someone else has the lock | `None` from `try_lock`, [`Timeout`](crate::error::LockError::Timeout) with the holder from `lock_timeout` |
//! | wrong password, missing rights | [`Denied`](crate::error::LockError::Denied), or a [`ConnectError`](crate::error::ConnectError) at once |
//! | your future is dropped, your task panics | the lock is released, or never was: what was stored is removed in the background |
//! | your process is killed | the lock goes after its ttl |
//! | your process is stopped and goes on later | `check` is an error at its first look if the lease has ended |
//! | a node restarts without its data | with three nodes or more it does not vote until what it forgot is over; with fewer, or without the restart guard, nodes that forget can let a second holder in |
//! | the wall clock of a client is set | nothing: deadlines are measured by another clock; held locks are renewed at once to be sure. With the restart guard, the wall clocks of clients must agree within 5 s |
//! | the wall clock of a node jumps forward | its keys may expire early: from 5 s on the same as a node that forgets; less is not noticed |
//!
//! An error is never reported as "held by another", and silence never as "not locked".
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
//! assert!(matches!(error, LockError::NoQuorum { .. })); // with what each node said
//! # Ok(()) }
//! ```
