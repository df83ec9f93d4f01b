//! The network that the library is given: sockets of the simulation.

mod pipe;

use std::{
    any::Any,
    fmt, io,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

pub(crate) use self::pipe::{Pipe, STRAGGLE_MAX_MS, Wires};
use quorate::simulation::{Connecting, Network, Reader, Writer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use turmoil::net::{
    TcpStream,
    tcp::{OwnedReadHalf, OwnedWriteHalf},
};

/// The sockets of one process. Once it is killed it sends nothing any more: its futures are
/// dropped, which a kill does not do, and what they would send on their way is not sent.
#[derive(Clone, Default)]
pub(crate) struct Sockets {
    state: Arc<Mutex<State>>,
    wires: Wires,
}

#[derive(Default)]
struct State {
    is_killed: bool,
    /// Sockets of a killed process. They are kept, since a runtime drops its tasks in an order that
    /// depends on all others of this process, and a socket closes its connection when it is
    /// dropped.
    left: Vec<Box<dyn Any + Send>>,
}

impl Sockets {
    /// The sockets of a new process.
    pub(crate) fn new(wires: &Wires) -> Self {
        Self { state: Arc::default(), wires: wires.clone() }
    }

    pub(crate) fn kill(&self) {
        self.with(|state| state.is_killed = true);
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.with(|state| state.is_killed)
    }

    fn leave(&self, half: Option<impl Any + Send>) {
        self.with(|state| {
            if let Some(half) = half.filter(|_| state.is_killed) {
                state.left.push(Box::new(half));
            }
        });
    }

    fn with<T>(&self, access: impl FnOnce(&mut State) -> T) -> T {
        access(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for Sockets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sockets")
    }
}

impl Network for Sockets {
    fn connect(&self, host: &str, port: u16) -> Connecting {
        let (host, process) = (host.to_owned(), self.clone());
        Box::pin(async move {
            let stream = TcpStream::connect((host.as_str(), port)).await?;
            let pipe = process.wires.connect(&stream, &host)?;
            let (reader, writer) = stream.into_split();
            let (reader, writer) = (Some(reader), Some(writer));
            let ends = (process.clone(), pipe.clone());
            let reader: Reader = Box::new(Half { half: reader, process: ends.0, pipe: ends.1 });
            let writer: Writer = Box::new(Half { half: writer, process, pipe });
            Ok((reader, writer))
        })
    }
}

/// One half of a connection.
struct Half<T: Any + Send> {
    /// There until it is dropped.
    half: Option<T>,
    process: Sockets,
    pipe: Arc<Pipe>,
}

impl<T: Any + Send> Half<T> {
    fn half(&mut self) -> io::Result<Pin<&mut T>>
    where
        T: Unpin,
    {
        // At the end of a simulation the remaining sockets are dropped outside of it.
        let is_over = self.process.is_killed() || !turmoil::in_simulation();
        if self.pipe.is_broken() {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let half = self.half.as_mut().filter(|_| !is_over);
        half.map(Pin::new).ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }
}

impl<T: Any + Send> Drop for Half<T> {
    fn drop(&mut self) {
        self.pipe.tear();
        self.process.leave(self.half.take());
    }
}

impl AsyncRead for Half<OwnedReadHalf> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.pipe.watch(cx.waker());
        self.half()?.poll_read(cx, buffer)
    }
}

impl AsyncWrite for Half<OwnedWriteHalf> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = self.half()?.poll_write(cx, bytes);
        if let Poll::Ready(Ok(len)) = &written {
            self.pipe.handle_sent(&bytes[..*len]);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.half()?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.half()?.poll_shutdown(cx)
    }
}
