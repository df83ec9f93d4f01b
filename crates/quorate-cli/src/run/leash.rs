//! What quorate and the guardian tell each other, through a socket: how long the command may run,
//! and what has become of it. If quorate is stopped and tells nothing any more, the guardian acts
//! by itself.

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
        SendAncillaryMessage, SendFlags, recv, recvmsg, send, sendmsg,
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

    pub(super) fn after(self, time: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// What the guardian tells.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum News {
    /// The command was stopped by its terminal.
    Stopped,
    /// The command has ended with this exit code.
    Ended(u8),
}

impl News {
    const fn word(self) -> [u8; 2] {
        match self {
            Self::Stopped => [b'S', 0],
            Self::Ended(code) => [b'E', code],
        }
    }

    const fn read(word: [u8; 2]) -> Self {
        match word {
            [b'E', code] => Self::Ended(code),
            _ => Self::Stopped,
        }
    }
}

/// Quorate's end.
#[derive(Debug)]
pub(super) struct Leash(net::UnixStream);

impl Leash {
    /// Makes both ends, and hands our standard input over, which is to be the command's.
    pub(super) fn new(until: Until) -> io::Result<(Self, UnixStream)> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut more = SendAncillaryBuffer::new(&mut space);
        let input = io::stdin();
        let fds = [input.as_fd()];
        if !more.push(SendAncillaryMessage::ScmRights(&fds)) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let word = until.0.to_le_bytes();
        sendmsg(&ours, &[IoSlice::new(&word)], &mut more, SendFlags::NOSIGNAL)?;
        ours.set_nonblocking(true)?;
        Ok((Self(net::UnixStream::from_std(ours)?), theirs))
    }

    /// The command may run until then.
    pub(super) fn set(&self, until: Until) {
        // A socket that is full is read by nobody, and then nobody is there to act.
        let _ = self.0.try_write(&until.0.to_le_bytes());
    }

    /// Waits for news. Never ends if there will be none.
    pub(super) async fn news(&self) -> News {
        loop {
            if self.0.readable().await.is_ok()
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
        matches!(self.0.try_read(&mut word), Ok(2)).then(|| News::read(word))
    }
}

/// The guardian's end: its standard input.
#[derive(Debug)]
pub(super) struct Collar {
    socket: io::Stdin,
    timer: OwnedFd,
    until: Until,
}

impl Collar {
    /// Takes it, and what the command is to have as its standard input.
    pub(super) fn take() -> io::Result<(Self, OwnedFd)> {
        let socket = io::stdin();
        let (mut word, mut input) = ([0; 8], None);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut more = RecvAncillaryBuffer::new(&mut space);
        let mut slices = [IoSliceMut::new(&mut word)];
        recvmsg(socket.as_fd(), &mut slices, &mut more, RecvFlags::CMSG_CLOEXEC)?;
        for message in more.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                input = fds.into_iter().next();
            }
        }
        let input = input.ok_or(io::ErrorKind::InvalidData)?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Boottime, flags)?;
        let mut collar = Self { socket, timer, until: Until(0) };
        collar.set(Until(u64::from_le_bytes(word)))?;
        Ok((collar, input))
    }

    /// Whether the command may run still.
    pub(super) fn may_run(&self) -> bool {
        Until::now() < self.until
    }

    /// Waits until there is a signal. Returns false if the command must not run any longer.
    pub(super) fn wait(&mut self, signals: BorrowedFd<'_>) -> bool {
        loop {
            let ready = {
                let mut fds = [
                    PollFd::from_borrowed_fd(signals, PollFlags::IN),
                    PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN),
                    PollFd::from_borrowed_fd(self.timer.as_fd(), PollFlags::IN),
                ];
                // What interrupts it is looked at below.
                let _ = poll(&mut fds, None);
                fds.map(|fd| fd.revents())
            };
            if !ready[1].is_empty() && !self.hear() {
                return false;
            }
            if ready[2].contains(PollFlags::IN) && !self.may_run() {
                return false;
            }
            if ready[0].contains(PollFlags::IN) {
                return true;
            }
        }
    }

    pub(super) fn tell(&self, news: News) {
        // Who has gone needs no news.
        let _ = send(self.socket.as_fd(), &news.word(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
    }

    /// Takes in the latest word. Returns false if there will be none any more.
    fn hear(&mut self) -> bool {
        let mut words = [0; 512];
        let len = match recv(self.socket.as_fd(), &mut words, RecvFlags::DONTWAIT) {
            Ok((len, _)) => len,
            Err(error) => return error == rustix::io::Errno::AGAIN,
        };
        // A word is written at once and whole.
        let last = words[..len].as_chunks::<8>().0.last();
        last.is_some_and(|word| self.set(Until(u64::from_le_bytes(*word))).is_ok())
    }

    fn set(&mut self, until: Until) -> io::Result<()> {
        self.until = until;
        let at = Timespec {
            tv_sec: i64::try_from(until.0 / NANOS).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(until.0 % NANOS).unwrap_or(0),
        };
        let never_again = Timespec { tv_sec: 0, tv_nsec: 0 };
        let timer = Itimerspec { it_interval: never_again, it_value: at };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &timer)?;
        Ok(())
    }
}

const NANOS: u64 = 1_000_000_000;

const LOOK_AGAIN: Duration = Duration::from_millis(100);
