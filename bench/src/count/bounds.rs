//! What one thing may cost at most. The step `count` of `cargo xtask ci` fails if one of them is
//! exceeded. Lower a bound when a change makes the figure smaller, so that it stays smaller.
//! Raise it only for a reason that the commit gives.

use super::{Bound, Unit, Unit::*};

/// How often each scenario runs: in a short run and a long one, whose difference counts,
/// so that starting and connecting do not.
pub(super) const fn times(unit: Unit) -> (usize, usize) {
    match unit {
        Instructions => (100, 600),
        Commands => (320, 3_200),
        Bytes => (500, 1_000),
    }
}

/// Per pair of lock and release, per held lock, and per waiter.
pub(super) const BOUNDS: &[Bound] = &[
    // Of the client, all threads. One caller.
    Bound::new(Instructions, "pairs", "default", 1, 42_000.0),
    Bound::new(Instructions, "pairs", "default", 3, 88_000.0),
    Bound::new(Instructions, "pairs", "classic", 1, 36_500.0),
    Bound::new(Instructions, "pairs", "classic", 3, 77_000.0),
    // Of a server: scripts, and each redis.call in them. One caller, and 32 that begin together.
    Bound::new(Commands, "pairs", "default", 1, 8.5),
    Bound::new(Commands, "pairs", "default", 3, 8.5),
    Bound::new(Commands, "pairs", "classic", 1, 4.4),
    Bound::new(Commands, "pairs", "classic", 3, 6.5),
    Bound::new(Commands, "callers", "default", 1, 5.0),
    Bound::new(Commands, "callers", "default", 3, 5.0),
    Bound::new(Commands, "callers", "classic", 1, 2.6),
    Bound::new(Commands, "callers", "classic", 3, 3.6),
    // Of the heap of the client.
    Bound::new(Bytes, "held", "default", 3, 740.0),
    Bound::new(Bytes, "waiters", "default", 3, 1_500.0),
];
