//! The id of one hold of a lock, without its secret in logs.

use std::{borrow::Cow, fmt};

use quorate_core::command::{ClientId, Owner};

/// Identifies one hold of a lock. The nodes store it as the value of the lock's key.
///
/// The whole id is a secret: a program that knows it can release the lock. `Debug` and `Display`
/// show only its [`prefix`](Self::prefix). [`expose_secret`](Self::expose_secret) returns all of
/// it.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = quorate::Client::memory();
/// let guard = client.mutex("orders:42").lock().await?;
/// let id = guard.owner_id();
/// println!("held as {id}"); // safe in a log
/// assert_eq!(id.to_string(), format!("{}…", client.owner_prefix()));
/// # Ok(()) }
/// ```
#[derive(Clone, Eq, Hash, PartialEq)]
pub struct OwnerId {
    prefix: String,
    owner: Owner,
}

impl OwnerId {
    pub(crate) fn new(client: ClientId, owner: Owner) -> Self {
        Self { prefix: owner_prefix(client), owner }
    }

    /// The public part: the [prefix](crate::Client::owner_prefix) of the client.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let guard = client.mutex("orders:42").lock().await?;
    /// let holder = client.inspect("orders:42").await?.holder.expect("the lock is held");
    /// assert_eq!(Some(guard.owner_id().prefix()), holder.owner_prefix.as_deref());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The whole id. A program that knows it can release the lock, so keep it out of logs.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let guard = client.mutex("orders:42").lock().await?;
    /// let id = guard.owner_id();
    /// let value = id.expose_secret(); // what `GET orders:42` returns on a server
    /// assert!(!format!("{id} {id:?}").contains(&*value));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn expose_secret(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.owner.as_bytes())
    }
}

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}…", self.prefix)
    }
}

impl fmt::Debug for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnerId({self})")
    }
}

/// Enough of a client's id to distinguish clients, and too little to act for one.
pub(crate) fn owner_prefix(client: ClientId) -> String {
    format!("{:.8}", client.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_id_shows_its_secret_only_on_request() {
        let client = ClientId::from_random([0xa5; 20]);
        let id = OwnerId::new(client, Owner::new(&client, 7, "cron/db1/4711"));
        assert_eq!(id.prefix(), "a5a5a5a5");
        assert_eq!(format!("{id} {id:?}"), "a5a5a5a5… OwnerId(a5a5a5a5…)");
        assert_eq!(id.expose_secret(), format!("{}:7@cron/db1/4711", "a5".repeat(20)));
    }
}
