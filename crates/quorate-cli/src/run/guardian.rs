//! The process between quorate and the command. It kills the command and all its descendants if
//! quorate is killed, or is stopped for so long that another owner can acquire the lock. If the
//! guardian is killed, quorate kills them. So no single kill lets them run on without the lock. The
//! guardian is never stopped by job control.
//!
//! The guardian is this program, started with a first argument that is no subcommand. It starts a
//! third process, which executes the command; the kernel kills that process together with the
//! guardian.

use std::{
    env::{self, ArgsOs},
    ffi::OsString,
    io,
    iter::Skip,
    os::{fd::AsFd as _, unix::process::CommandExt as _},
    process::{Command, ExitCode},
    time::Duration,
};

use nix::sys::{
    signal::{self, SigSet},
    signalfd::{SfdFlags, SignalFd},
};
use rustix::process::{self, Pid, Signal, WaitOptions, WaitStatus};

use super::{
    deadline_channel::{CommandEvent, GuardianEnd},
    spawn::ProcessGroup,
    terminal::Terminal,
    tree::{Reaped, Tree},
};
use crate::{
    exit::{BY_SIGNAL, NOT_EXECUTABLE, NOT_FOUND, SOFTWARE},
    reporter::Reporter,
};

/// The first argument of the guardian. Its second argument, like that of [`COMMAND`], is the format
/// of messages.
pub(crate) const GUARDIAN: &str = "__guardian";

/// The first argument of the process that becomes the command.
pub(crate) const COMMAND: &str = "__command";

/// Runs as the guardian or as the process that becomes the command, if this process was started as
/// one.
pub(crate) fn run_internal_role() -> Option<ExitCode> {
    let mut args = env::args_os().skip(1);
    let role = args.next()?;
    let role: fn(_, &Reporter) -> io::Result<u8> = match role.to_str()? {
        GUARDIAN => guard,
        COMMAND => become_command,
        _ => return None,
    };
    let reporter = Reporter::from_format_name(&args.next().unwrap_or_default());
    Some(match role(args, &reporter) {
        Ok(code) => code.into(),
        Err(error) => {
            reporter.error(&format!("cannot start the command: {error}"));
            SOFTWARE.into()
        }
    })
}

/// Starts the command, and ends with its status. `args`: the pid of the parent, the process group,
/// the command.
fn guard(mut args: Skip<ArgsOs>, reporter: &Reporter) -> io::Result<u8> {
    let (parent, group) =
        (next_pid(&mut args)?, ProcessGroup::parse(&args.next().unwrap_or_default()));
    let signals = catch_signals()?;
    let (channel, input) = GuardianEnd::from_stdin()?;
    let tree = Tree::of_this_process()?;
    process::set_child_subreaper(Some(process::getpid()))?;
    // Also wakes the guardian if a signal has stopped it.
    process::set_parent_process_death_signal(Some(Signal::CONT))?;
    if process::getppid() != Some(parent) || !channel.may_run() {
        return Err(io::Error::other("the lock expired before it started"));
    }
    if group == ProcessGroup::Foreground
        && let Some(terminal) = Terminal::reachable()
    {
        terminal.give_to(process::getpid());
    }
    let own = process::getpid().as_raw_nonzero().to_string();
    let mut program = this_program();
    program.args([COMMAND, reporter.format_name(), &own]).args(args);
    let started = program.stdin(input).spawn()?;
    let command = i32::try_from(started.id()).ok().and_then(Pid::from_raw);
    let command = command.ok_or(io::ErrorKind::InvalidData)?;
    // Forward the signals that were sent to the group before the command joined it.
    while let Ok(Some(early)) = signals.read_signal() {
        forward(command, early.ssi_signo);
    }
    let mut exit_code = None;
    loop {
        // Reap before waiting: the command may have ended already.
        let (events, is_gone) = reap(&tree, command);
        exit_code = events.iter().fold(exit_code, |exit_code, event| match event {
            CommandEvent::Ended(code) => Some(*code),
            CommandEvent::Stopped(_) | CommandEvent::Gone => exit_code,
        });
        channel.send(&events);
        if is_gone {
            return Ok(exit_code.unwrap_or(SOFTWARE));
        }
        let may_run = channel.wait(signals.as_fd());
        // Any signal leads to the same checks.
        while let Ok(Some(_)) = signals.read_signal() {}
        if !may_run || process::getppid() != Some(parent) {
            kill(&tree, &channel, parent);
            return Ok(BY_SIGNAL + 9);
        }
    }
}

