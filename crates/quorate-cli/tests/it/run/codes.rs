//! Every exit code.

use std::time::{Duration, Instant};

use quorate_testkit::{Server, redis::cmd};

use crate::fixture::{Fixture, Running};

#[test]
fn exit_code_and_output_of_the_command_are_passed_through() {
    let fixture = Fixture::one();
    let ended =
        fixture.run(["x", "--", "sh", "-c", "echo out; echo err >&2; exit 3"]).assert_code(3);
    assert_eq!((ended.out(), ended.err()), ("out\n", "err\n"));
    fixture.run(["x", "true"]).assert_code(0);
    fixture.run(["x", "--", "sh", "-c", "exit 255"]).assert_code(255);
}

#[test]
fn command_ended_by_a_signal_is_128_plus_the_signal() {
    let fixture = Fixture::one();
    for (signal, code) in [("TERM", 143), ("KILL", 137), ("INT", 130)] {
        fixture.run(["x", "--", "sh", "-c", &format!("kill -{signal} $$")]).assert_code(code);
    }
}

#[test]
fn held_lock_is_75_or_the_conflict_exit_code() {
    let fixture = Fixture::one();
    let holder = fixture.hold("x");
    let who = format!("held by quorate/{}", host());
    fixture.run_until_answered(["-n", "x", "true"]).assert_code(75).assert_stderr(&who);
    fixture.run_until_answered(["-w", "0.5", "x", "true"]).assert_code(75).assert_stderr(&who);
    fixture.run_until_answered(["-w", "0", "x", "true"]).assert_code(75);
    fixture.run_until_answered(["-n", "-E", "9", "x", "true"]).assert_code(9).assert_stderr(&who);
    fixture.run_until_answered(["-n", "y", "true"]).assert_code(0);
    holder.close().assert_code(0);
    fixture.run_until_answered(["-n", "x", "true"]).assert_code(0);
}

#[test]
fn silent_nodes_are_69() {
    let fixture = Fixture::one();
    fixture.servers[0].kill();
    for patience in [&["-n"][..], &["-w", "1"], &["--ttl", "1s"]] {
        let args = patience.iter().copied().chain(["x", "true"]);
        fixture.run(args).assert_code(69).assert_stderr("connection refused");
    }
}

/// Regardless of a short ttl: a server may be restarting.
#[test]
fn temporarily_silent_nodes_are_waited_for() {
    let fixture = Fixture::one();
    for verb in [&["run", "--ttl", "500ms", "x", "true"][..], &["acquire", "--ttl", "500ms", "y"]] {
        fixture.servers[0].pause();
        let started = Instant::now();
        let waiting = Running::start(&mut fixture.quorate(verb.iter().copied()));
        // That is several ttls.
        fixture.run(["-w", "2", "z", "true"]).assert_code(69);
        fixture.servers[0].resume();
        waiting.close().assert_code(0);
        assert!(started.elapsed() >= Duration::from_secs(2), "{verb:?}");
    }
    fixture.servers[0].kill();
    let started = Instant::now();
    fixture
        .run(["--ttl", "200ms", "x", "true"])
        .assert_code(69)
        .assert_stderr("connection refused");
    assert!(started.elapsed() >= Duration::from_secs(10), "{:?}", started.elapsed());
}

#[test]
fn new_lock_on_full_servers_is_69_with_the_reason() {
    for fixture in [Fixture::one(), Fixture::nodes(3)] {
        let holder = fixture.hold("x");
        let set_limit = |bytes: &str| {
            for server in &fixture.servers {
                let mut set = cmd("CONFIG");
                set.arg(&["SET", "maxmemory", bytes]);
                set.exec(&mut server.connection()).expect("the server takes it");
            }
        };
        set_limit("1");
        for args in [["-n", "y", "true"].as_slice(), &["-w", "1", "y", "true"]] {
            let ended = fixture.run(args.iter().copied()).assert_code(69);
            ended.assert_stderr("memory is full: the server answers OOM");
        }
        holder.close().assert_code(0);
        set_limit("0");
        fixture.run_until_answered(["-n", "y", "true"]).assert_code(0);
    }
}

