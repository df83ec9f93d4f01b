//! All of the command is dead before another has the lock, however it hides; and nothing else is.

use std::{os::unix::fs::PermissionsExt as _, process::Command};

use rustix::process::{Pid, Signal, kill_process};

use super::signals::{QUORATE, children, has_namespaces, kill};
use crate::fixture::{Fixture, Running, is_alive};

/// The kernel cuts names at 15 bytes, which is within a character here.
#[test]
fn a_process_whose_name_is_no_text_is_killed_as_well() {
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
            running.end().assert_code(79).assert_says("was killed");
        }
        let next = fixture.run(["x", "--", "sh", "-c", &format!("kill -0 {pid}")]);
        assert!(!is_alive(&pid), "{next:?}");
    }
}

#[test]
fn a_process_that_starts_itself_anew_all_the_time_is_killed() {
    // All of them in one group, all in another session, and each in a session of its own.
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
            let running = fixture.start(args.into_iter().chain([script.as_str()]));
            let generation = || fixture.read("generation").trim().parse().unwrap_or(0);
            fixture.await_that("it runs", || generation() > 20);
            match victim {
                "quorate" => running.signal(Signal::KILL),
                "guardian" => kill(&children(running.pid())[0].to_string()),
                _ => {}
            }
            if victim != "quorate" {
                running.end();
            }
            let look = "a=$(cat generation); sleep 0.2; b=$(cat generation); [ \"$a\" = \"$b\" ]";
            let next = fixture.run(["x", "--", "sh", "-c", look]);
            assert_eq!(next.code(), 0, "{how}, {victim} killed: it goes on");
        }
    }
}

#[test]
fn what_is_mounted_over_proc_hides_nobody() {
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
    running.end().assert_code(79).assert_says("was killed");
    assert!(!is_alive(&pid));
    // Where the system gives no namespace nobody can mount anything there.
    assert_eq!(!fixture.read("covered").is_empty(), has_namespaces());
}

/// An entrypoint starts a helper and becomes quorate; later the helper starts another and ends.
#[test]
fn what_comes_from_before_is_left_alone_also_if_it_was_started_later() {
    for end in ["exit 0", "sleep 60", "kill -9 $PPID; sleep 60"] {
        let fixture = Fixture::one();
        let mut command = Command::new("sh");
        fixture.prepare(&mut command);
        fixture.write("helper.sh", "while ! [ -e go ]; do sleep 0.01; done\nsetsid sh left.sh &\n");
        fixture.write("left.sh", "echo $$ > left\nexec sleep 60\n");
        // The command goes on when what is left has come to quorate.
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
        fixture.await_that("it has come", || parent(&left) == quorate);
        fixture.write("on", "");
        let ended = running.end();
        assert!(!ended.err().contains("on without the lock"), "{ended:?}");
        assert!(is_alive(&left), "after {end}: {ended:?}");
        kill(&left);
    }
}

#[test]
fn the_command_goes_on_after_a_long_pause_of_all_of_it_or_of_its_guardian() {
    let fixture = Fixture::one();
    let script = "echo > ready; while ! [ -e stop ]; do sleep 0.01; done; exit 5";
    let running = fixture.start(["--ttl", "2s", "x", "--", "sh", "-c", script]);
    fixture.await_file("ready");
    let guardian = children(running.pid())[0];
    let group = |signal| rustix::process::kill_process_group(guardian, signal);
    let alone = |signal| kill_process(guardian, signal);
    for pause in [&group as &dyn Fn(Signal) -> rustix::io::Result<()>, &alone] {
        pause(Signal::STOP).expect("it is there");
        // Many renewals long: somebody waits in vain.
        fixture.run(["-w", "16", "x", "true"]).assert_code(75);
        pause(Signal::CONT).expect("it is there");
        fixture.run(["-w", "0.5", "x", "true"]).assert_code(75);
    }
    fixture.write("stop", "");
    running.end().assert_code(5);
}

/// So long that also on a busy machine the command runs before its time is over.
const ENOUGH: &str = "2s";

/// Starts another and ends, again and again; after some time it ends by itself, in case that it is
/// not killed. What links this test can compile it.
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
