//! Running other programs.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use crate::output::say;

/// The root of the repository. Cargo says where this package is now; what the compiler was told
/// may be old: a build folder can outlive the checkout it was made from.
pub(crate) fn root() -> PathBuf {
    let package = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let mut package = package.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    package.pop();
    package
}

/// The cargo that started us, to be run in the root of the repository.
pub(crate) fn cargo<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(args).current_dir(root());
    command
}

/// Runs a program to its end; its output goes where ours goes.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let mut child = start(command)?;
    let status = child.wait().map_err(|error| error.to_string())?;
    judge(status)
}

/// As [`run`], but a program that is not done after `limit` is killed, which is a failure.
pub(crate) fn run_within(limit: Duration, command: &mut Command) -> Result<(), String> {
    let mut child = start(command)?;
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            return judge(status);
        }
        if Instant::now() >= deadline {
            // It may have ended by itself just now; then there is nothing left to kill.
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("still running after {} s", limit.as_secs()));
        }
        // The standard library cannot wait for a child with a deadline, so we look again and again.
        thread::park_timeout(LOOK_AGAIN);
    }
}

/// The first line a program prints; an error if it cannot be started or fails.
pub(crate) fn first_line(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    judge(output.status)?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

fn start(command: &mut Command) -> Result<Child, String> {
    let line = command_line(command);
    say(format!("    {line}"));
    command.spawn().map_err(|error| format!("cannot run `{line}`: {error}"))
}

fn judge(status: ExitStatus) -> Result<(), String> {
    if status.success() { Ok(()) } else { Err(status.to_string()) }
}

/// What a person would type. The folder of the program is left out: it differs between machines.
fn command_line(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or_else(|| command.get_program());
    let words = [name].into_iter().chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

const LOOK_AGAIN: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_overstays_is_killed() {
        let started = Instant::now();
        let mut command = Command::new("sleep");
        let why = run_within(Duration::ZERO, command.arg("600")).unwrap_err();
        assert_eq!(why, "still running after 0 s");
        assert!(started.elapsed() < Duration::from_secs(600));
    }

    #[test]
    fn a_program_that_ends_in_time_is_judged_by_its_exit_code() {
        let limit = Duration::from_secs(60);
        assert_eq!(run_within(limit, &mut Command::new("true")), Ok(()));
        assert!(run_within(limit, &mut Command::new("false")).is_err());
        assert!(run(&mut Command::new("no-such-program")).unwrap_err().contains("cannot run"));
    }

    #[test]
    fn a_command_line_shows_no_folder() {
        let mut command = Command::new("/opt/bin/tool");
        assert_eq!(command_line(command.args(["-x", "y"])), "tool -x y");
    }
}