#[test]
fn invalid_arguments_are_64() {
    let fixture = Fixture::one();
    for (args, expected) in [
        (&["x"][..], "COMMAND"),
        (&[], "NAME"),
        (&["--fly", "x", "true"], "--fly"),
        (&["-w", "soon", "x", "true"], "use a number followed by ms, s, m or h"),
        (&["--signal", "STOP", "x", "true"], "invalid signal \"STOP\": use HUP"),
        (&["-n", "-w", "1", "x", "true"], "cannot be used with"),
        (&["-v", "-q", "x", "true"], "cannot be used with"),
        (&["-c", "true", "x", "true"], "cannot be used with"),
        (&["", "true"], "empty"),
        (&["a\nb", "true"], "control character"),
        (&["quorate:x", "true"], "reserved"),
        (&["--ttl", "2h", "x", "true"], "max_ttl"),
        (&["--ttl", "0", "x", "true"], "invalid ttl 0"),
        (&["--ttl", "2s", "-k", "1.5s", "x", "true"], "more than half of the ttl"),
        (&["-E", "256", "x", "true"], "256"),
        (&["--min-hold", "3s", "--max-hold", "2s", "x", "true"], "--max-hold 2 s is less"),
    ] {
        fixture.run(args.iter().copied()).assert_code(64).assert_stderr(expected);
    }
}

#[test]
fn rejected_permissions_and_passwords_are_77() {
    let server = Server::builder().password("secret").start();
    let fixture = Fixture::without_servers();
    for (password, expected) in [("", "NOAUTH"), (":wrong@", "WRONGPASS")] {
        let url = format!("redis://{password}{}", server.address());
        let ended = fixture.run_until_answered(["--node", &url, "-n", "x", "true"]).assert_code(77);
        let ended = ended.assert_stderr(expected);
        assert!(!ended.err().contains("wrong@"), "{ended:?}");
        fixture.run(["--node", &url, "x", "true"]).assert_code(77).assert_stderr(expected);
    }
    let url = server.url_with("guest", "pass", 0);
    let rules = ["on", ">pass", "~*", "&*", "+@connection", "+info"];
    let mut user = cmd("ACL");
    user.arg("SETUSER").arg("guest").arg(&rules);
    user.exec(&mut server.connection()).expect("the user is made");
    fixture
        .run_until_answered(["--node", &url, "-n", "x", "true"])
        .assert_code(77)
        .assert_stderr("no permission");
}

#[test]
fn invalid_settings_are_78() {
    let fixture = Fixture::without_servers();
    let ended = fixture.run(["--node", "ftp://user:secret@h", "x", "true"]).assert_code(78);
    assert!(!ended.err().contains("secret"), "{ended:?}");
    fixture.run(["--config", "/nowhere", "x", "true"]).assert_code(78).assert_stderr("/nowhere");
}

#[test]
fn lost_lock_is_79_or_the_lost_exit_code() {
    let fixture = Fixture::one();
    for (args, code) in [(&[][..], 79), (&["--lost-exit-code", "5"], 5)] {
        let args = args.iter().copied();
        let script = "echo > started; exec sleep 60";
        let lost = fixture.start(args.chain(["--ttl", "1s", "x", "--", "sh", "-c", script]));
        fixture.await_file("started");
        let mut steal = cmd("SET");
        steal
            .arg("x")
            .arg("another's")
            .exec(&mut fixture.servers[0].connection())
            .expect("it is set");
        lost.end().assert_code(code).assert_stderr(" lost");
        std::fs::remove_file(fixture.path("started")).expect("it is there");
        fixture.servers[0].flush_all();
    }
}

#[test]
fn loss_noticed_only_at_release_is_79() {
    let fixture = Fixture::one();
    let script = "echo > started; cat > /dev/null";
    let lost = fixture.start(["--ttl", "60s", "x", "--", "sh", "-c", script]);
    fixture.await_file("started");
    fixture.servers[0].flush_all();
    lost.close().assert_code(79).assert_stderr("was lost while the command ran");
}

