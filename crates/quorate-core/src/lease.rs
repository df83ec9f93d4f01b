//! The state of a held lock. A lost lease stays lost: nothing here revives it.

use std::{fmt, time::Duration};

use crate::{moment::Moment, terms::Terms};

/// The lease of a holder.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Lease {
    valid_until: Moment,
    /// The maximum hold time: no extension makes the lease last beyond it.
    hold_until: Moment,
    extensions_sent: u64,
    /// The end that the last extension asked for.
    wanted_until: Moment,
    is_at_risk: bool,
    lost: Option<LostReason>,
}

impl Lease {
    /// A lease that ends at `valid_until` and is never held beyond `hold_until`.
    #[must_use]
    pub fn new(valid_until: Moment, hold_until: Moment) -> Self {
        mutate!(NoMaxHold => let hold_until = Moment::from_nanos(u64::MAX));
        Self {
            valid_until: valid_until.min(hold_until),
            hold_until,
            extensions_sent: 0,
            wanted_until: Moment::ZERO,
            is_at_risk: false,
            lost: None,
        }
    }

    /// Checks whether the holder may act at `now`.
    ///
    /// # Errors
    ///
    /// The reason why the lease ended.
    pub fn check(&self, now: Moment) -> Result<(), LostReason> {
        mutate!(NoDeadline if self.lost.is_none() && now < self.hold_until => return Ok(()));
        match self.lost {
            Some(reason) => Err(reason),
            None if now >= self.hold_until => Err(LostReason::MaxHold),
            None if now >= self.valid_until => Err(LostReason::Expired),
            None => Ok(()),
        }
    }

    /// The safe time that remains at `now`; zero if the lease has ended.
    #[must_use]
    pub fn remaining(&self, now: Moment) -> Duration {
        match self.check(now) {
            Ok(()) => self.valid_until.saturating_since(now),
            Err(_) => Duration::ZERO,
        }
    }

    /// When the lease ends unless it is extended.
    #[must_use]
    pub const fn valid_until(&self) -> Moment {
        self.valid_until
    }

    /// The end of the maximum hold time.
    #[must_use]
    pub const fn hold_until(&self) -> Moment {
        self.hold_until
    }

    /// Limits the lease to `hold_until`. An earlier limit stays in force.
    pub fn limit(&mut self, hold_until: Moment) {
        self.hold_until = self.hold_until.min(hold_until);
        self.valid_until = self.valid_until.min(self.hold_until);
    }

    /// Records that an extension to `terms` is about to be sent at `now`.
    ///
    /// A shorter lease takes effect immediately, since the reply may be lost.
    pub fn handle_extension_sent(&mut self, terms: &Terms, now: Moment) -> Extension {
        self.wanted_until = terms.valid_until(now);
        self.extensions_sent = self.extensions_sent.saturating_add(1);
        mutate!(ShortenedByReply => return Extension(self.extensions_sent));
        self.valid_until = self.valid_until.min(self.wanted_until);
        Extension(self.extensions_sent)
    }

    /// A majority confirmed an extension to `valid_until`, received at `now`.
    ///
    /// An extension counts only while the lease is alive. If a later extension was sent, the
    /// earlier one is capped at the end that the later one asked for: the holder may want a shorter
    /// lease by then. Ignoring the earlier one would be wrong: a holder that extends faster than
    /// the nodes answer would lose its lease.
    pub fn handle_extended(&mut self, extension: Extension, valid_until: Moment, now: Moment) {
        let is_alive = self.check(now).is_ok();
        mutate!(LeaseRevives | LateRenewal => let is_alive = { self.lost = None; true });
        let is_last = self.is_last(extension);
        let until = if is_last { valid_until } else { valid_until.min(self.wanted_until) };
        mutate!(OldExtensionCounts => let until = valid_until);
        if is_alive {
            self.valid_until = self.valid_until.max(until).min(self.hold_until);
            self.is_at_risk &= !is_last;
        }
    }

    /// An extension was not confirmed, or a clock jumped. The lease continues, but may not last.
    /// Returns true if it was not at risk before.
    pub fn handle_risk(&mut self, now: Moment) -> bool {
        self.check(now).is_ok() && !std::mem::replace(&mut self.is_at_risk, true)
    }

    /// Whether it is held, but the last extension was not confirmed.
    #[must_use]
    pub const fn is_at_risk(&self) -> bool {
        self.is_at_risk && self.lost.is_none()
    }

    /// Whether no later extension was sent than this one.
    #[must_use]
    pub const fn is_last(&self, extension: Extension) -> bool {
        extension.0 == self.extensions_sent
    }

    /// The reason why it is known to be lost. This ignores deadlines: see [`check`](Self::check).
    #[must_use]
    pub const fn lost(&self) -> Option<LostReason> {
        self.lost
    }

    /// Whether an extension can still move its deadline.
    #[must_use]
    pub fn can_grow(&self) -> bool {
        self.lost.is_none() && self.valid_until < self.hold_until
    }

    /// Marks the lease as lost. The first reason stays.
    pub fn handle_lost(&mut self, reason: LostReason) {
        self.lost.get_or_insert(reason);
    }
}

/// Identifies one extension of one lease.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Extension(u64);

/// Why a lease ended.
///
/// # Examples
///
/// ```
/// use quorate_core::lease::LostReason;
///
/// let is_local = |reason| matches!(reason, LostReason::MaxHold | LostReason::ShutDown);
/// assert!(is_local(LostReason::MaxHold));
/// assert_eq!(LostReason::Gone.to_string(), "its key was deleted or replaced");
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum LostReason {
    /// The lease expired.
    Expired,
    /// A majority of the nodes no longer has the key, or another owner holds it there.
    Gone,
    /// The holder's maximum hold time was reached.
    MaxHold,
    /// The client was shut down.
    ShutDown,
}

