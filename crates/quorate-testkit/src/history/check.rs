//! The promises, in the time that all processes share.
//!
//! Responsible for finding broken promises by sorting and one pass over the claims of each lock.
//! Not for their causes.

mod fences;
mod several;

use std::collections::BTreeMap;
use std::fmt;

use super::{Claim, History, How, Moment};

/// What ends a claim.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Until {
    /// What the holder recorded: its release, the reported loss, its end. Right for
    /// holders that rely on reports of a loss.
    Ended,
    /// The same, or the end by the holder's own clock if that is earlier. Right for holders that
    /// check their clock before they act, even after a pause.
    Believed,
}

/// A promise.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Promise {
    /// No two claims of one lock overlap, unless both are readers or entries of one identity.
    Exclusion,
    /// Fences grow with every holder, and do not shrink among shared holders.
    Fence,
    /// No more permits of a semaphore are held than the largest number that a holder names.
    Permits,
    /// The members of a set begin together and end together: all or none.
    Set,
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exclusion => "exclusion",
            Self::Fence => "fence",
            Self::Permits => "permits",
            Self::Set => "set",
        })
    }
}

/// A promise that was broken.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Violation {
    /// The promise.
    pub promise: Promise,
    /// The claim that began earlier.
    pub first: Claim,
    /// The claim that began later.
    pub second: Claim,
    /// What was seen.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { promise, first, second, text } = self;
        write!(f, "{promise} of {:?}: {text}", first.lock)?;
        for claim in [first, second] {
            let Claim { client, lock, how, fence, asked_at, acquired_at, .. } = claim;
            let Claim { ended_at, valid_until, .. } = claim;
            write!(f, "\n  {client}: {lock:?} {}, ", how.text())?;
            if let Some(fence) = fence {
                write!(f, "fence {fence}, ")?;
            }
            write!(f, "asked at {asked_at}, acquired at {acquired_at}")?;
            match ended_at {
                Some(ended_at) => write!(f, ", ended at {ended_at}")?,
                None => f.write_str(", never ended")?,
            }
            if let Some(valid_until) = valid_until {
                write!(f, ", valid until {valid_until}")?;
            }
        }
        Ok(())
    }
}

impl History {
    /// Everything that is wrong: for each claim at most one overlap, one fence that was there
    /// before, one fence that is too small, and one permit too many; and what is wrong with sets.
    #[must_use]
    pub fn violations(&self, until: Until) -> Vec<Violation> {
        let mut by_lock: BTreeMap<&str, Vec<&Claim>> = BTreeMap::new();
        for claim in &self.claims {
            by_lock.entry(&claim.lock).or_default().push(claim);
        }
        let mut found = Vec::new();
        // The claims of a history are in the order of their beginning, and so are those of a lock.
        for claims in by_lock.values() {
            overlaps(claims, until, &mut found);
            fences::given_twice(claims, &mut found);
            fences::going_back(claims, until, &mut found);
            fences::smaller_than_joined(claims, until, &mut found);
        }
        several::too_many_permits(&self.claims, until, &mut found);
        several::torn_sets(&self.claims, until, &mut found);
        found
    }

    /// Every promise was kept.
    ///
    /// # Panics
    ///
    /// If one was not; the message has what was seen.
    #[track_caller]
    pub fn assert_kept(&self, until: Until) {
        let found = self.violations(until);
        let shown: Vec<String> = found.iter().take(SHOWN_MAX).map(Violation::to_string).collect();
        let (count, claims) = (found.len(), self.claims.len());
        assert!(found.is_empty(), "{count} violations in {claims} claims:\n{}", shown.join("\n"));
    }
}

impl Claim {
    /// When it ends, which may be before its recorded beginning.
    fn end(&self, until: Until) -> Moment {
        let ended = self.ended_at.unwrap_or(Moment::NEVER);
        match until {
            Until::Ended => ended,
            Until::Believed => ended.min(self.valid_until.unwrap_or(Moment::NEVER)),
        }
    }
}

/// Each claim is compared with the one before it that lasts longest among those of another kind: if
/// that one has ended, all have.
fn overlaps(claims: &[&Claim], until: Until, found: &mut Vec<Violation>) {
    let mut longest: BTreeMap<&How, &Claim> = BTreeMap::new();
    for claim in claims {
        if claim.end(until) <= claim.acquired_at {
            continue;
        }
        let others = longest.values().filter(|it| !it.how.goes_with(&claim.how));
        if let Some(first) = others.max_by_key(|it| it.end(until))
            && claim.acquired_at < first.end(until)
        {
            let (one, other) = (shown(first, until), shown(claim, until));
            let text = format!("two holders at once: {one} and {other}");
            found.push(violation(Promise::Exclusion, first, claim, text));
        }
        let known = longest.entry(&claim.how).or_insert(claim);
        if known.end(until) < claim.end(until) {
            *known = claim;
        }
    }
}

fn shown(claim: &Claim, until: Until) -> String {
    format!("{} until {}", claim.client, claim.end(until))
}

fn violation(promise: Promise, first: &Claim, second: &Claim, text: String) -> Violation {
    Violation { promise, first: first.clone(), second: second.clone(), text }
}

const SHOWN_MAX: usize = 10;
