//! The bytes in flight on each connection, and which of them arrive after it breaks.

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Waker,
    time::Duration,
};

use tokio::sync::Notify;
use turmoil::net::TcpStream;

use crate::dice::Dice;

/// All open connections of a simulation. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Wires(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    pipes: Vec<Arc<Pipe>>,
    /// Decides what arrives of a broken connection. Without it, connections end in good order.
    dice: Option<Dice>,
}

impl Wires {
    /// Lets a prefix of the bytes in flight arrive after a connection broke.
    pub(crate) fn leave_stragglers(&self, dice: Dice) {
        self.lock().dice = Some(dice);
    }

    /// Breaks every connection from a host to another.
    pub(crate) fn cut(&self, from: IpAddr, to: &str) {
        let pipes = self.lock().pipes.clone();
        let is_meant = |pipe: &&Arc<Pipe>| pipe.from.ip() == from && pipe.to == to;
        pipes.iter().filter(is_meant).for_each(|pipe| pipe.tear());
    }

    /// Breaks every connection from a host: its process was killed.
    pub(crate) fn cut_all(&self, from: IpAddr) {
        let pipes = self.lock().pipes.clone();
        pipes.iter().filter(|pipe| pipe.from.ip() == from).for_each(|pipe| pipe.tear());
    }

    /// The connection that comes from this address.
    pub(crate) fn from(&self, from: SocketAddr) -> Option<Arc<Pipe>> {
        // Ports are reused: the newest connection counts.
        self.lock().pipes.iter().rev().find(|pipe| pipe.from == from).cloned()
    }

    pub(super) fn connect(&self, stream: &TcpStream, to: &str) -> io::Result<Arc<Pipe>> {
        let pipe = Arc::new(Pipe {
            from: stream.local_addr()?,
            to: to.to_owned(),
            wires: self.clone(),
            ends: Mutex::default(),
            torn: Notify::new(),
        });
        let mut state = self.lock();
        state.pipes.retain(|pipe| Arc::strong_count(pipe) > 1);
        state.pipes.push(pipe.clone());
        Ok(pipe)
    }

    /// How many of `len` bytes arrive, and how much later.
    fn draw(&self, len: usize) -> Option<(usize, Duration)> {
        let mut state = self.lock();
        let dice = state.dice.as_mut()?;
        let len = if dice.chance(60) { len } else { dice.below(len + 1) };
        let longest = if dice.chance(80) { 300 } else { STRAGGLE_MAX_MS };
        Some((len, dice.ms(0..=longest)))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Wires {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wires")
    }
}

/// One connection, from the client's end to the server.
#[derive(Debug)]
pub(crate) struct Pipe {
    from: SocketAddr,
    to: String,
    wires: Wires,
    ends: Mutex<Ends>,
    torn: Notify,
}

#[derive(Debug, Default)]
struct Ends {
    /// Sent by the client and not yet run by the server.
    in_flight: Vec<u8>,
    /// Set when the client's end breaks: how much later the bytes in flight arrive.
    broken: Option<Duration>,
    reader: Option<Waker>,
}

impl Pipe {
    /// Whether the client's end has broken.
    pub(crate) fn is_broken(&self) -> bool {
        self.lock().broken.is_some()
    }

    /// Waits until the client's end has broken.
    pub(crate) async fn broken(&self) {
        while !self.is_broken() {
            self.torn.notified().await;
        }
    }

    /// The server ran the first `len` bytes in flight.
    pub(crate) fn handle_run(&self, len: usize) {
        self.lock().in_flight.drain(..len);
    }

    /// The bytes of a broken connection that arrive, and how much later.
    pub(crate) fn stragglers(&self) -> (Vec<u8>, Duration) {
        let mut ends = self.lock();
        (std::mem::take(&mut ends.in_flight), ends.broken.unwrap_or_default())
    }

    /// Breaks the connection; the client notices at once.
    pub(super) fn tear(&self) {
        let mut ends = self.lock();
        // Only once: the halves of a killed process are dropped in no fixed order.
        if ends.broken.is_none()
            && let Some((len, delay)) = self.wires.draw(ends.in_flight.len())
        {
            ends.in_flight.truncate(len);
            ends.broken = Some(delay);
            let reader = ends.reader.take();
            drop(ends);
            self.torn.notify_one();
            reader.into_iter().for_each(Waker::wake);
        }
    }

    pub(super) fn handle_sent(&self, bytes: &[u8]) {
        self.lock().in_flight.extend_from_slice(bytes);
    }

    /// Wakes `reader` if the connection breaks.
    pub(super) fn watch(&self, reader: &Waker) {
        self.lock().reader = Some(reader.clone());
    }

    fn lock(&self) -> MutexGuard<'_, Ends> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The longest delay of the bytes of a broken connection.
pub(crate) const STRAGGLE_MAX_MS: u64 = 1_000;
