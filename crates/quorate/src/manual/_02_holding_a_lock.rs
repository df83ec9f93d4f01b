//! # Holding a lock
//!
//! A lock is stored with a ttl, so that the lock of a crashed holder expires. While a
//! [`Guard`](crate::Guard) exists, the watchdog of the client renews the lock at a third of its
//! ttl, on its own thread: code that blocks your runtime does not stop it. Renewals are sent in
//! batches of up to 128 locks.
//!
//! It renews for at most [`max_hold`](crate::ClientBuilder::max_hold), by default one hour: a
//! holder that hangs must not hold its lock forever. Then the lock is lost, with
//! [`LostReason::MaxHold`](crate::error::LostReason::MaxHold). Each process that adopts a lease has
//! its own `max_hold`.
//!
//! A guard is in one of three states:
//!
//! - **Held**: [`check`](crate::Guard::check) is `Ok`.
//! - **At risk**: held, but the last renewal was not confirmed
//!   ([`is_at_risk`](crate::Guard::is_at_risk)). The watchdog tries again until the deadline.
//! - **Lost**: `check` is an error and [`lost`](crate::Guard::lost) completes. That happens at the
//!   deadline on the client's own clock, even if no node ever answers, and before any node grants
//!   the lock to another client. After the machine was suspended, `check` is an error at once, and
//!   `lost` completes within a second. A lost lock is never revived.
//!
//! How to handle a loss, from the easiest way to the safest:
//!
//! 1. Let [`Mutex::with`](crate::Mutex::with) or [`Guard::run`](crate::Guard::run) drop the work at
//!    its next await.
//! 2. Pass a [`LossToken`](crate::LossToken) to work that cannot be dropped, and let it call
//!    [`is_lost`](crate::LossToken::is_lost) between its steps.
//! 3. Call [`check`](crate::Guard::check) before each step that must not overlap, and keep each
//!    step much shorter than [`remaining`](crate::Guard::remaining).
//! 4. Send the [`fence`](crate::Guard::fence) with every request to the resource, and let the
//!    resource reject smaller fences than it has seen: see [`crate::fence`]. That is safe even if
//!    the holder is paused between the check and the step.
//!
//! A lease can move to another process: [`detach`](crate::Guard::detach) returns a text that
//! [`Client::adopt`](crate::Client::adopt) turns into a guard there.
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
