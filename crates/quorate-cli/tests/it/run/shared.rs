//! Locks that many hold together.

use crate::rig::{Rig, Running};

use super::signals::QUORATE;

#[test]
fn readers_come_in_together_and_wait_behind_a_writer() {
    for rig in Rig::of_each_kind() {
        let (one, two) = (rig.hold_with(["-s", "x"], "one"), rig.hold_with(["-s", "x"], "two"));
        rig.run_until_answered(["-n", "x", "true"]).assert_code(75).assert_says("held by quorate/");
        let note = |word: &str| format!("echo {word} >> order");
        let mut writer = rig.start(["--who", "me", "x", "--", "sh", "-c", &note("writer")]);
        rig.await_waiting("x", 1);
        for patience in [["-n", "-q"], ["-w", "0.3"]] {
            let args = patience.into_iter().chain(["--shared", "x", "true"]);
            let ended = rig
                .run_until_answered(args)
                .assert_code(75)
                .assert_says("\"x\": shared by quorate/");
            ended.assert_says(" and 1 other, and me waits to have it alone");
        }
        let reader = rig.start(["-s", "x", "--", "sh", "-c", &note("reader")]);
        rig.await_waiting("x", 2);
        one.close().assert_code(0);
        rig.await_that("one is gone", || !rig.say(["show", "x"]).out().contains("shared with"));
        assert!(!writer.has_ended() && rig.read("order").is_empty());
        two.close().assert_code(0);
        writer.end().assert_code(0);
        reader.end().assert_code(0);
        assert_eq!(rig.read("order"), "writer\nreader\n");
    }
}

#[test]
fn who_wants_to_share_waits_for_one_who_has_it_alone() {
    let rig = Rig::one();
    let holder = rig.hold("x");
    rig.run(["-s", "-n", "x", "true"]).assert_code(75).assert_says("\"x\": held by quorate/");
    let waiting = [(); 2].map(|()| rig.start(["-v", "-s", "x", "true"]));
    rig.await_waiting("x", 2);
    holder.close().assert_code(0);
    for it in waiting {
        it.end().assert_code(0).assert_says("acquired \"x\", shared, after ");
    }
}

#[test]
fn the_last_flag_of_its_kind_counts() {
    let rig = Rig::one();
    let holder = rig.hold_with(["-s", "x"], "holder");
    for flags in [&["-s"][..], &["--shared"], &["-s", "-s"], &["-x", "-s"], &["-s", "-e", "-s"]] {
        rig.run(flags.iter().copied().chain(["-n", "x", "true"])).assert_code(0);
    }
    for flags in [&[][..], &["-x"], &["-s", "-x"], &["-sx"], &["-x", "-x"], &["-s", "--exclusive"]]
    {
        rig.run(flags.iter().copied().chain(["-n", "x", "true"])).assert_code(75);
    }
    holder.close().assert_code(0);
}

#[test]
fn several_locks_are_all_shared() {
    let rig = Rig::one();
    let holder = rig.hold_with(["-s", "-l", "a", "b"], "holder");
    assert_eq!(rig.read("holder"), "a\nb\n");
    for name in ["a", "b"] {
        rig.run(["-s", "-n", name, "true"]).assert_code(0);
        rig.run(["-n", name, "true"]).assert_code(75);
    }
    rig.run(["-s", "-n", "-l", "b", "-l", "c", "a", "true"]).assert_code(0);
    holder.close().assert_code(0);
}

/// That of an outer run would be taken for its own.
#[test]
fn a_command_that_shares_its_lock_finds_no_fence() {
    let rig = Rig::one();
    let show = "echo $QUORATE_HELD/$QUORATE_LOCK/${QUORATE_FENCE-none}/${QUORATE_PERMIT-none}; \
        echo $QUORATE_OWNER";
    let shared = ["-s", "x", "--", "sh", "-c", show];
    let in_another = ["y", QUORATE, "run"].into_iter().chain(shared);
    let in_a_permit = ["--permits", "1", "jobs", QUORATE, "run"].into_iter().chain(shared);
    for args in
        [shared.into_iter().collect::<Vec<_>>(), in_another.collect(), in_a_permit.collect()]
    {
        let ended = rig.run(args).assert_code(0);
        let (found, owner) = ended.out().split_once('\n').expect("two lines");
        assert_eq!(found, "1/x/none/none");
        assert!(owner.starts_with("q1:") && owner.ends_with(":s\n"), "{owner}");
    }
    let alone = ["-s", "x", QUORATE, "run", "y", "--", "sh", "-c", "echo $QUORATE_FENCE"];
    let ended = rig.run(alone).assert_code(0);
    assert!(ended.out().trim().parse::<u64>().is_ok(), "{ended:?}");
}

#[test]
fn a_nested_run_of_a_shared_lock_is_told_so() {
    for rig in Rig::of_each_kind() {
        // Whether the outer one is the first of those who share it, or another.
        for is_first in [true, false] {
            let other = (!is_first).then(|| rig.hold_with(["-s", "x"], "other"));
            for (outer, inner) in [("-s", "-s"), ("-s", "-x"), ("-x", "-s")] {
                if !is_first && outer == "-x" {
                    continue;
                }
                let told = rig.run([outer, "x", QUORATE, "run", inner, "x", "true"]);
                told.assert_code(64).assert_says("take the lock once, on the outside");
            }
            rig.run(["-s", "x", QUORATE, "run", "-s", "y", "true"]).assert_code(0);
            if let Some(other) = other {
                other.close().assert_code(0);
            }
        }
    }
}

#[test]
fn a_run_below_one_that_shares_the_lock_no_longer_is_like_all_others() {
    let rig = Rig::one();
    let outer = rig.run(["-s", "x", "--", "sh", "-c", "echo \"$QUORATE_LOCKS\""]).assert_code(0);
    assert!(outer.out().contains(":s x\n"), "{outer:?}");
    let holder = rig.hold_with(["-s", "x"], "holder");
    for (kind, code) in [("-s", 0), ("-x", 75)] {
        let mut command = rig.quorate(["run", "-n", kind, "x", "true"]);
        Running::start(command.env("QUORATE_LOCKS", outer.out())).end().assert_code(code);
    }
    holder.close().assert_code(0);
}

/// Not all of them are told. To be refused is better than to wait for oneself.
#[test]
fn a_nested_run_is_told_so_however_many_share_the_lock() {
    let rig = Rig::without_servers();
    let client = quorate::Client::builder().local(rig.path("locks")).build().expect("a client");
    let client = quorate::blocking::Client::try_from(client).expect("no runtime is needed");
    let lock = client.rwlock("x");
    let shares: Vec<_> = (0..120).map(|_| lock.read().expect("nobody has it alone")).collect();
    let nested = ["-q", "-s", "x", QUORATE, "run", "-q", "-s", "x", "true"];
    rig.run(nested).assert_code(64).assert_says("wait for itself");
    drop(shares);
}

#[test]
fn the_share_of_a_killed_reader_ends_with_its_ttl() {
    for rig in [Rig::without_servers(), Rig::one()] {
        let other = rig.hold_with(["-s", "x"], "other");
        drop(rig.hold_with(["-s", "--ttl", "2s", "x"], "killed"));
        let writer = rig.start(["x", "true"]);
        rig.await_waiting("x", 1);
        other.close().assert_code(0);
        writer.end().assert_code(0);
    }
}
