//! What a resource needs to check a fence.
//!
//! No lock can stop a holder that was paused, by the system or a debugger, from acting after its
//! lock has gone to another. The resource can: every holder of a lock has a [`Fence`], a number
//! that is larger than that of every earlier holder. It is sent along with every request, and the
//! resource refuses a smaller one than it has seen. A fence that nobody checks protects nothing.
//!
//! # The first read counts
//!
//! It is not enough to check writes. A is paused; B has the lock now, and reads a balance of 100.
//! A wakes up and writes 50: its fence is still the largest that the resource has seen, because B
//! has not written yet, so this is let through. Then B, who knows of 100, writes 110, and what A
//! did is gone without a trace.
//!
//! So a holder shows its fence with its first read too, and the resource remembers it from then on.
//! All checks in this module do both.
//!
//! # Which one
//!
//! - The resource is a value in a process: [`Fenced`].
//! - It is something else that one process alone has at hand, and uses for one request at a time:
//!   [`Gate`].
//! - It is in a database: [`sql`].
//! - It is a key in Redis or Valkey: [`redis`].
//!
//! For anything else the rule is the same: in one atomic step, compare the fence with the largest
//! one seen, refuse if it is smaller, remember it, and do what was asked. Equal is right: a holder
//! may come more than once.
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
