//! The channel between quorate and the guardian. A timer that both share is the deadline of the
//! command; a socket carries the events of the command to quorate. If quorate is stopped and no
//! longer sets the timer, the guardian acts when the timer fires. If the guardian is stopped, it
//! finds the latest deadline when it resumes.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::{
        fd::{AsFd as _, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, recvmsg, send, sendmsg,
    },
    time::{
        ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec,
        clock_gettime, timerfd_create, timerfd_settime,
    },
};
use tokio::net;

/// A point in time of a clock that counts suspended time, as the clock of leases does.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct BootInstant(u64);

impl BootInstant {
    pub(super) fn now() -> Self {
        let now = clock_gettime(ClockId::Boottime);
        let secs = u64::try_from(now.tv_sec).unwrap_or(0);
        Self(secs.saturating_mul(NANOS).saturating_add(u64::try_from(now.tv_nsec).unwrap_or(0)))
    }

    pub(super) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    pub(super) fn after(self, time: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// What the guardian reports.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum CommandEvent {
    /// The command was stopped by this signal.
    Stopped(u8),
    /// The command has ended with this exit code.
    Ended(u8),
    /// The command and all its descendants have ended.
    Gone,
}

impl CommandEvent {
    const fn encode(self) -> [u8; 2] {
        match self {
            Self::Stopped(signal) => [b'S', signal],
            Self::Ended(code) => [b'E', code],
            Self::Gone => [b'G', 0],
        }
    }

    const fn decode(word: [u8; 2]) -> Option<Self> {
        match word {
            [b'S', signal] => Some(Self::Stopped(signal)),
            [b'E', code] => Some(Self::Ended(code)),
            [b'G', _] => Some(Self::Gone),
            _ => None,
        }
    }
}

/// The end of quorate.
#[derive(Debug)]
pub(super) struct DeadlineChannel {
    socket: net::UnixStream,
    timer: OwnedFd,
}

impl DeadlineChannel {
    /// Creates both ends, and sends the standard input of this process, which the command gets.
    pub(super) fn new(deadline: BootInstant) -> io::Result<(Self, UnixStream)> {
        let (ours, theirs) = UnixStream::pair()?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Boottime, flags)?;
        set_timer(&timer, deadline)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut more = SendAncillaryBuffer::new(&mut space);
        let input = io::stdin();
        let fds = [input.as_fd(), timer.as_fd()];
        if !more.push(SendAncillaryMessage::ScmRights(&fds)) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        sendmsg(&ours, &[IoSlice::new(&[0])], &mut more, SendFlags::NOSIGNAL)?;
        ours.set_nonblocking(true)?;
        Ok((Self { socket: net::UnixStream::from_std(ours)?, timer }, theirs))
    }

    /// Sets the time until which the command may run.
    pub(super) fn set_deadline(&self, deadline: BootInstant) {
        // Cannot fail: the time and the timer are valid.
        let _ = set_timer(&self.timer, deadline);
    }

    /// The command must not run any longer.
    pub(super) fn expire(&self) {
        self.set_deadline(BootInstant(0));
    }

    /// Waits for the next event. Never returns if the guardian is gone.
    pub(super) async fn next_event(&self) -> CommandEvent {
        loop {
            if self.socket.readable().await.is_ok()
                && let Some(event) = self.try_event()
            {
                return event;
            }
            // The socket is closed: the end of the guardian is about to be noticed elsewhere.
            tokio::time::sleep(RECHECK_AFTER).await;
        }
    }

    /// An event that has already arrived.
    pub(super) fn try_event(&self) -> Option<CommandEvent> {
        let mut word = [0; 2];
        matches!(self.socket.try_read(&mut word), Ok(2))
            .then(|| CommandEvent::decode(word))
            .flatten()
    }
}

/// The end of the guardian: its standard input, and the timer.
#[derive(Debug)]
pub(super) struct GuardianEnd {
    socket: io::Stdin,
    timer: OwnedFd,
}

impl GuardianEnd {
    /// Receives the timer, and the standard input for the command.
    pub(super) fn from_stdin() -> io::Result<(Self, OwnedFd)> {
        let socket = io::stdin();
        let (mut word, mut fds) = ([0; 1], Vec::new());
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut more = RecvAncillaryBuffer::new(&mut space);
        let mut slices = [IoSliceMut::new(&mut word)];
        recvmsg(socket.as_fd(), &mut slices, &mut more, RecvFlags::CMSG_CLOEXEC)?;
        for message in more.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                fds.extend(received);
            }
        }
        let mut fds = fds.into_iter();
        let (Some(input), Some(timer)) = (fds.next(), fds.next()) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        Ok((Self { socket, timer }, input))
    }

    /// Whether the command may still run.
    pub(super) fn may_run(&self) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(self.timer.as_fd(), PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&now)).is_ok_and(|ready| ready == 0)
    }

    /// Waits for a signal. Returns false if the command must not run any longer.
    pub(super) fn wait(&self, signals: BorrowedFd<'_>) -> bool {
        loop {
            let mut fds = [
                PollFd::from_borrowed_fd(signals, PollFlags::IN),
                PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(self.timer.as_fd(), PollFlags::IN),
            ];
            // If a signal interrupts the poll, no descriptor is ready and the loop polls again.
            let _ = poll(&mut fds, None);
            // The socket carries nothing in this direction: it becomes readable when it is closed.
            let [is_signal, is_closed, is_expired] = fds.map(|fd| !fd.revents().is_empty());
            if is_closed || is_expired {
                return false;
            }
            if is_signal {
                return true;
            }
        }
    }

    /// Sends all events at once.
    pub(super) fn send(&self, events: &[CommandEvent]) {
        let words: Vec<u8> = events.iter().flat_map(|event| event.encode()).collect();
        // If quorate is gone, the events are not needed.
        let _ = send(self.socket.as_fd(), &words, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
    }
}

fn set_timer(timer: &OwnedFd, deadline: BootInstant) -> io::Result<()> {
    // Zero would disarm the timer.
    let nanos = deadline.0.max(1);
    let at = Timespec {
        tv_sec: i64::try_from(nanos / NANOS).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(nanos % NANOS).unwrap_or(0),
    };
    let no_repeat = Timespec { tv_sec: 0, tv_nsec: 0 };
    let times = Itimerspec { it_interval: no_repeat, it_value: at };
    timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &times)?;
    Ok(())
}

const NANOS: u64 = 1_000_000_000;

const RECHECK_AFTER: Duration = Duration::from_millis(100);
