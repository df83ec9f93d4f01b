//! What quorate and the guardian tell each other: through a timer that both have, how long the
//! command may run, and through a socket, what has become of it. If quorate is stopped and sets the
//! timer no more, the guardian acts by itself. If the guardian is stopped, it finds the timer as it
//! was set last.

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

/// A point of a clock that goes on while the machine sleeps, as the lock does.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Until(u64);

impl Until {
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

/// What the guardian tells.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum News {
    /// The command was stopped by this signal.
    Stopped(u8),
    /// The command has ended with this exit code.
    Ended(u8),
    /// Nothing that descends from the command is left.
    Gone,
}

impl News {
    const fn word(self) -> [u8; 2] {
        match self {
            Self::Stopped(signal) => [b'S', signal],
            Self::Ended(code) => [b'E', code],
            Self::Gone => [b'G', 0],
        }
    }

    const fn read(word: [u8; 2]) -> Option<Self> {
        match word {
            [b'S', signal] => Some(Self::Stopped(signal)),
            [b'E', code] => Some(Self::Ended(code)),
            [b'G', _] => Some(Self::Gone),
            _ => None,
        }
    }
}

/// Quorate's end.
#[derive(Debug)]
pub(super) struct Leash {
    socket: net::UnixStream,
    timer: OwnedFd,
}

impl Leash {
    /// Makes both ends, and hands our standard input over, which is to be the command's.
    pub(super) fn new(until: Until) -> io::Result<(Self, UnixStream)> {
        let (ours, theirs) = UnixStream::pair()?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Boottime, flags)?;
        set(&timer, until)?;
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

    /// The command may run until then.
    pub(super) fn set(&self, until: Until) {
        // The time is valid, and so is the timer.
        let _ = set(&self.timer, until);
    }

    /// The command must not run any longer.
    pub(super) fn pull(&self) {
        self.set(Until(0));
    }

    /// Waits for news. Never ends if there will be none.
    pub(super) async fn news(&self) -> News {
        loop {
            if self.socket.readable().await.is_ok()
                && let Some(news) = self.latest()
            {
                return news;
            }
            // It is closed, and the guardian is about to be seen dead.
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// News that are there already.
    pub(super) fn latest(&self) -> Option<News> {
        let mut word = [0; 2];
        matches!(self.socket.try_read(&mut word), Ok(2)).then(|| News::read(word)).flatten()
    }
}

/// The guardian's end: its standard input, and the timer.
#[derive(Debug)]
pub(super) struct Collar {
    socket: io::Stdin,
    timer: OwnedFd,
}

impl Collar {
    /// Takes it, and what the command is to have as its standard input.
    pub(super) fn take() -> io::Result<(Self, OwnedFd)> {
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

    /// Whether the command may run still.
    pub(super) fn may_run(&self) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(self.timer.as_fd(), PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&now)).is_ok_and(|ready| ready == 0)
    }

    /// Waits until there is a signal. Returns false if the command must not run any longer.
    pub(super) fn wait(&self, signals: BorrowedFd<'_>) -> bool {
        loop {
            let mut fds = [
                PollFd::from_borrowed_fd(signals, PollFlags::IN),
                PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(self.timer.as_fd(), PollFlags::IN),
            ];
            // What interrupts it is looked at below.
            let _ = poll(&mut fds, None);
            // We are told nothing through the socket, but that it is closed.
            let [is_signal, is_closed, is_over] = fds.map(|fd| !fd.revents().is_empty());
            if is_closed || is_over {
                return false;
            }
            if is_signal {
                return true;
            }
        }
    }

    /// Tells all of it at once.
    pub(super) fn tell(&self, news: &[News]) {
        let words: Vec<u8> = news.iter().flat_map(|news| news.word()).collect();
        // Who has gone needs no news.
        let _ = send(self.socket.as_fd(), &words, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
    }
}

fn set(timer: &OwnedFd, until: Until) -> io::Result<()> {
    // No time at all would be never.
    let until = until.0.max(1);
    let at = Timespec {
        tv_sec: i64::try_from(until / NANOS).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(until % NANOS).unwrap_or(0),
    };
    let never_again = Timespec { tv_sec: 0, tv_nsec: 0 };
    let times = Itimerspec { it_interval: never_again, it_value: at };
    timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &times)?;
    Ok(())
}

const NANOS: u64 = 1_000_000_000;

const LOOK_AGAIN: Duration = Duration::from_millis(100);
