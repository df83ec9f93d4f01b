//! How clients are told: each has a socket in the folder, on which it hears pushes.
//!
//! Whether a client is there is seen by connecting to its socket: the kernel refuses that for one
//! whose process has gone. A push that is lost costs time only: whoever waits asks now and then.

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

/// The folder with everybody's sockets.
#[derive(Debug)]
pub(super) struct Notifier {
    sockets: Arc<SocketFolder>,
    /// Asks whether somebody hears, and tells.
    sender: UnixDatagram,
}

impl Notifier {
    pub(super) fn new(sockets: SocketFolder) -> Result<Self, Fault> {
        let sender =
            sender().map_err(|error| Fault::io(&sockets.path, "no socket to be had", error))?;
        Ok(Self { sockets: Arc::new(sockets), sender })
    }

    pub(super) fn sockets(&self) -> &SocketFolder {
        &self.sockets
    }

    /// From now on this client hears.
    pub(super) fn listen(&self, client: ClientId) -> Result<Receiver, Fault> {
        let name = client.to_string();
        self.bind(&name).map_err(|error| {
            Fault::io(&self.sockets.path.join(&name), "the socket cannot be made", error)
        })
    }

    /// A socket that is there but not bound yet looks like that of the dead. So it gets its name
    /// when it is bound.
    fn bind(&self, name: &str) -> io::Result<Receiver> {
        let new = format!("{NEW}{name}");
        // What is left of an earlier attempt of ours.
        let _ = self.remove(&new);
        let socket = UnixDatagram::bind(self.address(&new))?;
        socket.set_nonblocking(true)?;
        chmodat(&self.sockets.dir, &*new, self.sockets.mode, AtFlags::empty())?;
        renameat(&self.sockets.dir, &*new, &self.sockets.dir, name)?;
        Ok(Receiver { socket, sockets: self.sockets.clone(), name: name.to_owned() })
    }

    /// Whether the client's process is there and would hear. The socket of one who has gone is
    /// removed.
    pub(super) fn is_listening(&self, client: ClientId) -> bool {
        let name = client.to_string();
        match self.sender.connect(self.address(&name)) {
            Ok(()) => true,
            Err(error) => {
                if error.kind() == io::ErrorKind::ConnectionRefused {
                    // It may be gone already, which is as good.
                    let _ = self.remove(&name);
                }
                false
            }
        }
    }

    /// Tells a client. Whoever does not read what it is told loses what is told next.
    pub(super) fn tell(&mut self, push: &Push) {
        let (text, address) = (push::write(push), self.address(&push.client.to_string()));
        if self.sender.send_to(&text, &address).is_err()
            && let Ok(sender) = sender()
        {
            // It may be that others have not read what we told them, and not this one: a new socket
            // has told nobody anything.
            self.sender = sender;
            let _ = self.sender.send_to(&text, &address);
        }
    }

    /// Tells everybody to look whether the files that they have open are still there.
    pub(super) fn alarm(&self) {
        let Ok(entries) = std::fs::read_dir(self.address("")) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if let Some(client) = name.to_str().and_then(ClientId::parse) {
                // Whoever does not hear it finds out when it is asked something.
                let _ = self.sender.send_to(ALARM, self.address(&client.to_string()));
            }
        }
    }

    /// Removes the sockets of those who have gone.
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

    /// By way of the open folder: the address of a socket must not be long.
    fn address(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{name}", self.sockets.dir.as_raw_fd()))
    }
}

fn sender() -> io::Result<UnixDatagram> {
    let sender = UnixDatagram::unbound()?;
    sender.set_nonblocking(true)?;
    Ok(sender)
}

/// Where one client hears. It is removed when it is dropped.
#[derive(Debug)]
pub(super) struct Receiver {
    socket: UnixDatagram,
    sockets: Arc<SocketFolder>,
    name: String,
}

impl Receiver {
    /// What was told, if anything; nothing that makes no sense.
    pub(super) fn hear(&self, buffer: &mut [u8]) -> Option<Heard> {
        let client = ClientId::parse(&self.name)?;
        loop {
            match self.socket.recv(buffer) {
                Ok(len) if buffer[..len] == *ALARM => return Some(Heard::Alarm),
                Ok(len) => {
                    if let Some(push) = push::read(client, &buffer[..len]) {
                        return Some(Heard::Push(push));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
    }
}

/// What a client hears.
#[derive(Debug)]
pub(super) enum Heard {
    Push(Push),
    /// The files of the folder may not be what they were.
    Alarm,
}

impl AsFd for Receiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // It may be gone already, which is as good.
        let _ = unlinkat(&self.sockets.dir, &*self.name, AtFlags::empty());
    }
}

/// No push is like that.
const ALARM: &[u8] = b"alarm";

/// How sockets are called that are about to be bound.
const NEW: &str = ".new-";

/// Nobody needs longer to bind a socket.
const FRESH_MAX: Duration = Duration::from_secs(60);

/// More than the longest push has: a name of a lock has 1,024 bytes at the most.
pub(super) const PUSH_LEN_MAX: usize = 4_096;
