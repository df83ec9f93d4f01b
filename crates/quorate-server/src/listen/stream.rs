//! A connection that records whether a response was written.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Sleep, sleep},
};

use crate::delivery::Unwritten;

/// A socket, and the response with leases that is being written to it.
#[derive(Debug)]
pub(super) struct Stream {
    socket: TcpStream,
    unwritten: Unwritten,
    /// How long a client may read nothing while data is pending.
    blocked_max: Duration,
    /// Completes when the client has read nothing for that long.
    blocked: Option<Pin<Box<Sleep>>>,
}

impl Stream {
    pub(super) fn new(socket: TcpStream, blocked_max: Duration) -> Self {
        Self { socket, unwritten: Unwritten::default(), blocked_max, blocked: None }
    }

    pub(super) fn unwritten(&self) -> Unwritten {
        self.unwritten.clone()
    }

    /// Fails if a lease is to be written and the client has disconnected. The runtime may not have
    /// reported the disconnect yet: grants and disconnects are reported in any order.
    fn check_client(&self) -> io::Result<()> {
        if self.unwritten.is_some() && is_disconnected(&self.socket) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(())
    }

    fn write_with(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut TcpStream>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let written = match self.check_client() {
            Ok(()) => write(Pin::new(&mut self.socket), cx),
            Err(error) => Poll::Ready(Err(error)),
        };
        let written = match written {
            Poll::Ready(written) => {
                self.blocked = None;
                written
            }
            Poll::Pending => {
                let blocked_max = self.blocked_max;
                let blocked = self.blocked.get_or_insert_with(|| Box::pin(sleep(blocked_max)));
                ready!(blocked.as_mut().poll(cx));
                Err(io::ErrorKind::TimedOut.into())
            }
        };
        if written.is_err() {
            self.unwritten.failed();
        }
        Poll::Ready(written)
    }
}

fn is_disconnected(socket: &TcpStream) -> bool {
    #[cfg(target_os = "linux")]
    let disconnected = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    #[cfg(not(target_os = "linux"))]
    let disconnected = PollFlags::HUP | PollFlags::ERR;
    let mut sockets = [PollFd::new(socket, disconnected)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut sockets, Some(&now)).is_ok() && sockets[0].revents().intersects(disconnected)
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buf)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write_with(cx, |socket, cx| socket.poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write_with(cx, |socket, cx| socket.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    /// The server flushes only after all earlier data has been written.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.socket).poll_flush(cx))?;
        self.unwritten.written();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
