//! Several locks for one command.

use crate::fixture::{Fixture, Running};

/// Regardless of which locks they hold, and in which order they list them.
#[test]
fn runs_with_locks_in_opposite_orders_both_finish() {
    for fixture in Fixture::of_each_kind() {
        let holder = fixture.hold("b");
        let runs = [["-l", "b", "a"], ["-l", "a", "b"]];
        let start = |names: [&str; 3]| {
            let note = format!("echo {} >> order", names[2]);
            let args = ["-q"].into_iter().chain(names).chain(["--", "sh", "-c", &note]);
            fixture.start(args)
        };
        let first = start(runs[0]);
        fixture.await_waiting("b", 1);
        let second = start(runs[1]);
        fixture.await_waiting("b", 2);
        holder.close().assert_code(0);
        first.end().assert_code(0);
        second.end().assert_code(0);
        assert_eq!(fixture.read("order"), "a\nb\n", "in FIFO order");
        let crowd: Vec<Running> = (0..16).map(|it| start(runs[it % 2])).collect();
        for run in crowd {
            run.end().assert_code(0);
        }
    }
}

#[test]
fn nothing_stays_reserved_after_a_timeout() {
    for fixture in Fixture::of_each_kind() {
        let holder = fixture.hold("b");
        let late = ["-w", "0.2", "-l", "b", "-l", "c", "a", "true"];
        let ended = fixture.run_until_answered(late).assert_code(75);
        ended.assert_stderr("\"b\": held by quorate/");
        for free in ["a", "c"] {
            fixture
                .await_that("it is not reserved", || fixture.run(["-n", free, "true"]).code() == 0);
        }
        // A waiting set reserves the free locks until its process ends.
        let waiting = fixture.start(["-l", "b", "a", "true"]);
        fixture.await_waiting("b", 1);
        fixture.run_until_answered(["-n", "a", "true"]).assert_code(75);
        waiting.signal(rustix::process::Signal::TERM);
        waiting.end().assert_code(143);
        fixture.await_that("it is not reserved", || fixture.run(["-n", "a", "true"]).code() == 0);
        holder.close().assert_code(0);
    }
}

/// A reader that held one lock and waited for the other would wait for the set, and the set for the
/// reader.
#[test]
fn shared_locks_and_permits_never_deadlock_with_sets_of_the_same_locks() {
    for fixture in [Fixture::one(), Fixture::without_servers()] {
        let start = |it: usize| {
            let (one, other) = if it.is_multiple_of(2) { ("a", "z") } else { ("z", "a") };
            let how: &[&str] = match it % 3 {
                0 => &["-s"],
                1 => &[],
                _ => &["--permits", "1", "-l", "jobs"],
            };
            let script = ["sh", "-c", "sleep 0.01"];
            let args = ["-q", "-l", one].into_iter().chain(how.iter().copied());
            fixture.start(args.chain([other, "--"]).chain(script))
        };
        let running: Vec<Running> = (0..24).map(start).collect();
        for run in running {
            run.end().assert_code(0);
        }
    }
}

/// The first run holds the lock that the second one tries, and waits for nothing in the meantime.
#[test]
fn shared_locks_are_not_held_while_waiting_for_another() {
    let fixture = Fixture::one();
    let holder = fixture.hold("z");
    let reader = fixture.start(["-s", "-l", "z", "a", "true"]);
    fixture.await_waiting("z", 1);
    fixture.await_that("it does not hold a", || fixture.run(["-n", "a", "true"]).code() == 0);
    let late = ["-w", "0.2", "-s", "-l", "z", "a", "true"];
    fixture.run_until_answered(late).assert_code(75).assert_stderr("\"z\": held by quorate/");
    holder.close().assert_code(0);
    reader.end().assert_code(0);
}

/// The locks are acquired one at a time, and none is held while waiting for one.
#[test]
fn more_locks_than_fit_a_set_are_held_all_or_none() {
    let fixture = Fixture::one();
    let names: Vec<String> = (0..40).map(|number| format!("n{number:02}")).collect();
    let locks = || names.iter().flat_map(|name| ["-l", name]);
    let holder = fixture.hold("n30");
    let ended = fixture
        .run_until_answered(["-n"].into_iter().chain(locks()).chain(["x", "true"]))
        .assert_code(75);
    ended.assert_stderr("\"n30\": held by");
    let waiting = fixture.start(locks().chain(["x", "true"]));
    fixture.await_waiting("n30", 1);
    fixture.run_until_answered(["-w", "10", "n00", "true"]).assert_code(0);
    holder.close().assert_code(0);
    waiting.end().assert_code(0);
    let count = |name: &String| usize::from(fixture.servers[0].get(name).is_some());
    fixture.await_that("all are released", || names.iter().map(count).sum::<usize>() == 0);
}

#[test]
fn details_name_every_lock_and_its_fence() {
    let fixture = Fixture::one();
    let ended = fixture.run(["-v", "-l", "b", "a", "true"]).assert_code(0);
    ended.assert_stderr("acquired \"a\" with fence ").assert_stderr(", \"b\" with fence ");
}
