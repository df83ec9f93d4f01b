//! One or several permits of a semaphore.

use quorate_testkit::eventually;
use rustix::process::Signal;
use serde_json::Value;

use crate::fixture::{Fixture, PATIENCE, Running};

use super::signals::QUORATE;

/// The arguments of a run with a permit of "jobs".
fn jobs<'a>(permits: &'a str, rest: &[&'a str]) -> Vec<&'a str> {
    ["--permits", permits].into_iter().chain(rest.iter().copied()).collect()
}

/// Acquires this many permits of "jobs", which are all permits.
fn hold_all(fixture: &Fixture, count: usize) -> Vec<Running> {
    let count_text = count.to_string();
    let hold = |it| fixture.hold_with(jobs(&count_text, &["jobs"]), &format!("holder.{it}"));
    (0..count).map(hold).collect()
}

#[test]
fn no_more_commands_run_than_permits_exist() {
    for fixture in Fixture::of_each_kind() {
        let mut holders = hold_all(&fixture, 3);
        let mut names: Vec<String> =
            (0..3).map(|it| fixture.read(&format!("holder.{it}"))).collect();
        names.sort();
        assert_eq!(names, ["jobs#1\n", "jobs#2\n", "jobs#3\n"]);
        for patience in [&["-n"][..], &["-w", "0.3"], &["-w", "0"]] {
            let args = patience.iter().copied().chain(jobs("3", &["jobs", "true"]));
            let told = "\"jobs\": all 3 permits are in use, one of them by quorate/";
            fixture
                .run_until_answered(args)
                .assert_code(75)
                .assert_stderr(told)
                .assert_stderr(", expires in ");
        }
        fixture.run_until_answered(jobs("3", &["-n", "-E", "9", "jobs", "true"])).assert_code(9);
        // The largest number of permits is the limit.
        fixture.run_until_answered(jobs("4", &["-n", "jobs", "true"])).assert_code(0);
        let waiting = fixture.start(jobs("3", &["jobs", "--", "sh", "-c", "echo $QUORATE_LOCK"]));
        fixture.await_that("it is the first waiter", || first_waiter(&fixture).is_some());
        let freed = fixture.read("holder.1");
        holders.remove(1).close().assert_code(0);
        assert_eq!(waiting.end().assert_code(0).out(), freed);
        for holder in holders {
            holder.close().assert_code(0);
        }
        let holder = fixture.hold_with(jobs("1", &["one"]), "holder");
        let told = "\"one\": the only permit is in use, by quorate/";
        fixture
            .run_until_answered(jobs("1", &["-n", "one", "true"]))
            .assert_code(75)
            .assert_stderr(told);
        holder.close().assert_code(0);
    }
}

#[test]
fn permit_is_in_the_environment() {
    let fixture = Fixture::one();
    let show = "echo $QUORATE_LOCK/$QUORATE_PERMIT/$QUORATE_FENCE";
    let mut last = 0;
    for _ in 0..3 {
        let ended = fixture.run(jobs("1", &["-v", "jobs", "--", "sh", "-c", show])).assert_code(0);
        let fence = ended.out().trim().strip_prefix("jobs#1/1/").expect("the only permit");
        let fence: u64 = fence.parse().expect("a fence");
        assert!(fence > last, "{fence} is larger than {last}");
        last = fence;
        ended.assert_stderr(&format!(
            "acquired permit 1 of 1 of \"jobs\" with fence {fence} after "
        ));
    }
    let holders = hold_all(&fixture, 2);
    let ended = fixture.run(jobs("3", &["-v", "jobs", "--", "sh", "-c", show])).assert_code(0);
    assert!(ended.out().starts_with("jobs#3/3/"), "{ended:?}");
    ended.assert_stderr("acquired permit 3 of 3 of \"jobs\" with fence ");
    for holder in holders {
        holder.close().assert_code(0);
    }
    // The permit of an outer run must not be mistaken for that of an inner run.
    let nested = ["jobs", QUORATE, "run", "x", "--", "sh", "-c", "echo ${QUORATE_PERMIT-none}"];
    assert_eq!(fixture.run(jobs("2", &nested)).assert_code(0).out(), "none\n");
}

/// Two runs that acquired the same locks in different orders would wait for each other.
#[test]
fn additional_locks_are_exclusive_and_acquired_in_one_order() {
    let fixture = Fixture::without_servers();
    let script = r#"echo "$QUORATE_LOCK" "$QUORATE_FENCE" > found; cat > /dev/null"#;
    let holder =
        fixture.start(jobs("2", &["-l", "z", "-l", "a", "-q", "jobs", "--", "sh", "-c", script]));
    let found = fixture.await_file("found");
    let lines: Vec<&str> = found.lines().collect();
    assert_eq!(lines[0], "a");
    assert!(lines[1].starts_with("jobs#"), "{found:?}");
    let shown = fixture.exec(["show", lines[1], "-o", "json"]).assert_code(0);
    let shown: Value = serde_json::from_str(shown.out()).expect("JSON");
    assert_eq!(lines[2], format!("z {}", shown["holder"]["fence"]), "the fence of the permit");
    for name in ["a", "z"] {
        fixture.run_until_answered(["-n", name, "true"]).assert_code(75);
        fixture.run_until_answered(["-n", "-s", name, "true"]).assert_code(75);
    }
    fixture.run_until_answered(jobs("2", &["-n", "jobs", "true"])).assert_code(0);
    holder.close().assert_code(0);
    let start = |it: usize| {
        let (one, other) = if it.is_multiple_of(2) { ("a", "z") } else { ("z", "a") };
        fixture.start(jobs("3", &["-q", "-l", one, "-l", "jobs", "-l", other, "jobs", "true"]))
    };
    let running: Vec<Running> = (0..20).map(start).collect();
    for it in running {
        it.end().assert_code(0);
    }
}

#[test]
fn lock_and_permits_of_the_same_name_are_independent() {
    let fixture = Fixture::one();
    let lock = fixture.hold("jobs");
    let holders = hold_all(&fixture, 1);
    fixture.run_until_answered(["-n", "jobs", "true"]).assert_code(75);
    lock.close().assert_code(0);
    fixture.run_until_answered(jobs("1", &["-n", "jobs", "true"])).assert_code(75);
    fixture.run_until_answered(["-n", "jobs", "true"]).assert_code(0);
    fixture.run_until_answered(["-n", "-s", "jobs", "true"]).assert_code(0);
    for holder in holders {
        holder.close().assert_code(0);
    }
    fixture.run_until_answered(jobs("1", &["-n", "-l", "jobs", "jobs", "true"])).assert_code(0);
}

#[test]
fn invalid_use_of_permits_is_64() {
    let fixture = Fixture::one();
    let number = "use 1 to 1024";
    let conflict = "cannot be used with";
    for (args, expected) in [
        (&["--permits", "0"][..], number),
        (&["--permits", "1025"], number),
        (&["--permits=-1"], number),
        (&["--permits", "1.5"], number),
        (&["--permits", "many"], number),
        (&["--permits", "99999999999999999999"], number),
        (&["--permits", ""], number),
        (&["--permits", "2", "-s"], conflict),
        (&["-s", "--permits", "2"], conflict),
        (&["-x", "--permits", "2"], conflict),
        (&["--permits", "2", "--exclusive"], conflict),
        (&["-s", "-x", "--permits", "2"], conflict),
        (&["--permits", "2", "--permits", "3"], "cannot be used multiple times"),
    ] {
        let all = args.iter().copied();
        fixture.run(all.clone().chain(["x", "true"])).assert_code(64).assert_stderr(expected);
        let acquire = ["acquire"].into_iter().chain(all).chain(["x"]);
        fixture.exec(acquire).assert_code(64).assert_stderr(expected);
    }
    for part in ["x#1", "x#2", "x#7", "x#queue"] {
        let ended = fixture.run(jobs("2", &["-l", part, "x", "true"])).assert_code(64);
        ended.assert_stderr(&format!(
            "{part:?} is one of the locks that make up the permits of \"x\""
        ));
    }
    for other in ["x#", "x#one", "y#1"] {
        fixture.run(jobs("2", &["-l", other, "x", "true"])).assert_code(0);
    }
    fixture.run(jobs("1024", &["x", "true"])).assert_code(0);
    fixture.run(jobs("2", &["", "true"])).assert_code(64).assert_stderr("empty");
}

#[test]
fn nested_run_of_the_same_permits_is_rejected() {
    for fixture in Fixture::of_each_kind() {
        for permits in ["1", "3"] {
            let inner = [QUORATE, "run", "--permits", permits, "jobs", "true"];
            let nested = ["--permits", "2", "jobs"].into_iter().chain(inner);
            let told = fixture
                .run_until_answered(nested)
                .assert_code(64)
                .assert_stderr("a permit of \"jobs\" is held");
            told.assert_stderr("Acquire the permits once, in the outer command");
        }
        let nested = ["jobs", QUORATE, "run", "-n", "jobs"];
        fixture.run_until_answered(jobs("2", &nested).into_iter().chain(["true"])).assert_code(0);
        let nested = ["jobs", QUORATE, "run", "-n", "--permits", "2", "jobs2", "true"];
        fixture.run_until_answered(jobs("2", &nested)).assert_code(0);
        let nested = ["jobs", QUORATE, "run", "-n", "--permits", "2", "jobs", "true"];
        fixture.run_until_answered(nested).assert_code(0);
    }
}

#[test]
fn run_under_a_released_permit_acquires_normally() {
    let fixture = Fixture::one();
    let show = ["jobs", "--", "sh", "-c", "echo \"$QUORATE_LOCKS\""];
    let outer = fixture.run(jobs("1", &show)).assert_code(0);
    assert!(outer.out().contains(" jobs#1\n"), "{outer:?}");
    let inner = || {
        let mut command = fixture.quorate(["run", "-n", "--permits", "1", "jobs", "true"]);
        Running::start(command.env("QUORATE_LOCKS", outer.out())).end()
    };
    inner().assert_code(0);
    let holders = hold_all(&fixture, 1);
    inner().assert_code(75);
    for holder in holders {
        holder.close().assert_code(0);
    }
}

/// The other waiters would wait for a minute if it kept its position.
#[test]
fn first_waiter_leaves_the_queue_at_once_when_terminated() {
    for fixture in [Fixture::without_servers(), Fixture::nodes(3)] {
        let holders = hold_all(&fixture, 2);
        let wait = |args: &[&str]| {
            let flags = ["--ttl", "60s", "--permits", "2"];
            let running = fixture.start(flags.iter().chain(args).copied().chain(["jobs", "true"]));
            let who = format!("/{} ", running.pid().as_raw_nonzero());
            (running, who)
        };
        let is_first = |who: &str| first_waiter(&fixture).is_some_and(|first| first.contains(who));
        let (first, who) = wait(&[]);
        eventually("the first one is first", PATIENCE, || is_first(&who));
        let (second, who) = wait(&[]);
        fixture.await_waiting("jobs#queue", 1);
        first.signal(Signal::TERM);
        first.end().assert_code(143);
        eventually("the second one is first", PATIENCE, || is_first(&who));
        second.signal(Signal::INT);
        second.end().assert_code(130);
        // A waiter whose wait times out also leaves the queue at once.
        wait(&["-w", "0.3"]).0.end().assert_code(75);
        let (last, who) = wait(&[]);
        eventually("the last one is first", PATIENCE, || is_first(&who));
        for holder in holders {
            holder.close().assert_code(0);
        }
        last.end().assert_code(0);
    }
}

#[test]
fn take_acquires_all_permits_or_none() {
    for fixture in Fixture::of_each_kind() {
        let two = |rest: &[&str]| {
            let args: Vec<&str> = ["--take", "2"].iter().chain(rest).copied().collect();
            fixture.run_until_answered(jobs("3", &args))
        };
        let show = "echo $QUORATE_LOCK/$QUORATE_PERMIT/$QUORATE_FENCE";
        let ended = two(&["-v", "jobs", "--", "sh", "-c", show]).assert_code(0);
        let shown: Vec<&str> = ended.out().trim().split('/').collect();
        let [one, other] = shown[1].split(',').collect::<Vec<_>>()[..] else {
            panic!("two permits: {ended:?}");
        };
        assert!(one < other, "{ended:?}");
        assert_eq!(shown[0], format!("jobs#{one} jobs#{other}"));
        let fences: Vec<&str> = shown[2].split(',').collect();
        assert_eq!(fences.len(), 2, "{ended:?}");
        assert!(fences.iter().all(|fence| fence.parse::<u64>().is_ok()), "{ended:?}");
        let report = format!("acquired permits {one}, {other} of 3 of \"jobs\" after ");
        assert!(ended.err().contains(&report), "{ended:?}");
        let holder = fixture.hold_with(jobs("3", &["--take", "2", "jobs"]), "holder");
        for wait in [&["-n"][..], &["-w", "0.3"]] {
            two(&[wait, &["jobs", "true"]].concat())
                .assert_code(75)
                .assert_stderr("fewer than 2 of 3 permits are free");
        }
        fixture.run_until_answered(jobs("3", &["-n", "jobs", "true"])).assert_code(0);
        holder.close().assert_code(0);
        two(&["-n", "-l", "other", "jobs", "true"]).assert_code(0);
        fixture
            .run_until_answered(jobs("2", &["--take", "2", "-n", "jobs", "true"]))
            .assert_code(0);
    }
}

#[test]
fn invalid_take_is_64() {
    let fixture = Fixture::one();
    let number = |text| format!("invalid number of permits {text:?}: use 1 or more");
    let more = "--take 4 is more than --permits 3: take at most 3".to_owned();
    let (missing, conflict) = ("--permits <NUMBER>".to_owned(), "cannot be used with".to_owned());
    for (args, expected) in [
        (&["--permits", "3", "--take", "0"][..], number("0")),
        (&["--permits", "3", "--take=-1"], number("-1")),
        (&["--permits", "3", "--take", "many"], number("many")),
        (&["--permits", "3", "--take", "4"], more),
        (&["--take", "2"], missing.clone()),
        (&["-l", "y", "--take", "2"], missing),
        (&["--permits", "3", "--take", "2", "-s"], conflict),
    ] {
        let args = args.iter().copied();
        fixture.run(args.chain(["x", "true"])).assert_code(64).assert_stderr(&expected);
    }
    let acquire = ["acquire", "--permits", "3", "--take", "2", "x"];
    fixture.exec(acquire).assert_code(64).assert_stderr("`quorate run` only");
}

#[test]
fn permit_of_a_killed_holder_expires_after_its_ttl() {
    for fixture in [Fixture::without_servers(), Fixture::nodes(3)] {
        let hold = |ttl, file| fixture.hold_with(jobs("2", &["--ttl", ttl, "jobs"]), file);
        let (killed, other) = (hold("2s", "killed"), hold("10s", "other"));
        let permit = fixture.read("killed");
        drop(killed);
        let show = ["-w", "20", "jobs", "--", "sh", "-c", "echo $QUORATE_LOCK"];
        assert_eq!(fixture.run(jobs("2", &show)).assert_code(0).out(), permit);
        other.close().assert_code(0);
    }
}

/// The first waiter for a permit of "jobs".
fn first_waiter(fixture: &Fixture) -> Option<String> {
    let ended = fixture.exec(["show", "jobs#queue", "-o", "json"]).assert_code(0);
    let json: Value = serde_json::from_str(ended.out()).expect("JSON");
    json["holder"]["who"].as_str().map(str::to_owned)
}
