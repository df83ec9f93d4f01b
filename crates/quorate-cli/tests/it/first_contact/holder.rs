//! Who holds a lock: host, process, user and command, in the same form everywhere.

use crate::fixture::{Fixture, Running, is_alive};

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[test]
fn holder_is_a_process_of_a_user_with_a_command_and_a_reason() {
    let fixture = Fixture::one();
    let holder = fixture.hold_with(["--why", "nightly", "x"], "holder");
    let pid = holder.pid().as_raw_nonzero();
    let who = format!("quorate/{}/{pid} {}: sh (nightly)", host(), fixture.user());
    let left = " unless renewed";
    for (args, code) in [
        (&["run", "-n", "x", "true"][..], 75),
        (&["run", "-w", "1.5", "x", "true"], 75),
        (&["acquire", "-n", "x"], 75),
        (&["show", "x"], 0),
    ] {
        let ended = fixture.exec_until_answered(args.iter().copied()).assert_code(code);
        let text = format!("{}{}", ended.out(), ended.err());
        assert!(text.contains(&who) && text.contains(left), "{args:?}: {text}");
        // The arguments may be secret.
        assert!(!text.contains("/dev/null"), "{args:?}: {text}");
    }
    let listed = fixture.exec(["ls"]).assert_code(0);
    assert!(listed.out().contains(&who) && listed.out().contains("RENEW WITHIN"), "{listed:?}");
    holder.close().assert_code(0);
}

/// `quorate acquire` has ended when others see its lease.
#[test]
fn lease_names_the_process_that_asked_for_it() {
    let fixture = Fixture::one();
    let quorate = env!("CARGO_BIN_EXE_quorate");
    for call in ["$(QUORATE acquire x)", "$(cd /; QUORATE acquire x; :)"] {
        let call = call.replace("QUORATE", quorate);
        let script =
            format!("QUORATE_LEASE={call}; echo $$ > pid; cat; {quorate} release $QUORATE_LEASE");
        fixture.write("job.sh", &script);
        for shell in ["sh", "bash"] {
            let mut command = std::process::Command::new(shell);
            fixture.prepare(&mut command);
            let job = Running::start(command.arg("./job.sh"));
            let pid = fixture.await_file("pid").trim().to_owned();
            assert!(is_alive(&pid));
            let who = format!(
                "x: held by quorate/{}/{pid} {}: {shell} job.sh for ",
                host(),
                fixture.user()
            );
            let shown = fixture.exec(["show", "x"]).assert_code(0);
            assert!(shown.out().starts_with(&who), "{call}: {shown:?}, not {who}");
            job.close().assert_code(0);
            std::fs::remove_file(fixture.path("pid")).expect("it is there");
        }
    }
}

/// Each error names the lock once.
#[test]
fn lock_is_named_once() {
    let fixture = Fixture::one();
    let lease = fixture.exec(["acquire", "lock-7"]).assert_code(0).out().trim_end().to_owned();
    let once = |args: &[&str], code: i32| {
        let ended = match code {
            69 => fixture.exec(args.iter().copied()),
            _ => fixture.exec_until_answered(args.iter().copied()),
        };
        let ended = ended.assert_code(code);
        assert_eq!(ended.err().matches("lock-7").count(), 1, "{args:?}: {ended:?}");
    };
    once(&["run", "-n", "lock-7", "true"], 75);
    once(&["release", "-v", &lease], 0);
    once(&["renew", &lease], 79);
    fixture.servers[0].kill();
    once(&["run", "-n", "lock-7", "true"], 69);
    once(&["run", "-n", "-l", "lock-7", "other", "true"], 69);
    once(&["acquire", "-n", "lock-7"], 69);
}
