//! One running server process and the signals it can be sent.
//!
//! Responsible for never leaving the process behind: dropping kills and reaps it. Knows nothing of
//! Redis.

use std::fs;
use std::io;
use std::process::{Child, ExitStatus};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::eventually;

#[derive(Debug)]
pub(super) struct Process {
    child: Child,
}

impl Process {
    pub(super) fn new(child: Child) -> Self {
        Self { child }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub(super) fn exit_status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("asking for the state of an own child process")
    }

    /// Asks it to end and waits until it has. A paused process is resumed, or it could not.
    pub(super) fn terminate(mut self) {
        self.signal(Signal::TERM);
        self.resume();
        eventually("the server ends after SIGTERM", ENDS_WITHIN, || self.exit_status().is_some());
    }

    /// Returns once every thread of the process stands still.
    pub(super) fn pause(&self) {
        self.signal(Signal::STOP);
        eventually("the server stands still after SIGSTOP", STOPS_WITHIN, || {
            threads_all_stopped(self.pid()).unwrap_or(false)
        });
    }

    pub(super) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal)
            .unwrap_or_else(|error| panic!("{signal:?} to the server, pid {pid:?}: {error}"));
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // SIGKILL ends a paused process too. Both calls fail only if it has been reaped already,
        // which is what they are for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn threads_all_stopped(pid: u32) -> io::Result<bool> {
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let stat = fs::read_to_string(thread?.path().join("stat"))?;
        // "PID (NAME) STATE …", where NAME may itself contain spaces and brackets.
        let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
        if state != Some('T') {
            return Ok(false);
        }
    }
    Ok(true)
}

const ENDS_WITHIN: Duration = Duration::from_secs(10);
const STOPS_WITHIN: Duration = Duration::from_secs(10);
