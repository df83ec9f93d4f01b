//! Opens the byte stream to a server, with the socket options that a lock needs.

use std::{io, time::Duration};

use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
};

use super::target::Place;

/// The two halves of a connection.
pub(crate) struct Stream {
    pub(crate) reader: Box<dyn AsyncRead + Send + Unpin>,
    pub(crate) writer: Box<dyn AsyncWrite + Send + Sync + Unpin>,
}

/// Connects. The caller bounds the time.
pub(crate) async fn open(place: &Place) -> io::Result<Stream> {
    match place {
        Place::Tcp(host, port) => {
            let stream = TcpStream::connect((&**host, *port)).await?;
            tune(&stream)?;
            let (reader, writer) = stream.into_split();
            Ok(Stream { reader: Box::new(reader), writer: Box::new(writer) })
        }
        Place::Unix(path) => {
            let (reader, writer) = UnixStream::connect(path).await?.into_split();
            Ok(Stream { reader: Box::new(reader), writer: Box::new(writer) })
        }
    }
}

/// A small request must leave at once, and a peer that is gone must be noticed on an idle link.
fn tune(stream: &TcpStream) -> io::Result<()> {
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
