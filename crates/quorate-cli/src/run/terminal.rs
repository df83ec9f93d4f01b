//! The terminal: whoever is in front of it reads what is typed, and is interrupted by Ctrl-C.

use std::{
    fs::File,
    io::{self, IsTerminal as _},
};

use rustix::{process, process::Pid, termios};

/// A terminal that this process is in front of.
#[derive(Debug)]
pub(crate) struct Terminal {
    tty: File,
    own: Pid,
}

impl Terminal {
    /// The terminal, if we are in front of it.
    pub(crate) fn in_front() -> Option<Self> {
        let terminal = Self::reachable()?;
        (termios::tcgetpgrp(&terminal.tty).ok()? == terminal.own).then_some(terminal)
    }

    /// The terminal, whoever is in front of it.
    pub(crate) fn reachable() -> Option<Self> {
        let tty = File::options().read(true).write(true).open("/dev/tty").ok()?;
        Some(Self { tty, own: process::getpgrp() })
    }

    /// Puts a group in front. `SIGTTOU` must be blocked.
    pub(crate) fn give_to(&self, group: Pid) {
        // The group may be gone, and the terminal too.
        let _ = termios::tcsetpgrp(&self.tty, group);
    }

    /// Puts us in front again.
    pub(crate) fn take_back(&self) {
        self.give_to(self.own);
    }
}

/// Whether nobody else of a pipeline can be using the terminal together with us.
pub(crate) fn is_ours_alone() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}
