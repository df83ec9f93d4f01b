//! The bare limit: SET NX PX and EVALSHA compare-and-delete, pipelined on raw sockets, returning at
//! the quorum. No undo, no timeouts, no reconnects: what a lock cannot be faster than.
//!
//! Few requests are written at once. More are gathered, and written when every task had its turn,
//! or earlier, as soon as enough are gathered. Which is faster depends on the number of servers.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    future::poll_fn,
    io::{ErrorKind, Write as _},
    rc::Rc,
    task::{Poll, Waker},
};

use tokio::{net::TcpStream, sync::Notify};

/// One client with a connection to each server.
pub(crate) struct Bare {
    nodes: Vec<Rc<Node>>,
    quorum: usize,
    next: Cell<u64>,
}

impl Bare {
    /// `enough` is the number of gathered requests that are written at once.
    pub(crate) async fn connect(addresses: &[String], enough: usize) -> Self {
        let mut nodes = Vec::new();
        for address in addresses {
            let stream = TcpStream::connect(address).await.expect("the server is up");
            stream.set_nodelay(true).expect("an ordinary socket");
            let (state, gathered) = (RefCell::default(), Notify::new());
            let node = Rc::new(Node { stream, state, gathered, enough });
            tokio::task::spawn_local(node.clone().read());
            tokio::task::spawn_local(node.clone().write_gathered());
            nodes.push(node);
        }
        let bare = Self { quorum: nodes.len() / 2 + 1, nodes, next: Cell::new(0) };
        bare.ask(&words(&[b"SCRIPT", b"LOAD", FREE.as_bytes()])).await;
        bare
    }

    /// One lock and one unlock.
    pub(crate) async fn pair(&self, key: &str) {
        self.next.set(self.next.get() + 1);
        let value = format!("0123456789abcdef0123456789abcdef01234567:{}", self.next.get());
        let (key, value) = (key.as_bytes(), value.as_bytes());
        self.ask(&words(&[b"SET", key, value, b"NX", b"PX", b"10000"])).await;
        self.ask(&words(&[b"EVALSHA", FREE_DIGEST.as_bytes(), b"1", key, value])).await;
    }

    async fn ask(&self, bytes: &[u8]) {
        let slot = Rc::new(Slot { missing: Cell::new(self.quorum), waker: RefCell::default() });
        self.nodes.iter().for_each(|node| node.send(bytes, slot.clone()));
        poll_fn(|cx| {
            if slot.missing.get() == 0 {
                return Poll::Ready(());
            }
            slot.waker.replace(Some(cx.waker().clone()));
            Poll::Pending
        })
        .await;
    }
}

struct Slot {
    missing: Cell<usize>,
    waker: RefCell<Option<Waker>>,
}

struct Node {
    stream: TcpStream,
    state: RefCell<State>,
    gathered: Notify,
    enough: usize,
}

#[derive(Default)]
struct State {
    out: Vec<u8>,
    /// How many requests were added since the last write.
    unwritten: usize,
    waiting: VecDeque<Rc<Slot>>,
}

impl Node {
    fn send(&self, bytes: &[u8], slot: Rc<Slot>) {
        let mut state = self.state.borrow_mut();
        state.out.extend_from_slice(bytes);
        state.waiting.push_back(slot);
        state.unwritten += 1;
        if state.waiting.len() <= 2 || state.unwritten >= self.enough {
            self.write(&mut state);
        } else {
            self.gathered.notify_one();
        }
    }

    fn write(&self, state: &mut State) {
        state.unwritten = 0;
        match self.stream.try_write(&state.out) {
            Ok(len) => drop(state.out.drain(..len)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => panic!("{error}"),
        }
        if !state.out.is_empty() {
            self.gathered.notify_one();
        }
    }

    async fn write_gathered(self: Rc<Self>) {
        loop {
            self.gathered.notified().await;
            self.stream.writable().await.expect("an ordinary socket");
            self.write(&mut self.state.borrow_mut());
        }
    }

    async fn read(self: Rc<Self>) {
        let mut buffer = vec![0; 16 * 1024];
        let mut filled = 0;
        loop {
            self.stream.readable().await.expect("an ordinary socket");
            match self.stream.try_read(&mut buffer[filled..]) {
                Ok(0) => return,
                Ok(len) => filled += len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                Err(_) => return,
            }
            filled = self.take_apart(&mut buffer, filled);
        }
    }

    /// All replies of interest are one line, but for the digest, which is two.
    fn take_apart(&self, buffer: &mut [u8], filled: usize) -> usize {
        let mut used = 0;
        while let Some(end) = buffer[used..filled].iter().position(|byte| *byte == b'\n') {
            let is_blob = buffer[used] == b'$' && buffer[used + 1] != b'-';
            assert!(buffer[used] != b'-', "{}", String::from_utf8_lossy(&buffer[used..filled]));
            used += end + 1;
            if is_blob {
                continue;
            }
            let slot = self.state.borrow_mut().waiting.pop_front().expect("asked before");
            let missing = slot.missing.get().saturating_sub(1);
            slot.missing.set(missing);
            if missing == 0
                && let Some(waker) = slot.waker.take()
            {
                waker.wake();
            }
        }
        buffer.copy_within(used..filled, 0);
        filled - used
    }
}

/// A command in the form of the protocol.
pub(crate) fn words(words: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    head(&mut out, words.len());
    words.iter().for_each(|word| self::word(&mut out, word));
    out
}

/// Begins a command with this number of words.
pub(crate) fn head(out: &mut Vec<u8>, words: usize) {
    write!(out, "*{words}\r\n").expect("memory takes everything");
}

/// Adds a word of a command.
pub(crate) fn word(out: &mut Vec<u8>, word: &[u8]) {
    write!(out, "${}\r\n", word.len()).expect("memory takes everything");
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}

pub(crate) const FREE: &str = "if redis.call('get',KEYS[1])==ARGV[1] then \
                               return redis.call('del',KEYS[1]) else return 0 end";
const FREE_DIGEST: &str = "b998f9dfb154cdbea8cda65ad5177aadf0e945a2";
