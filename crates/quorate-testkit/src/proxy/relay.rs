//! The proxy's one thread: it accepts, polls, and moves bytes.
//!
//! Responsible for when things happen. One thread owns all sockets and the fault, so a new fault
//! holds for every connection from one instant on, and closing a socket closes it. What a fault
//! does to a connection is in `proxy/link.rs`.

use std::io::{self, ErrorKind, PipeReader, Read};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Fault;
use super::link::{Fate, Link, Side};

/// Something for the thread to do between two polls.
pub(super) type Command = Box<dyn FnOnce(&mut Relay) + Send>;

#[derive(Debug)]
pub(super) struct Relay {
    address: SocketAddr,
    server: SocketAddr,
    listener: Option<TcpListener>,
    fault: Fault,
    links: Vec<Link>,
    accepted: u64,
    stopped: bool,
}

impl Relay {
    pub(super) fn new(listener: TcpListener, server: SocketAddr) -> Self {
        let address = listener.local_addr().expect("a listener knows its address");
        listener.set_nonblocking(true).expect("a listener can be made non-blocking");
        Self {
            address,
            server,
            listener: Some(listener),
            fault: Fault::Pass,
            links: Vec::new(),
            accepted: 0,
            stopped: false,
        }
    }

    pub(super) fn run(mut self, commands: &Receiver<Command>, mut wake: PipeReader) {
        while !self.stopped {
            let found = self.wait(&wake);
            for (index, side, flags) in found.on_links {
                self.links[index].notice(side, flags);
            }
            // Before the commands: a call affects every connection that was made before it.
            self.accept_all();
            if found.woken {
                // Commands are counted in the channel; here only the signal is to go away.
                let _ = wake.read(&mut [0; 64]);
            }
            for command in commands.try_iter() {
                command(&mut self);
            }
            self.pump_all();
        }
    }

    pub(super) fn stop(&mut self) {
        self.stopped = true;
    }

    pub(super) fn fault(&self) -> Fault {
        self.fault
    }

    pub(super) fn accepted(&self) -> u64 {
        self.accepted
    }

    pub(super) fn close_all(&mut self) {
        self.links.drain(..).for_each(Link::close);
    }

    pub(super) fn lead_to(&mut self, server: SocketAddr) {
        self.close_all();
        self.server = server;
    }

    /// Fails if the port was closed and cannot be opened again.
    pub(super) fn set(&mut self, fault: Fault) -> io::Result<()> {
        match fault {
            Fault::Refuse => {
                self.listener = None;
                self.close_all();
            }
            Fault::Reset => {
                self.open()?;
                self.links.drain(..).for_each(Link::reset);
            }
            Fault::Pass
            | Fault::Delay { .. }
            | Fault::DropReplies
            | Fault::BlackHole
            | Fault::CutAfter { .. } => self.open()?,
        }
        self.fault = fault;
        Ok(())
    }

    fn open(&mut self) -> io::Result<()> {
        if self.listener.is_none() {
            let listener = TcpListener::bind(self.address)?;
            listener.set_nonblocking(true)?;
            self.listener = Some(listener);
        }
        Ok(())
    }

    /// Returns when a socket is ready, a command has come, or a chunk is due.
    fn wait(&self, wake: &PipeReader) -> Found {
        let mut sources = vec![Source::Wake];
        let mut fds = vec![PollFd::new(wake, PollFlags::IN)];
        if let Some(listener) = &self.listener {
            sources.push(Source::Listener);
            fds.push(PollFd::new(listener, PollFlags::IN));
        }
        for (index, link) in self.links.iter().enumerate() {
            for (side, socket, wanted) in link.interests() {
                sources.push(Source::Link(index, side));
                fds.push(PollFd::new(socket, wanted));
            }
        }

        let mut found = Found::default();
        match poll(&mut fds, self.time_to_wait().as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return found,
            Err(error) => panic!("polling the proxy's sockets: {error}"),
        }
        for (source, fd) in sources.into_iter().zip(&fds) {
            match source {
                _ if fd.revents().is_empty() => {}
                Source::Wake => found.woken = true,
                // Accepting is tried after every poll.
                Source::Listener => {}
                Source::Link(index, side) => found.on_links.push((index, side, fd.revents())),
            }
        }
        found
    }

    /// None means: until something happens.
    fn time_to_wait(&self) -> Option<Timespec> {
        let next = self.links.iter().filter_map(|link| link.next_due(self.fault)).min()?;
        let wait = next.saturating_duration_since(Instant::now()).min(LONGEST_WAIT);
        Some(Timespec::try_from(wait).expect("an hour fits"))
    }

    fn accept_all(&mut self) {
        while let Some(listener) = &self.listener {
            match listener.accept() {
                Ok((client, _)) => {
                    self.accepted += 1;
                    let link = Link::new(client);
                    if self.fault == Fault::Reset {
                        link.reset();
                    } else {
                        self.links.push(link);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // A client that has given up while it waited to be accepted.
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::ConnectionAborted | ErrorKind::Interrupted
                    ) => {}
                Err(error) => panic!("accepting a connection at {}: {error}", self.address),
            }
        }
    }

    fn pump_all(&mut self) {
        for index in (0..self.links.len()).rev() {
            let fate = self.links[index].pump(&mut self.fault, self.server);
            if fate == Fate::Alive {
                continue;
            }
            let link = self.links.swap_remove(index);
            match fate {
                Fate::Alive | Fate::Over => drop(link),
                Fate::Broken => link.reset(),
                Fate::Cut => {
                    self.fault = Fault::Pass;
                    link.close();
                }
            }
        }
    }
}

enum Source {
    Wake,
    Listener,
    Link(usize, Side),
}

#[derive(Default)]
struct Found {
    woken: bool,
    on_links: Vec<(usize, Side, PollFlags)>,
}

/// Short enough for the kernel to take, whatever delay was asked for.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
