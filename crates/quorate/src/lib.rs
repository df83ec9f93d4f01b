//! Distributed locks on Redis and Valkey: correct on one server, and on N independent masters by
//! the Redlock algorithm.
//!
//! # Examples
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use quorate::Client;
//!
//! // let client = Client::connect(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"]).await?;
//! let client = Client::memory(); // the same without any server
//!
//! let orders = client.mutex("orders:42");
//! let guard = orders.lock().await?; // waits while another owner holds it
//! let fence = guard.fence(); // grows with every exclusive holder: send it with every write
//! guard.check()?; // is the lock still held?
//! guard.release().await?; // dropping the guard releases it too
//! # Ok(()) }
//! ```
//!
//! # Where to look
//!
//! - [`Client`] connects to nodes and makes locks; [`ClientBuilder`] has all settings.
//! - [`Mutex`] documents what a lock promises and what it does not. Read it before you rely on it.
//! - [`Semaphore`] has several permits, each of which is such a lock.
//! - [`MutexAll`] acquires several such locks together or not at all.
//! - [`RwLock`] is shared by readers, or held exclusively by one writer.
//! - [`Guard`], [`ReadGuard`], [`WriteGuard`] and [`Permit`] are held locks.
//! - [`fence`] has what a resource needs to reject a stale client.
//! - [`error`] has one error for each operation, with what each node answered.
//! - [`inspect`] shows who holds a lock, since when, and who waits.
//! - [`diagnose`] has facts about the nodes, for tools that look for faults.
//! - [`observe`] reports events. [`blocking`] is the same API without async.
//! - [`memory`] has nodes in memory that can fail on request, for tests.
//! - With the feature `local`, `Client::local` excludes the processes of one machine, without any
//!   server.
//!
//! # Runtimes
//!
//! Each client has its own thread for node I/O and timers. So the futures of this crate can be
//! awaited on any executor, and blocking code of the caller does not delay renewals.

pub mod blocking;
mod client;
mod clock;
mod detached_lease;
pub mod diagnose;
mod engine;
pub mod error;
pub mod fence;
mod holder;
pub mod inspect;
#[cfg(doc)]
pub mod manual;
mod membership;
mod node;
mod node_error;
mod nonces;
pub mod observe;
mod owner_id;
mod primitive;
mod timers;
mod who;

#[cfg(feature = "__simulation")]
#[doc(hidden)]
pub use self::client::builder::simulation;
#[cfg(feature = "tls")]
pub use self::node::redis::Tls;
pub use self::{
    client::{
        Client, Shutdown, Warning,
        addresses::IntoAddresses,
        builder::ClientBuilder,
        downgrade::DowngradedLease,
        lock_list::LockList,
        operator::NodesChanged,
        tags::{LeaseTag, TaggedLease},
    },
    detached_lease::{DetachedLease, ParseLeaseError},
    node::{memory, redis::masked_address},
    owner_id::OwnerId,
    primitive::{
        guard::Guard, guard_all::GuardAll, mutex::Mutex, mutex_all::MutexAll, permit::Permit,
        permit::Permits, read_guard::ReadGuard, rwlock::RwLock, semaphore::Semaphore,
        semaphore::names::SemaphoreLock, signal::LossToken, write_guard::WriteGuard,
    },
};
