//! # Holding a lock
//!
//! A lock is stored with a ttl, so that a crashed holder's lock goes away by itself. While a
//! [`Guard`](crate::Guard) is there, the client's watchdog renews the lock at a third of its ttl,
//! on a thread of its own: work that blocks your runtime does not stop it. Renewals of all locks
//! travel together, up to 128 in one request.
//!
//! A guard is in one of three states:
//!
//! - **Held**: [`check`](crate::Guard::check) is `Ok`.
//! - **At risk**: held, but the last renewal was not confirmed
//!   ([`is_at_risk`](crate::Guard::is_at_risk)). The watchdog tries again until the deadline.
//! - **Lost**: `check` is an error and [`lost`](crate::Guard::lost) completes. That happens at the
//!   deadline on the client's own clock, even if no node ever answers, and before any node lets
//!   another client have the lock. After the machine was suspended, `check` is an error at once,
//!   and `lost` completes within a second. Nothing revives a lost guard.
//!
//! What to do about loss, from the easiest to the most careful:
//!
//! 1. Let [`Mutex::with`](crate::Mutex::with) or [`Guard::run`](crate::Guard::run) drop the work at
//!    its next await.
//! 2. Hand a [`LossToken`](crate::LossToken) to work that cannot be dropped, and
//!    let it look now and then.
//! 3. Call [`check`](crate::Guard::check) right before each step that must not overlap, and keep
//!    steps short against [`remaining`](crate::Guard::remaining).
//! 4. Send the guard's [`fence`](crate::Guard::fence) along with everything that you ask of the
//!    resource, and let it refuse smaller ones than it has seen: [`crate::fence`] has what it
//!    needs. That holds even for a holder that was paused between the check and the step.
//!
//! A guard is never valid for longer than `max_hold`, one hour unless you say otherwise: a holder
//! that hangs must not keep its lock for ever. A process that adopts a lease has a `max_hold` of
//! its own.
//!
//! A lease can move: [`detach`](crate::Guard::detach) gives a text that another
//! process turns into a guard with [`Client::adopt`](crate::Client::adopt).
//!
//! # Examples
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let client = quorate::Client::memory();
//! # fn steps() -> impl Iterator<Item = u32> { 0..3 }
//! # async fn do_step(_step: u32) {}
//! let guard = client.mutex("orders:42").lock().await?;
//! for step in steps() {
//!     guard.check()?; // the third way, for what must not overlap
//!     guard.run(do_step(step)).await?; // and the first, for a step that takes long
//! }
//! guard.release().await?;
//! # Ok(()) }
//! ```
