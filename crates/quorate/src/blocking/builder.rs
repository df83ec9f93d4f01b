//! The settings of a blocking client.

use std::time::Duration;

use super::{Client, wait};
#[cfg(feature = "tls")]
use crate::Tls;
use crate::{
    error::{ConfigError, ConnectError},
    memory::MemoryNodes,
    observe::Observer,
};

impl Client {
    /// See [`crate::Client::builder`].
    pub fn builder() -> ClientBuilder {
        ClientBuilder(crate::Client::builder())
    }
}

/// The settings of a blocking [`Client`]. See [`crate::ClientBuilder`].
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use quorate::{blocking::Client, memory::MemoryNodes};
///
/// let client = Client::builder()
///     .memory(&MemoryNodes::new(5)) // or `nodes`, with the addresses of servers
///     .ttl(Duration::from_secs(5))
///     .who("billing")
///     .build()?;
/// assert_eq!(client.node_status().len(), 5);
/// # Ok::<(), quorate::error::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build` or `connect` is called"]
pub struct ClientBuilder(crate::ClientBuilder);

impl ClientBuilder {
    /// See [`crate::ClientBuilder::nodes`].
    pub fn nodes(self, urls: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        Self(self.0.nodes(urls))
    }

    /// See [`crate::ClientBuilder::node`].
    pub fn node(self, url: impl AsRef<str>) -> Self {
        Self(self.0.node(url))
    }

    /// See [`crate::ClientBuilder::memory`].
    pub fn memory(self, nodes: &MemoryNodes) -> Self {
        Self(self.0.memory(nodes))
    }

    /// See [`crate::ClientBuilder::local`].
    #[cfg(feature = "local")]
    pub fn local(self, folder: impl AsRef<std::path::Path>) -> Self {
        Self(self.0.local(folder))
    }

    /// See [`crate::ClientBuilder::classic`].
    pub fn classic(self) -> Self {
        Self(self.0.classic())
    }

    /// See [`crate::ClientBuilder::ttl`].
    pub fn ttl(self, ttl: Duration) -> Self {
        Self(self.0.ttl(ttl))
    }

    /// See [`crate::ClientBuilder::max_ttl`].
    pub fn max_ttl(self, max_ttl: Duration) -> Self {
        Self(self.0.max_ttl(max_ttl))
    }

    /// See [`crate::ClientBuilder::max_hold`].
    pub fn max_hold(self, max_hold: Option<Duration>) -> Self {
        Self(self.0.max_hold(max_hold))
    }

    /// See [`crate::ClientBuilder::drift`].
    pub fn drift(self, ppm: u32, fixed: Duration) -> Self {
        Self(self.0.drift(ppm, fixed))
    }

    /// See [`crate::ClientBuilder::vote_timeout`].
    pub fn vote_timeout(self, vote_timeout: Duration) -> Self {
        Self(self.0.vote_timeout(vote_timeout))
    }

    /// See [`crate::ClientBuilder::connect_timeout`].
    pub fn connect_timeout(self, connect_timeout: Duration) -> Self {
        Self(self.0.connect_timeout(connect_timeout))
    }

    /// See [`crate::ClientBuilder::quarantine`].
    pub fn quarantine(self, is_on: bool) -> Self {
        Self(self.0.quarantine(is_on))
    }

    /// See [`crate::ClientBuilder::durable_nodes`].
    pub fn durable_nodes(self, are_durable: bool) -> Self {
        Self(self.0.durable_nodes(are_durable))
    }

    /// See [`crate::ClientBuilder::read_only`].
    pub fn read_only(self) -> Self {
        Self(self.0.read_only())
    }

    /// See [`crate::ClientBuilder::tls`].
    #[cfg(feature = "tls")]
    pub fn tls(self, tls: Tls) -> Self {
        Self(self.0.tls(tls))
    }

    /// See [`crate::ClientBuilder::prefix`].
    pub fn prefix(self, prefix: impl Into<String>) -> Self {
        Self(self.0.prefix(prefix))
    }

    /// See [`crate::ClientBuilder::who`].
    pub fn who(self, who: impl Into<String>) -> Self {
        Self(self.0.who(who))
    }

    /// See [`crate::ClientBuilder::identity`].
    pub fn identity(self, identity: impl Into<String>) -> Self {
        Self(self.0.identity(identity))
    }

    /// See [`crate::ClientBuilder::observer`].
    pub fn observer(self, observer: impl Observer) -> Self {
        Self(self.0.observer(observer))
    }

    /// See [`crate::ClientBuilder::build`].
    ///
    /// # Errors
    ///
    /// As [`crate::ClientBuilder::build`].
    pub fn build(self) -> Result<Client, ConfigError> {
        self.0.build().map(Client)
    }

    /// See [`crate::ClientBuilder::connect`].
    ///
    /// # Errors
    ///
    /// As [`crate::ClientBuilder::connect`].
    pub fn connect(self) -> Result<Client, ConnectError> {
        wait(self.0.connect()).map(Client)
    }
}
