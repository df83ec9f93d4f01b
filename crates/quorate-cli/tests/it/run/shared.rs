//! Shared locks.

use crate::fixture::{Fixture, Running};

use super::signals::QUORATE;

#[test]
fn readers_come_in_together_and_wait_behind_a_writer() {
    for fixture in Fixture::of_each_kind() {
        let (one, two) =
            (fixture.hold_with(["-s", "x"], "one"), fixture.hold_with(["-s", "x"], "two"));
        fixture
            .run_until_answered(["-n", "x", "true"])
            .assert_code(75)
            .assert_stderr("held by quorate/");
        let note = |word: &str| format!("echo {word} >> order");
        let mut writer = fixture.start(["--who", "me", "x", "--", "sh", "-c", &note("writer")]);
        fixture.await_waiting("x", 1);
        for patience in [["-n", "-v"], ["-w", "0.3"]] {
            let args = patience.into_iter().chain(["--shared", "x", "true"]);
            let ended = fixture
                .run_until_answered(args)
                .assert_code(75)
                .assert_stderr("\"x\": shared by quorate/");
            ended.assert_stderr(" and 1 other, and me waits for it exclusively");
        }
        let reader = fixture.start(["-s", "x", "--", "sh", "-c", &note("reader")]);
        fixture.await_waiting("x", 2);
        one.close().assert_code(0);
        fixture.await_that("one is gone", || {
            !fixture.exec(["show", "x"]).out().contains("shared with")
        });
        assert!(!writer.has_ended() && fixture.read("order").is_empty());
        two.close().assert_code(0);
        writer.end().assert_code(0);
        reader.end().assert_code(0);
        assert_eq!(fixture.read("order"), "writer\nreader\n");
    }
}

#[test]
fn shared_request_waits_for_an_exclusive_holder() {
    let fixture = Fixture::one();
    let holder = fixture.hold("x");
    fixture
        .run_until_answered(["-s", "-n", "x", "true"])
        .assert_code(75)
        .assert_stderr("\"x\": held by quorate/");
    let waiting = [(); 2].map(|()| fixture.start(["-v", "-s", "x", "true"]));
    fixture.await_waiting("x", 2);
    holder.close().assert_code(0);
    for it in waiting {
        it.end().assert_code(0).assert_stderr("acquired \"x\", shared, after ");
    }
}

#[test]
fn last_of_shared_and_exclusive_counts() {
    let fixture = Fixture::one();
    let holder = fixture.hold_with(["-s", "x"], "holder");
    for flags in [&["-s"][..], &["--shared"], &["-s", "-s"], &["-x", "-s"], &["-s", "-e", "-s"]] {
        fixture.run_until_answered(flags.iter().copied().chain(["-n", "x", "true"])).assert_code(0);
    }
    for flags in [&[][..], &["-x"], &["-s", "-x"], &["-sx"], &["-x", "-x"], &["-s", "--exclusive"]]
    {
        fixture
            .run_until_answered(flags.iter().copied().chain(["-n", "x", "true"]))
            .assert_code(75);
    }
    holder.close().assert_code(0);
}

#[test]
fn several_locks_are_all_shared() {
    let fixture = Fixture::one();
    let holder = fixture.hold_with(["-s", "-l", "a", "b"], "holder");
    assert_eq!(fixture.read("holder"), "a\nb\n");
    for name in ["a", "b"] {
        fixture.run_until_answered(["-s", "-n", name, "true"]).assert_code(0);
        fixture.run_until_answered(["-n", name, "true"]).assert_code(75);
    }
    fixture.run_until_answered(["-s", "-n", "-l", "b", "-l", "c", "a", "true"]).assert_code(0);
    holder.close().assert_code(0);
}

