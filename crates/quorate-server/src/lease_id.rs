//! Lease ids: what a client needs to renew and release its lease through any instance.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use quorate::DetachedLease;
use sha2::{Digest as _, Sha256};

use crate::problem::{Code, Problem};

/// The id of a lease: an opaque text that fits into a URL.
///
/// It contains the whole lease, so that instances need not store it. The owner id has 64 secret
/// bits, which cannot be guessed from other leases of the same instance. The nodes compare the
/// owner id, and everything else follows from it, so a client gains nothing by changing a lease id.
pub(crate) fn encode(lease: &DetachedLease) -> String {
    URL_SAFE_NO_PAD.encode(lease.bound_to_owner().expose_secret())
}

pub(crate) fn decode(id: &str) -> Result<DetachedLease, Problem> {
    let read = || {
        let text = String::from_utf8(URL_SAFE_NO_PAD.decode(id).ok()?).ok()?;
        let lease = text.parse::<DetachedLease>().ok()?;
        // Each lease has one id, so that it counts once.
        (lease.is_bound_to_owner() && lease.expose_secret() == text).then_some(lease)
    };
    read().ok_or_else(|| {
        let detail = "this is not a lease id: use the lease_id that acquire returned, unchanged";
        Problem::new(Code::InvalidLease, detail)
    })
}

/// The key under which a lease is counted, regardless of the spelling of its id: a client may write
/// a smaller fence into it.
pub(crate) fn counted_as(lease: &DetachedLease) -> u64 {
    let text = lease.expose_secret();
    // Everything except the fence, which is the third part.
    let parts = text.splitn(4, ':').enumerate().filter(|(at, _)| *at != 2);
    let hash = parts.fold(Sha256::new(), |hash, (_, part)| hash.chain_update(part));
    let first = hash.finalize().first_chunk().copied();
    u64::from_be_bytes(first.unwrap_or_default())
}
