//! On a real terminal: `script` creates one, and the test types into it. The screen begins with the
//! command line, so an awaited text must not occur there.

use std::process::{Command, Stdio};

use crate::fixture::{DEFAULT_SIGNALS, Ended, Fixture, Running};

#[test]
fn ctrl_c_ends_the_wait() {
    let fixture = Fixture::one();
    let holder = fixture.hold("x");
    let mut terminal = Terminal::start(&fixture, "run x -- echo ran");
    fixture.await_screen("waiting for \"x\"");
    terminal.type_in("\x03");
    let ended = terminal.end();
    assert_eq!(ended.code(), 130, "{ended:?}");
    assert!(!fixture.read("screen").contains("ran\r\n"), "{:?}", fixture.read("screen"));
    holder.close().assert_code(0);
}

/// A script asks a question, and its command reads the answer.
#[test]
fn text_before_the_cursor_stays_without_a_status_line() {
    let fixture = Fixture::one();
    let quorate = env!("CARGO_BIN_EXE_quorate");
    fixture
        .write("job.sh", &format!("printf 'sure? '; {quorate} run x -- sh -c 'read l; echo $l'"));
    let mut terminal = Terminal::start_program(&fixture, "sh job.sh");
    fixture.await_screen("sure? ");
    terminal.type_in("yes\n");
    assert_eq!(terminal.end().code(), 0);
    let screen = fixture.read("screen");
    // On a busy machine a status line may have been shown.
    assert!(!screen.contains('\x1b') || screen.contains("waiting for"), "{screen:?}");
    // The status line is cleared.
    let holder = fixture.hold("x");
    let terminal = Terminal::start(&fixture, "run x -- true");
    fixture.await_screen("waiting for \"x\"");
    holder.close().assert_code(0);
    assert_eq!(terminal.end().code(), 0);
    assert!(fixture.read("screen").contains("\r\x1b[2K\n"), "{:?}", fixture.read("screen"));
}

#[test]
fn ctrl_c_ends_the_command_and_not_quorate() {
    let fixture = Fixture::one();
    let mut terminal = Terminal::start(&fixture, &format!("run -v x -- sh -c '{INTERRUPTED}'"));
    fixture.await_screen("ready2");
    terminal.type_in("\x03");
    let ended = terminal.end();
    assert_eq!(ended.code(), 4, "{ended:?}");
    assert!(fixture.read("screen").contains("interrupted2"));
    fixture.run_until_answered(["-n", "x", "true"]).assert_code(0);
}

#[test]
fn command_reads_the_terminal() {
    let fixture = Fixture::one();
    let script = "echo ready$((1 + 1)); read line; echo got $line";
    let mut terminal = Terminal::start(&fixture, &format!("run x -- sh -c '{script}'"));
    fixture.await_screen("ready2");
    terminal.type_in("hello\n");
    assert_eq!(terminal.end().code(), 0);
    assert!(fixture.read("screen").contains("got hello"));
}

#[test]
fn ctrl_z_stops_both_and_the_shell_has_the_terminal() {
    let fixture = Fixture::one();
    let quorate = env!("CARGO_BIN_EXE_quorate");
    let mut terminal = Terminal::start_program(&fixture, "bash --norc --noprofile -i");
    terminal.type_in("PS1='$ '\n");
    terminal.type_in(&format!("{quorate} run x -- sh -c 'echo be''gun; read l; echo got $l'\n"));
    fixture.await_screen("begun");
    terminal.type_in("\x1a");
    fixture.await_screen("Stopped");
    terminal.type_in("echo at the sh''ell; fg\n");
    fixture.await_screen("at the shell");
    terminal.type_in("hello\n");
    fixture.await_screen("got hello");
    terminal.type_in("exit 0\n");
    assert_eq!(terminal.end().code(), 0);
}

