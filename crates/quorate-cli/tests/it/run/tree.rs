//! All processes of the command end before another owner acquires the lock, even if they hide; no
//! other process is killed.

use std::{os::unix::fs::PermissionsExt as _, process::Command};

use rustix::process::{Pid, Signal, kill_process};

use super::signals::{QUORATE, children, has_namespaces, kill};
use crate::fixture::{Fixture, Running, is_alive};

/// The kernel cuts names after 15 bytes, here in the middle of a character.
#[test]
fn process_with_a_name_that_is_not_utf8_is_killed() {
    for is_killed in [false, true] {
        let fixture = Fixture::one();
        let name = "резервная-копия.sh";
        fixture
            .write(name, "#!/bin/sh\ntrap '' TERM\necho $$ > pid\nwhile :; do sleep 0.05; done\n");
        let rights = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(fixture.path(name), rights).expect("it is ours");
        let script = format!("exec > /dev/null 2>&1; ./{name} & wait");
        let limit = if is_killed { "60s" } else { ENOUGH };
        let args = ["--ttl", "2s", "-k", "50ms", "--max-hold", limit, "x", "--", "sh", "-c"];
        let running = fixture.start(args.into_iter().chain([script.as_str()]));
        let pid = fixture.await_file("pid");
        if is_killed {
            running.signal(Signal::KILL);
        } else {
            running.end().assert_code(79).assert_stderr("was killed");
        }
        let next = fixture.run(["x", "--", "sh", "-c", &format!("kill -0 {pid}")]);
        assert!(!is_alive(&pid), "{next:?}");
    }
}

#[test]
fn process_that_forks_continuously_is_killed() {
    // All in one group, all in another session, or each in its own session.
    for how in ["one", "apart", "each"] {
        for victim in ["none", "quorate", "guardian"] {
            let fixture = Fixture::one();
            fixture.write("again.c", AGAIN);
            let mut compiler = Command::new("cc");
            fixture.prepare(&mut compiler);
            Running::start(compiler.args(["-o", "again", "again.c"])).end().assert_code(0);
            let script = format!("exec > /dev/null 2>&1; ./again {how}; exec sleep 60");
            let limit = if victim == "none" { ENOUGH } else { "60s" };
            let args = ["--ttl", "2s", "-k", "100ms", "--max-hold", limit, "x", "--", "sh", "-c"];
            let mut running = fixture.start(args.into_iter().chain([script.as_str()]));
            let generation = || fixture.read("generation").trim().parse().unwrap_or(0);
            // On a busy machine, the limit may come first.
            fixture.await_that("it runs", || generation() > 20 || running.has_ended());
            match victim {
                "quorate" => running.signal(Signal::KILL),
                "guardian" => kill(&children(running.pid())[0].to_string()),
                _ => {}
            }
            if victim != "quorate" {
                running.end();
            }
            let check = "a=$(cat generation); sleep 0.2; b=$(cat generation); [ \"$a\" = \"$b\" ]";
            let next = fixture.run(["x", "--", "sh", "-c", check]);
            assert_eq!(next.code(), 0, "{how}, {victim} killed: it goes on");
        }
    }
}

#[test]
fn later_mount_over_proc_hides_no_process() {
    let fixture = Fixture::one();
    let script = "exec > /dev/null 2>&1; mount -t tmpfs none /proc && echo > covered; \
        setsid sh -c 'trap \"\" TERM; echo $$ > pid; while :; do sleep 0.05; done' & wait";
    let mut command = Command::new("sh");
    fixture.prepare(&mut command);
    let line = "if unshare --user --map-root-user --mount true; \
        then exec unshare --user --map-root-user --mount \"$@\"; else exec \"$@\"; fi";
    command.args(["-c", line, "sh", QUORATE, "run", "--ttl", "2s", "-k", "50ms"]);
    command.args(["--max-hold", ENOUGH, "x", "--", "sh", "-c", script]);
    let running = Running::start(&mut command);
    let pid = fixture.await_file("pid");
    running.end().assert_code(79).assert_stderr("was killed");
    assert!(!is_alive(&pid));
    // Skipped if the system does not allow namespaces.
    assert_eq!(!fixture.read("covered").is_empty(), has_namespaces());
}