/// The fence of an outer run must not be mistaken for that of the shared lock.
#[test]
fn shared_lock_sets_no_fence_variable() {
    let fixture = Fixture::one();
    let show = "echo $QUORATE_HELD/$QUORATE_LOCK/${QUORATE_FENCE-none}/${QUORATE_PERMIT-none}; \
        echo $QUORATE_OWNER";
    let shared = ["-s", "x", "--", "sh", "-c", show];
    let in_another = ["y", QUORATE, "run"].into_iter().chain(shared);
    let in_a_permit = ["--permits", "1", "jobs", QUORATE, "run"].into_iter().chain(shared);
    for args in
        [shared.into_iter().collect::<Vec<_>>(), in_another.collect(), in_a_permit.collect()]
    {
        let ended = fixture.run(args).assert_code(0);
        let (found, owner) = ended.out().split_once('\n').expect("two lines");
        assert_eq!(found, "1/x/none/none");
        assert!(owner.starts_with("q1:") && owner.ends_with(":s\n"), "{owner}");
    }
    let alone = ["-s", "x", QUORATE, "run", "y", "--", "sh", "-c", "echo $QUORATE_FENCE"];
    let ended = fixture.run(alone).assert_code(0);
    assert!(ended.out().trim().parse::<u64>().is_ok(), "{ended:?}");
}

#[test]
fn nested_run_of_a_shared_lock_is_rejected() {
    for fixture in Fixture::of_each_kind() {
        // Test the outer run as the first shared holder, and as a later one.
        for is_first in [true, false] {
            let other = (!is_first).then(|| fixture.hold_with(["-s", "x"], "other"));
            for (outer, inner) in [("-s", "-s"), ("-s", "-x"), ("-x", "-s")] {
                if !is_first && outer == "-x" {
                    continue;
                }
                let told = fixture.run([outer, "x", QUORATE, "run", inner, "x", "true"]);
                told.assert_code(64).assert_stderr("acquire the lock once, in the outer command");
            }
            fixture.run(["-s", "x", QUORATE, "run", "-s", "y", "true"]).assert_code(0);
            if let Some(other) = other {
                other.close().assert_code(0);
            }
        }
    }
}

#[test]
fn run_under_a_released_shared_lock_acquires_normally() {
    let fixture = Fixture::one();
    let outer =
        fixture.run(["-s", "x", "--", "sh", "-c", "echo \"$QUORATE_LOCKS\""]).assert_code(0);
    assert!(outer.out().contains(":s x\n"), "{outer:?}");
    let holder = fixture.hold_with(["-s", "x"], "holder");
    for (kind, code) in [("-s", 0), ("-x", 75)] {
        let mut command = fixture.quorate(["run", "-n", kind, "x", "true"]);
        Running::start(command.env("QUORATE_LOCKS", outer.out())).end().assert_code(code);
    }
    holder.close().assert_code(0);
}

/// A report does not list all holders. Failing is better than waiting for oneself.
#[test]
fn nested_run_is_rejected_even_if_many_share_the_lock() {
    let fixture = Fixture::without_servers();
    let client = quorate::Client::builder().local(fixture.path("locks")).build().expect("a client");
    let client = quorate::blocking::Client::try_from(client).expect("no runtime is needed");
    let lock = client.rwlock("x");
    let shares: Vec<_> = (0..120).map(|_| lock.read().expect("there is no writer")).collect();
    let nested = ["-q", "-s", "x", QUORATE, "run", "-q", "-s", "x", "true"];
    fixture.run(nested).assert_code(64).assert_stderr("wait for itself");
    drop(shares);
}

#[test]
fn shared_lock_of_a_killed_reader_expires_after_its_ttl() {
    for fixture in [Fixture::without_servers(), Fixture::one()] {
        let other = fixture.hold_with(["-s", "x"], "other");
        drop(fixture.hold_with(["-s", "--ttl", "2s", "x"], "killed"));
        let writer = fixture.start(["x", "true"]);
        fixture.await_waiting("x", 1);
        other.close().assert_code(0);
        writer.end().assert_code(0);
    }
}
