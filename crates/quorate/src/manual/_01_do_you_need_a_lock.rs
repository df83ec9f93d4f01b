//! # Do you need a distributed lock?
//!
//! A distributed lock keeps two processes from doing the same thing at the same time. There are two
//! reasons to want that, and they need different care.
//!
//! **Efficiency.** Two workers that render the same video waste a machine. If a lock fails once in
//! a year, nothing bad happens. One server is enough for such locks.
//!
//! **Correctness.** Two workers that withdraw from the same account lose money. Then ask first
//! whether the resource itself can say no: a unique constraint, an `UPDATE … WHERE version = …`, a
//! conditional put. That holds under every circumstance. A lock does not: its holder may be paused,
//! by its scheduler or a suspended machine, after it has looked and before it acts, and nobody can
//! take the lock from a process that does not run. Where the resource can compare a number, let it
//! check the lock's [`fence`](crate::fence). Use a lock on top of such a check to keep
//! workers from colliding all the time, or where no such check is possible and the remaining risk
//! is known.
//!
//! Inside one process a mutex of the standard library or of tokio does it.
//!
//! # Examples
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let client = quorate::Client::memory();
//! // For efficiency: whoever comes second leaves it to the first.
//! if let Some(guard) = client.mutex("render:video:9").try_lock().await? {
//!     // Render it.
//!     guard.release().await?;
//! }
//! # Ok(()) }
//! ```
