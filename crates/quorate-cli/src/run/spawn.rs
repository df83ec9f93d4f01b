//! Starts the command, and is there for it while it runs.

use std::{
    cell::Cell,
    ffi::{OsStr, OsString},
    io,
    os::{fd::OwnedFd, unix::process::CommandExt as _},
    time::Duration,
};

use rustix::process::{self, Pid, Signal, WaitOptions};

use super::{
    guardian::{GUARDIAN, code, this_program},
    leash::{Leash, News, Until},
    terminal::{self, Terminal},
    tree::{Reaped, Tree},
};
use crate::voice::Voice;

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
    tree: Tree,
    /// How the guardian has ended, if it has.
    guardian_code: Cell<Option<u8>>,
    /// How the command has ended, as the guardian said.
    told: Cell<Option<u8>>,
    /// The signal that has stopped the command, as the guardian said.
    stopped: Cell<Option<u8>>,
    /// Whether the guardian has said that nothing of the command is left.
    is_gone: Cell<bool>,
}

/// How it ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Exit {
    /// The command has, with this exit code.
    Command(u8),
    /// The guardian has killed all of it: it saw the time come.
    Late,
    /// Its guardian was killed, or failed. What it has started may be there still.
    Guardian(u8),
}

impl Child {
    /// Starts it with these variables in its environment, and without those that have no value. It
    /// may run until then. What it has to tell before it is the command is told in the form of
    /// this voice.
    pub(crate) fn start(
        command: &[OsString],
        variables: &[(&str, Option<String>)],
        is_shared: bool,
        until: Until,
        voice: &Voice,
    ) -> io::Result<Self> {
        let terminal = Terminal::in_front();
        let start = match &terminal {
            _ if is_shared => Start::Shared,
            Some(_) if terminal::is_ours_alone() => Start::InFront,
            // Others of the pipeline may need the terminal just as well.
            Some(_) => Start::Shared,
            None => Start::Apart,
        };
        let tree = Tree::own()?;
        // Children of whoever became us.
        tree.spare();
        // Whoever loses its parent comes to us if the guardian is killed.
        process::set_child_subreaper(Some(process::getpid()))?;
        let own = process::getpid().as_raw_nonzero().to_string();
        let (leash, collar) = Leash::new(until)?;
        let mut guardian = this_program();
        guardian.args([GUARDIAN, voice.form(), &own, start.as_str()]).args(command);
        for (name, value) in variables {
            match value {
                Some(value) => guardian.env(name, value),
                None => guardian.env_remove(name),
            };
        }
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
        tree.set_guardian(Some(guardian));
        Ok(Self {
            guardian,
            start,
            leash,
            tree,
            guardian_code: Cell::default(),
            told: Cell::default(),
            stopped: Cell::default(),
            is_gone: Cell::default(),
        })
    }

    /// It may run until then, whatever happens to us.
    pub(crate) fn set_until(&self, until: Until) {
        self.leash.set(until);
    }

    /// Completes when there is news about it, which [`Self::look`] tells.
    pub(crate) async fn news(&self) {
        self.take_in(self.leash.news().await);
    }

    /// Sends a signal to its group; where it shares ours, to all that descends from it.
    pub(crate) fn signal(&self, signal: Signal) {
        if self.start == Start::Shared {
            return self.tree.signal_all(&[signal]);
        }
        // It may be gone.
        let _ = process::kill_process_group(self.guardian, signal);
    }

    /// Asks all of it to end, whichever group it is in.
    pub(crate) fn ask(&self, signal: Signal) {
        // A stopped process would not hear it.
        self.tree.signal_all(&[signal, Signal::CONT]);
    }

    /// Passes on a signal that we got. What is typed at a terminal comes to our whole group.
    pub(crate) fn pass_on(&self, signal: Signal) {
        let typed = [Signal::INT, Signal::QUIT, Signal::WINCH, Signal::TSTP];
        let is_shared = self.start == Start::Shared;
        if !(is_shared && typed.contains(&signal) && Terminal::in_front().is_some()) {
            self.signal(signal);
        }
    }

