//! A TCP peer with a fixed behaviour, and one that implements just enough of Redis.

use std::{
    io::{self, BufRead, BufReader, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
};

use super::super::monitor::Call;

/// Listens, and hands each connection to a function on a thread of its own.
pub(crate) struct Peer {
    address: SocketAddr,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    accepted: AtomicU64,
    is_over: AtomicBool,
}

impl Peer {
    pub(crate) fn start(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a listener knows its address");
        let state = Arc::new(State::default());
        let serve = Arc::new(serve);
        let known = state.clone();
        let thread = thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if known.is_over.load(Ordering::Relaxed) {
                    return;
                }
                known.accepted.fetch_add(1, Ordering::Relaxed);
                let serve = serve.clone();
                // It ends when the client closes the connection.
                thread::spawn(move || serve(stream));
            }
        });
        Self { address, state, thread: Some(thread) }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// How many connections there were.
    pub(crate) fn accepted(&self) -> u64 {
        self.state.accepted.load(Ordering::Relaxed)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::Relaxed);
        // Wakes the listener, so that it checks the flag.
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Waits until the client has closed the connection.
pub(crate) fn read_to_end(mut stream: &TcpStream) {
    let _ = io::copy(&mut stream, &mut io::sink());
}

/// Implements as much of Redis as an attach and a lock need, and grants everything. Answers with
/// what `odd` makes of a command and the number of the connection, or else as a server would.
pub(crate) fn fake_redis(
    odd: impl Fn(&[String], u64) -> Option<String> + Send + Sync + 'static,
) -> impl Fn(TcpStream) + Send + Sync + 'static {
    let connections = AtomicU64::new(0);
    move |stream| {
        let connection = connections.fetch_add(1, Ordering::Relaxed);
        let mut reader = BufReader::new(&stream);
        while let Some(words) = read_command(&mut reader) {
            let reply = odd(&words, connection).unwrap_or_else(|| plain_reply(&words));
            if (&stream).write_all(reply.as_bytes()).is_err() {
                return;
            }
        }
    }
}

/// The reply of a real server.
pub(crate) fn plain_reply(words: &[String]) -> String {
    let text = |text: &str| format!("${}\r\n{text}\r\n", text.len());
    let call = Call::of(words);
    let together = call.map_or(0, |call| call.acquires().len().max(call.releases().len()));
    if together > 1 {
        return format!(":{together}\r\n");
    }
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["HELLO", ..] => "%1\r\n+proto\r\n:3\r\n".into(),
        ["INFO", "server"] => text("# Server\r\nrun_id:0123456789abcdef\r\n"),
        ["INFO", "replication"] => text("# Replication\r\nrole:master\r\n"),
        ["INFO", "memory"] => text("# Memory\r\nmaxmemory:0\r\n"),
        // Before the session, whose time is later.
        ["TIME"] => format!("*2\r\n{}{}", text("1600000000"), text("0")),
        ["SCRIPT", "LOAD", _] => text("0123456789012345678901234567890123456789"),
        ["SUBSCRIBE", channel] => {
            format!(">3\r\n{}{}:1\r\n", text("subscribe"), text(channel))
        }
        // A record that is not there.
        ["HMGET", _, "change"] => "*1\r\n_\r\n".into(),
        // An attempt in classic mode; the name of the client.
        ["SET", ..] | ["EVAL", _, "1", _, _, _] => "+OK\r\n".into(),
        // By the number of keys: an attempt in the default mode, and a session that begins or
        // continues on.
        ["EVALSHA", _, "4", ..] | ["EVAL" | "EVALSHA", _, "2", ..] => text(DIGITS),
        ["PUBLISH" | "EVALSHA", ..] => ":1\r\n".into(),
        ref other => panic!("this server does not know {other:?}"),
    }
}

/// True for an attempt to take a lock, in either mode.
pub(crate) fn is_attempt(words: &[String]) -> bool {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    matches!(words[..], ["SET", _, _, "NX", ..] | ["EVALSHA", _, "4", ..])
}

/// True for a release or the undo of an attempt, in either mode.
pub(crate) fn is_release(words: &[String]) -> bool {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    matches!(words[..], ["EVALSHA" | "EVAL", _, "1", _, _] | ["EVALSHA" | "EVAL", _, "3", ..])
}

/// One command as an array of texts; `None` when the client has gone.
pub(crate) fn read_command(reader: &mut impl BufRead) -> Option<Vec<String>> {
    let count = read_number(reader, '*')?;
    (0..count)
        .map(|_| {
            let len = read_number(reader, '$')?;
            let mut text = vec![0; len + 2];
            reader.read_exact(&mut text).ok()?;
            text.truncate(len);
            String::from_utf8(text).ok()
        })
        .collect()
}

fn read_number(reader: &mut impl BufRead, kind: char) -> Option<usize> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    line.trim_end().strip_prefix(kind)?.parse().ok()
}

/// A fence, or a time, as the scripts of the queue return them.
const DIGITS: &str = "1700000000000000";
