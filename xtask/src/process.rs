//! Running other programs.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::output::say;

/// The root of the repository. Cargo says where this package is now; what the compiler received
/// may be old: a build folder can outlive the checkout it was made from.
pub(crate) fn root() -> PathBuf {
    let package = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let mut package = package.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    package.pop();
    package
}

/// The build folder.
pub(crate) fn target() -> PathBuf {
    root().join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
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
        // The standard library cannot wait for a child with a deadline.
        thread::park_timeout(CHECK_AGAIN);
    }
}

/// The first line a program prints; an error if it cannot be started or fails.
pub(crate) fn first_line(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    judge(output.status)?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// What a program prints on standard output; an error if it fails. Its messages go where ours go.
pub(crate) fn read(command: &mut Command) -> Result<String, String> {
    let child = start(command.stdout(Stdio::piped()))?;
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    judge(output.status)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a program to its end, and returns all that it printed, in order.
pub(crate) fn run_quietly(mut command: Command) -> (Vec<u8>, Result<(), String>) {
    let mut text = format!("    {}\n", command_line(&command)).into_bytes();
    let mut run = || {
        // Not a pipe: a process that the program leaves behind would keep it open.
        let mut output = unnamed_file()?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output.try_clone()?);
        let status = command.spawn()?.wait()?;
        output.seek(SeekFrom::Start(0))?;
        output.read_to_end(&mut text)?;
        Ok(status)
    };
    let result = run().map_err(|error: io::Error| error.to_string()).and_then(judge);
    (text, result)
}

/// A file that is gone when it is closed. What is written to it goes to its end.
fn unnamed_file() -> io::Result<File> {
    static FILES: AtomicUsize = AtomicUsize::new(0);
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let path = env::temp_dir().join(format!("xtask-{}-{number}", process::id()));
    let file = File::options().read(true).append(true).create_new(true).open(&path)?;
    fs::remove_file(path)?;
    Ok(file)
}

/// The same program, but others that want the processor go first.
pub(crate) fn yielding(command: &Command) -> Command {
    let mut nice = Command::new("nice");
    nice.args(["-n", "10"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => nice.env(name, value),
            None => nice.env_remove(name),
        };
    }
    command.get_current_dir().map(|folder| nice.current_dir(folder));
    nice
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

const CHECK_AGAIN: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_that_exceeds_its_time_is_killed() {
        let started = Instant::now();
        let mut command = Command::new("sleep");
        let why = run_within(Duration::ZERO, command.arg("600")).unwrap_err();
        assert_eq!(why, "still running after 0 s");
        assert!(started.elapsed() < Duration::from_secs(600));
    }

    #[test]
    fn program_that_ends_in_time_is_rated_by_its_exit_code() {
        let limit = Duration::from_secs(60);
        assert_eq!(run_within(limit, &mut Command::new("true")), Ok(()));
        assert!(run_within(limit, &mut Command::new("false")).is_err());
        assert!(run(&mut Command::new("no-such-program")).unwrap_err().contains("cannot run"));
    }

    #[test]
    fn what_a_quiet_program_prints_is_kept_in_order() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo out; echo err >&2; exit 3"]);
        let (text, result) = run_quietly(command);
        assert!(String::from_utf8(text).unwrap().ends_with("\nout\nerr\n"));
        assert_eq!(result, Err("exit status: 3".to_owned()));
        assert!(run_quietly(Command::new("no-such-program")).1.is_err());
    }

    #[test]
    fn what_a_failed_program_prints_is_not_taken_for_a_result() {
        let mut command = Command::new("sh");
        assert_eq!(read(command.args(["-c", "echo half"])), Ok("half\n".to_owned()));
        let mut command = Command::new("sh");
        assert!(read(command.args(["-c", "echo half; exit 1"])).is_err());
    }

    #[test]
    fn command_line_shows_no_folder() {
        let mut command = Command::new("/opt/bin/tool");
        assert_eq!(command_line(command.args(["-x", "y"])), "tool -x y");
    }
}
