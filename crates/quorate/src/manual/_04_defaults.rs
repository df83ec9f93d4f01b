//! # Defaults and their reasons
//!
//! | setting | default | why |
//! |---|---|---|
//! | `ttl` | 10 s | with a shorter ttl, others wait less after a crash, but a holder loses its lock after a shorter pause |
//! | renewal | at a third of the ttl or a little before | leaves time for two more attempts before the deadline |
//! | `max_ttl` | 60 s | bounds how long a node that lost its data does not vote |
//! | `quarantine` | on with three nodes or more | a node that forgets could grant a held lock again; with one node quarantine would be an outage after every restart |
//! | `max_hold` | 1 h | limits how long a holder that hangs holds its lock |
//! | `drift` | 1 % + 2 ms | clocks of rates within ±0.5 %, and expiry in whole milliseconds |
//! | `vote_timeout` | a twentieth of the ttl, 5 to 50 ms, at least three round trips | a silent node must not delay the caller |
//! | link timeout | 1 s, fixed | if no answer comes, the client connects again |
//! | reconnect delay | 10 ms to 1 s with full jitter, fixed | many clients must not connect at the same moment |
//! | `connect_timeout` | 5 s | servers may be starting |
//! | heartbeat of waiters | every third of the ttl, in batches | a waiter without heartbeats leaves the queue |
//! | session | 5 s, renewed every 1.25 s | a client that vanished is skipped in the queue |
//! | retry in classic mode | 4 ms to 100 ms with full jitter, at least one round trip | callers must not split the votes forever |
//!
//! # Examples
//!
//! ```
//! use std::time::Duration;
//! use quorate::{Client, memory::MemoryNodes};
//!
//! let client = Client::builder()
//!     .memory(&MemoryNodes::new(5))
//!     .ttl(Duration::from_secs(30)) // tolerates longer pauses; after a crash others wait longer
//!     .max_hold(Some(Duration::from_secs(300)))
//!     .build()?;
//! # Ok::<(), quorate::error::ConfigError>(())
//! ```