/// A stopped job does not renew its lock, and some of its processes may still run.
#[test]
fn job_stopped_for_too_long_ends_before_another_owner_gets_the_lock() {
    let fixture = Fixture::one();
    let quorate = env!("CARGO_BIN_EXE_quorate");
    let mut terminal = Terminal::start_program(&fixture, "bash --norc --noprofile -i");
    // A shell that starts a program waits in the kernel until the program has started: if the
    // program were stopped earlier, the shell would not be.
    let script = "echo $PPID > guardian; \
        setsid sh -c 'echo $$ > apart; while :; do sleep 0.05; done' & exec sleep 60";
    fixture.write("job.sh", script);
    // The longest margin: its guardian kills it half a second before the lease expires.
    terminal.type_in(&format!("{quorate} run --ttl 10s x -- sh job.sh\n"));
    let apart = fixture.await_file("apart");
    terminal.type_in("\x1a");
    fixture.await_screen("Stopped");
    let check = format!("kill -0 {} 2>/dev/null && echo alive; :", apart.trim());
    let next = fixture.run(["-w", "60", "x", "--", "sh", "-c", &check]).assert_code(0);
    // A killed process stays a zombie until its parent reaps it: here, a stopped one.
    assert!(next.out().is_empty() || !crate::fixture::is_alive(&apart), "{next:?}");
    let guardian = fixture.read("guardian");
    fixture.await_that("its guardian has done its work", || !crate::fixture::is_alive(&guardian));
    terminal.type_in("fg\n");
    terminal.type_in("echo co$((70 + 9)) $?\n");
    fixture.await_screen("co79 79");
    fixture.await_screen("the lock was not renewed in time, and the command was killed");
    assert!(!fixture.read("screen").contains("but only after"), "{:?}", fixture.read("screen"));
    drop(terminal);
}

/// The inner run stops by a signal that no terminal sends; so does a command that stops itself.
#[test]
fn ctrl_z_gives_the_terminal_back_however_the_command_stops() {
    let quorate = env!("CARGO_BIN_EXE_quorate");
    for (key, line) in [
        ("\x1a", format!("{quorate} run o -- {quorate} run i -- sh job.sh")),
        ("", format!("{quorate} run o -- sh -c 'kill -STOP $$; exec sh job.sh'")),
        ("\x1a", format!("{quorate} run --foreground o -- {quorate} run i -- sh job.sh")),
    ] {
        let fixture = Fixture::one();
        fixture.write("job.sh", "echo be''gun; read l; echo got $l");
        let mut terminal = Terminal::start_program(&fixture, "bash --norc --noprofile -i");
        terminal.type_in(&format!("{line}\n"));
        if !key.is_empty() {
            fixture.await_screen("begun");
            terminal.type_in(key);
        }
        fixture.await_screen("Stopped");
        terminal.type_in("echo at the sh''ell; fg\n");
        fixture.await_screen("at the shell");
        fixture.await_screen("begun");
        terminal.type_in("hello\n");
        fixture.await_screen("got hello");
        terminal.type_in("exit 0\n");
        assert_eq!(terminal.end().code(), 0, "{line}");
    }
}

/// The job is stopped for so long that it must renew immediately, but has not lost the lock.
#[test]
fn job_that_resumes_before_its_lease_expires_keeps_the_lock() {
    let fixture = Fixture::one();
    let quorate = env!("CARGO_BIN_EXE_quorate");
    let mut terminal = Terminal::start_program(&fixture, "bash --norc --noprofile -i");
    fixture.write("job.sh", "echo be''gun; read l; echo got $l");
    terminal.type_in(&format!("{quorate} run --ttl 6s x -- sh job.sh\n"));
    fixture.await_screen("begun");
    terminal.type_in("\x1a");
    fixture.await_screen("Stopped");
    terminal.type_in("sleep 3.3; fg; echo co$((70 + 9)) $?\n");
    terminal.type_in("hello\n");
    fixture.await_screen("co79 0");
    assert!(
        !fixture.read("screen").contains("terminating the command"),
        "{:?}",
        fixture.read("screen")
    );
    terminal.type_in("exit 0\n");
    assert_eq!(terminal.end().code(), 0);
}

#[test]
fn ctrl_z_stops_the_wait() {
    let quorate = env!("CARGO_BIN_EXE_quorate");
    for verb in ["run x -- echo got it", "acquire x"] {
        let fixture = Fixture::one();
        let holder = fixture.hold("x");
        let mut terminal = Terminal::start_program(&fixture, "bash --norc --noprofile -i");
        terminal.type_in(&format!("{quorate} {verb}; echo co$((70 + 9)) $?\n"));
        fixture.await_that("it waits", || super::signals::waits(&fixture, 1));
        terminal.type_in("\x1a");
        fixture.await_screen("Stopped");
        terminal.type_in("echo at the sh''ell; fg; echo co$((70 + 10)) $?\n");
        fixture.await_screen("at the shell");
        holder.close().assert_code(0);
        fixture.await_screen("co80 0");
        terminal.type_in("exit 0\n");
        assert_eq!(terminal.end().code(), 0);
    }
}

#[test]
fn background_job_can_be_moved_to_the_foreground() {
    let fixture = Fixture::one();
    let quorate = env!("CARGO_BIN_EXE_quorate");
    let mut terminal = Terminal::start_program(&fixture, "bash --norc --noprofile -i");
    fixture.write("job.sh", "read l; echo got $l");
    // The shell reports changes of jobs immediately.
    terminal.type_in("set -b\n");
    terminal.type_in(&format!("{quorate} run x -- sh job.sh &\n"));
    fixture.await_screen("[1]");
    // A background job may not read the terminal.
    fixture.await_screen("Stopped");
    terminal.type_in("fg\n");
    terminal.type_in("hello\n");
    fixture.await_screen("got hello");
    drop(terminal);
}

