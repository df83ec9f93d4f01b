//! The terminal: whoever is in front of it reads what is typed, and is interrupted by Ctrl-C.

use std::{
    fs::File,
    io::{self, IsTerminal as _},
};

use rustix::{process::Pid, termios};

/// The terminal of this process.
#[derive(Debug)]
pub(crate) struct Terminal {
    tty: File,
}

impl Terminal {
    /// The terminal, whoever is in front of it.
    pub(crate) fn reachable() -> Option<Self> {
        let tty = File::options().read(true).write(true).open("/dev/tty").ok()?;
        Some(Self { tty })
    }

    /// The terminal, if we are in front of it.
    pub(crate) fn in_front() -> Option<Self> {
        let own = own_group()?;
        Self::reachable().filter(|terminal| terminal.has_in_front(own))
    }

    /// Puts a group in front. `SIGTTOU` must be blocked.
    pub(crate) fn give_to(&self, group: Pid) {
        // The group may be gone, and the terminal too.
        let _ = termios::tcsetpgrp(&self.tty, group);
    }

    /// Puts us in front again, if this group is there now.
    pub(crate) fn take_back_from(&self, group: Pid) {
        if let Some(own) = own_group().filter(|_| self.has_in_front(group)) {
            self.give_to(own);
        }
    }

    pub(crate) fn has_in_front(&self, group: Pid) -> bool {
        termios::tcgetpgrp(&self.tty).is_ok_and(|front| front == group)
    }
}

/// Our group. In a namespace of processes whose first one shares a group of the outer one, that has
/// no number.
pub(crate) fn own_group() -> Option<Pid> {
    Pid::from_raw(nix::unistd::getpgrp().as_raw())
}

/// Whether nobody else of a pipeline can be using the terminal together with us.
pub(crate) fn is_ours_alone() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}
