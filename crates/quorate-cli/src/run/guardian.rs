//! The process between us and the command. It kills the command and all that descends from it if
//! we are killed, or are stopped for so long that the lock can be another's; and we do so if it is
//! killed: no single kill lets them go on without the lock.
//!
//! It is this same program, started with a first argument that is no verb. The command itself is
//! started by a third one, which becomes the command: the kernel kills it with the guardian.

use std::{
    env,
    ffi::OsString,
    io::{self, Write as _},
    os::{fd::AsFd as _, unix::process::CommandExt as _},
    process::{Command, ExitCode},
    time::Duration,
};

use nix::sys::{
    signal::{self, SigSet},
    signalfd::{SfdFlags, SignalFd},
};
use rustix::{
    io::Errno,
    process::{self, Pid, Signal, WaitOptions, WaitStatus},
};

use super::{leash::Collar, spawn::Start, terminal::Terminal, tree};
use crate::exit::{BY_SIGNAL, NOT_EXECUTABLE, NOT_FOUND, SOFTWARE};

/// The first argument of the guardian.
pub(crate) const GUARDIAN: &str = "__guardian";

/// The first argument of what becomes the command.
pub(crate) const COMMAND: &str = "__command";

/// Does what this process was started for, if it is not for a person.
pub(crate) fn play_part() -> Option<ExitCode> {
    let mut args = env::args_os().skip(1);
    match args.next()?.to_str()? {
        GUARDIAN => Some(guard(args).into()),
        COMMAND => Some(become_command(args).into()),
        _ => None,
    }
}

/// Starts the command, and ends with its status. `args`: the pid of its parent, the number of the
/// leash there, how to start, the command.
fn guard(mut args: impl Iterator<Item = OsString>) -> u8 {
    let (Some(parent), Some(leash)) = (next_pid(&mut args), args.next()) else { return SOFTWARE };
    let Some(start) = args.next() else { return SOFTWARE };
    let held = Collar::open(parent, &leash.to_string_lossy());
    let (Ok(mut collar), Ok(signals)) = (held, catch_signals()) else { return SOFTWARE };
    // Both are there in every Linux that this runs on.
    let _ = process::set_child_subreaper(Some(process::getpid()));
    let _ = process::set_parent_process_death_signal(Some(Signal::TERM));
    if process::getppid() != Some(parent) {
        return SOFTWARE;
    }
    if Start::parse(&start) == Start::InFront
        && let Some(terminal) = Terminal::reachable()
    {
        terminal.give_to(process::getpid());
    }
    let own = process::getpid().as_raw_nonzero().to_string();
    let started = this_program().arg(COMMAND).arg(own).args(args).spawn();
    let command = match started {
        Ok(command) => i32::try_from(command.id()).ok().and_then(Pid::from_raw),
        Err(error) => {
            say(&format!("cannot start a process: {error}"));
            None
        }
    };
    let Some(command) = command else { return SOFTWARE };
    loop {
        let may_run = collar.wait(signals.as_fd());
        // Which one it was does not matter.
        while let Ok(Some(_)) = signals.read_signal() {}
        if !may_run || process::getppid() != Some(parent) {
            tree::kill_all(KILL_BOUND);
            return BY_SIGNAL + 9;
        }
        if let Some(code) = reap(command) {
            return code;
        }
    }
}

/// Takes in what has ended. Returns how the command did, if it has. If it was stopped, so are we.
fn reap(command: Pid) -> Option<u8> {
    loop {
        match process::wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            Ok(Some((pid, status))) if pid == command => match code(status) {
                Some(code) => return Some(code),
                None => {
                    // Whoever started us sees it, and lets us go on when the command may.
                    let _ = process::kill_process(process::getpid(), Signal::STOP);
                }
            },
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) | Err(_) => return None,
        }
    }
}

/// The exit code that tells how a process ended; `None` if it did not.
pub(super) fn code(status: WaitStatus) -> Option<u8> {
    let number = |raw: i32| u8::try_from(raw).unwrap_or(u8::MAX);
    let by_signal = |raw| BY_SIGNAL.saturating_add(number(raw));
    status.exit_status().map(number).or_else(|| status.terminating_signal().map(by_signal))
}

/// Becomes the command. `args`: the pid of the guardian, the command.
fn become_command(mut args: impl Iterator<Item = OsString>) -> u8 {
    let Some((guardian, program)) = next_pid(&mut args).zip(args.next()) else { return SOFTWARE };
    // Survives the change of the program. A guardian that is gone already is noticed below.
    let _ = process::set_parent_process_death_signal(Some(Signal::KILL));
    if process::getppid() != Some(guardian) {
        return SOFTWARE;
    }
    // What the guardian has blocked would stay so in the command.
    let _ = SigSet::all().thread_unblock();
    let error = Command::new(&program).args(args).exec();
    say(&format!("cannot run {}: {error}", program.to_string_lossy()));
    if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE }
}

/// This very program, also if its file was replaced meanwhile.
pub(super) fn this_program() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("quorate");
    command
}

/// Signals of the group are for the command; we only notice them.
fn catch_signals() -> nix::Result<SignalFd> {
    use signal::Signal as S;
    let mut set = SigSet::empty();
    for signal in [
        S::SIGCHLD,
        S::SIGTERM,
        S::SIGINT,
        S::SIGHUP,
        S::SIGQUIT,
        S::SIGUSR1,
        S::SIGUSR2,
        S::SIGWINCH,
        S::SIGTSTP,
        S::SIGTTOU,
        S::SIGTTIN,
    ] {
        set.add(signal);
    }
    set.thread_block()?;
    SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
}

fn next_pid(args: &mut impl Iterator<Item = OsString>) -> Option<Pid> {
    Pid::from_raw(args.next()?.to_str()?.parse().ok()?)
}

fn say(text: &str) {
    // Standard error that is closed is no reason to fail in another way.
    let _ = writeln!(io::stderr(), "quorate: {text}");
}

/// For how long processes are killed that do not die.
const KILL_BOUND: Duration = Duration::from_secs(10);
