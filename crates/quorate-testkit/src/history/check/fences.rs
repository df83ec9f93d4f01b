//! Fences: larger from holder to holder.
//!
//! Responsible for one pass over the claims of a lock in the order of their beginning. Holders that
//! hold the lock together may share a fence.

use std::collections::BTreeMap;

use super::super::{Claim, How};
use super::{Promise, Until, Violation, violation};

pub(super) fn given_twice(claims: &[&Claim], found: &mut Vec<Violation>) {
    let mut by_fence: BTreeMap<u64, Vec<&Claim>> = BTreeMap::new();
    for claim in claims {
        let Some(fence) = claim.fence else { continue };
        let known = by_fence.entry(fence).or_default();
        if let Some(first) = known.iter().rev().find(|it| !it.how.goes_with(&claim.how)) {
            let text = format!("the fence {fence} follows {fence}");
            found.push(violation(Promise::Fence, first, claim, text));
        }
        known.push(claim);
    }
}

/// Each claim is compared with the one of the largest fence among those of another kind that had
/// ended before it began. The order of those that overlap is open.
pub(super) fn going_back(claims: &[&Claim], until: Until, found: &mut Vec<Violation>) {
    let mut by_end: Vec<&Claim> = claims.iter().copied().filter(|it| it.fence.is_some()).collect();
    by_end.sort_by_key(|claim| (claim.end(until).max(claim.acquired_at), claim.acquired_at));
    let mut by_end = by_end.into_iter().peekable();
    let mut largest: BTreeMap<&How, &Claim> = BTreeMap::new();
    for claim in claims {
        let is_over =
            |it: &&Claim| it.end(until) <= claim.acquired_at && it.acquired_at < claim.acquired_at;
        while let Some(over) = by_end.next_if(is_over) {
            let known = largest.entry(&over.how).or_insert(over);
            if known.fence < over.fence {
                *known = over;
            }
        }
        let others = largest.values().filter(|it| !it.how.goes_with(&claim.how));
        if let (Some(fence), Some(first)) = (claim.fence, others.max_by_key(|it| it.fence))
            && let Some(known) = first.fence.filter(|known| *known > fence)
        {
            let text = format!("the fence {fence} follows {known}");
            found.push(violation(Promise::Fence, first, claim, text));
        }
    }
}

/// Each entry is compared with the one of the largest fence among those of its identity that held
/// the lock for all the time in which it asked: it is unknown when in that time it was granted.
pub(super) fn smaller_than_joined(claims: &[&Claim], until: Until, found: &mut Vec<Violation>) {
    let mut by_identity: BTreeMap<&str, Vec<&Claim>> = BTreeMap::new();
    for claim in claims {
        if let How::Entry(identity) = &claim.how {
            by_identity.entry(identity).or_default().push(claim);
        }
    }
    for entries in by_identity.values() {
        for claim in entries {
            let is_joined =
                |it: &&&Claim| it.acquired_at < claim.asked_at && claim.acquired_at < it.end(until);
            let joined = entries.iter().filter(is_joined).max_by_key(|it| it.fence);
            if let (Some(fence), Some(first)) = (claim.fence, joined)
                && let Some(known) = first.fence.filter(|known| *known > fence)
            {
                let text = format!("the fence {fence} joins {known}");
                found.push(violation(Promise::Fence, first, claim, text));
            }
        }
    }
}
