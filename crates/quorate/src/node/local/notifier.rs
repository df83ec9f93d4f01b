//! Pushes between clients: each client has a socket in the folder, on which it receives them.
//!
//! A client is running if a connection to its socket succeeds: the kernel refuses one to a process
//! that has ended. A lost push costs only time, because waiters repeat their requests.

use std::{
    io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd},
        unix::net::UnixDatagram,
    },
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};

use quorate_core::{command::ClientId, queue::Push};
use rustix::fs::{AtFlags, chmodat, renameat, unlinkat};

use super::{fault::Fault, folder::SocketFolder};
use crate::node::push;

/// Sends to the sockets of all clients.
#[derive(Debug)]
pub(super) struct Notifier {
    sockets: Arc<SocketFolder>,
    /// The socket for sending.
    sender: UnixDatagram,
}

impl Notifier {
    pub(super) fn new(sockets: SocketFolder) -> Result<Self, Fault> {
        let sender = sender()
            .map_err(|error| Fault::io(&sockets.path, "no socket can be created", error))?;
        Ok(Self { sockets: Arc::new(sockets), sender })
    }

    pub(super) fn sockets(&self) -> &SocketFolder {
        &self.sockets
    }

    /// Creates the socket of this client.
    pub(super) fn listen(&self, client: ClientId) -> Result<Receiver, Fault> {
        let name = client.to_string();
        self.bind(&name).map_err(|error| {
            Fault::io(&self.sockets.path.join(&name), "the socket cannot be made", error)
        })
    }

    /// Binds the socket under another name and renames it then. Until it is bound it would look
    /// like the socket of a process that has ended.
    fn bind(&self, name: &str) -> io::Result<Receiver> {
        let new = format!("{NEW}{name}");
        // The rest of an earlier attempt.
        let _ = self.remove(&new);
        let socket = UnixDatagram::bind(self.address(&new))?;
        socket.set_nonblocking(true)?;
        chmodat(&self.sockets.dir, &*new, self.sockets.mode, AtFlags::empty())?;
        renameat(&self.sockets.dir, &*new, &self.sockets.dir, name)?;
        Ok(Receiver { socket, sockets: self.sockets.clone(), name: name.to_owned() })
    }

    /// Whether the client's process is running and receives pushes. Removes the socket of a process
    /// that has ended.
    pub(super) fn is_listening(&self, client: ClientId) -> bool {
        let name = client.to_string();
        match self.sender.connect(self.address(&name)) {
            Ok(()) => true,
            Err(error) => {
                if error.kind() == io::ErrorKind::ConnectionRefused {
                    // It may have been removed already.
                    let _ = self.remove(&name);
                }
                false
            }
        }
    }

    /// Sends a push. If the client does not read its socket, the push is lost.
    pub(super) fn send(&mut self, push: &Push) {
        let (text, address) = (push::write(push), self.address(&push.client.to_string()));
        if self.sender.send_to(&text, &address).is_err()
            && let Ok(sender) = sender()
        {
            // The buffer of the sender may be full because other clients do not read. A new socket
            // has an empty buffer.
            self.sender = sender;
            let _ = self.sender.send_to(&text, &address);
        }
    }

    /// Makes all clients check whether the files that they have open were removed or replaced.
    pub(super) fn alarm(&self) {
        let Ok(entries) = std::fs::read_dir(self.address("")) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if let Some(client) = name.to_str().and_then(ClientId::parse) {
                // A client that does not receive it finds out with its next request.
                let _ = self.sender.send_to(ALARM, self.address(&client.to_string()));
            }
        }
    }

    /// Removes the sockets of processes that have ended.
    pub(super) fn sweep(&self) {
        let Ok(entries) = std::fs::read_dir(self.address("")) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            let is_fresh = || {
                let made = entry.metadata().and_then(|about| about.modified());
                let age = made.map(|made| SystemTime::now().duration_since(made));
                !age.is_ok_and(|age| age.is_ok_and(|age| age > FRESH_MAX))
            };
            match name.strip_prefix(NEW) {
                Some(_) if is_fresh() => {}
                Some(_) => drop(self.remove(name)),
                None => {
                    if let Some(client) = ClientId::parse(name) {
                        self.is_listening(client);
                    }
                }
            }
        }
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.sockets.dir, name, AtFlags::empty())?)
    }

    /// An address through the open folder, because the address of a socket must be short.
    fn address(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{name}", self.sockets.dir.as_raw_fd()))
    }
}

fn sender() -> io::Result<UnixDatagram> {
    let sender = UnixDatagram::unbound()?;
    sender.set_nonblocking(true)?;
    Ok(sender)
}

/// The socket of one client. It is removed when it is dropped.
#[derive(Debug)]
pub(super) struct Receiver {
    socket: UnixDatagram,
    sockets: Arc<SocketFolder>,
    name: String,
}

impl Receiver {
    /// Receives the next message, if any. Skips messages that cannot be parsed.
    pub(super) fn receive(&self, buffer: &mut [u8]) -> Option<Incoming> {
        let client = ClientId::parse(&self.name)?;
        loop {
            match self.socket.recv(buffer) {
                Ok(len) if buffer[..len] == *ALARM => return Some(Incoming::Alarm),
                Ok(len) => {
                    if let Some(push) = push::read(client, &buffer[..len]) {
                        return Some(Incoming::Push(push));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
    }
}

/// A message to a client.
#[derive(Debug)]
pub(super) enum Incoming {
    Push(Push),
    /// The files of the folder may have been removed or replaced.
    Alarm,
}

impl AsFd for Receiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // It may have been removed already.
        let _ = unlinkat(&self.sockets.dir, &*self.name, AtFlags::empty());
    }
}

/// It cannot be parsed as a push.
const ALARM: &[u8] = b"alarm";

/// The prefix of sockets that are not bound yet.
const NEW: &str = ".new-";

/// The longest time to bind a socket.
const FRESH_MAX: Duration = Duration::from_secs(60);

/// More than the length of a push: the name of a lock has at most 1,024 bytes.
pub(super) const PUSH_LEN_MAX: usize = 4_096;
