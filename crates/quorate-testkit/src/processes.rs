//! A test program that starts itself again as other processes, its children.
//!
//! Responsible for starting, stopping and killing children, and for the lines that pass between a
//! child and the test. Not for what a child does.
//!
//! A program that calls [`run`] has no test harness, so a child is a plain process with one
//! purpose. A program with a harness starts one of its tests as a child by [`this_test`].

mod contenders;

use std::{
    env,
    error::Error,
    io::{BufRead as _, BufReader, Write as _},
    process::{self, ChildStdin, Command, ExitCode, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

pub use self::contenders::{Contenders, must_stop, recorder};
use crate::eventually;

/// What a child returns. The text of a failure is printed.
pub type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

/// The `main` of a test program without a harness.
///
/// In a child it calls `child` with the role and the other arguments. Otherwise it calls `test`
/// with the arguments of `cargo test`, which fails by a panic, or it lists the one test `name`.
pub fn run(
    name: &str,
    child: impl FnOnce(&str, &[&str]) -> Outcome,
    test: impl FnOnce(&[&str]),
) -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    if let [CHILD, role, rest @ ..] = &args[..] {
        return match child(role, rest) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                complain(&format!("{role} {rest:?}: {failure}"));
                ExitCode::FAILURE
            }
        };
    }
    if args.contains(&"--list") {
        // The program has no ignored test, so the list of ignored tests is empty.
        if !args.contains(&"--ignored") {
            print_line(&format!("{name}: test"));
        }
        return ExitCode::SUCCESS;
    }
    test(&args);
    ExitCode::SUCCESS
}

/// Prints a line: a child sends it to the test, and the test shows it to the reader.
#[expect(clippy::print_stdout, reason = "no harness reports the result")]
pub fn print_line(line: &str) {
    println!("{line}");
}

#[expect(clippy::print_stderr, reason = "no harness reports the failure")]
fn complain(line: &str) {
    eprintln!("{line}");
}

/// The command that starts this program as a child with this role.
///
/// # Panics
///
/// If the path of this program is unknown.
#[must_use]
pub fn command(role: &str) -> Command {
    let mut command = Command::new(this_program());
    command.args([CHILD, role]);
    command
}

/// The command that runs one test of this program, which has a harness.
///
/// # Panics
///
/// If the path of this program is unknown.
#[must_use]
pub fn this_test(name: &str) -> Command {
    let mut command = Command::new(this_program());
    command.args(["--exact", name, "--nocapture"]);
    command
}

fn this_program() -> std::path::PathBuf {
    env::current_exe().expect("the path of this program")
}

/// A child process. It ends with the test at the latest.
#[derive(Debug)]
pub struct Child {
    process: process::Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Child {
    /// Starts a command with pipes for its standard input and output.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    #[must_use]
    #[track_caller]
    pub fn start(command: &mut Command) -> Self {
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process = spawned.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().expect("the output is piped")).lines();
        let (sender, lines) = mpsc::channel();
        // A thread reads, so that the test waits for a child that hangs only for a limited time.
        thread::spawn(move || output.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { process, input, lines }
    }

    /// The next line that the child prints.
    ///
    /// # Panics
    ///
    /// If the child prints none within [`PATIENCE`], or ends before.
    #[track_caller]
    pub fn next_line(&self) -> String {
        let line = self.lines.recv_timeout(PATIENCE);
        line.unwrap_or_else(|error| panic!("no line from child {}: {error}", self.process.id()))
    }

    /// Sends a line to the standard input of the child.
    ///
    /// # Panics
    ///
    /// If the child has ended.
    pub fn send_line(&mut self, line: &str) {
        let input = self.input.as_mut().expect("the input is open until the end");
        writeln!(input, "{line}").expect("the child reads its input");
    }

    /// Stops the process, until [`resume`](Self::resume).
    ///
    /// # Panics
    ///
    /// If the child has ended.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
    }

    /// Continues a stopped process.
    ///
    /// # Panics
    ///
    /// If the child has ended.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Kills the process, and waits for its end.
    ///
    /// # Panics
    ///
    /// If the child has ended already.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.process.wait().expect("a killed process ends");
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).expect("the child runs");
    }

    /// The status of a child that has ended.
    ///
    /// # Panics
    ///
    /// If the system does not know the process.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().expect("the state of a child")
    }

    /// Closes the standard input of the child, and waits until the child ends with success.
    ///
    /// # Panics
    ///
    /// If the child fails, or does not end within [`PATIENCE`].
    #[track_caller]
    pub fn end(mut self) {
        self.input = None;
        let mut status = None;
        eventually(&format!("child {} ends", self.process.id()), PATIENCE, || {
            status = self.ended();
            status.is_some()
        });
        assert!(status.is_some_and(|status| status.success()), "the child has failed: {status:?}");
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Both fail if the process has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Longer than any step of a child takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(20);

const CHILD: &str = "--child";
