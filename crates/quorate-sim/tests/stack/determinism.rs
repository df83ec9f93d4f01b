//! One seed decides everything.

use std::cell::RefCell;

use crate::{counter, dice::for_seeds};

#[test]
fn the_same_seed_gives_the_same_trace_and_another_seed_another() {
    let of_another_seed = RefCell::default();
    for_seeds(20, |seed| {
        let first = counter::run(seed);
        let second = counter::run(seed);
        let differs = first.iter().zip(&second).position(|(a, b)| a != b);
        assert_eq!(differs.map(|at| (&first[at], &second[at])), None, "the same seed");
        assert_eq!(first.len(), second.len(), "the same seed");
        assert!(first.len() > 100, "a trace of {} lines says little", first.len());
        assert_ne!(of_another_seed.replace(first), second, "another seed");
    });
}
