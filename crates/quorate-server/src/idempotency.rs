//! Idempotency keys: a client that did not get the response sends the same request again.
//!
//! The nodes store a hash of the key with the lease, so that any instance finds the lease for a
//! repeated request. Instances store nothing.

use axum::http::{HeaderMap, HeaderName};
use quorate::LeaseTag;
use sha2::{Digest as _, Sha256};

use crate::{
    auth::Caller,
    problem::{Code, Problem},
};

/// The mark of the leases of a request and of its repetitions.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Mark(LeaseTag);

/// How a lease on the nodes relates to a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Relation {
    /// The same request acquired it.
    Same,
    /// Another request with the same key acquired it.
    Conflict,
    Unrelated,
}

impl Mark {
    /// The mark of a request, if it has a key. The key belongs to the caller and to the lock.
    pub(crate) fn read(
        headers: &HeaderMap,
        caller: &Caller,
        name: &str,
        request: &[u8],
    ) -> Result<Option<Self>, Problem> {
        let Some(value) = headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
        let key = value.as_bytes();
        if key.is_empty() || key.len() > KEY_LEN_MAX {
            let detail = format!("Idempotency-Key must have 1 to {KEY_LEN_MAX} characters");
            return Err(Problem::new(Code::InvalidRequest, detail));
        }
        let mut hash = Sha256::new();
        for part in [caller.name.as_bytes(), name.as_bytes(), key] {
            // With their lengths, so that no two lists of parts give the same bytes.
            hash.update(part.len().to_be_bytes());
            hash.update(part);
        }
        let mut bytes = [0; LeaseTag::LEN];
        let (of_key, of_request) = bytes.split_at_mut(OF_KEY_LEN);
        of_key.copy_from_slice(&hash.finalize()[..OF_KEY_LEN]);
        let len = of_request.len();
        of_request.copy_from_slice(&Sha256::digest(request)[..len]);
        Ok(Some(Self(LeaseTag::new(bytes))))
    }

    /// The tag of the lease.
    pub(crate) const fn tag(self) -> LeaseTag {
        self.0
    }

    /// How a tagged lease relates to the request.
    pub(crate) fn relation(self, tag: LeaseTag) -> Relation {
        if tag == self.0 {
            return Relation::Same;
        }
        let is_same_key = tag.bytes()[..OF_KEY_LEN] == self.0.bytes()[..OF_KEY_LEN];
        if is_same_key { Relation::Conflict } else { Relation::Unrelated }
    }
}

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const KEY_LEN_MAX: usize = 255;

/// The first bytes of the tag identify the key, the rest the request.
const OF_KEY_LEN: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(caller: &Caller, name: &str, key: &str, request: &str) -> Mark {
        let headers = HeaderMap::from_iter([(IDEMPOTENCY_KEY, key.parse().unwrap())]);
        Mark::read(&headers, caller, name, request.as_bytes()).unwrap().unwrap()
    }

    #[test]
    fn only_the_same_request_of_the_same_caller_has_the_same_mark() {
        let caller = Caller::anyone();
        let first = mark(&caller, "a", "1", "{}");
        assert_eq!(first.relation(mark(&caller, "a", "1", "{}").tag()), Relation::Same);
        assert_eq!(first.relation(mark(&caller, "a", "1", "{ }").tag()), Relation::Conflict);
        for other in [mark(&caller, "a", "2", "{}"), mark(&caller, "b", "1", "{}")] {
            assert_eq!(first.relation(other.tag()), Relation::Unrelated);
        }
        let shifted = mark(&caller, "a1", "1", "{}");
        assert_eq!(mark(&caller, "a", "11", "{}").relation(shifted.tag()), Relation::Unrelated);
    }

    #[test]
    fn keys_that_are_empty_or_too_long_are_rejected() {
        let read = |key: &str| {
            let headers = HeaderMap::from_iter([(IDEMPOTENCY_KEY, key.parse().unwrap())]);
            Mark::read(&headers, &Caller::anyone(), "a", b"").map(|_| ())
        };
        assert!(read(&"k".repeat(255)).is_ok());
        for wrong in [String::new(), "k".repeat(256)] {
            assert_eq!(read(&wrong).unwrap_err().code(), Code::InvalidRequest);
        }
        let none = Mark::read(&HeaderMap::new(), &Caller::anyone(), "a", b"").unwrap();
        assert_eq!(none, None);
    }
}
