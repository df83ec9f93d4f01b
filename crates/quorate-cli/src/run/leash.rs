//! How the guardian knows until when the command may run: a pipe, through which we tell it again
//! and again. If we are stopped and cannot tell, it acts by itself.

use std::{
    fs::File,
    io::{self, Read as _},
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    pipe::{PipeFlags, pipe_with},
    process::Pid,
    time::{
        ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec,
        clock_gettime, timerfd_create, timerfd_settime,
    },
};

/// Our end.
#[derive(Debug)]
pub(super) struct Leash {
    /// Kept open for the guardian to find.
    read: OwnedFd,
    write: OwnedFd,
}

impl Leash {
    pub(super) fn new() -> io::Result<Self> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        Ok(Self { read, write })
    }

    /// By which the guardian finds its end.
    pub(super) fn number(&self) -> String {
        self.read.as_raw_fd().to_string()
    }

    /// The command may run for so long from now.
    pub(super) fn set(&self, left: Duration) {
        let until = now().saturating_add(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX));
        // A pipe that is full is read by nobody, and then nobody is there to act.
        let _ = rustix::io::write(&self.write, &until.to_le_bytes());
    }
}

/// The guardian's end.
#[derive(Debug)]
pub(super) struct Collar {
    pipe: File,
    timer: OwnedFd,
}

impl Collar {
    pub(super) fn open(parent: Pid, number: &str) -> io::Result<Self> {
        let pipe = File::open(format!("/proc/{}/fd/{number}", parent.as_raw_nonzero()))?;
        // It goes on while the machine sleeps, as the lock does.
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Self { pipe, timer: timerfd_create(TimerfdClockId::Boottime, flags)? })
    }

    /// Waits until there is a signal. Returns false if the command must not run any longer.
    pub(super) fn wait(&mut self, signals: BorrowedFd<'_>) -> bool {
        loop {
            let ready = {
                let mut fds = [
                    PollFd::from_borrowed_fd(signals, PollFlags::IN),
                    PollFd::from_borrowed_fd(self.pipe.as_fd(), PollFlags::IN),
                    PollFd::from_borrowed_fd(self.timer.as_fd(), PollFlags::IN),
                ];
                // What interrupts it is looked at below.
                let _ = poll(&mut fds, None);
                fds.map(|fd| fd.revents())
            };
            if !ready[1].is_empty() && !self.hear() {
                return false;
            }
            if ready[2].contains(PollFlags::IN) && ready[1].is_empty() {
                return false;
            }
            if ready[0].contains(PollFlags::IN) {
                return true;
            }
        }
    }

    /// Takes in the latest word. Returns false if there will be none any more.
    fn hear(&mut self) -> bool {
        let mut words = [0; 512];
        let len = match self.pipe.read(&mut words) {
            Ok(len) => len,
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
        };
        // A word is written at once and whole.
        let Some(last) = words[..len].as_chunks::<8>().0.last() else { return false };
        let until = u64::from_le_bytes(*last);
        let at = Timespec {
            tv_sec: i64::try_from(until / NANOS).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(until % NANOS).unwrap_or(0),
        };
        let never_again = Timespec { tv_sec: 0, tv_nsec: 0 };
        let timer = Itimerspec { it_interval: never_again, it_value: at };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &timer).is_ok()
    }
}

fn now() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let secs = u64::try_from(now.tv_sec).unwrap_or(0);
    secs.saturating_mul(NANOS).saturating_add(u64::try_from(now.tv_nsec).unwrap_or(0))
}

const NANOS: u64 = 1_000_000_000;
