//! One proxied connection: a client, the server behind it, and a pipe for each direction.
//!
//! Responsible for how a fault acts on a live connection and for how one ends. When to act is
//! decided by `proxy/relay.rs`.

use std::io::Read;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use socket2::SockRef;

use super::Fault;
use super::pipe::{Drained, Flow, Pipe};

#[derive(Debug)]
pub(super) struct Link {
    client: TcpStream,
    /// Connected only once something may be forwarded: under [`Fault::BlackHole`] the server is not
    /// to notice anything.
    upstream: Option<TcpStream>,
    up: Pipe,
    down: Pipe,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Upstream,
}

/// Whether a link is still of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Alive,
    /// Both sides have received the end.
    Over,
    /// A side was reset, or there is no server.
    Broken,
    /// The byte budget of [`Fault::CutAfter`] is used up.
    Cut,
}

impl Link {
    pub(super) fn new(client: TcpStream) -> Self {
        prepare(&client);
        Self { client, upstream: None, up: Pipe::default(), down: Pipe::default() }
    }

    /// The sockets worth polling, and for what. A socket nothing is wanted from is left out:
    /// polling would report its end over and over.
    pub(super) fn interests(&self) -> impl Iterator<Item = (Side, &TcpStream, PollFlags)> {
        let sides = [
            (Side::Client, Some(&self.client), &self.up, &self.down),
            (Side::Upstream, self.upstream.as_ref(), &self.down, &self.up),
        ];
        sides.into_iter().filter_map(|(side, socket, incoming, outgoing)| {
            let mut wanted = PollFlags::empty();
            wanted.set(PollFlags::IN, incoming.wants_to_read());
            wanted.set(PollFlags::OUT, outgoing.wants_to_write());
            socket.filter(|_| !wanted.is_empty()).map(|socket| (side, socket, wanted))
        })
    }

    /// Takes note of what polling has found on one side.
    pub(super) fn notice(&mut self, side: Side, found: PollFlags) {
        let (socket, incoming, outgoing) = match side {
            Side::Client => (Some(&self.client), &mut self.up, &mut self.down),
            Side::Upstream => (self.upstream.as_ref(), &mut self.down, &mut self.up),
        };
        let Some(socket) = socket else { return };
        let ended = found.intersects(PollFlags::HUP | PollFlags::ERR);
        if (ended || found.contains(PollFlags::IN)) && incoming.wants_to_read() {
            incoming.fill(socket);
        }
        if ended || found.contains(PollFlags::OUT) {
            outgoing.target_is_writable();
        }
    }

    /// Forwards whatever `fault` lets through by now, and counts down its bytes.
    pub(super) fn pump(&mut self, fault: &mut Fault, server: SocketAddr) -> Fate {
        let (up_flow, down_flow) = flows(*fault);
        if self.upstream.is_none() && !matches!(up_flow, Flow::Hold) {
            self.upstream = connect(server);
            if self.upstream.is_none() {
                return Fate::Broken;
            }
        }
        let Some(upstream) = &self.upstream else {
            return Fate::Alive;
        };
        let budget = match fault {
            Fault::CutAfter { bytes } => Some(bytes),
            _ => None,
        };
        let now = Instant::now();
        let up = self.up.drain(upstream, up_flow, now, None);
        let down = self.down.drain(&self.client, down_flow, now, budget);
        match (up, down) {
            (_, Drained::Cut) => Fate::Cut,
            (Drained::Broken, _) | (_, Drained::Broken) => Fate::Broken,
            _ if self.up.is_finished() && self.down.is_finished() => Fate::Over,
            _ => Fate::Alive,
        }
    }

    /// When there is something to forward again, as far as that depends on time alone.
    pub(super) fn next_due(&self, fault: Fault) -> Option<Instant> {
        let (up, down) = flows(fault);
        [self.up.next_due(up), self.down.next_due(down)].into_iter().flatten().min()
    }

    /// Ends it in an orderly way, as a server does that closes a connection.
    pub(super) fn close(self) {
        // The kernel sends RST instead of FIN when a socket is closed with input unread, so that
        // goes first. What can fail here fails because the client is gone already.
        let _ = self.client.shutdown(Shutdown::Write);
        let mut buffer = vec![0; 64 * 1024];
        for _ in 0..MOST_READS_AT_CLOSE {
            if !matches!((&self.client).read(&mut buffer), Ok(1..)) {
                break;
            }
        }
    }

    /// Ends it with RST on both sides.
    pub(super) fn reset(self) {
        for socket in [Some(&self.client), self.upstream.as_ref()].into_iter().flatten() {
            SockRef::from(socket)
                .set_linger(Some(Duration::ZERO))
                .expect("turning lingering off on an open socket");
        }
    }
}

/// What a fault means for requests and for replies.
fn flows(fault: Fault) -> (Flow, Flow) {
    let at_once = Flow::After(Duration::ZERO);
    match fault {
        Fault::Pass | Fault::CutAfter { .. } => (at_once, at_once),
        Fault::Delay { up, down } => (Flow::After(up), Flow::After(down)),
        Fault::DropReplies => (at_once, Flow::Discard),
        // Under the last two there are no live connections.
        Fault::BlackHole | Fault::Reset | Fault::Refuse => (Flow::Hold, Flow::Hold),
    }
}

fn connect(server: SocketAddr) -> Option<TcpStream> {
    let socket = TcpStream::connect_timeout(&server, CONNECTS_WITHIN).ok()?;
    prepare(&socket);
    Some(socket)
}

fn prepare(socket: &TcpStream) {
    socket.set_nonblocking(true).expect("an open socket can be made non-blocking");
    // Small messages are the rule here, and the only delay is to be the one asked for.
    socket.set_nodelay(true).expect("an open socket accepts the option");
}

/// The server is on the same machine: it accepts or refuses at once.
const CONNECTS_WITHIN: Duration = Duration::from_secs(1);

/// More than a socket buffers, yet an end for a client that never stops sending.
const MOST_READS_AT_CLOSE: usize = 1000;

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::eventually;

    #[test]
    fn ends_that_are_held_back_are_not_polled_for_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let client = TcpStream::connect(address).unwrap();
        let mut link = Link::new(listener.accept().unwrap().0);
        assert_eq!(link.pump(&mut Fault::Pass, address), Fate::Alive);
        let (served, _) = listener.accept().unwrap();
        assert_eq!(link.interests().count(), 2);

        Link { client, upstream: Some(served), up: Pipe::default(), down: Pipe::default() }.reset();
        eventually("both resets have arrived", Duration::from_secs(5), || {
            link.notice(Side::Client, PollFlags::IN);
            link.notice(Side::Upstream, PollFlags::IN);
            assert_eq!(link.pump(&mut Fault::BlackHole, address), Fate::Alive);
            link.interests().count() == 0
        });
        assert_eq!(link.next_due(Fault::BlackHole), None);
        assert_eq!(link.pump(&mut Fault::Pass, address), Fate::Broken);
    }
}
