//! From settings to a process that answers.
//!
//! Responsible for finding the binary, starting it and waiting until this very process is ready,
//! and for telling a taken port from every other failure. Not for choosing the port.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::builder::{Flavour, ServerBuilder};
use super::clock;
use super::folder::Folder;
use super::process::Process;
use super::spawner;
use crate::eventually::rest;

/// Why a server did not start.
#[derive(Debug)]
pub(super) enum LaunchFailure {
    /// Something else listens on the port by now.
    PortTaken,
    /// Anything else, in words for the person who reads the failed test.
    Failed(String),
}

/// Starts a server on `port` and waits until it answers at `url`.
pub(super) fn launch(
    settings: &ServerBuilder,
    folder: &Folder,
    port: u16,
    url: &str,
) -> Result<Process, LaunchFailure> {
    let binary = find_binary(settings).map_err(LaunchFailure::Failed)?;
    if settings.own_clock {
        let library = clock::library().map_err(LaunchFailure::Failed)?;
        fs::write(folder.clock_library(), library)
            .map_err(|error| LaunchFailure::Failed(format!("a library for the clock: {error}")))?;
    }
    let log_start = folder.log_length();
    let mut process = spawn(settings, folder, port, &binary).map_err(|error| {
        LaunchFailure::Failed(format!("cannot start {}: {error}", binary.display()))
    })?;
    let new_log = || folder.log_since(log_start);
    wait_until_ready(&mut process, url, new_log).map_err(|reason| {
        let log = new_log();
        if log.contains("Address already in use") {
            LaunchFailure::PortTaken
        } else {
            LaunchFailure::Failed(format!(
                "{} on port {port} {reason}; the end of its log:\n{}",
                binary.display(),
                tail(&log)
            ))
        }
    })?;
    Ok(process)
}

/// What was chosen is taken or missed. If nothing was, `PATH` comes before what was fetched.
fn find_binary(settings: &ServerBuilder) -> Result<PathBuf, String> {
    let program = settings.flavour.program();
    let found = match settings.chosen_binary() {
        Some(chosen) if chosen.components().count() > 1 => Some(chosen).filter(|it| it.is_file()),
        Some(chosen) => on_path(&chosen),
        None => on_path(Path::new(program)).or_else(|| fetched(program)),
    };
    found.ok_or_else(|| {
        let name = settings.chosen_binary().unwrap_or_else(|| program.into());
        let how = match settings.flavour {
            Flavour::Redis => "install one with `apt-get install redis-server`, or",
            Flavour::Valkey => "`cargo xtask test` fetches one; or",
        };
        let variable = settings.flavour.variable();
        format!(
            "the tests need a {program}, and there is no `{}`: {how} set {variable} to its path; \
             `cargo xtask ci` sees to all servers where it may",
            name.display()
        )
    })
}

fn on_path(name: &Path) -> Option<PathBuf> {
    let folders = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// What `cargo xtask` keeps in the build folder, somewhere above this very program.
fn fetched(program: &str) -> Option<PathBuf> {
    let this = env::current_exe().ok()?;
    let places = this.ancestors().map(|folder| folder.join("servers").join(program));
    places.into_iter().find(|path| path.is_file())
}

fn spawn(
    settings: &ServerBuilder,
    folder: &Folder,
    port: u16,
    binary: &Path,
) -> io::Result<Process> {
    fs::write(folder.config(), settings.config_file(folder, port))?;
    let mut command_line: Vec<OsString> = spawner::parent_death_prefix().to_vec();
    if let Some(cpu) = settings.cpu {
        command_line.extend(["taskset".into(), "-c".into(), cpu.to_string().into()]);
    }
    command_line.extend([binary.into(), folder.config().into()]);

    let log = folder.open_log()?;
    let mut command = Command::new(&command_line[0]);
    command.args(&command_line[1..]).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    if settings.own_clock {
        command.env("LD_PRELOAD", folder.clock_library());
        command.env(clock::FILE_VARIABLE, folder.clock());
    }
    spawner::spawn(command).map(Process::new)
}

/// Fails with the words that complete "the server …".
fn wait_until_ready(
    process: &mut Process,
    url: &str,
    new_log: impl Fn() -> String,
) -> Result<(), String> {
    let deadline = Instant::now() + READY_WITHIN;
    let pid = process.pid();
    loop {
        if let Some(status) = process.exit_status() {
            return Err(format!("ended at its start with {status}"));
        }
        let answer = ask(url);
        match answer {
            Answer::ByProcess(by) if by == pid => return Ok(()),
            Answer::Denied if new_log().contains("Ready to accept connections") => return Ok(()),
            Answer::Denied | Answer::ByProcess(_) | Answer::None(_) => {}
        }
        if Instant::now() >= deadline {
            return Err(format!("was not ready within {READY_WITHIN:?} (pid {pid}, {answer:?})"));
        }
        rest(BETWEEN_QUESTIONS);
    }
}

#[derive(Debug)]
enum Answer {
    #[expect(dead_code, reason = "read by Debug, for the message of a failed test")]
    None(String),
    /// A process answers, but the directives of the test do not let us read which one.
    Denied,
    /// The process that answers. It can be another one than ours: one that took the port first,
    /// until ours notices and ends.
    ByProcess(u32),
}

fn ask(url: &str) -> Answer {
    let client = redis::Client::open(url).expect("the server's own URL is well formed");
    let answer = client.get_connection_with_timeout(ANSWERS_WITHIN).and_then(|mut connection| {
        connection.set_read_timeout(Some(ANSWERS_WITHIN))?;
        // A server that still loads its data answers INFO already, but no PING.
        redis::cmd("PING").exec(&mut connection)?;
        redis::cmd("INFO").arg("server").query::<String>(&mut connection)
    });
    match answer {
        Ok(info) => info
            .lines()
            .find_map(|line| line.strip_prefix("process_id:")?.trim().parse().ok())
            .map_or(Answer::Denied, Answer::ByProcess),
        Err(error) if error.code().is_some_and(|code| code != "LOADING") => Answer::Denied,
        Err(error) if error.kind() == redis::ErrorKind::AuthenticationFailed => Answer::Denied,
        Err(error) => Answer::None(error.to_string()),
    }
}

fn tail(log: &str) -> String {
    let lines: Vec<_> = log.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

const READY_WITHIN: Duration = Duration::from_secs(10);
/// Short, because the process that took the port first may not answer at all.
const ANSWERS_WITHIN: Duration = Duration::from_millis(250);
const BETWEEN_QUESTIONS: Duration = Duration::from_millis(2);
const TAIL_LINES: usize = 20;
