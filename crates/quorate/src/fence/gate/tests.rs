//! Tests of the checks in memory, also with many threads at once.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Barrier,
    thread,
};

use super::*;

#[test]
fn gate_accepts_every_fence_that_is_not_older_than_the_latest() {
    let gate = Gate::default();
    let admitted = |number| gate.admit(Fence::new(number)).is_ok();
    let asked = [5, 5, 4, 6, 5, 6, u64::MAX, 0, u64::MAX];
    let expected = [true, true, false, true, false, true, true, false, true];
    assert_eq!(asked.map(admitted), expected);
}

#[test]
fn stale_fence_changes_nothing() {
    let fenced = Fenced::starting_at(Fence::new(5), 0);
    let stale = fenced.access(Fence::new(4), |value| *value = 1).unwrap_err();
    assert_eq!(stale, Stale { fence: Fence::new(4), highest: Fence::new(5) });
    assert_eq!(fenced.highest(), Fence::new(5));
    assert_eq!(fenced.into_inner(), 0);
}

#[test]
fn value_that_may_be_half_changed_is_not_shown() {
    let fenced = Fenced::new((0, 0));
    let broken = catch_unwind(AssertUnwindSafe(|| {
        fenced.access(Fence::new(1), |pair| {
            pair.0 = 1;
            panic!("before the second half");
        })
    }));
    assert!(broken.is_err());
    let looked = catch_unwind(AssertUnwindSafe(|| fenced.access(Fence::new(2), |pair| *pair)));
    assert!(looked.is_err());
}

/// In whatever order threads come, `access` admits what a sequential check admits,
/// so the fences inside of the protected value never go back.
#[test]
fn under_many_threads_the_fences_that_get_in_never_go_back() {
    for round in 0..ROUNDS {
        let fenced = Fenced::new(Vec::new());
        let start = Barrier::new(THREADS);
        let refused: usize = thread::scope(|scope| {
            let work = |thread: usize| {
                start.wait();
                let fences = (0..STEPS).map(|step| fence_of(round, thread, step));
                let asked = fences.map(|fence| fenced.access(fence, |seen| seen.push(fence)));
                asked.filter(Result::is_err).count()
            };
            let threads: Vec<_> =
                (0..THREADS).map(|thread| scope.spawn(move || work(thread))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        let highest = fenced.highest();
        let seen = fenced.into_inner();
        assert!(seen.is_sorted(), "round {round}: {seen:?}");
        assert_eq!(seen.last(), Some(&highest), "round {round}");
        assert_eq!(seen.len() + refused, THREADS * STEPS, "round {round}");
    }
}

/// Each of many threads that pass the gate at the same time was not older than what it had seen
/// before, and the largest of all passes whenever it arrives.
#[test]
fn under_many_threads_a_gate_never_refuses_the_latest_and_never_goes_back() {
    for round in 0..ROUNDS {
        let gate = Gate::new();
        let start = Barrier::new(THREADS);
        let latest = (0..THREADS)
            .flat_map(|thread| (0..STEPS).map(move |step| fence_of(round, thread, step)))
            .max()
            .unwrap();
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (gate, start) = (&gate, &start);
                scope.spawn(move || {
                    start.wait();
                    for step in 0..STEPS {
                        let (fence, before) = (fence_of(round, thread, step), gate.highest());
                        let admitted = gate.admit(fence);
                        assert!(admitted.is_err() || fence >= before, "{fence} after {before}");
                        assert!(admitted.is_ok() || fence != latest, "{latest} was refused");
                        assert!(gate.highest() >= before.max(fence));
                    }
                });
            }
        });
        assert_eq!(gate.highest(), latest, "round {round}");
    }
}

/// Numbers in no order, and some of them equal.
fn fence_of(round: usize, thread: usize, step: usize) -> Fence {
    let number = (round * THREADS + thread) * STEPS + step;
    let mixed = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Fence::new(mixed >> 54)
}

const ROUNDS: usize = 40;
const THREADS: usize = 8;
const STEPS: usize = 50;