/// An entrypoint starts a helper and executes quorate; later the helper starts a process and ends.
#[test]
fn descendants_of_earlier_children_are_not_killed() {
    for end in ["exit 0", "sleep 60", "kill -9 $PPID; sleep 60"] {
        let fixture = Fixture::one();
        let mut command = Command::new("sh");
        fixture.prepare(&mut command);
        fixture.write("helper.sh", "while ! [ -e go ]; do sleep 0.01; done\nsetsid sh left.sh &\n");
        fixture.write("left.sh", "echo $$ > left\nexec sleep 60\n");
        // The command continues once the orphan has become a child of quorate.
        let script = format!(
            "echo > go; while ! [ -e left ] || [ -e /proc/$(cat helper) ]; do sleep 0.01; done; \
             echo > come; while ! [ -e on ]; do sleep 0.01; done; {end}"
        );
        let line = "sh helper.sh > /dev/null 2>&1 & echo $! > helper; \
            exec \"$0\" run --ttl 2s -k 50ms --max-hold 2s x -- sh -c \"$1\"";
        command.args(["-c", line, QUORATE, &script]);
        let running = Running::start(&mut command);
        fixture.await_file("come");
        let left = fixture.await_file("left");
        let quorate = running.pid().as_raw_nonzero().get().to_string();
        fixture.await_that("it is a child of quorate", || parent(&left) == quorate);
        fixture.write("on", "");
        let ended = running.end();
        assert!(!ended.err().contains("without the lock"), "{ended:?}");
        assert!(is_alive(&left), "after {end}: {ended:?}");
        kill(&left);
    }
}

#[test]
fn command_continues_after_a_long_pause_of_itself_or_the_guardian() {
    let fixture = Fixture::one();
    let script = "echo > ready; while ! [ -e stop ]; do sleep 0.01; done; exit 5";
    let running = fixture.start(["--ttl", "2s", "x", "--", "sh", "-c", script]);
    fixture.await_file("ready");
    let guardian = children(running.pid())[0];
    let group = |signal| rustix::process::kill_process_group(guardian, signal);
    let alone = |signal| kill_process(guardian, signal);
    for pause in [&group as &dyn Fn(Signal) -> rustix::io::Result<()>, &alone] {
        pause(Signal::STOP).expect("it is there");
        // For the time of many renewals, a waiter does not get the lock.
        fixture.run(["-w", "16", "x", "true"]).assert_code(75);
        pause(Signal::CONT).expect("it is there");
        fixture.run_until_answered(["-w", "0.5", "x", "true"]).assert_code(75);
    }
    fixture.write("stop", "");
    running.end().assert_code(5);
}

/// Long enough that even on a busy machine the command runs before its time is up.
const ENOUGH: &str = "2s";

/// Forks and exits continuously; ends by itself after some time, in case it is not killed. The
/// toolchain that links this test can compile it.
const AGAIN: &str = r#"
    #include <fcntl.h>
    #include <signal.h>
    #include <stdio.h>
    #include <time.h>
    #include <unistd.h>
    int main(int count, char **args) {
        char how = args[count - 1][0], text[32];
        time_t began = time(0);
        signal(SIGTERM, SIG_IGN);
        int file = open("generation", O_CREAT | O_WRONLY, 0644);
        for (int n = 0; time(0) - began < 20; n++) {
            if (fork() != 0) _exit(0);
            if (how == 'e' || (how == 'a' && n == 0)) setsid();
            usleep(1000);
            pwrite(file, text, snprintf(text, sizeof text, "%09d\n", n), 0);
        }
    }
"#;

fn parent(pid: &str) -> String {
    let pid = pid.trim().parse().ok().and_then(Pid::from_raw).expect("a pid");
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    line.map(|parent| parent.trim().to_owned()).unwrap_or_default()
}
