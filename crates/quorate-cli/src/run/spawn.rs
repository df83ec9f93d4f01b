//! Starts the command, and is there for it while it runs.

use std::{
    cell::Cell,
    ffi::{OsStr, OsString},
    io,
    os::{fd::OwnedFd, unix::process::CommandExt as _},
};

use rustix::{
    io::Errno,
    process::{self, Pid, Signal, WaitOptions},
};

use super::{
    guardian::{GUARDIAN, code, this_program},
    leash::{Leash, News, Until},
    terminal::{self, Terminal},
    tree::Tree,
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
    leash: Leash,
    pub(super) tree: Tree,
    /// How the command has ended, as the guardian said.
    told: Cell<Option<u8>>,
}

/// How it ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Exit {
    /// The command has, with this exit code.
    Command(u8),
    /// Its guardian was killed, or failed. What it has started may be there still.
    Guardian(u8),
}

impl Child {
    /// Starts it with these variables in its environment. It may run until then.
    pub(crate) fn start(
        command: &[OsString],
        variables: &[(&str, String)],
        is_shared: bool,
        until: Until,
    ) -> io::Result<Self> {
        let terminal = Terminal::in_front();
        let start = match &terminal {
            _ if is_shared => Start::Shared,
            Some(_) if terminal::is_ours_alone() => Start::InFront,
            // Others of the pipeline may need the terminal just as well.
            Some(_) => Start::Shared,
            None => Start::Apart,
        };
        let tree = Tree::from_now_on();
        // Whoever loses its parent comes to us.
        process::set_child_subreaper(Some(process::getpid()))?;
        let own = process::getpid().as_raw_nonzero().to_string();
        let (leash, collar) = Leash::new(until)?;
        let mut guardian = this_program();
        guardian.args([GUARDIAN, &own, start.as_str()]).args(command);
        guardian.envs(variables.iter().map(|(name, value)| (name, value)));
        guardian.stdin(OwnedFd::from(collar));
        if start != Start::Shared {
            guardian.process_group(0);
        }
        let started = guardian.spawn()?;
        let guardian = i32::try_from(started.id()).ok().and_then(Pid::from_raw);
        let guardian = guardian.ok_or(io::ErrorKind::InvalidData)?;
        if let Some(terminal) = terminal.filter(|_| start == Start::InFront) {
            terminal.give_to(guardian);
        }
        Ok(Self { guardian, start, leash, tree, told: Cell::new(None) })
    }

    /// It may run until then, whatever happens to us.
    pub(crate) fn set_until(&self, until: Until) {
        self.leash.set(until);
    }

    /// Completes when the command was stopped by its terminal.
    pub(crate) async fn stopped(&self) {
        while let News::Ended(code) = self.leash.news().await {
            self.told.set(Some(code));
        }
    }

    /// Sends a signal to its group; where it shares ours, to all that descends from it.
    pub(crate) fn signal(&self, signal: Signal) {
        if self.start == Start::Shared {
            return self.tree.signal_all(signal, self.guardian);
        }
        // It may be gone.
        let _ = process::kill_process_group(self.guardian, signal);
    }

    /// Asks all of it to end, whichever group it is in.
    pub(crate) fn ask(&self, signal: Signal) {
        self.tree.signal_all(signal, self.guardian);
        // A stopped process would not hear it.
        self.tree.signal_all(Signal::CONT, self.guardian);
    }

    /// Passes on a signal that we got. What is typed at a terminal comes to our whole group.
    pub(crate) fn pass_on(&self, signal: Signal) {
        let typed = [Signal::INT, Signal::QUIT, Signal::WINCH, Signal::TSTP];
        let is_shared = self.start == Start::Shared;
        if !(is_shared && typed.contains(&signal) && Terminal::in_front().is_some()) {
            self.signal(signal);
        }
    }

    /// Takes in what has ended. As a subreaper we do so for strangers, too.
    pub(crate) fn reap(&self) -> Option<Exit> {
        let mut exit = None;
        loop {
            match process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.guardian => {
                    while let Some(news) = self.leash.latest() {
                        if let News::Ended(code) = news {
                            self.told.set(Some(code));
                        }
                    }
                    let guardians = || Exit::Guardian(code(status).unwrap_or(u8::MAX));
                    exit = Some(self.told.get().map_or_else(guardians, Exit::Command));
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) | Err(_) => return exit,
            }
        }
    }

    /// Whether anything of the command is there although it has ended.
    pub(crate) fn is_anything_left(&self) -> bool {
        loop {
            match process::wait(WaitOptions::NOHANG) {
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return self.tree.count() > 0,
                // We have no child at all.
                Err(_) => return false,
            }
        }
    }

    /// Stops this process like the command, so that the shell has the terminal again. Returns when
    /// we go on; the command is stopped still. The guardian watches over it meanwhile.
    pub(crate) fn stop_with_it(&self) {
        if Terminal::reachable().is_some() {
            self.take_terminal_back();
            // We stop here.
            let _ = process::kill_process(process::getpid(), Signal::STOP);
        }
    }

    /// Lets a stopped command go on, in front of the terminal if we are.
    pub(crate) fn go_on(&self) {
        if let Some(terminal) = Terminal::in_front().filter(|_| self.start != Start::Shared) {
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
