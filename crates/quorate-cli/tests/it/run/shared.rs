//! Locks that many hold together.

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
            .assert_says("held by quorate/");
        let note = |word: &str| format!("echo {word} >> order");
        let mut writer = fixture.start(["--who", "me", "x", "--", "sh", "-c", &note("writer")]);
        fixture.await_waiting("x", 1);
        for patience in [["-n", "-q"], ["-w", "0.3"]] {
            let args = patience.into_iter().chain(["--shared", "x", "true"]);
            let ended = fixture
                .run_until_answered(args)
                .assert_code(75)
                .assert_says("\"x\": shared by quorate/");
            ended.assert_says(" and 1 other, and me waits to have it alone");
        }
        let reader = fixture.start(["-s", "x", "--", "sh", "-c", &note("reader")]);
        fixture.await_waiting("x", 2);
        one.close().assert_code(0);
        fixture.await_that("one is gone", || {
            !fixture.say(["show", "x"]).out().contains("shared with")
        });
        assert!(!writer.has_ended() && fixture.read("order").is_empty());
        two.close().assert_code(0);
        writer.end().assert_code(0);
        reader.end().assert_code(0);
        assert_eq!(fixture.read("order"), "writer\nreader\n");
    }
}

#[test]
fn who_wants_to_share_waits_for_one_who_has_it_alone() {
    let fixture = Fixture::one();
    let holder = fixture.hold("x");
    fixture.run(["-s", "-n", "x", "true"]).assert_code(75).assert_says("\"x\": held by quorate/");
    let waiting = [(); 2].map(|()| fixture.start(["-v", "-s", "x", "true"]));
    fixture.await_waiting("x", 2);
    holder.close().assert_code(0);
    for it in waiting {
        it.end().assert_code(0).assert_says("acquired \"x\", shared, after ");
    }
}

#[test]
fn the_last_flag_of_its_kind_counts() {
    let fixture = Fixture::one();
    let holder = fixture.hold_with(["-s", "x"], "holder");
    for flags in [&["-s"][..], &["--shared"], &["-s", "-s"], &["-x", "-s"], &["-s", "-e", "-s"]] {
        fixture.run(flags.iter().copied().chain(["-n", "x", "true"])).assert_code(0);
    }
    for flags in [&[][..], &["-x"], &["-s", "-x"], &["-sx"], &["-x", "-x"], &["-s", "--exclusive"]]
    {
        fixture.run(flags.iter().copied().chain(["-n", "x", "true"])).assert_code(75);
    }
    holder.close().assert_code(0);
}

#[test]
fn several_locks_are_all_shared() {
    let fixture = Fixture::one();
    let holder = fixture.hold_with(["-s", "-l", "a", "b"], "holder");
    assert_eq!(fixture.read("holder"), "a\nb\n");
    for name in ["a", "b"] {
        fixture.run(["-s", "-n", name, "true"]).assert_code(0);
        fixture.run(["-n", name, "true"]).assert_code(75);
    }
    fixture.run(["-s", "-n", "-l", "b", "-l", "c", "a", "true"]).assert_code(0);
    holder.close().assert_code(0);
}

/// That of an outer run would be taken for its own.
#[test]
fn a_command_that_shares_its_lock_finds_no_fence() {
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
fn a_nested_run_of_a_shared_lock_is_told_so() {
    for fixture in Fixture::of_each_kind() {
        // Whether the outer one is the first of those who share it, or another.
        for is_first in [true, false] {
            let other = (!is_first).then(|| fixture.hold_with(["-s", "x"], "other"));
            for (outer, inner) in [("-s", "-s"), ("-s", "-x"), ("-x", "-s")] {
                if !is_first && outer == "-x" {
                    continue;
                }
                let told = fixture.run([outer, "x", QUORATE, "run", inner, "x", "true"]);
                told.assert_code(64).assert_says("take the lock once, on the outside");
            }
            fixture.run(["-s", "x", QUORATE, "run", "-s", "y", "true"]).assert_code(0);
            if let Some(other) = other {
                other.close().assert_code(0);
            }
        }
    }
}

#[test]
fn a_run_below_one_that_shares_the_lock_no_longer_is_like_all_others() {
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

/// Not all of them are told. To be refused is better than to wait for oneself.
#[test]
fn a_nested_run_is_told_so_however_many_share_the_lock() {
    let fixture = Fixture::without_servers();
    let client = quorate::Client::builder().local(fixture.path("locks")).build().expect("a client");
    let client = quorate::blocking::Client::try_from(client).expect("no runtime is needed");
    let lock = client.rwlock("x");
    let shares: Vec<_> = (0..120).map(|_| lock.read().expect("nobody has it alone")).collect();
    let nested = ["-q", "-s", "x", QUORATE, "run", "-q", "-s", "x", "true"];
    fixture.run(nested).assert_code(64).assert_says("wait for itself");
    drop(shares);
}

#[test]
fn the_share_of_a_killed_reader_ends_with_its_ttl() {
    for fixture in [Fixture::without_servers(), Fixture::one()] {
        let other = fixture.hold_with(["-s", "x"], "other");
        drop(fixture.hold_with(["-s", "--ttl", "2s", "x"], "killed"));
        let writer = fixture.start(["x", "true"]);
        fixture.await_waiting("x", 1);
        other.close().assert_code(0);
        writer.end().assert_code(0);
    }
}
