//! Waiters are served in the order of their arrival, regardless of their clocks.

use std::time::Duration;

use quorate_testkit::ProcessClock;

use crate::fixture::{Fixture, Running};

#[test]
fn waiter_whose_clock_is_an_hour_ahead_keeps_its_position() {
    let ahead = ProcessClock::new();
    ahead.forward(HOUR);
    for fixture in [Fixture::one(), Fixture::nodes(3)] {
        let turns = grant_order(&fixture, [("first", Some(&ahead)), ("second", None)]);
        assert_eq!(turns, "first\nsecond\n");
    }
}

#[test]
fn waiter_whose_clock_is_an_hour_behind_does_not_jump_the_queue() {
    let behind = ProcessClock::new();
    behind.back(HOUR);
    for fixture in [Fixture::one(), Fixture::nodes(3)] {
        let turns = grant_order(&fixture, [("first", None), ("second", Some(&behind))]);
        assert_eq!(turns, "first\nsecond\n");
    }
}

/// The order in which these waiters, which arrive one after the other, get the lock.
fn grant_order(fixture: &Fixture, waiters: [(&str, Option<&ProcessClock>); 2]) -> String {
    let holder = fixture.hold("x");
    let mut running = Vec::new();
    for (name, clock) in waiters {
        let script = format!("echo {name} >> turns");
        let mut command = fixture.quorate(["run", "x", "--", "sh", "-c", &script]);
        if let Some(clock) = clock {
            clock.give_to(&mut command);
        }
        running.push(Running::start(&mut command));
        fixture.await_waiting("x", running.len() as u64);
    }
    for it in std::iter::once(holder.close()).chain(running.into_iter().map(Running::end)) {
        it.assert_code(0);
    }
    fixture.read("turns")
}

const HOUR: Duration = Duration::from_secs(3_600);
