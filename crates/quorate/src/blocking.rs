//! The same client without async: for threads, scripts and programs that have no runtime.
//!
//! Every call blocks its thread until it is done. The work itself is done by the same code as for
//! async callers, on the client's own thread, so this also works on a thread that runs an async
//! runtime; only that runtime's other tasks have to wait meanwhile. A client whose engine runs on
//! the user's runtime could wait for ever, so it cannot be made a blocking one.
//!
//! ```
//! use quorate::blocking::Client;
//!
//! let client = Client::memory();
//! let guard = client.mutex("orders:42").lock()?;
//! guard.check()?;
//! guard.release()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};

use crate::{
    CancellationToken, LeaseHandover, Shutdown,
    error::{
        AdoptError, ConnectError, ExtendError, LockError, Lost, NodeReport, ReleaseError,
        VerifyError, WithError, WouldDeadlock,
    },
};

/// A connection to a set of nodes. Clones share it. See [`crate::Client`].
#[derive(Clone, Debug)]
pub struct Client(crate::Client);

impl Client {
    /// Connects to independent servers, and returns when a majority is attached.
    ///
    /// # Errors
    ///
    /// As [`crate::Client::connect`].
    pub fn connect(nodes: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self, ConnectError> {
        wait(crate::Client::connect(nodes)).map(Self)
    }

    /// A client with one node inside this process, for tests and examples.
    #[must_use]
    pub fn memory() -> Self {
        Self(crate::Client::memory())
    }

    /// A lock that at most one owner holds.
    #[must_use]
    pub fn mutex(&self, name: impl AsRef<str>) -> Mutex {
        Mutex(self.0.mutex(name))
    }

    /// Takes over a lease that another process left.
    ///
    /// # Errors
    ///
    /// As [`crate::Client::adopt`].
    pub fn adopt(&self, lease: &LeaseHandover) -> Result<Guard, AdoptError> {
        wait(self.0.adopt(lease)).map(Guard)
    }

    /// What each node is up to right now.
    #[must_use]
    pub fn nodes(&self) -> Box<[NodeReport]> {
        self.0.nodes()
    }

    /// Ends the client and all its clones. See [`crate::Client::shutdown`].
    pub fn shutdown(self, grace: Duration) -> Shutdown {
        wait(self.0.shutdown(grace))
    }
}

/// All settings are those of the async client: build one and convert it.
impl TryFrom<crate::Client> for Client {
    type Error = WouldDeadlock;

    fn try_from(client: crate::Client) -> Result<Self, WouldDeadlock> {
        if client.is_driven_by_user() { Err(WouldDeadlock) } else { Ok(Self(client)) }
    }
}

/// A lock that at most one owner holds. See [`crate::Mutex`] for what it promises.
#[derive(Clone, Debug)]
pub struct Mutex(crate::Mutex);

impl Mutex {
    /// See [`crate::Mutex::ttl`].
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        Self(self.0.ttl(ttl))
    }

    /// See [`crate::Mutex::no_renew`].
    #[must_use]
    pub fn no_renew(self) -> Self {
        Self(self.0.no_renew())
    }

    /// See [`crate::Mutex::max_hold`].
    #[must_use]
    pub fn max_hold(self, max_hold: Duration) -> Self {
        Self(self.0.max_hold(max_hold))
    }

    /// Takes the lock if nobody has it; `None` if someone has.
    ///
    /// # Errors
    ///
    /// As [`crate::Mutex::try_lock`].
    pub fn try_lock(&self) -> Result<Option<Guard>, LockError> {
        Ok(wait(self.0.try_lock())?.map(Guard))
    }

    /// Takes the lock, waiting for as long as someone else has it.
    ///
    /// # Errors
    ///
    /// As [`crate::Mutex::lock`].
    pub fn lock(&self) -> Result<Guard, LockError> {
        wait(self.0.lock()).map(Guard)
    }

    /// Takes the lock, waiting up to `wait`.
    ///
    /// # Errors
    ///
    /// As [`crate::Mutex::lock_timeout`].
    pub fn lock_timeout(&self, limit: Duration) -> Result<Guard, LockError> {
        wait(self.0.lock_timeout(limit)).map(Guard)
    }

    /// Takes the lock, runs `work`, and releases the lock.
    ///
    /// Nothing can stop `work` from outside: let it look at [`Guard::check`] now and then.
    ///
    /// # Errors
    ///
    /// As [`crate::Mutex::with`]; the lock counts as lost if it was when `work` was done.
    pub fn with<T>(&self, work: impl FnOnce(&Guard) -> T) -> Result<T, WithError> {
        let guard = self.lock()?;
        let value = work(&guard);
        guard.check()?;
        // Too few answers do not make the work undone: the release goes on in the background.
        let _ = guard.release();
        Ok(value)
    }
}

/// A held lock. Dropping it releases the lock in the background. See [`crate::Guard`].
#[derive(Debug)]
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct Guard(crate::Guard);

impl Guard {
    /// The name of the lock.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// The safe time that is left if nothing is renewed; zero when the lease has ended.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.0.remaining()
    }

    /// Says whether the holder may act right now. It asks nobody.
    ///
    /// # Errors
    ///
    /// [`Lost`] if the lease has ended.
    pub fn check(&self) -> Result<(), Lost> {
        self.0.check()
    }

    /// A flag that is raised when the lock is lost.
    #[must_use]
    pub fn cancellation_token(&self) -> CancellationToken {
        self.0.cancellation_token()
    }

    /// Blocks until the lock is lost.
    #[must_use]
    pub fn wait_until_lost(&self) -> Lost {
        wait(self.0.lost())
    }

    /// Asks the nodes whether a majority still has this lock for us.
    ///
    /// # Errors
    ///
    /// As [`crate::Guard::verify`].
    pub fn verify(&self) -> Result<(), VerifyError> {
        wait(self.0.verify())
    }

    /// Lets the lock live for `ttl` from now.
    ///
    /// # Errors
    ///
    /// As [`crate::Guard::extend`].
    pub fn extend(&self, ttl: Duration) -> Result<(), ExtendError> {
        wait(self.0.extend(ttl))
    }

    /// Releases the lock on all nodes and tells whether it was still ours.
    ///
    /// # Errors
    ///
    /// As [`crate::Guard::release`].
    pub fn release(self) -> Result<(), ReleaseError> {
        wait(self.0.release())
    }

    /// Gives up the guard without releasing the lock.
    #[must_use = "without it nobody can adopt the lease"]
    pub fn leave_to_expire(self) -> LeaseHandover {
        self.0.leave_to_expire()
    }
}

/// Runs a future to its end on this thread. The client's own thread does the work and wakes us.
fn wait<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut cx = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
        thread::park();
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
