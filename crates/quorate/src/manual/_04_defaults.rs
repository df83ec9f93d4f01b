//! # Defaults, and what they trade
//!
//! | setting | default | why |
//! |---|---|---|
//! | `ttl` | 10 s | how long others wait after a crash; shorter leaves less room for pauses |
//! | renewal | at a third of the ttl or a little before | two more tries before the deadline |
//! | `max_ttl` | 60 s | bounds how long a node that lost its data does not vote |
//! | `quarantine` | on with three nodes or more | one node that forgets could let a second holder in; with one node it would be an outage after every restart |
//! | `max_hold` | 1 h | a holder that hangs lets go in the end |
//! | `drift` | 1 % + 2 ms | clocks of rates within ±0.5 %, and expiry in whole milliseconds |
//! | `vote_timeout` | a twentieth of the ttl, 5 to 50 ms, at least three round trips | a dead node must not hold up the caller |
//! | link timeout | 1 s, fixed | no answer to anything: the connection is made anew |
//! | reconnect delay | 10 ms to 1 s with full jitter, fixed | many clients must not come back at once |
//! | `connect_timeout` | 5 s | servers may be starting |
//! | heartbeat of those who wait | every third of the ttl, all together | a line of which nobody is heard of goes away |
//! | session | 5 s, heard of every 1.25 s | a client that vanished is passed over |
//! | retry in classic mode | 4 ms to 100 ms with full jitter, at least one round trip | contenders must not split the vote for ever |
//!
//! # Examples
//!
//! ```
//! use std::time::Duration;
//! use quorate::{Client, memory::MemoryNodes};
//!
//! let client = Client::builder()
//!     .memory(&MemoryNodes::new(5))
//!     .ttl(Duration::from_secs(30)) // survives longer pauses; after a crash others wait longer
//!     .max_hold(Some(Duration::from_secs(300)))
//!     .build()?;
//! # Ok::<(), quorate::error::ConfigError>(())
//! ```
