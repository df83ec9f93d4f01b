//! Opens the byte stream to a server, with the socket options that a lock needs.

use std::{
    os::fd::{AsFd as _, OwnedFd},
    time::{Duration, SystemTime},
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
    target::{Endpoint, Target},
};
use crate::error::NodeError;

/// The reading half of a connection.
pub(crate) type Reader = Box<dyn AsyncRead + Send + Unpin>;

/// The two halves of a connection.
pub(crate) struct Stream {
    pub(crate) reader: Reader,
    pub(crate) writer: Box<dyn AsyncWrite + Send + Sync + Unpin>,
    /// The same socket, to abort the connection. A Unix socket has no data in flight.
    pub(crate) socket: Option<OwnedFd>,
    /// When the first certificate of the server's chain expires.
    pub(crate) certificate_ends: Option<SystemTime>,
}

impl Stream {
    fn new(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Sync + Unpin + 'static,
    ) -> Self {
        let (reader, writer) = (Box::new(reader), Box::new(writer));
        Self { reader, writer, socket: None, certificate_ends: None }
    }
}

/// Converts an I/O error. A TLS 1.3 server rejects a client's certificate only after the handshake.
#[cfg(feature = "tls")]
pub(crate) fn lost(error: &std::io::Error) -> NodeError {
    super::tls::node_error(error)
}

/// Converts an I/O error.
#[cfg(not(feature = "tls"))]
pub(crate) fn lost(error: &std::io::Error) -> NodeError {
    NodeError::ConnectionLost(error.to_string())
}

/// Makes the following close discard unsent data, so that it cannot arrive at a server that does
/// not answer after the data of the next connection.
pub(crate) fn give_up(socket: &OwnedFd) {
    // A socket that is already broken has nothing to discard.
    let _ = SockRef::from(socket).set_linger(Some(Duration::ZERO));
}

/// The TLS settings, for addresses that require TLS.
#[derive(Clone, Debug, Default)]
pub(crate) struct Security {
    #[cfg(feature = "tls")]
    pub(crate) connector: Option<Connector>,
}

/// Connects. The caller limits the time.
pub(crate) async fn open(target: &Target, around: &LinkContext) -> Result<Stream, NodeError> {
    #[cfg(feature = "__simulation")]
    if let (Some(network), Endpoint::Tcp(host, port)) = (&around.network, &target.endpoint) {
        let connected = network.connect(host, *port).await;
        let (reader, writer) = connected.map_err(|error| NodeError::from_connect(&error))?;
        return Ok(Stream { reader, writer, socket: None, certificate_ends: None });
    }
    match &target.endpoint {
        Endpoint::Tcp(host, port) => {
            let connected = TcpStream::connect((&**host, *port)).await;
            let stream = connected.map_err(|error| NodeError::from_connect(&error))?;
            tune(&stream).map_err(|error| NodeError::from_connect(&error))?;
            let socket = stream.as_fd().try_clone_to_owned().ok();
            let secured = secure(target, host, stream, &around.security).await?;
            Ok(Stream { socket, ..secured })
        }
        Endpoint::Unix(path) => {
            let connected = UnixStream::connect(path).await;
            let stream = connected.map_err(|error| NodeError::from_connect(&error))?;
            let (reader, writer) = stream.into_split();
            Ok(Stream::new(reader, writer))
        }
    }
}

#[cfg_attr(
    not(feature = "tls"),
    expect(unused_variables, clippy::unused_async, reason = "only TLS needs the other arguments")
)]
async fn secure(
    target: &Target,
    host: &str,
    stream: TcpStream,
    security: &Security,
) -> Result<Stream, NodeError> {
    #[cfg(feature = "tls")]
    if target.is_tls {
        let missing = || NodeError::Tls("there are no TLS settings".into());
        let connector = security.connector.as_ref().ok_or_else(missing)?;
        let (stream, certificate_ends) = connector.connect(host, stream).await?;
        let (reader, writer) = tokio::io::split(stream);
        return Ok(Stream { certificate_ends, ..Stream::new(reader, writer) });
    }
    let (reader, writer) = stream.into_split();
    Ok(Stream::new(reader, writer))
}

/// Sends small requests immediately, and detects a peer that vanished from an idle link.
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
    async fn sockets_have_no_delay_and_probe_idle_peers() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        tune(&stream).unwrap();
        assert!(stream.nodelay().unwrap());
        assert!(SockRef::from(&stream).keepalive().unwrap());
    }
}
