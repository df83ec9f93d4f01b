//! Starts the command, and controls it while it runs.

use std::{
    cell::Cell,
    ffi::{OsStr, OsString},
    io,
    os::{fd::OwnedFd, unix::process::CommandExt as _},
    time::Duration,
};

use rustix::process::{self, Pid, Signal, WaitOptions};

use super::{
    deadline_channel::{BootInstant, CommandEvent, DeadlineChannel},
    guardian::{GUARDIAN, exit_code, this_program},
    terminal::{self, Terminal},
    tree::{Reaped, Tree},
};
use crate::reporter::Reporter;

/// The process group of the command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ProcessGroup {
    /// A new group.
    Own,
    /// A new group, which becomes the foreground group of the terminal.
    Foreground,
    /// The group of quorate.
    Inherited,
}

impl ProcessGroup {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Foreground => "foreground",
            Self::Inherited => "inherited",
        }
    }

    pub(super) fn parse(text: &OsStr) -> Self {
        let known = [Self::Foreground, Self::Inherited];
        known.into_iter().find(|group| text == group.as_str()).unwrap_or(Self::Own)
    }
}

/// The running command.
#[derive(Debug)]
pub(crate) struct Child {
    /// The guardian, which leads the group if the group is new.
    guardian: Pid,
    group: ProcessGroup,
    channel: DeadlineChannel,
    tree: Tree,
    /// The exit code of the guardian, if it has ended.
    guardian_code: Cell<Option<u8>>,
    /// The exit code of the command, if the guardian has reported it.
    command_code: Cell<Option<u8>>,
    /// The signal that stopped the command, if the guardian has reported one.
    stopped: Cell<Option<u8>>,
    /// Whether the guardian has reported that all processes of the command have ended.
    is_gone: Cell<bool>,
}

/// How the command ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Exit {
    /// The command ended with this exit code.
    Command(u8),
    /// The guardian killed all processes of the command at the deadline.
    KilledByGuardian,
    /// The guardian was killed, or failed. Processes of the command may still be running.
    GuardianFailed(u8),
}

impl Child {
    /// Starts the command with these environment variables; those without a value are removed. It
    /// may run until the deadline. Errors before the command is executed are written in the format
    /// of this reporter.
    pub(crate) fn start(
        command: &[OsString],
        variables: &[(&str, Option<String>)],
        is_group_shared: bool,
        deadline: BootInstant,
        reporter: &Reporter,
    ) -> io::Result<Self> {
        let terminal = Terminal::if_foreground();
        let group = match &terminal {
            _ if is_group_shared => ProcessGroup::Inherited,
            Some(_) if terminal::is_only_terminal_user() => ProcessGroup::Foreground,
            // Other processes of the pipeline may use the terminal too.
            Some(_) => ProcessGroup::Inherited,
            None => ProcessGroup::Own,
        };
        let tree = Tree::of_this_process()?;
        // Children that this process had before it executed quorate.
        tree.exclude_current_children();
        // If the guardian is killed, its orphans become children of this process.
        process::set_child_subreaper(Some(process::getpid()))?;
        let own = process::getpid().as_raw_nonzero().to_string();
        let (channel, guardian_socket) = DeadlineChannel::new(deadline)?;
        let mut guardian = this_program();
        guardian.args([GUARDIAN, reporter.format_name(), &own, group.as_str()]).args(command);
        for (name, value) in variables {
            match value {
                Some(value) => guardian.env(name, value),
                None => guardian.env_remove(name),
            };
        }
        guardian.stdin(OwnedFd::from(guardian_socket));
        if group != ProcessGroup::Inherited {
            guardian.process_group(0);
        }
        let started = guardian.spawn()?;
        let guardian = i32::try_from(started.id()).ok().and_then(Pid::from_raw);
        let guardian = guardian.ok_or(io::ErrorKind::InvalidData)?;
        if let Some(terminal) = terminal.filter(|_| group == ProcessGroup::Foreground) {
            terminal.give_to(guardian);
        }
        tree.set_guardian(Some(guardian));
        Ok(Self {
            guardian,
            group,
            channel,
            tree,
            guardian_code: Cell::default(),
            command_code: Cell::default(),
            stopped: Cell::default(),
            is_gone: Cell::default(),
        })
    }

    /// Sets the time until which the command may run without another deadline.
    pub(crate) fn set_deadline(&self, deadline: BootInstant) {
        self.channel.set_deadline(deadline);
    }

    /// Completes when the guardian has reported an event, which [`Self::poll_exit`] evaluates.
    pub(crate) async fn event(&self) {
        self.handle_event(self.channel.next_event().await);
    }

    /// Sends a signal to the group of the command; in the group of quorate, to all its processes.
    pub(crate) fn signal(&self, signal: Signal) {
        if self.group == ProcessGroup::Inherited {
            return self.tree.signal_all(&[signal]);
        }
        // The command may have ended.
        let _ = process::kill_process_group(self.guardian, signal);
    }

    /// Asks all processes of the command to end, in all groups.
    pub(crate) fn terminate(&self, signal: Signal) {
        // A stopped process handles the signal only after it has continued.
        self.tree.signal_all(&[signal, Signal::CONT]);
    }

