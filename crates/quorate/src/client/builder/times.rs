//! Settings: how long locks are held, and how long nodes are waited for.

use std::time::Duration;

use quorate_core::terms::Drift;

use super::ClientBuilder;

impl ClientBuilder {
    /// How long a lock outlives a holder that crashed. Default: 10 seconds.
    ///
    /// A longer ttl survives longer pauses; a shorter one frees a crashed holder's lock sooner.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use {quorate::{Client, memory::MemoryNodes}, std::time::Duration};
    /// # let nodes = MemoryNodes::new(1);
    /// let client = Client::builder().memory(&nodes).ttl(Duration::from_secs(3)).build()?;
    /// let guard = client.mutex("orders:42").lock().await?;
    /// assert!(guard.remaining() < Duration::from_secs(3)); // less the allowance for clock drift
    /// # Ok(()) }
    /// ```
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// The longest ttl that any lock of this client may have. Default: 60 seconds.
    ///
    /// All clients of the same nodes should agree about it: it is how long a node that has lost its
    /// data must stay out.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use {quorate::{Client, error::LockError, memory::MemoryNodes}, std::time::Duration};
    /// # let nodes = MemoryNodes::new(1);
    /// let client = Client::builder().memory(&nodes).max_ttl(Duration::from_secs(20)).build()?;
    /// let long = client.mutex("orders:42").ttl(Duration::from_secs(30)).try_lock().await;
    /// assert!(matches!(long, Err(LockError::InvalidTtl(_))));
    /// # Ok(()) }
    /// ```
    pub const fn max_ttl(mut self, max_ttl: Duration) -> Self {
        self.max_ttl = max_ttl;
        self
    }

    /// How long any lock is held at the most, however often it is renewed: a holder that hangs for
    /// ever must not keep its lock for ever. `None` sets no limit. Default: one hour.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use {quorate::{Client, error::LostReason, memory::MemoryNodes}, std::time::Duration};
    /// # let nodes = MemoryNodes::new(1);
    /// let limit = Some(Duration::from_millis(20));
    /// let client = Client::builder().memory(&nodes).max_hold(limit).build()?;
    /// let guard = client.mutex("orders:42").lock().await?;
    /// assert_eq!(guard.lost().await.reason, LostReason::MaxHold);
    /// # Ok(()) }
    /// ```
    pub const fn max_hold(mut self, max_hold: Option<Duration>) -> Self {
        self.max_hold = max_hold;
        self
    }

    /// How far two clocks may disagree about the length of a ttl. Default: one per cent, in parts
    /// per million, and two milliseconds. A larger allowance is safer and leaves less time to work.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use {quorate::{Client, memory::MemoryNodes}, std::time::Duration};
    /// # let nodes = MemoryNodes::new(1);
    /// let fixed = Duration::from_millis(5);
    /// let client = Client::builder().memory(&nodes).drift(20_000, fixed).build()?; // two per cent
    /// let guard = client.mutex("orders:42").ttl(Duration::from_secs(10)).lock().await?;
    /// assert!(guard.remaining() <= Duration::from_millis(10_000 - 200 - 5));
    /// # Ok(()) }
    /// ```
    pub const fn drift(mut self, ppm: u32, fixed: Duration) -> Self {
        self.drift = Drift { ppm, fixed };
        self
    }

    /// How long a silent node is waited for. Default: a twentieth of the ttl, from 5 to 50
    /// milliseconds, and at least three round trips.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use quorate::{Client, error::LockError, memory::{Behaviour, MemoryNodes}};
    /// # use std::time::Duration;
    /// # let nodes = MemoryNodes::new(1);
    /// let patience = Duration::from_millis(5);
    /// let client = Client::builder().memory(&nodes).vote_timeout(patience).build()?;
    /// nodes.set(0, Behaviour::Hang);
    /// let silence = client.mutex("orders:42").try_lock().await; // takes no longer than that
    /// assert!(matches!(silence, Err(LockError::NoQuorum { .. })));
    /// # Ok(()) }
    /// ```
    pub const fn vote_timeout(mut self, vote_timeout: Duration) -> Self {
        self.vote_timeout = Some(vote_timeout);
        self
    }

    /// How long [`connect`](Self::connect) waits for a majority. Default: 5 seconds.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use {quorate::{Client, memory::{Behaviour, MemoryNodes}}, std::time::Duration};
    /// # let nodes = MemoryNodes::new(1);
    /// nodes.set(0, Behaviour::Fail);
    /// let patience = Duration::from_millis(10);
    /// let connected = Client::builder().memory(&nodes).connect_timeout(patience).connect().await;
    /// assert_eq!(connected.unwrap_err().to_string(), "no quorum: memory:0: connection refused");
    /// # Ok(()) }
    /// ```
    pub const fn connect_timeout(mut self, connect_timeout: Duration) -> Self {
        self.connect_timeout = connect_timeout;
        self
    }
}
