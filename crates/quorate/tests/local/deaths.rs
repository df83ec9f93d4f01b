//! Processes that only acquire and release one lock are killed at any moment.
//!
//! The processes record what they believe, and the record is checked at the end: no two held the
//! lock at a time, and every fence was larger than those before.

use std::time::{Duration, Instant};

use quorate_core::backoff::Jitter;
use quorate_testkit::{
    history::{Moment, Until},
    processes::{Contenders, print_line},
};

use super::is_whole;

/// Panics if a promise was broken, or if the lock was not acquired again.
pub(super) fn at_any_moment() {
    let mut contenders = Contenders::new();
    (0..CONTENDERS).for_each(|_| add(&mut contenders));
    contenders.wait_for_claims(Moment::now(), CONTENDERS);
    let mut jitter = Jitter::new(SEED);
    let mut longest = Duration::ZERO;
    for _ in 0..KILLS {
        longest = longest.max(kill_one(&mut contenders, &mut jitter));
    }
    assert!(is_whole(&contenders.folder().join("locks")), "the file is damaged");
    let history = contenders.end();
    history.assert_kept(Until::Believed);
    print_line(&format!(
        "{KILLS} processes killed: {} claims, none overlapped, all fences grew; acquired again \
         after {longest:?} at the most",
        history.report().claims(),
    ));
}

fn add(contenders: &mut Contenders) {
    contenders.start(CONTENDER, [""; 0]);
}

/// Kills one of them, and returns how long it took until another acquired the lock.
fn kill_one(contenders: &mut Contenders, jitter: &mut Jitter) -> Duration {
    let names = contenders.names();
    let pick = usize::try_from(jitter.next()).unwrap_or(0) % names.len();
    // A hold takes less than a millisecond: any part of it may be hit.
    let until = Instant::now() + Duration::from_nanos(jitter.next() % 2_000_000);
    while Instant::now() < until {
        std::hint::spin_loop();
    }
    let at = contenders.kill(&names[pick]);
    add(contenders);
    contenders.wait_for_claims(at, CONTENDERS)
}

pub(super) const CONTENDER: &str = "contender";
const CONTENDERS: usize = 4;
const KILLS: usize = 60;
const SEED: u64 = 0x5eed_2026;

/// The lock of a killed holder expires after this.
pub(super) const TTL: Duration = Duration::from_millis(250);
