//! Settings: how servers, people and observers identify the client.

use std::sync::Arc;

use super::ClientBuilder;
#[cfg(feature = "tls")]
use crate::Tls;
use crate::observe::Observer;

impl ClientBuilder {
    /// Which servers with a `rediss://` address are trusted, and the certificate of the client.
    /// Default: the certificates that the operating system trusts, and no client certificate.
    ///
    /// # Examples
    ///
    /// ```
    /// use quorate::{Client, Tls, error::ConfigError};
    ///
    /// let tls = Tls::new().ca_pem("not a certificate");
    /// let error = Client::builder().nodes(["rediss://10.0.0.1"]).tls(tls).build().unwrap_err();
    /// assert!(matches!(error, ConfigError::InvalidTls { .. }));
    /// ```
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = tls;
        self
    }

    /// The prefix of the keys that Quorate stores for itself. Names of locks cannot begin with it.
    /// Default: `quorate:`.
    ///
    /// All clients of a lock must have the same prefix. With different ones they exclude each
    /// other, but have different queues and fences.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use quorate::{Client, error::LockError, memory::MemoryNodes};
    /// # let nodes = MemoryNodes::new(1);
    /// let client = Client::builder().memory(&nodes).prefix("locks:own:").build()?;
    /// let refused = client.mutex("locks:own:x").try_lock().await;
    /// assert!(matches!(refused, Err(LockError::InvalidName(_))));
    /// # Ok(()) }
    /// ```
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// The name under which other clients see this client as a holder or waiter. Default: program,
    /// host and process id.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use {quorate::{Client, memory::MemoryNodes}, std::time::Duration};
    /// # let nodes = MemoryNodes::new(1);
    /// # let other = Client::builder().memory(&nodes).build()?;
    /// let client = Client::builder().memory(&nodes).who("billing").build()?;
    /// let _guard = client.mutex("orders:42").lock().await?;
    /// let error = other.mutex("orders:42").lock_timeout(Duration::ZERO).await.unwrap_err();
    /// assert!(error.to_string().contains("billing"));
    /// # Ok(()) }
    /// ```
    pub fn who(mut self, who: impl Into<String>) -> Self {
        self.who = Some(who.into());
        self
    }

    /// The [identity](crate::Client::identity) with which this client holds
    /// [reentrant](crate::Mutex::reentrant) locks. Processes that work on the same job set the same
    /// identity. Default: one that no other client has. It has 1 to 128 bytes. The first acquire
    /// that uses an invalid identity fails.
    ///
    /// # Examples
    ///
    /// ```
    /// # use quorate::{Client, memory::MemoryNodes};
    /// let nodes = MemoryNodes::new(1);
    /// let client = Client::builder().memory(&nodes).identity("invoice 42").build()?;
    /// assert_eq!(client.identity(), "invoice 42");
    /// # Ok::<(), quorate::error::ConfigError>(())
    /// ```
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = Some(identity.into());
        self
    }

    /// Adds an observer. Every observer receives each event, in the order of their registration.
    ///
    /// # Examples
    ///
    /// ```
    /// use quorate::{Client, memory::MemoryNodes, observe::Event};
    ///
    /// let warn = |event: &Event<'_>| {
    ///     if let Event::Lost { name, reason, .. } = event {
    ///         eprintln!("{name} is lost: {reason}");
    ///     }
    /// };
    /// let count = |_event: &Event<'_>| { /* count the events */ };
    /// let settings = Client::builder().memory(&MemoryNodes::new(1));
    /// let client = settings.observer(warn).observer(count).build()?;
    /// # Ok::<(), quorate::error::ConfigError>(())
    /// ```
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observers.push(Arc::new(observer));
        self
    }
}
