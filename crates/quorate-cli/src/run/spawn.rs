//! Starts the command, and is there for it while it runs.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::unix::process::CommandExt as _,
    process::Stdio,
    time::Duration,
};

use rustix::{
    io::Errno,
    process::{self, Pid, Signal, WaitOptions},
};

use super::{
    guardian::{GUARDIAN, code, this_program},
    leash::Leash,
    terminal::{self, Terminal},
    tree,
};

/// In which group the command runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Start {
    /// In one of its own.
    Apart,
    /// In one of its own, which is put in front of the terminal.
    InFront,
    /// In ours.
    Shared,
}

impl Start {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Apart => "apart",
            Self::InFront => "in-front",
            Self::Shared => "shared",
        }
    }

    pub(super) fn parse(text: &OsStr) -> Self {
        let known = [Self::InFront, Self::Shared];
        known.into_iter().find(|start| text == start.as_str()).unwrap_or(Self::Apart)
    }
}

/// The running command.
#[derive(Debug)]
pub(crate) struct Child {
    /// The guardian, which leads the group if there is one.
    guardian: Pid,
    start: Start,
    terminal: Option<Terminal>,
    leash: Leash,
}

/// What has become of the command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Change {
    /// It has ended with this exit code.
    Ended(u8),
    /// Its guardian was killed. What it has started may be there still.
    Unguarded(u8),
    /// It was stopped, as by Ctrl-Z.
    Stopped,
}

impl Child {
    /// Starts it with these variables in its environment. It may run for as long as is `left`.
    pub(crate) fn start(
        command: &[OsString],
        variables: &[(&str, String)],
        is_shared: bool,
        left: Duration,
    ) -> io::Result<Self> {
        let terminal = Terminal::in_front();
        let start = match &terminal {
            _ if is_shared => Start::Shared,
            Some(_) if terminal::is_ours_alone() => Start::InFront,
            // Others of the pipeline may need the terminal just as well.
            Some(_) => Start::Shared,
            None => Start::Apart,
        };
        // Whoever loses its parent comes to us.
        process::set_child_subreaper(Some(process::getpid()))?;
        let own = process::getpid().as_raw_nonzero().to_string();
        let mut guardian = this_program();
        let leash = Leash::new()?;
        leash.set(left);
        guardian.args([GUARDIAN, &own, &leash.number(), start.as_str()]).args(command);
        guardian.envs(variables.iter().map(|(name, value)| (name, value)));
        guardian.stdin(Stdio::inherit()).stdout(Stdio::inherit()).stderr(Stdio::inherit());
        if start != Start::Shared {
            guardian.process_group(0);
        }
        let started = guardian.spawn()?;
        let guardian = i32::try_from(started.id()).ok().and_then(Pid::from_raw);
        let guardian = guardian.ok_or(io::ErrorKind::Other)?;
        let terminal = terminal.filter(|_| start == Start::InFront);
        if let Some(terminal) = &terminal {
            terminal.give_to(guardian);
        }
        Ok(Self { guardian, start, terminal, leash })
    }

    /// It may run for so long from now, whatever happens to us.
    pub(crate) fn set_left(&self, left: Duration) {
        self.leash.set(left);
    }

    /// Sends a signal to its group; where it shares ours, to the command alone.
    pub(crate) fn signal(&self, signal: Signal) {
        if self.start == Start::Shared {
            return tree::signal_children(self.guardian, signal);
        }
        // It may be gone.
        let _ = process::kill_process_group(self.guardian, signal);
    }

    /// Passes on a signal that we got. What is typed at a terminal comes to our whole group.
    pub(crate) fn pass_on(&self, signal: Signal) {
        let typed = [Signal::INT, Signal::QUIT, Signal::WINCH, Signal::TSTP];
        let is_typed = typed.contains(&signal);
        if !(is_typed && self.start == Start::Shared) {
            self.signal(signal);
        }
    }

    /// Takes in what has ended or stopped. As a subreaper we do so for strangers, too.
    pub(crate) fn reap(&self) -> Option<Change> {
        let mut change = None;
        loop {
            match process::wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
                Ok(Some((pid, status))) if pid == self.guardian => {
                    change = Some(match code(status) {
                        Some(code) if status.exited() => Change::Ended(code),
                        Some(code) => Change::Unguarded(code),
                        None => Change::Stopped,
                    });
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) | Err(_) => return change,
            }
        }
    }

    /// Stops this process like the command, so that the shell has the terminal again. Returns when
    /// we go on; the command is stopped still.
    pub(crate) fn stop_with_it(&self) {
        self.take_terminal_back();
        // We stop here.
        let _ = process::kill_process(process::getpid(), Signal::STOP);
    }

    /// Lets a stopped command go on.
    pub(crate) fn go_on(&self) {
        if let Some(terminal) = &self.terminal {
            terminal.give_to(self.guardian);
        }
        self.signal(Signal::CONT);
    }

    pub(crate) fn take_terminal_back(&self) {
        if let Some(terminal) = &self.terminal {
            terminal.take_back();
        }
    }
}

/// Whether anything of the command is still there after it has ended.
pub(crate) fn is_anything_left() -> bool {
    loop {
        match process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}
