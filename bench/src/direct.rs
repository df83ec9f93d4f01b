//! The bare limit of a hand-off: a list in the server, a release that grants the lock to the next
//! waiter and notifies it on a channel, and one thread that does nothing else. No leases to renew,
//! no fences, no undo.

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::TcpStream,
    os::fd::AsFd as _,
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags, poll};

/// One thread that acts for all waiters.
pub(crate) struct Direct {
    nodes: Vec<Node>,
    quorum: usize,
    waiters: usize,
}

/// What happened in one round.
pub(crate) struct HandOffs {
    pub(crate) took: Duration,
    /// Microseconds from each release to the next grant.
    pub(crate) times: Vec<f64>,
}

impl HandOffs {
    pub(crate) fn per_second(&self) -> f64 {
        self.times.len() as f64 / self.took.as_secs_f64()
    }
}

struct Node {
    stream: TcpStream,
    bytes: Vec<u8>,
    /// How many grants it has reported.
    grants: u64,
    /// The digests of the scripts.
    acquire: String,
    release: String,
}

impl Direct {
    pub(crate) fn connect(addresses: &[String], waiters: usize) -> Self {
        let nodes: Vec<Node> = addresses.iter().map(|address| Node::connect(address)).collect();
        Self { quorum: nodes.len() / 2 + 1, nodes, waiters }
    }

    /// Hands the lock from waiter to waiter for a while. Returns the time of each hand-off.
    pub(crate) fn hand_over(&mut self, time: Duration, hold: impl Fn()) -> HandOffs {
        self.nodes.iter_mut().for_each(|node| node.begin(self.waiters));
        let (started, mut holder, mut times) = (Instant::now(), 0, Vec::new());
        while started.elapsed() < time {
            hold();
            let released = Instant::now();
            self.nodes.iter_mut().for_each(|node| node.pass_on(holder));
            self.wait_for_grants(times.len() as u64 + 1);
            times.push(released.elapsed().as_secs_f64() * 1e6);
            holder = (holder + 1) % self.waiters;
        }
        let hand_offs = HandOffs { took: started.elapsed(), times };
        // Late messages must not count as grants of the next round.
        self.quorum = self.nodes.len();
        self.wait_for_grants(hand_offs.times.len() as u64);
        self.quorum = self.nodes.len() / 2 + 1;
        hand_offs
    }

    fn wait_for_grants(&mut self, wanted: u64) {
        loop {
            let granted = self.nodes.iter().filter(|node| node.grants >= wanted).count();
            if granted >= self.quorum {
                return;
            }
            let mut fds: Vec<PollFd<'_>> = self
                .nodes
                .iter()
                .map(|node| PollFd::from_borrowed_fd(node.stream.as_fd(), PollFlags::IN))
                .collect();
            poll(&mut fds, None).expect("sockets can be waited for");
            self.nodes.iter_mut().for_each(Node::read);
        }
    }
}

impl Node {
    fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).expect("the server is up");
        stream.set_nodelay(true).expect("an ordinary socket");
        let (acquire, release) = (String::new(), String::new());
        let mut node = Self { stream, bytes: Vec::new(), grants: 0, acquire, release };
        node.acquire = node.load(ACQUIRE);
        node.release = node.load(RELEASE);
        node.write(&[&["HELLO", "3"], &["SUBSCRIBE", "bench:grants"]]);
        node.stream.set_nonblocking(true).expect("an ordinary socket");
        node
    }

    /// Loads a script into the server, and returns its digest.
    fn load(&mut self, script: &str) -> String {
        self.write(&[&["SCRIPT", "LOAD", script]]);
        let mut reply = [0; "$40\r\n".len() + 40 + "\r\n".len()];
        self.stream.read_exact(&mut reply).expect("the server answers");
        String::from_utf8_lossy(&reply[5..45]).into_owned()
    }

    /// The first waiter gets the lock, the others are queued.
    fn begin(&mut self, waiters: usize) {
        self.write(&[&["DEL", "bench:direct", "bench:queue"]]);
        let acquire = self.acquire.clone();
        for waiter in 0..waiters {
            self.write(&[&ask(&acquire, &waiter.to_string())]);
        }
        self.grants = 0;
    }

    /// The holder releases the lock, and is queued again.
    fn pass_on(&mut self, holder: usize) {
        let holder = holder.to_string();
        let (acquire, release) = (self.acquire.clone(), self.release.clone());
        let release = ["EVALSHA", &release, "2", "bench:direct", "bench:queue", "bench:grants"];
        self.write(&[&release, &ask(&acquire, &holder)]);
    }

    fn write(&mut self, commands: &[&[&str]]) {
        let mut out = String::new();
        for words in commands {
            out.push_str(&format!("*{}\r\n", words.len()));
            words.iter().for_each(|word| out.push_str(&format!("${}\r\n{word}\r\n", word.len())));
        }
        let mut rest = out.as_bytes();
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(len) => rest = &rest[len..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Counts the messages.
    fn read(&mut self) {
        let mut buffer = [0; 4096];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => panic!("the server has gone"),
                Ok(len) => self.bytes.extend_from_slice(&buffer[..len]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
        }
        while let Some(at) = self.bytes.windows(MESSAGE.len()).position(|it| it == MESSAGE) {
            self.grants += 1;
            self.bytes.drain(..at + MESSAGE.len());
        }
        let seen = self.bytes.len().saturating_sub(MESSAGE.len());
        self.bytes.drain(..seen);
    }
}

fn ask<'a>(acquire: &'a str, waiter: &'a str) -> [&'a str; 6] {
    ["EVALSHA", acquire, "2", "bench:direct", "bench:queue", waiter]
}

const MESSAGE: &[u8] = b"\r\nmessage\r\n";

const ACQUIRE: &str = "if redis.call('set',KEYS[1],ARGV[1],'nx','px','10000') then return 1 end \
                       return redis.call('rpush',KEYS[2],ARGV[1])";

const RELEASE: &str = "redis.call('del',KEYS[1]) local n=redis.call('lpop',KEYS[2]) \
                       if n then redis.call('set',KEYS[1],n,'px','10000') \
                       redis.call('publish',ARGV[1],n) end return 1";
