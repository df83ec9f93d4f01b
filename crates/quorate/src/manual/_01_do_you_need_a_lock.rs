//! # Do you need a distributed lock?
//!
//! A distributed lock keeps two processes from doing the same thing at the same time. There are two
//! reasons to want that, and they need different care.
//!
//! **Efficiency.** Two workers that render the same video waste a machine. If a lock fails once in
//! a year, nothing bad happens. One server is enough for such locks.
//!
//! **Correctness.** Two workers that withdraw from the same account lose money. Ask first whether
//! the resource itself can reject a request: with a unique constraint, an `UPDATE … WHERE version =
//! …`, or a conditional put. That holds under all circumstances. A lock does not: its holder may be
//! paused, by its scheduler or a suspended machine, after it has checked the lock and before it
//! acts. If the resource can compare a number, let it check the [`fence`](crate::fence) of the
//! lock. Use a lock in addition to such a check to avoid constant conflicts, or if no such check is
//! possible and the remaining risk is acceptable.
//!
//! Inside one process a mutex of the standard library or of tokio is enough.
//!
//! # Examples
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let client = quorate::Client::memory();
//! // For efficiency: if another worker holds the lock, it renders the video.
//! if let Some(guard) = client.mutex("render:video:9").try_lock().await? {
//!     // Render it.
//!     guard.release().await?;
//! }
//! # Ok(()) }
//! ```
