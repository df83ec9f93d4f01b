//! The terminal. Its foreground process group reads what is typed, and Ctrl-C interrupts it.

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
    /// The controlling terminal, if there is one.
    pub(crate) fn reachable() -> Option<Self> {
        let tty = File::options().read(true).write(true).open("/dev/tty").ok()?;
        Some(Self { tty })
    }

    /// The terminal, if the group of this process is in the foreground.
    pub(crate) fn if_foreground() -> Option<Self> {
        let own = own_group()?;
        Self::reachable().filter(|terminal| terminal.is_foreground(own))
    }

    /// Makes a group the foreground group. `SIGTTOU` must be blocked.
    pub(crate) fn give_to(&self, group: Pid) {
        // The group or the terminal may be gone.
        let _ = termios::tcsetpgrp(&self.tty, group);
    }

    /// Makes the group of this process the foreground group again, if this group is.
    pub(crate) fn take_back_from(&self, group: Pid) {
        if let Some(own) = own_group().filter(|_| self.is_foreground(group)) {
            self.give_to(own);
        }
    }

    pub(crate) fn is_foreground(&self, group: Pid) -> bool {
        termios::tcgetpgrp(&self.tty).is_ok_and(|front| front == group)
    }
}

/// The process group of this process. In a PID namespace whose first process is in a group of the
/// outer namespace, that group has no number. rustix cannot represent this, nix can.
pub(crate) fn own_group() -> Option<Pid> {
    Pid::from_raw(nix::unistd::getpgrp().as_raw())
}

/// Whether no other process of a pipeline can be using the terminal.
pub(crate) fn is_only_terminal_user() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}
