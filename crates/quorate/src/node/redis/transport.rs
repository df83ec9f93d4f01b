//! Opens the byte stream to a server, with the socket options that a lock needs.

use std::{
    os::fd::{AsFd as _, OwnedFd},
    time::Duration,
};

use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
};

#[cfg(feature = "tls")]
use super::tls::Connector;
use super::{
    link::LinkContext,
    target::{Position, Target},
};
use crate::error::NodeError;

/// The reading half of a connection.
pub(crate) type Reader = Box<dyn AsyncRead + Send + Unpin>;

/// The two halves of a connection.
pub(crate) struct Stream {
    pub(crate) reader: Reader,
    pub(crate) writer: Box<dyn AsyncWrite + Send + Sync + Unpin>,
    /// The same socket, to end it hard. A local socket has nothing on its way.
    pub(crate) socket: Option<OwnedFd>,
}

impl Stream {
    fn new(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Sync + Unpin + 'static,
    ) -> Self {
        Self { reader: Box::new(reader), writer: Box::new(writer), socket: None }
    }
}

/// What an error while reading or writing means. A server that speaks TLS 1.3 refuses a client's
/// certificate only after the handshake.
#[cfg(feature = "tls")]
pub(crate) fn lost(error: &std::io::Error) -> NodeError {
    super::tls::node_error(error)
}

/// What an error while reading or writing means.
#[cfg(not(feature = "tls"))]
pub(crate) fn lost(error: &std::io::Error) -> NodeError {
    NodeError::ConnectionLost(error.to_string())
}

/// What is still on its way to a server that does not answer shall not arrive after what is sent to
/// it on the next connection: the close that follows throws it away.
pub(crate) fn give_up(socket: &OwnedFd) {
    // If the socket is broken already, there is nothing to throw away.
    let _ = SockRef::from(socket).set_linger(Some(Duration::ZERO));
}

/// What makes connections trusted, where an address asks for that.
#[derive(Clone, Debug, Default)]
pub(crate) struct Security {
    #[cfg(feature = "tls")]
    pub(crate) connector: Option<Connector>,
}

/// Connects. The caller bounds the time.
pub(crate) async fn open(target: &Target, around: &LinkContext) -> Result<Stream, NodeError> {
    #[cfg(feature = "simulation")]
    if let (Some(network), Position::Tcp(host, port)) = (&around.network, &target.place) {
        let connected = network.connect(host, *port).await;
        let (reader, writer) = connected.map_err(|error| NodeError::from_connect(&error))?;
        return Ok(Stream { reader, writer, socket: None });
    }
    match &target.place {
        Position::Tcp(host, port) => {
            let connected = TcpStream::connect((&**host, *port)).await;
            let stream = connected.map_err(|error| NodeError::from_connect(&error))?;
            tune(&stream).map_err(|error| NodeError::from_connect(&error))?;
            let socket = stream.as_fd().try_clone_to_owned().ok();
            let secured = secure(target, host, stream, &around.security).await?;
            Ok(Stream { socket, ..secured })
        }
        Position::Unix(path) => {
            let connected = UnixStream::connect(path).await;
            let stream = connected.map_err(|error| NodeError::from_connect(&error))?;
            let (reader, writer) = stream.into_split();
            Ok(Stream::new(reader, writer))
        }
    }
}

#[cfg_attr(
    not(feature = "tls"),
    expect(unused_variables, clippy::unused_async, reason = "only TLS needs more than the stream")
)]
async fn secure(
    target: &Target,
    host: &str,
    stream: TcpStream,
    security: &Security,
) -> Result<Stream, NodeError> {
    #[cfg(feature = "tls")]
    if target.is_tls {
        let missing = || NodeError::Tls("no settings for it".into());
        let connector = security.connector.as_ref().ok_or_else(missing)?;
        let (reader, writer) = tokio::io::split(connector.connect(host, stream).await?);
        return Ok(Stream::new(reader, writer));
    }
    let (reader, writer) = stream.into_split();
    Ok(Stream::new(reader, writer))
}

/// A small request must leave at once, and a peer that is gone must be noticed on an idle link.
fn tune(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let probes = TcpKeepalive::new().with_time(KEEPALIVE_AFTER).with_interval(KEEPALIVE_EVERY);
    socket.set_tcp_keepalive(&probes)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED_MAX))?;
    Ok(())
}

const KEEPALIVE_AFTER: Duration = Duration::from_secs(5);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(1);
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn small_requests_leave_at_once_and_dead_peers_are_noticed() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        tune(&stream).unwrap();
        assert!(stream.nodelay().unwrap());
        assert!(SockRef::from(&stream).keepalive().unwrap());
    }
}
