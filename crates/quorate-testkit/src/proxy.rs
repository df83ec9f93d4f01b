//! A TCP proxy that misbehaves on demand.
//!
//! Responsible for the interface for tests: an address, the current fault, and a few questions. The
//! work is done by one thread in `proxy/relay.rs`; every call here is handed to that thread and
//! answered by it, so a call that has returned has taken effect.

mod link;
mod pipe;
mod relay;

use std::io::{PipeWriter, Write, pipe};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use self::relay::{Command, Relay};
use crate::ports::PortLease;

/// A proxy on its own port of 127.0.0.1 in front of one server.
///
/// It starts with [`Fault::Pass`]. Dropping it closes all its connections and ends its thread.
#[derive(Debug)]
pub struct Proxy {
    port: PortLease,
    commands: Sender<Command>,
    wake: PipeWriter,
    thread: Option<JoinHandle<()>>,
}

/// What a [`Proxy`] does to the traffic.
///
/// "Reply bytes" are those that travel from the server to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Nothing: everything is forwarded at once.
    Pass,
    /// Every chunk is forwarded this long after it has arrived. The order is kept, and any number
    /// of chunks may be under way at a time.
    Delay {
        /// For what travels from a client to the server.
        up: Duration,
        /// For what travels from the server to a client.
        down: Duration,
    },
    /// Requests reach the server; replies are read and discarded. The connection stays open, even
    /// if the server closes its side: the client notices that under the next fault.
    DropReplies,
    /// Nothing is forwarded either way, not even the end of a connection, and new connections are
    /// accepted and left silent. What is held back is forwarded in order under the next fault that
    /// lets it through, as if a paused host ran again.
    BlackHole,
    /// Live connections are reset (RST), and new ones right after they have been accepted.
    Reset,
    /// Once this many more reply bytes have been forwarded, counted over all connections, the
    /// connection that carried the last of them is closed. With 0, the next connection to get a
    /// reply is closed instead. That happens once; the fault is [`Fault::Pass`] from then on.
    CutAfter {
        /// The reply bytes still to be forwarded.
        bytes: u64,
    },
    /// Live connections are closed and nothing listens any more, so that connecting is refused.
    /// The next other fault opens the same port again.
    Refuse,
}

impl Proxy {
    /// Starts a proxy in front of `upstream`, a `HOST:PORT`.
    ///
    /// The server does not have to be running; a client that connects while it is not is reset.
    ///
    /// # Panics
    ///
    /// If `upstream` is not an address.
    #[must_use]
    pub fn start(upstream: &str) -> Self {
        let upstream = resolved(upstream);
        let (port, listener) = PortLease::listening();
        let (woken, wake) = pipe().expect("a pipe to wake the proxy's thread");
        let (commands, to_do) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("testkit-proxy".to_owned())
            .spawn(move || Relay::new(listener, upstream).run(&to_do, woken))
            .expect("a thread for the proxy");
        Self { port, commands, wake, thread: Some(thread) }
    }

    /// `127.0.0.1:PORT`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port.number())
    }

    /// `redis://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// Changes what happens from now on, to live connections and to new ones.
    ///
    /// # Panics
    ///
    /// If the port was closed by [`Fault::Refuse`] and another process has taken it meanwhile.
    pub fn set(&self, fault: Fault) {
        self.call(move |relay| relay.set(fault))
            .unwrap_or_else(|error| panic!("listening again at {}: {error}", self.address()));
    }

    /// The current fault, with [`Fault::CutAfter`] counting down.
    #[must_use]
    pub fn fault(&self) -> Fault {
        self.call(|relay| relay.fault())
    }

    /// How many connections have been accepted so far, those to be reset at once included.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.call(|relay| relay.accepted())
    }

    /// Closes all live connections in an orderly way (FIN). What was held back for them is lost.
    pub fn close_all(&self) {
        self.call(Relay::close_all);
    }

    /// From now on it forwards to another server, a `HOST:PORT`. Live connections are closed.
    ///
    /// # Panics
    ///
    /// If `upstream` is not an address.
    pub fn lead_to(&self, upstream: &str) {
        let upstream = resolved(upstream);
        self.call(move |relay| relay.lead_to(upstream));
    }

    /// Has the proxy's thread do something and waits for the result.
    fn call<T, F>(&self, action: F) -> T
    where
        T: Send + 'static,
        F: FnOnce(&mut Relay) -> T + Send + 'static,
    {
        let (reply, answer) = mpsc::channel();
        self.tell(Box::new(move |relay| {
            // The caller waits for it, so it always arrives.
            let _ = reply.send(action(relay));
        }));
        answer.recv().expect("the proxy's thread is alive as long as the proxy")
    }

    fn tell(&self, command: Command) {
        // Either fails only if the thread has panicked, which `call` notices.
        let _ = self.commands.send(command);
        let _ = (&self.wake).write_all(&[0]);
    }
}

fn resolved(upstream: &str) -> SocketAddr {
    let addresses = upstream.to_socket_addrs().ok();
    let first = addresses.and_then(|mut addresses| addresses.next());
    first.unwrap_or_else(|| panic!("{upstream:?} is no address to forward to"))
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.tell(Box::new(Relay::stop));
        if let Some(thread) = self.thread.take() {
            // Its panic has been reported on stderr; a second one here could abort the test run.
            let _ = thread.join();
        }
    }
}