#[test]
fn other_programs_of_a_pipeline_keep_the_terminal() {
    let fixture = Fixture::one();
    let quorate = env!("CARGO_BIN_EXE_quorate");
    // All processes are interrupted. The outermost must not end before the last has written, and
    // background processes of a shell are not interrupted: one of them writes everything that
    // arrives.
    let other = "trap \"echo > interrupted\" INT; exec 3<&0; cat <&3 & wait; wait";
    fixture.write("other.sh", other);
    let pipeline = format!("{quorate} run x -- sh -c \"$SCRIPT\" | sh other.sh");
    let line = format!("sh -c 'trap : INT; {pipeline}; wait'");
    let mut terminal = Terminal::start_with(&fixture, &line, INTERRUPTED);
    fixture.await_screen("ready2");
    terminal.type_in("\x03");
    fixture.await_screen("interrupted2");
    fixture.await_file("interrupted");
    drop(terminal);
}

#[test]
fn waiter_sees_how_many_share_the_lock() {
    let fixture = Fixture::one();
    let (one, two) = (fixture.hold_with(["-s", "x"], "one"), fixture.hold_with(["-s", "x"], "two"));
    let writer = Terminal::start(&fixture, "run x -- true");
    fixture.await_screen("waiting for \"x\", held by quorate/");
    fixture.await_screen(" and 1 other for ");
    fixture.await_screen("; next in the queue");
    std::fs::rename(fixture.path("screen"), fixture.path("screen.writer")).expect("it is there");
    let reader = Terminal::start(&fixture, "run -s x -- true");
    fixture.await_screen(" and 1 other for ");
    fixture.await_screen("; 1 waiter ahead");
    one.close().assert_code(0);
    two.close().assert_code(0);
    assert_eq!((writer.end().code(), reader.end().code()), (0, 0));
}

#[test]
fn waiter_for_a_permit_sees_its_position() {
    let fixture = Fixture::one();
    let hold = |file| fixture.hold_with(["--permits", "2", "jobs"], file);
    let holders = [hold("one"), hold("two")];
    let line = "run --permits 2 jobs -- true";
    let waiting = "waiting for one of 2 permits of \"jobs\", all in use; ";
    let mut terminals = Vec::new();
    for place in ["next in the queue", "1 waiter ahead", "2 waiters ahead"] {
        terminals.push(Terminal::start(&fixture, line));
        fixture.await_screen(&format!("{waiting}{place}"));
        std::fs::rename(fixture.path("screen"), fixture.path(place)).expect("it is there");
    }
    for holder in holders {
        holder.close().assert_code(0);
    }
    for terminal in terminals {
        assert_eq!(terminal.end().code(), 0);
    }
}

/// Reports when it can be interrupted, and when it was.
const INTERRUPTED: &str = "trap \"echo interrupted$((1 + 1)); exit 4\" INT; \
    echo ready$((1 + 1)); while :; do sleep 0.01; done";

impl Fixture {
    #[track_caller]
    pub(crate) fn await_screen(&self, text: &str) {
        let is_shown = || self.read("screen").contains(text);
        self.await_that_or(|| format!("{text:?} in {:?}", self.read("screen")), is_shown);
    }
}

/// A terminal with a program in it.
pub(crate) struct Terminal(Running);

impl Terminal {
    /// Starts `quorate` with these arguments.
    pub(crate) fn start(fixture: &Fixture, args: &str) -> Self {
        Self::start_program(fixture, &format!("{} {args}", env!("CARGO_BIN_EXE_quorate")))
    }

    pub(crate) fn start_program(fixture: &Fixture, line: &str) -> Self {
        Self::start_with(fixture, line, "")
    }

    /// `script` of util-linux must be there.
    fn start_with(fixture: &Fixture, line: &str, script: &str) -> Self {
        let mut command = Command::new("env");
        fixture.prepare(&mut command);
        command.env("SHELL", "/bin/sh").env("SCRIPT", script);
        command.args([DEFAULT_SIGNALS, "script"]);
        command.args(["--quiet", "--return", "--flush", "--command", line, "screen"]);
        Self(Running::start_as_is(command.stdin(Stdio::piped()).stdout(Stdio::null())))
    }

    fn type_in(&mut self, keys: &str) {
        self.0.write(keys);
    }

    /// Waits for the end of the program.
    #[track_caller]
    pub(crate) fn end(self) -> Ended {
        self.0.end()
    }
}
