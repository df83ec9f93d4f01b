//! One seed decides everything.

use std::cell::RefCell;

use crate::{counter, dice::for_seeds, mix};

#[test]
fn same_seed_gives_the_same_trace_and_another_seed_another() {
    assert_deterministic(20, counter::run);
}

#[test]
fn same_seed_of_the_mix_gives_the_same_trace_and_another_seed_another() {
    assert_deterministic(4, mix::run);
}

fn assert_deterministic(seeds: u64, run: fn(u64) -> Vec<String>) {
    let of_another_seed = RefCell::default();
    for_seeds(seeds, |seed| {
        let (first, second) = (run(seed), run(seed));
        let differs = first.iter().zip(&second).position(|(a, b)| a != b);
        assert_eq!(differs.map(|at| (&first[at], &second[at])), None, "the same seed");
        assert_eq!(first.len(), second.len(), "the same seed");
        assert!(first.len() > 100, "a trace of {} lines is too short", first.len());
        assert_ne!(of_another_seed.replace(first), second, "another seed");
    });
}
