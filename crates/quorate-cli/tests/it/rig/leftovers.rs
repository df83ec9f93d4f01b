//! Finds the processes of a test, whoever started them and whatever became of their parents, and
//! ends them with it.

use std::{
    ffi::{OsStr, OsString},
    fmt, fs,
    os::unix::ffi::OsStrExt as _,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// What all processes of a test have in their environment, and no other has.
#[derive(Clone, Debug)]
pub(crate) struct Mark(OsString);

impl Mark {
    pub(super) fn new(folder: &OsStr) -> Self {
        Self(folder.to_owned())
    }

    /// The one that a command has.
    pub(super) fn of(command: &Command) -> Option<Self> {
        let value = command.get_envs().find(|(name, _)| *name == VARIABLE)?.1?;
        Some(Self(value.to_owned()))
    }

    pub(super) fn put_on(&self, command: &mut Command) {
        command.env(VARIABLE, &self.0);
    }

    /// Those that have it and are not dead.
    pub(crate) fn processes(&self) -> Vec<Pid> {
        let names = fs::read_dir("/proc").expect("there is one").flatten();
        let pids = names.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        pids.filter_map(Pid::from_raw).filter(|pid| self.is_on(*pid)).collect()
    }

    /// Lists them for somebody who reads why a test failed.
    pub(super) fn listing(&self) -> Listing {
        let lines = self.processes().into_iter().map(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words = line.split(|byte| *byte == 0).map(String::from_utf8_lossy);
            format!("{pid}: {}", words.collect::<Vec<_>>().join(" "))
        });
        Listing(lines.collect())
    }

    /// Kills them until none is left. Returns false if that did not help.
    pub(super) fn kill_all(&self) -> bool {
        is_within(KILL_BOUND, || {
            let found = self.processes();
            found.iter().for_each(|pid| self.kill(*pid));
            // Twice: one that is started meanwhile may be missed.
            found.is_empty() && self.processes().is_empty()
        })
    }

    fn kill(&self, pid: Pid) {
        // The number may be another's by now: the handle is of whoever has it when we look again.
        if let Ok(handle) = pidfd_open(pid, PidfdFlags::empty())
            && self.is_on(pid)
        {
            // It may be gone.
            let _ = pidfd_send_signal(&handle, Signal::KILL);
        }
    }

    fn is_on(&self, pid: Pid) -> bool {
        // A dead one has no environment any more.
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let expected = [VARIABLE.as_bytes(), b"=", self.0.as_bytes()].concat();
        environment.split(|byte| *byte == 0).any(|variable| variable == expected)
    }
}

/// One line for each process.
pub(super) struct Listing(Vec<String>);

impl fmt::Display for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [] => f.write_str("nothing runs any more"),
            lines => write!(f, "still running:\n  {}", lines.join("\n  ")),
        }
    }
}

/// Whether something comes true within so long.
pub(super) fn is_within(bound: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    loop {
        if condition() {
            return true;
        }
        if started.elapsed() >= bound {
            return false;
        }
        thread::park_timeout(BETWEEN_LOOKS);
    }
}

const VARIABLE: &str = "QUORATE_TEST_FOLDER";

/// How long processes may take to die.
const KILL_BOUND: Duration = Duration::from_secs(10);

const BETWEEN_LOOKS: Duration = Duration::from_millis(2);