/// Kills all processes of the command, repeatedly, until none is left. If quorate is gone too,
/// gives up after [`KILL_TIMEOUT`].
fn kill(tree: &Tree, channel: &GuardianEnd, parent: Pid) {
    let reap = || {
        loop {
            match tree.reap(WaitOptions::empty()) {
                Some(Reaped::One(..)) => {}
                Some(Reaped::NoneYet) => return true,
                None => return false,
            }
        }
    };
    loop {
        if tree.kill_all_within(KILL_TIMEOUT, reap) == 0 {
            return channel.send(&[CommandEvent::Gone]);
        }
        if process::getppid() != Some(parent) {
            return;
        }
    }
}

fn forward(command: Pid, number: u32) {
    let signal = i32::try_from(number).ok().and_then(Signal::from_named_raw);
    if let Some(signal) = signal.filter(|signal| *signal != Signal::CHILD) {
        // The command may have ended.
        let _ = process::kill_process(command, signal);
    }
}

/// Reaps ended children. Returns the events of the command, and whether all processes have ended.
fn reap(tree: &Tree, command: Pid) -> (Vec<CommandEvent>, bool) {
    let mut events = Vec::new();
    loop {
        match tree.reap(WaitOptions::UNTRACED) {
            Some(Reaped::One(pid, status)) if pid == command => {
                let stopped = status.stopping_signal().and_then(|signal| u8::try_from(signal).ok());
                let ended = exit_code(status).map(CommandEvent::Ended);
                events.extend(ended.or_else(|| stopped.map(CommandEvent::Stopped)));
            }
            Some(Reaped::One(..)) => {}
            Some(Reaped::NoneYet) => return (events, false),
            None => {
                events.push(CommandEvent::Gone);
                return (events, true);
            }
        }
    }
}

/// The exit code for the status of a process; `None` if it has not ended.
pub(super) fn exit_code(status: WaitStatus) -> Option<u8> {
    let number = |raw: i32| u8::try_from(raw).unwrap_or(u8::MAX);
    let by_signal = |raw| BY_SIGNAL.saturating_add(number(raw));
    status.exit_status().map(number).or_else(|| status.terminating_signal().map(by_signal))
}

/// Executes the command. `args`: the pid of the guardian, the command.
fn become_command(mut args: Skip<ArgsOs>, reporter: &Reporter) -> io::Result<u8> {
    let guardian = next_pid(&mut args)?;
    let program = args.next().ok_or(io::ErrorKind::InvalidInput)?;
    // Stays set when the program is executed. If the guardian is already gone, the next check finds
    // out.
    process::set_parent_process_death_signal(Some(Signal::KILL))?;
    if process::getppid() != Some(guardian) {
        return Err(io::Error::other("its guardian is gone"));
    }
    // The command must not inherit the signal mask of the guardian.
    SigSet::all().thread_unblock()?;
    let error = Command::new(&program).args(args).exec();
    match program.is_empty() {
        true => reporter.error("cannot run the command: its name is empty"),
        false => reporter.error(&format!("cannot run {}: {error}", program.to_string_lossy())),
    }
    Ok(if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE })
}

/// This program, even if its file has been replaced since.
pub(super) fn this_program() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("quorate");
    command
}

/// Signals to the process group are meant for the command: the guardian only wakes up.
fn catch_signals() -> nix::Result<SignalFd> {
    use signal::Signal as S;
    let mut set = SigSet::empty();
    for signal in [
        S::SIGCHLD,
        S::SIGCONT,
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

fn next_pid(args: &mut impl Iterator<Item = OsString>) -> io::Result<Pid> {
    let number = args.next().and_then(|arg| arg.to_str()?.parse().ok());
    number.and_then(Pid::from_raw).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// How long to keep killing processes that do not end.
const KILL_TIMEOUT: Duration = Duration::from_secs(60);