#[test]
fn command_that_cannot_be_executed_is_126_or_127_and_releases_the_lock() {
    let fixture = Fixture::one();
    fixture.run(["x", "no-such-command"]).assert_code(127).assert_stderr("no-such-command");
    fixture.write("text", "");
    fixture.run(["x", "./text"]).assert_code(126).assert_stderr("./text");
    fixture.run(["x", "/"]).assert_code(126).assert_stderr("cannot run /");
    fixture.run(["x", "--", ""]).assert_code(127).assert_stderr("its name is empty");
    fixture.run_until_answered(["-n", "x", "true"]).assert_code(0);
}

#[test]
fn command_that_cannot_be_executed_is_reported_in_the_requested_format() {
    let fixture = Fixture::one();
    fixture.write("text", "");
    for (command, code) in [("no-such-command", 127), ("./text", 126)] {
        let ended = fixture.run(["--log-format", "json", "x", command]).assert_code(code);
        let told: serde_json::Value = serde_json::from_str(ended.err()).expect("one object");
        assert_eq!(told["level"], "error", "{ended:?}");
        let message = told["message"].as_str().expect("a text");
        assert!(message.starts_with(&format!("cannot run {command}: ")), "{ended:?}");
    }
    // The internal roles, started without a parent quorate.
    for part in ["__guardian", "__command"] {
        let ended = fixture.exec([part, "json", "1", "own", "true"]).assert_code(70);
        let told: serde_json::Value = serde_json::from_str(ended.err()).expect("one object");
        let message = told["message"].as_str().expect("a text");
        assert!(message.starts_with("cannot start the command: "), "{ended:?}");
        let ended = fixture.exec([part, "text", "1", "own", "true"]).assert_code(70);
        assert!(ended.err().starts_with("quorate: cannot start the command: "), "{ended:?}");
    }
}

#[test]
fn lock_is_released_as_soon_as_the_command_ends() {
    let fixture = Fixture::one();
    for _ in 0..20 {
        fixture.run_until_answered(["-n", "x", "false"]).assert_code(1);
    }
    assert!(fixture.servers[0].get("x").is_none());
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The names of the locks are in the environment of the command, whose size is limited.
#[test]
fn locks_that_exceed_the_environment_are_reported_and_released() {
    let fixture = Fixture::one();
    let names: Vec<String> = (0..600).map(|number| format!("{number:0>240}")).collect();
    let locks = names.iter().flat_map(|name| ["-l", name]);
    let ended = fixture.run(locks.chain(["x", "true"])).assert_code(70);
    let ended = ended.assert_stderr("cannot start the command: its arguments and environment");
    assert_eq!(ended.err().lines().count(), 1, "{ended:?}");
    for name in ["x", &names[0], &names[599]] {
        assert!(fixture.servers[0].get(name).is_none(), "{name} was given back");
    }
}

/// With any limit of open files, quorate reports the missing resource or succeeds.
#[test]
fn too_few_file_descriptors_are_reported_without_a_panic() {
    let fixture = Fixture::without_servers();
    let quorate = env!("CARGO_BIN_EXE_quorate");
    // Inherited descriptors would take numbers below the limit.
    let close =
        r#"for it in /proc/$$/fd/*; do n=${it##*/}; [ $n -lt 3 ] || eval "exec $n>&-"; done"#;
    let mut codes = Vec::new();
    for files in 4..32 {
        for verb in ["run -q --local x true", "acquire -q --local --ttl 1s y"] {
            let mut command = std::process::Command::new("bash");
            fixture.prepare(&mut command);
            let script = format!("{close}; ulimit -n {files}; exec {quorate} {verb}");
            let ended = Running::start(command.args(["-c", &script])).close();
            let code = ended.code();
            assert!([0, 70, 75, 78].contains(&code), "{files} files: {ended:?}");
            let errno = "quorate: Too many open files";
            let is_told = ended.err().contains("quorate: ") && !ended.err().contains(errno);
            assert!(code == 0 || is_told, "{files} files: {ended:?}");
            assert!(!ended.err().contains("panicked"), "{files} files: {ended:?}");
            codes.push(code);
        }
    }
    assert!(codes.contains(&70) && codes.contains(&78) && codes.contains(&0), "{codes:?}");
}
