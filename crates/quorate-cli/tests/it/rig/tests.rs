//! A test that waits in vain fails, says for what, and leaves nothing behind.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    process::Command,
    time::Duration,
};

use super::{Rig, Running, is_alive};

/// Starts a shell that has started a process which does not end.
fn shell(rig: &Rig, then: &str) -> Running {
    let mut command = Command::new("sh");
    rig.prepare(&mut command);
    let running = Running::start(command.args(["-c", &format!("{FOREVER} & {then}")]));
    rig.await_that("it has started another", || rig.mark().listing().to_string().contains(FOREVER));
    running
}

/// What the test is told that panics here.
fn told(body: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(body)).expect_err("it waits in vain");
    *panic.downcast::<String>().expect("a text")
}

#[test]
fn a_process_that_does_not_end_fails_the_test() {
    let rig = Rig::without_servers();
    let running = shell(&rig, "echo out; echo err >&2; echo $! > pid; wait");
    let pid = rig.await_file("pid");
    let told = told(|| drop(running.end_within(SHORT)));
    for part in
        ["has not ended within 200ms", "\"out\\n\"", "\"err\\n\"", "still running:", FOREVER]
    {
        assert!(told.contains(part), "{part:?} is missing in {told}");
    }
    assert!(rig.sweep(Duration::ZERO).is_err() && !is_alive(&pid));
}

#[test]
fn output_that_stays_open_fails_the_test() {
    let rig = Rig::without_servers();
    let running = shell(&rig, "echo $! > pid; exit 3");
    let pid = rig.await_file("pid");
    let told = told(|| drop(running.end_within(SHORT)));
    for part in ["has ended (exit status: 3), but others keep its output open", FOREVER] {
        assert!(told.contains(part), "{part:?} is missing in {told}");
    }
    assert!(rig.sweep(Duration::ZERO).is_err() && !is_alive(&pid));
}

#[test]
fn what_a_test_leaves_behind_is_told_and_killed_also_if_it_fails() {
    for has_failed in [false, true] {
        let rig = Rig::without_servers();
        let running = shell(&rig, "echo $! > pid");
        let pid = rig.await_file("pid");
        let told = match has_failed {
            false => rig.sweep(SHORT).expect_err("something is left"),
            true => told(move || {
                let _rig = rig;
                panic!("{}", "it fails".to_owned());
            }),
        };
        assert!(told.contains(if has_failed { "it fails" } else { FOREVER }), "{told}");
        assert!(!is_alive(&pid), "{has_failed}");
        drop(running);
    }
}

const FOREVER: &str = "sleep 4815";
const SHORT: Duration = Duration::from_millis(200);
