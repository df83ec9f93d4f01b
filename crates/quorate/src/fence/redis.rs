//! Scripts for a resource that is a key in Redis or Valkey.
//!
//! Each value has a second key for its fence. On a cluster both must have the same hash tag, such
//! as `{price}` and `{price}:fence`. All writes, and the first read of every holder, go through the
//! scripts; `EVAL` runs them, by any client.
//!
//! The key of the fence has no ttl and must not be lost before the value: no `DEL`, and no eviction
//! (`maxmemory-policy noeviction`). A server that forgets it accepts stale clients again.
//!
//! # Examples
//!
//! With any client that can send a command:
//!
//! ```
//! use quorate::fence::{Fence, redis};
//!
//! let fence = Fence::new(1_800_000_000_000_000).to_string(); // of the guard
//! let read = ["EVAL", redis::READ, "2", "{price}", "{price}:fence", &fence];
//! let write = ["EVAL", redis::WRITE, "2", "{price}", "{price}:fence", &fence, "42"];
//! # let _ = (read, write);
//! ```

/// Reads a value, and rejects every earlier holder from then on.
///
/// `KEYS`: the value, its fence. `ARGV`: the holder's fence. Replies `{1, the value}`, with nil if
/// there is none, or `{0}` if a later holder came.
///
/// # Examples
///
/// ```
/// use quorate::fence::{Fence, redis};
///
/// let fence = Fence::new(7).to_string();
/// let command = ["EVAL", redis::READ, "2", "{price}", "{price}:fence", &fence];
/// # let _ = command;
/// ```
pub const READ: &str = include_str!("../../lua/fence/read.lua");

/// Writes a value, and rejects every earlier holder from then on.
///
/// `KEYS`: the value, its fence. `ARGV`: the holder's fence, the new value. Replies 1 if it was
/// written, and 0 if a later holder came: then nothing has changed.
///
/// # Examples
///
/// ```
/// use quorate::fence::{Fence, redis};
///
/// let fence = Fence::new(7).to_string();
/// let command = ["EVAL", redis::WRITE, "2", "{price}", "{price}:fence", &fence, "42"];
/// # let _ = command;
/// ```
pub const WRITE: &str = include_str!("../../lua/fence/write.lua");
