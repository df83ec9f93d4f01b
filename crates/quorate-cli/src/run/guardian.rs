//! The process between us and the command. It kills the command and all that descends from it if
//! we are killed, or are stopped for so long that the lock can be another's; and we do so if it is
//! killed: no single kill lets them go on without the lock. It never stops by itself.
//!
//! It is this same program, started with a first argument that is no verb. The command itself is
//! started by a third one, which becomes the command: the kernel kills it with the guardian.

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
    leash::{Collar, News},
    spawn::Start,
    terminal::Terminal,
    tree::{Reaped, Tree},
};
use crate::{
    exit::{BY_SIGNAL, NOT_EXECUTABLE, NOT_FOUND, SOFTWARE},
    voice::Voice,
};

/// The first argument of the guardian. The second one of both says how messages are written.
pub(crate) const GUARDIAN: &str = "__guardian";

/// The first argument of what becomes the command.
pub(crate) const COMMAND: &str = "__command";

/// Does what this process was started for, if it is not for a person.
pub(crate) fn play_part() -> Option<ExitCode> {
    let mut args = env::args_os().skip(1);
    let part = args.next()?;
    let part: fn(_, &Voice) -> io::Result<u8> = match part.to_str()? {
        GUARDIAN => guard,
        COMMAND => become_command,
        _ => return None,
    };
    let voice = Voice::of_form(&args.next().unwrap_or_default());
    Some(match part(args, &voice) {
        Ok(code) => code.into(),
        Err(error) => {
            voice.error(&format!("the command was not started: {error}"));
            SOFTWARE.into()
        }
    })
}

/// Starts the command, and ends with its status. `args`: the pid of its parent, how to start, the
/// command.
fn guard(mut args: Skip<ArgsOs>, voice: &Voice) -> io::Result<u8> {
    let (parent, start) = (next_pid(&mut args)?, Start::parse(&args.next().unwrap_or_default()));
    let signals = catch_signals()?;
    let (collar, input) = Collar::take()?;
    let tree = Tree::own()?;
    process::set_child_subreaper(Some(process::getpid()))?;
    // Wakes us also if somebody has stopped us.
    process::set_parent_process_death_signal(Some(Signal::CONT))?;
    if process::getppid() != Some(parent) || !collar.may_run() {
        return Err(io::Error::other("the lock was over before"));
    }
    if start == Start::InFront
        && let Some(terminal) = Terminal::reachable()
    {
        terminal.give_to(process::getpid());
    }
    let own = process::getpid().as_raw_nonzero().to_string();
    let mut program = this_program();
    program.args([COMMAND, voice.form(), &own]).args(args);
    let started = program.stdin(input).spawn()?;
    let command = i32::try_from(started.id()).ok().and_then(Pid::from_raw);
    let command = command.ok_or(io::ErrorKind::InvalidData)?;
    // What was sent to the group before the command was in it.
    while let Ok(Some(early)) = signals.read_signal() {
        pass_on(command, early.ssi_signo);
    }
    let mut ended = None;
    loop {
        // First, since the command may have ended already.
        let (news, is_gone) = reap(&tree, command);
        ended = news.iter().fold(ended, |ended, news| match news {
            News::Ended(code) => Some(*code),
            News::Stopped(_) | News::Gone => ended,
        });
        collar.tell(&news);
        if is_gone {
            return Ok(ended.unwrap_or(SOFTWARE));
        }
        let may_run = collar.wait(signals.as_fd());
        // Which one it was does not matter.
        while let Ok(Some(_)) = signals.read_signal() {}
        if !may_run || process::getppid() != Some(parent) {
            kill(&tree, &collar, parent);
            return Ok(BY_SIGNAL + 9);
        }
    }
}

/// Kills all of the command until none of it is left; without anybody who would be told, for a long
/// time only.
fn kill(tree: &Tree, collar: &Collar, parent: Pid) {
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
        if tree.kill_own(KILL_BOUND, reap) == 0 {
            return collar.tell(&[News::Gone]);
        }
        if process::getppid() != Some(parent) {
            return;
        }
    }
}

fn pass_on(command: Pid, number: u32) {
    let signal = i32::try_from(number).ok().and_then(Signal::from_named_raw);
    if let Some(signal) = signal.filter(|signal| *signal != Signal::CHILD) {
        // It may be gone.
        let _ = process::kill_process(command, signal);
    }
}

/// Takes in what has ended. Returns what is news, and whether nothing is left.
fn reap(tree: &Tree, command: Pid) -> (Vec<News>, bool) {
    let mut news = Vec::new();
    loop {
        match tree.reap(WaitOptions::UNTRACED) {
            Some(Reaped::One(pid, status)) if pid == command => {
                let stopped = status.stopping_signal().and_then(|signal| u8::try_from(signal).ok());
                let ended = code(status).map(News::Ended);
                news.extend(ended.or_else(|| stopped.map(News::Stopped)));
            }
            Some(Reaped::One(..)) => {}
            Some(Reaped::NoneYet) => return (news, false),
            None => {
                news.push(News::Gone);
                return (news, true);
            }
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
fn become_command(mut args: Skip<ArgsOs>, voice: &Voice) -> io::Result<u8> {
    let guardian = next_pid(&mut args)?;
    let program = args.next().ok_or(io::ErrorKind::InvalidInput)?;
    // Survives the change of the program. A guardian that is gone already is noticed below.
    process::set_parent_process_death_signal(Some(Signal::KILL))?;
    if process::getppid() != Some(guardian) {
        return Err(io::Error::other("its guardian is gone"));
    }
    // What the guardian has blocked would stay so in the command.
    SigSet::all().thread_unblock()?;
    let error = Command::new(&program).args(args).exec();
    match program.is_empty() {
        true => voice.error("cannot run a command whose name is empty"),
        false => voice.error(&format!("cannot run {}: {error}", program.to_string_lossy())),
    }
    Ok(if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE })
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

/// For how long processes are killed that do not die.
const KILL_BOUND: Duration = Duration::from_secs(60);
