//! What a resource needs to check a fence.
//!
//! A holder that was paused may act after another client has acquired the lock. No lock can prevent
//! that, but the resource can. Every holder of a lock has a [`Fence`], a number that is larger than
//! those of all earlier holders. The holder sends it with every request, and the resource rejects a
//! fence that is smaller than the largest one it has seen. A fence that is not checked protects
//! nothing.
//!
//! # The first read counts
//!
//! It is not enough to check writes. A is paused. B acquires the lock and reads a balance of 100. A
//! resumes and writes 50. The resource accepts that: the fence of A is still the largest one it has
//! seen, because B has not written yet. Then B, which has read 100, writes 110, and the write of A
//! is lost.
//!
//! So a holder also sends its fence with its first read, and the resource stores it. All checks in
//! this module do so.
//!
//! # Which one
//!
//! - The resource is a value in a process: [`Fenced`].
//! - It is something else that only one process uses, for one request at a time: [`Gate`].
//! - It is in a database: [`sql`].
//! - It is a key in Redis or Valkey: [`redis`].
//!
//! For any other resource the rule is the same. In one atomic step, compare the fence with the
//! largest one seen, reject it if it is smaller, store it, and execute the request. An equal fence
//! is valid: a holder may send several requests.
//!
//! # Examples
//!
//! ```
//! use quorate::fence::{Fence, Fenced};
//!
//! let balance = Fenced::new(100);
//! let (a, b) = (Fence::new(1), Fence::new(2)); // two holders, one after the other
//!
//! let seen = balance.access(b, |balance| *balance)?; // B reads
//! assert!(balance.access(a, |balance| *balance = 50).is_err()); // A is too late
//! balance.access(b, |balance| *balance = seen + 10)?;
//! # assert_eq!(balance.into_inner(), 110);
//! # Ok::<(), quorate::fence::Stale>(())
//! ```

mod gate;
pub mod redis;
pub mod sql;

pub use quorate_core::fence::Fence;

pub use self::gate::{Fenced, Gate, Stale};
