//! Settings: how long locks are held, and how long nodes are waited for.

use std::time::Duration;

use quorate_core::terms::Drift;

use super::ClientBuilder;

impl ClientBuilder {
    /// How long a lock is held after its holder has crashed. Default: 10 seconds.
    ///
    /// With a longer ttl a holder survives longer pauses. With a shorter ttl others wait less after
    /// a crash. The client renews held locks at a third of the ttl, for at most
    /// [`max_hold`](Self::max_hold), by default one hour.
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
    /// All clients of the same nodes must set the same value: it bounds the quarantine of a node
    /// that has lost its data.
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

    /// The longest time for which a lock is held and renewed: a holder that hangs must not hold its
    /// lock forever. Then the lock is lost, with
    /// [`LostReason::MaxHold`](crate::error::LostReason::MaxHold). `None` sets no limit. Default:
    /// one hour.
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

    /// How much two clocks may differ about the length of a ttl: a rate in parts per million, and a
    /// fixed time. Default: one per cent and two milliseconds. A larger allowance is safer and
    /// leaves less time to work.
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

    /// How long a round waits for a silent node. Default: a twentieth of the ttl, from 5 to 50
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
    /// let silence = client.mutex("orders:42").try_lock().await; // fails within this time
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
