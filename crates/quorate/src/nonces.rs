//! Random numbers that must be secret or unique: client ids, sessions, and the marks and ids of
//! nodes.
//!
//! This is their only source. None of them comes from the generator for delays, whose state can be
//! derived from the delays. Each number comes from the operating system. If the system provides
//! none, the operation fails: there is no weaker fallback.

use std::fmt;

use quorate_core::{
    command::ClientId,
    membership::{Mark, NodeId},
    queue::Session,
};

use siphasher::sip::SipHasher24;

use crate::error::{ConfigError, NodeError};

/// A source of random numbers. Clones share the source.
#[derive(Clone)]
pub(crate) struct Nonces(Source);

#[derive(Clone)]
enum Source {
    System,
    #[cfg(feature = "__simulation")]
    Seeded(std::sync::Arc<std::sync::Mutex<quorate_core::backoff::Jitter>>),
    #[cfg(test)]
    Broken,
}

impl Nonces {
    /// Uses the operating system.
    pub(crate) const fn of_the_system() -> Self {
        Self(Source::System)
    }

    /// For a simulation: the same numbers for the same seed. They are no secrets.
    #[cfg(feature = "__simulation")]
    pub(crate) fn from_seed(seed: u64) -> Self {
        let stream = quorate_core::backoff::Jitter::new(seed);
        Self(Source::Seeded(std::sync::Arc::new(std::sync::Mutex::new(stream))))
    }

    /// A source that always fails.
    #[cfg(test)]
    pub(crate) const fn broken() -> Self {
        Self(Source::Broken)
    }

    /// The id of a client.
    pub(crate) fn client(&self) -> Result<ClientId, NoRandomness> {
        self.draw().map(ClientId::from_random)
    }

    /// A key from which the secrets of the client's owners are derived.
    pub(crate) fn owner_key(&self) -> Result<OwnerKey, NoRandomness> {
        self.draw().map(|key: [u8; 16]| OwnerKey(SipHasher24::new_with_key(&key)))
    }

    /// A session, for one connection of one client.
    pub(crate) fn session(&self) -> Result<Session, NoRandomness> {
        self.draw().map(u128::from_be_bytes).map(Session::from_random)
    }

    /// A mark, for the state of a node from now on.
    pub(crate) fn mark(&self) -> Result<Mark, NoRandomness> {
        self.draw().map(u128::from_be_bytes).map(Mark::from_random)
    }

    /// An id for a node that has none.
    pub(crate) fn node_id(&self) -> Result<NodeId, NoRandomness> {
        self.draw().map(u128::from_be_bytes).map(NodeId::from_random)
    }

    /// A number that may be public, such as the seed of delays. It reveals none of the other
    /// numbers.
    pub(crate) fn number(&self) -> Result<u64, NoRandomness> {
        self.draw().map(u64::from_be_bytes)
    }

    fn draw<const LEN: usize>(&self) -> Result<[u8; LEN], NoRandomness> {
        let mut bytes = [0; LEN];
        match &self.0 {
            Source::System => getrandom::fill(&mut bytes).map_err(NoRandomness)?,
            #[cfg(feature = "__simulation")]
            Source::Seeded(stream) => {
                let mut stream = stream.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                for part in bytes.chunks_mut(8) {
                    part.copy_from_slice(&stream.next().to_be_bytes()[..part.len()]);
                }
            }
            #[cfg(test)]
            Source::Broken => return Err(NoRandomness(getrandom::Error::UNSUPPORTED)),
        }
        Ok(bytes)
    }
}

impl fmt::Debug for Nonces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Hide the state of a seeded source: the next numbers follow from it.
        f.write_str("Nonces")
    }
}

/// Derives a secret for each owner of a client, so that an owner cannot be guessed from others.
#[derive(Clone, Copy)]
pub(crate) struct OwnerKey(SipHasher24);

impl OwnerKey {
    pub(crate) fn secret(&self, number: u64) -> u64 {
        self.0.hash(&number.to_be_bytes())
    }
}

impl fmt::Debug for OwnerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnerKey(…)")
    }
}

/// The operating system provided no random bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoRandomness(getrandom::Error);

impl From<NoRandomness> for ConfigError {
    fn from(NoRandomness(error): NoRandomness) -> Self {
        Self::System { what: "random bytes", reason: error.to_string() }
    }
}

impl From<NoRandomness> for NodeError {
    fn from(NoRandomness(error): NoRandomness) -> Self {
        Self::NoRandomness(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonces_are_unique() {
        let nonces = Nonces::of_the_system();
        let mut sessions: Vec<Session> = (0..1_000).map(|_| nonces.session().unwrap()).collect();
        sessions.sort_unstable();
        sessions.dedup();
        assert_eq!(sessions.len(), 1_000);
        // Each half of a session is random as well.
        let halves = sessions.iter().map(|it| it.to_string().split_off(16));
        assert_eq!(halves.collect::<std::collections::BTreeSet<_>>().len(), 1_000);
    }

    #[test]
    fn owner_secrets_differ_by_owner_and_by_client() {
        let nonces = Nonces::of_the_system();
        let [key, other] = [(); 2].map(|()| nonces.owner_key().unwrap());
        assert_eq!(key.secret(1), key.secret(1));
        assert_ne!(key.secret(1), key.secret(2));
        assert_ne!(key.secret(1), other.secret(1));
        assert_eq!(format!("{key:?}"), "OwnerKey(…)");
    }

    #[test]
    fn nonces_fail_without_randomness() {
        let nonces = Nonces::broken();
        assert!(nonces.client().is_err() && nonces.session().is_err() && nonces.mark().is_err());
        assert!(nonces.node_id().is_err() && nonces.number().is_err());
        let text = NodeError::from(nonces.session().unwrap_err()).to_string();
        assert!(text.starts_with("the operating system gives no random bytes: "), "{text}");
    }

    #[cfg(feature = "__simulation")]
    #[test]
    fn same_seed_gives_the_same_nonces() {
        let draw = |nonces: Nonces| (nonces.client().unwrap(), nonces.session().unwrap());
        assert_eq!(draw(Nonces::from_seed(7)), draw(Nonces::from_seed(7)));
        assert_ne!(draw(Nonces::from_seed(7)), draw(Nonces::from_seed(8)));
        assert_eq!(format!("{:?}", Nonces::from_seed(7)), "Nonces");
    }
}
