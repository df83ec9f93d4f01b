//! Replaces the operating system's connections in a simulation.

use std::{fmt, io, pin::Pin};

use tokio::io::{AsyncRead, AsyncWrite};

/// Opens byte streams in place of the operating system.
pub trait Network: fmt::Debug + Send + Sync + 'static {
    /// Connects to a port of a host.
    fn connect(&self, host: &str, port: u16) -> Connecting;
}

/// A connection attempt.
pub type Connecting = Pin<Box<dyn Future<Output = io::Result<(Reader, Writer)>> + Send>>;

/// The reading half of a connection.
pub type Reader = Box<dyn AsyncRead + Send + Unpin>;

/// The writing half of a connection.
pub type Writer = Box<dyn AsyncWrite + Send + Sync + Unpin>;
