//! The least of an HTTP client: one connection, one request at a time.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

pub(crate) struct Http {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Http {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("it listens");
        stream.set_nodelay(true).expect("it is a socket");
        Self { stream, read: Vec::new() }
    }

    /// Sends a request and returns the body of the answer, which must be a success.
    pub(crate) async fn send(&mut self, method: &str, path: &str, body: &str) -> String {
        self.start(method, path, body).await;
        let (status, body) = self.answer().await;
        assert!(status.starts_with("HTTP/1.1 20"), "{method} {path}: {status}\n{body}");
        body
    }

    /// The same; `None` if it is no success.
    pub(crate) async fn try_send(
        &mut self,
        method: &str,
        path: &str,
        body: &str,
    ) -> Option<String> {
        self.start(method, path, body).await;
        let (status, body) = self.answer().await;
        status.starts_with("HTTP/1.1 20").then_some(body)
    }

    /// Sends a request.
    pub(crate) async fn start(&mut self, method: &str, path: &str, body: &str) {
        let len = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {len}\r\n\r\n{body}"
        );
        self.stream.write_all(request.as_bytes()).await.expect("it is open");
    }

    /// The first line of the head, and the body.
    async fn answer(&mut self) -> (String, String) {
        self.read.clear();
        loop {
            if let Some((head, body)) = split(&self.read)
                && body.len() >= content_length(head)
            {
                let status = head.lines().next().unwrap_or_default().to_owned();
                return (status, String::from_utf8_lossy(body).into_owned());
            }
            let len = self.stream.read_buf(&mut self.read).await.expect("it is open");
            assert!(len > 0, "it was closed");
        }
    }
}

fn split(read: &[u8]) -> Option<(&str, &[u8])> {
    let end = read.windows(4).position(|it| it == b"\r\n\r\n")?;
    Some((str::from_utf8(&read[..end]).expect("a head is text"), &read[end + 4..]))
}

fn content_length(head: &str) -> usize {
    let lines = head.lines().filter_map(|line| line.split_once(':'));
    let mut lengths = lines.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    lengths.next().map_or(0, |(_, value)| value.trim().parse().expect("a number"))
}