    /// Takes in what has ended, and says so if it was the command.
    pub(crate) fn look(&self) -> Option<Exit> {
        if self.guardian_code.get().is_none() {
            self.tree.spare();
        }
        self.reap();
        while let Some(news) = self.leash.latest() {
            self.take_in(news);
        }
        let guardians = |code| if self.is_gone.get() { Exit::Late } else { Exit::Guardian(code) };
        let told = self.told.get().map(Exit::Command);
        told.or_else(|| self.guardian_code.get().map(guardians))
    }

    /// Takes in what has ended. As a subreaper we do so for strangers, too. Returns whether there
    /// is any child still.
    fn reap(&self) -> bool {
        loop {
            match self.tree.reap(WaitOptions::empty()) {
                Some(Reaped::One(pid, status)) if pid == self.guardian => {
                    self.guardian_code.set(Some(code(status).unwrap_or(u8::MAX)));
                    // What it has left comes to us.
                    self.tree.set_guardian(None);
                }
                Some(Reaped::One(..)) => {}
                Some(Reaped::NoneYet) => return true,
                None => return false,
            }
        }
    }

    fn take_in(&self, news: News) {
        match news {
            News::Stopped(signal) => self.stopped.set(Some(signal)),
            News::Ended(code) => self.told.set(Some(code)),
            News::Gone => self.is_gone.set(true),
        }
    }

    /// Whether anything of the command is there although it has ended.
    pub(crate) fn is_anything_left(&self) -> bool {
        self.look();
        match self.guardian_code.get() {
            _ if self.is_gone.get() => false,
            // It would have said so.
            None => true,
            Some(_) => self.reap() && self.tree.count() > 0,
        }
    }

    /// How many processes of it can be seen.
    pub(crate) fn count(&self) -> usize {
        self.tree.count()
    }

    /// Kills all of it. Returns how many are there still.
    pub(crate) fn kill_once(&self) -> usize {
        if self.guardian_code.get().is_none() {
            // It kills them, and knows when none is left. If it is stopped, we do.
            self.leash.pull();
            let _ = process::kill_process(self.guardian, Signal::CONT);
            self.tree.signal_all(&[Signal::KILL]);
        }
        self.look();
        match self.guardian_code.get() {
            _ if self.is_gone.get() => 0,
            None => self.tree.count().max(1),
            Some(_) => self.tree.kill_own(BURST, || self.reap()),
        }
    }

    /// Ends the guardian, and nobody watches over what is left of the command.
    pub(crate) fn dismiss_guardian(&self) {
        if self.guardian_code.get().is_none() {
            // Until we take it in, its number is its own.
            let _ = process::kill_process(self.guardian, Signal::KILL);
        }
    }

    /// Stops this process if the command was stopped, so that the shell has the terminal again.
    /// Returns when we go on; the command is stopped still. The guardian watches over it meanwhile.
    ///
    /// One that was stopped by somebody who is not its terminal, and is not in front of it, will be
    /// let go on by that one, and keeps its lock.
    pub(crate) fn stop_with_it(&self) {
        let Some(signal) = self.stopped.take() else { return };
        let Some(terminal) = Terminal::reachable() else { return };
        let by_terminal = [Signal::TSTP, Signal::TTIN, Signal::TTOU].map(Signal::as_raw);
        let group = match self.start {
            Start::Shared => terminal::own_group(),
            Start::Apart | Start::InFront => Some(self.guardian),
        };
        let is_in_front = group.is_some_and(|group| terminal.has_in_front(group));
        if by_terminal.contains(&i32::from(signal)) || is_in_front {
            terminal.take_back_from(self.guardian);
            // We stop here.
            let _ = process::kill_process(process::getpid(), Signal::STOP);
        }
    }

    /// Lets a stopped command go on, in front of the terminal if we are.
    pub(crate) fn go_on(&self) {
        if self.start == Start::Shared {
            return self.tree.let_group_go_on();
        }
        if let Some(terminal) = Terminal::in_front() {
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

/// For how long processes are killed without doing anything else.
const BURST: Duration = Duration::from_millis(20);