impl LostReason {
    /// The reason as one word, for metric labels.
    ///
    /// # Examples
    ///
    /// ```
    /// use quorate_core::lease::LostReason;
    ///
    /// assert_eq!(LostReason::MaxHold.as_str(), "max_hold");
    /// ```
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Gone => "gone",
            Self::MaxHold => "max_hold",
            Self::ShutDown => "shut_down",
        }
    }
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "the lease expired",
            Self::Gone => "its key was deleted or replaced",
            Self::MaxHold => {
                "it was held for max_hold: raise max_hold, or hold the lock for less time"
            }
            Self::ShutDown => "the client was shut down",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terms::Drift;

    fn terms(ttl_ms: u64) -> Terms {
        let none = Drift { ppm: 0, fixed: Duration::ZERO };
        Terms::new(Duration::from_millis(ttl_ms), Duration::from_millis(1), none).expect("valid")
    }

    fn lease(valid_until: Moment) -> Lease {
        Lease::new(valid_until, Moment::from_nanos(u64::MAX))
    }

    fn at(ms: u64) -> Moment {
        Moment::ZERO.saturating_add(Duration::from_millis(ms))
    }

    #[test]
    fn lease_ends_exactly_at_its_deadline() {
        let lease = lease(Moment::from_nanos(10));
        assert_eq!(lease.check(Moment::from_nanos(9)), Ok(()));
        assert_eq!(lease.remaining(Moment::from_nanos(9)), Duration::from_nanos(1));
        assert_eq!(lease.check(Moment::from_nanos(10)), Err(LostReason::Expired));
        assert_eq!(lease.remaining(Moment::from_nanos(11)), Duration::ZERO);
    }

    #[test]
    fn extension_counts_from_the_time_it_was_sent() {
        let mut lease = lease(at(10));
        let extension = lease.handle_extension_sent(&terms(20), at(5));
        assert_eq!(lease.valid_until(), at(10), "no majority has confirmed yet");
        lease.handle_extended(extension, at(25), at(9));
        assert_eq!(lease.valid_until(), at(25));
    }

    #[test]
    fn lost_lease_is_never_revived() {
        let mut late = lease(at(10));
        let extension = late.handle_extension_sent(&terms(20), at(5));
        late.handle_extended(extension, at(25), at(10));
        assert_eq!(late.check(at(10)), Err(LostReason::Expired));

        let mut gone = lease(at(10));
        let extension = gone.handle_extension_sent(&terms(20), at(5));
        gone.handle_lost(LostReason::Gone);
        gone.handle_lost(LostReason::ShutDown);
        gone.handle_extended(extension, at(25), at(6));
        assert_eq!(gone.check(at(6)), Err(LostReason::Gone));
        assert_eq!(gone.remaining(at(6)), Duration::ZERO);
    }

    #[test]
    fn shorter_lease_takes_effect_when_sent() {
        let mut lease = lease(at(100));
        let extension = lease.handle_extension_sent(&terms(20), at(5));
        assert_eq!(lease.valid_until(), at(25), "the reply may be lost");
        lease.handle_extended(extension, at(25), at(6));
        assert_eq!(lease.valid_until(), at(25));
    }

    #[test]
    fn extension_is_capped_by_the_one_sent_after_it() {
        let mut lease = lease(at(10));
        let long = lease.handle_extension_sent(&terms(1_000), at(1));
        let short = lease.handle_extension_sent(&terms(20), at(2));
        lease.handle_extended(long, at(1_001), at(3));
        assert_eq!(lease.valid_until(), at(22), "the holder asked for less since");
        lease.handle_extended(short, at(22), at(4));
        assert_eq!(lease.valid_until(), at(22));
    }

    /// The reply to each extension arrives after the next one was sent.
    #[test]
    fn extending_faster_than_nodes_answer_keeps_the_lease() {
        let mut lease = lease(at(10));
        let mut before = lease.handle_extension_sent(&terms(10), at(0));
        assert!(lease.handle_risk(at(0)));
        for ms in 1..50 {
            let next = lease.handle_extension_sent(&terms(10), at(ms));
            lease.handle_extended(before, at(ms - 1 + 10), at(ms));
            assert_eq!(lease.check(at(ms + 8)), Ok(()));
            before = next;
        }
        assert!(lease.is_at_risk(), "the last one is not confirmed");
        lease.handle_extended(before, at(59), at(50));
        assert!(!lease.is_at_risk());
    }

    #[test]
    fn extension_never_exceeds_the_maximum_hold_time() {
        let mut lease = Lease::new(at(10), at(30));
        let extension = lease.handle_extension_sent(&terms(20), at(5));
        lease.handle_extended(extension, at(25), at(6));
        assert!(lease.can_grow());
        let extension = lease.handle_extension_sent(&terms(20), at(15));
        lease.handle_extended(extension, at(35), at(16));
        assert_eq!(lease.valid_until(), at(30));
        assert!(!lease.can_grow());
        assert_eq!(lease.check(at(30)), Err(LostReason::MaxHold));
    }

    #[test]
    fn risk_is_reported_once_and_ends_with_the_next_extension() {
        let mut lease = lease(at(10));
        assert!(lease.handle_risk(at(5)));
        assert!(!lease.handle_risk(at(6)), "already reported");
        assert!(lease.is_at_risk());
        let extension = lease.handle_extension_sent(&terms(20), at(6));
        lease.handle_extended(extension, at(26), at(7));
        assert!(!lease.is_at_risk());
        assert!(!lease.handle_risk(at(26)), "a lost lease is not at risk");
    }
}