    /// Forwards a signal to the command, unless the terminal has sent it to the whole group that
    /// the command shares.
    pub(crate) fn forward(&self, signal: Signal) {
        let typed = [Signal::INT, Signal::QUIT, Signal::WINCH, Signal::TSTP];
        let is_shared = self.group == ProcessGroup::Inherited;
        if !(is_shared && typed.contains(&signal) && Terminal::if_foreground().is_some()) {
            self.signal(signal);
        }
    }

    /// Reaps ended children and handles events. Returns how the command ended, if it has.
    pub(crate) fn poll_exit(&self) -> Option<Exit> {
        if self.guardian_code.get().is_none() {
            self.tree.exclude_current_children();
        }
        self.reap();
        while let Some(event) = self.channel.try_event() {
            self.handle_event(event);
        }
        let by_guardian = |code| {
            if self.is_gone.get() { Exit::KilledByGuardian } else { Exit::GuardianFailed(code) }
        };
        let by_command = self.command_code.get().map(Exit::Command);
        by_command.or_else(|| self.guardian_code.get().map(by_guardian))
    }

    /// Reaps ended children, including orphans that a subreaper gets. Returns whether any child is
    /// left.
    fn reap(&self) -> bool {
        loop {
            match self.tree.reap(WaitOptions::empty()) {
                Some(Reaped::One(pid, status)) if pid == self.guardian => {
                    self.guardian_code.set(Some(exit_code(status).unwrap_or(u8::MAX)));
                    // Its orphans become children of this process.
                    self.tree.set_guardian(None);
                }
                Some(Reaped::One(..)) => {}
                Some(Reaped::NoneYet) => return true,
                None => return false,
            }
        }
    }

    fn handle_event(&self, event: CommandEvent) {
        match event {
            CommandEvent::Stopped(signal) => self.stopped.set(Some(signal)),
            CommandEvent::Ended(code) => self.command_code.set(Some(code)),
            CommandEvent::Gone => self.is_gone.set(true),
        }
    }

    /// Whether processes of the command are left.
    pub(crate) fn has_processes(&self) -> bool {
        self.poll_exit();
        match self.guardian_code.get() {
            _ if self.is_gone.get() => false,
            // The guardian would have reported it.
            None => true,
            Some(_) => self.reap() && self.tree.count() > 0,
        }
    }

    /// How many processes of the command are visible.
    pub(crate) fn count(&self) -> usize {
        self.tree.count()
    }

    /// Kills all processes of the command. Returns how many are left.
    pub(crate) fn kill_all(&self) -> usize {
        if self.guardian_code.get().is_none() {
            // The guardian kills them, and knows when none is left. If it is stopped, this process
            // kills them.
            self.channel.expire();
            let _ = process::kill_process(self.guardian, Signal::CONT);
            self.tree.signal_all(&[Signal::KILL]);
        }
        self.poll_exit();
        match self.guardian_code.get() {
            _ if self.is_gone.get() => 0,
            None => self.tree.count().max(1),
            Some(_) => self.tree.kill_all_within(KILL_SLICE, || self.reap()),
        }
    }

    /// Kills the guardian: the remaining processes of the command are no longer supervised.
    pub(crate) fn kill_guardian(&self) {
        if self.guardian_code.get().is_none() {
            // Until the guardian is reaped, its pid cannot belong to another process.
            let _ = process::kill_process(self.guardian, Signal::KILL);
        }
    }

    /// Stops this process if the command was stopped, so that the shell gets the terminal back.
    /// Returns when this process is continued; the command is still stopped. Meanwhile the guardian
    /// enforces the deadline.
    ///
    /// If another process than the terminal stopped a command in the background, that process will
    /// continue it. Then this process is not stopped, and keeps renewing the lock.
    pub(crate) fn stop_if_command_stopped(&self) {
        let Some(signal) = self.stopped.take() else { return };
        let Some(terminal) = Terminal::reachable() else { return };
        let by_terminal = [Signal::TSTP, Signal::TTIN, Signal::TTOU].map(Signal::as_raw);
        let group = match self.group {
            ProcessGroup::Inherited => terminal::own_group(),
            ProcessGroup::Own | ProcessGroup::Foreground => Some(self.guardian),
        };
        let is_in_foreground = group.is_some_and(|group| terminal.is_foreground(group));
        if by_terminal.contains(&i32::from(signal)) || is_in_foreground {
            terminal.take_back_from(self.guardian);
            // This process stops here.
            let _ = process::kill_process(process::getpid(), Signal::STOP);
        }
    }

    /// Continues a stopped command, in the foreground if this process is there.
    pub(crate) fn resume(&self) {
        if self.group == ProcessGroup::Inherited {
            return self.tree.resume_own_group();
        }
        if let Some(terminal) = Terminal::if_foreground() {
            terminal.give_to(self.guardian);
        }
        self.signal(Signal::CONT);
    }

    pub(crate) fn take_terminal_back(&self) {
        if let Some(terminal) = Terminal::reachable() {
            terminal.take_back_from(self.guardian);
        }
    }
}

/// How long to keep killing processes before other events are handled.
const KILL_SLICE: Duration = Duration::from_millis(20);
