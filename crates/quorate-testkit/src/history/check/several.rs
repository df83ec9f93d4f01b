//! Promises about several locks: the number of permits, and sets.
//!
//! Responsible for claims of different locks that belong together. Each lock by itself is checked
//! elsewhere.

use std::collections::BTreeMap;

use super::super::{Claim, How};
use super::{Promise, Until, Violation, violation};

/// At any time there are no more holders than the largest number that one of them names.
pub(super) fn too_many_permits(claims: &[Claim], until: Until, found: &mut Vec<Violation>) {
    let mut held: BTreeMap<&str, Vec<(&Claim, u32)>> = BTreeMap::new();
    for claim in claims.iter().filter(|claim| claim.acquired_at < claim.end(until)) {
        let How::Permit { semaphore, of } = &claim.how else { continue };
        let held = held.entry(semaphore).or_default();
        held.retain(|(it, _)| claim.acquired_at < it.end(until));
        let first = held.first().map_or(claim, |(first, _)| *first);
        held.push((claim, *of));
        let most = held.iter().map(|(_, of)| *of).max().unwrap_or(0);
        if held.len() > usize::try_from(most).unwrap_or(usize::MAX) {
            let text = format!("{} permits of {most} are held", held.len());
            found.push(violation(Promise::Permits, first, claim, text));
        }
    }
}

/// All members of a set are there, and begin and end at the same time.
pub(super) fn torn_sets(claims: &[Claim], until: Until, found: &mut Vec<Violation>) {
    let mut sets: BTreeMap<&str, (usize, Vec<&Claim>)> = BTreeMap::new();
    for claim in claims {
        if let Some(set) = &claim.set {
            sets.entry(&set.id).or_insert((set.size, Vec::new())).1.push(claim);
        }
    }
    for (size, members) in sets.values() {
        let (Some(first), Some(last)) = (members.first(), members.last()) else { continue };
        if members.len() != *size {
            let text = format!("{} of {size} members of a set are held", members.len());
            found.push(violation(Promise::Set, first, last, text));
        }
        let span = |claim: &Claim| (claim.acquired_at, claim.end(until));
        if let Some(other) = members.iter().find(|it| span(it) != span(first)) {
            let text = format!("{:?} is in a set with {:?}", other.lock, first.lock);
            found.push(violation(Promise::Set, first, other, text));
        }
    }
}
