//! Serves connections, with limits on their number and slowness, and with TLS.

mod stream;
mod tls;

use std::{future::poll_fn, pin::Pin, sync::Arc, time::Duration};

use axum::Router;
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::timeout,
};
use tower::ServiceExt as _;

use self::stream::Stream;
pub use self::tls::{Tls, TlsError};
use crate::delivery::Unwritten;

/// How connections are served.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The maximum number of open connections. Further ones are rejected. 20,000 by default.
    pub connections_max: usize,
    /// The time for the head of the next request, for a TLS handshake, or for reading more of a
    /// response. 30 s by default.
    pub head_time_max: Duration,
    /// Serves HTTPS with this certificate.
    pub tls: Option<Tls>,
}

impl Default for Options {
    fn default() -> Self {
        Self { connections_max: 20_000, head_time_max: Duration::from_secs(30), tls: None }
    }
}

/// Serves all connections until `end` completes. Then open connections may finish their requests
/// within `grace`. Meanwhile new connections are accepted, for one request each.
pub async fn serve(
    listener: TcpListener,
    app: Router,
    options: Options,
    end: impl Future<Output = ()>,
    grace: Duration,
) {
    let room = Arc::new(Semaphore::new(options.connections_max));
    let is_ending = watch::Sender::new(false);
    let receiver = is_ending.subscribe();
    let server = Server { app, options, room, keeps_alive: true, is_ending: receiver };
    tokio::select! {
        () = end => {}
        () = server.accept_all(&listener) => {}
    }
    is_ending.send_replace(true);
    // Later connections do not delay the shutdown, but are answered.
    let late_is_ending = watch::Sender::new(false);
    let late = Server { keeps_alive: false, is_ending: late_is_ending.subscribe(), ..server };
    // A remaining clone would hide the end of all connections.
    drop(server.is_ending);
    let finish = async {
        tokio::select! {
            // Every connection holds a receiver.
            () = is_ending.closed() => {}
            () = late.accept_all(&listener) => {}
        }
        drop((listener, late));
        late_is_ending.send_replace(true);
        late_is_ending.closed().await;
    };
    let _ = timeout(grace, finish).await;
}

#[derive(Clone)]
struct Server {
    app: Router,
    options: Options,
    room: Arc<Semaphore>,
    /// Whether a connection may send more than one request.
    keeps_alive: bool,
    is_ending: watch::Receiver<bool>,
}

impl Server {
    async fn accept_all(&self, listener: &TcpListener) {
        let rejections = Arc::new(Semaphore::new(REJECTIONS_MAX));
        loop {
            // The process has too many open files: wait for a moment.
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            if let Ok(permit) = self.room.clone().try_acquire_owned() {
                tokio::spawn(self.clone().serve(stream, permit));
            } else if self.options.tls.is_none()
                && let Ok(permit) = rejections.clone().try_acquire_owned()
            {
                tokio::spawn(reject(stream, permit));
            }
            // Otherwise the connection is closed without a response: a TLS handshake costs too
            // much, and responses must not need more files than are reserved.
        }
    }

    async fn serve(self, stream: TcpStream, _permit: OwnedSemaphorePermit) {
        // Small responses must be sent immediately.
        let _ = stream.set_nodelay(true);
        let stream = Stream::new(stream, self.options.head_time_max);
        let unwritten = stream.unwritten();
        match &self.options.tls {
            None => self.serve_stream(stream, unwritten).await,
            Some(tls) => {
                let handshake = tls.acceptor().accept(stream);
                // A client without TLS, with a slow handshake, or without a certificate gets no
                // explanation.
                if let Ok(Ok(stream)) = timeout(self.options.head_time_max, handshake).await {
                    self.serve_stream(stream, unwritten).await;
                }
            }
        }
    }

    async fn serve_stream(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        unwritten: Unwritten,
    ) {
        let app = self.app.clone();
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(unwritten.clone());
            Box::pin(app.clone().oneshot(request))
        });
        let mut connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.options.head_time_max)
            .max_headers(HEADERS_MAX)
            .max_buf_size(HEAD_LEN_MAX)
            .keep_alive(self.keeps_alive)
            .serve_connection(TokioIo::new(stream), service);
        let mut is_ending = self.is_ending.clone();
        let ended = tokio::select! {
            biased;
            ended = poll_fn(|cx| connection.poll_without_shutdown(cx)) => Some(ended),
            _ = is_ending.wait_for(|is_ending| *is_ending) => None,
        };
        let ended = match ended {
            Some(ended) => ended,
            None => {
                Pin::new(&mut connection).graceful_shutdown();
                poll_fn(|cx| connection.poll_without_shutdown(cx)).await
            }
        };
        // A client that disconnects or is too slow is not reported, and gets no more time.
        if !ended.is_err_and(|error| error.is_timeout()) {
            linger(connection.into_parts().io.into_inner()).await;
        }
    }
}

/// Rejects a connection because there are too many.
async fn reject(mut stream: TcpStream, _permit: OwnedSemaphorePermit) {
    let body = concat!(
        r#"{"type":"urn:quorate:problem:too_many","title":"too many requests","status":503,"#,
        r#""code":"too_many","detail":"this instance has too many connections","#,
        r#""retry_after_ms":1000}"#
    );
    let text = format!(
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\n\
         Retry-After: 1\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    if let Ok(Ok(())) = timeout(LINGER_MAX, stream.write_all(text.as_bytes())).await {
        linger(stream).await;
    }
}

/// Closes a connection so that the client gets the last response: closing a socket with unread data
/// resets the connection, and the client may lose a response that it has not read yet.
async fn linger(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let discard = async {
        stream.shutdown().await?;
        tokio::io::copy(&mut stream.take(LINGER_LEN_MAX), &mut tokio::io::sink()).await
    };
    let _ = timeout(LINGER_MAX, discard).await;
}

/// Checks the body types that a router is served with.
const _: fn() = || {
    fn is_served<S: tower::Service<Request<Incoming>>>() {}
    is_served::<Router>();
};

const HEADERS_MAX: usize = 64;
const HEAD_LEN_MAX: usize = 16 * 1_024;
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// How many connections beyond the limit get a response.
const REJECTIONS_MAX: usize = 64;

/// How long, and how much, a connection is read after its last response.
const LINGER_MAX: Duration = Duration::from_secs(1);
const LINGER_LEN_MAX: u64 = 16 * 1_024 * 1_024;
