//! The life of a held lock. Lost stays lost: nothing here revives a lease.

use std::{fmt, time::Duration};

use crate::{moment::Moment, terms::Terms};

/// What a holder has in hand.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Lease {
    valid_until: Moment,
    /// The holder's own limit: never valid beyond it, however often it is extended.
    hold_until: Moment,
    extensions_sent: u64,
    /// Where the last of them would let it end.
    wanted_until: Moment,
    is_at_risk: bool,
    lost: Option<LostReason>,
}

impl Lease {
    /// A lease that was won and ends at `valid_until`, and that is never held beyond `hold_until`.
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

    /// Says whether the holder may act at `now`.
    ///
    /// # Errors
    ///
    /// The reason for which the lease ended.
    pub fn check(&self, now: Moment) -> Result<(), LostReason> {
        mutate!(NoDeadline if self.lost.is_none() && now < self.hold_until => return Ok(()));
        match self.lost {
            Some(reason) => Err(reason),
            None if now >= self.hold_until => Err(LostReason::MaxHold),
            None if now >= self.valid_until => Err(LostReason::Expired),
            None => Ok(()),
        }
    }

    /// The safe time that is left at `now`; zero when the lease has ended.
    #[must_use]
    pub fn remaining(&self, now: Moment) -> Duration {
        match self.check(now) {
            Ok(()) => self.valid_until.saturating_since(now),
            Err(_) => Duration::ZERO,
        }
    }

    /// When the lease ends, if nothing extends it.
    #[must_use]
    pub const fn valid_until(&self) -> Moment {
        self.valid_until
    }

    /// The holder's own limit.
    #[must_use]
    pub const fn hold_until(&self) -> Moment {
        self.hold_until
    }

    /// From now on the lease is never held beyond `hold_until`. A limit that it has stays if it is
    /// earlier.
    pub fn limit(&mut self, hold_until: Moment) {
        self.hold_until = self.hold_until.min(hold_until);
        self.valid_until = self.valid_until.min(self.hold_until);
    }

    /// An extension to `terms` is about to be sent at `now`.
    ///
    /// One that shortens counts from here on, since its reply may be lost.
    pub fn handle_extension_sent(&mut self, terms: &Terms, now: Moment) -> Extension {
        self.wanted_until = terms.valid_until(now);
        self.extensions_sent = self.extensions_sent.saturating_add(1);
        mutate!(ShortenedByReply => return Extension(self.extensions_sent));
        self.valid_until = self.valid_until.min(self.wanted_until);
        Extension(self.extensions_sent)
    }

    /// A majority has extended to `valid_until`; it is known at `now`.
    ///
    /// An extension counts only while the lease is alive. If another was sent after it, it counts
    /// no further than that one is to: the holder may have wanted less by then. Not to count it at
    /// all would be too little: whoever extends faster than the nodes answer would lose the lease.
    pub fn handle_extended(&mut self, extension: Extension, valid_until: Moment, now: Moment) {
        let is_alive = self.check(now).is_ok();
        mutate!(LeaseRevives | LateRenewal => let is_alive = { self.lost = None; true });
        let is_last = extension.0 == self.extensions_sent;
        let until = if is_last { valid_until } else { valid_until.min(self.wanted_until) };
        mutate!(OldExtensionCounts => let until = valid_until);
        if is_alive {
            self.valid_until = self.valid_until.max(until).min(self.hold_until);
            self.is_at_risk &= !is_last;
        }
    }

    /// An extension was not confirmed, or a clock jumped: the lease goes on, but may not last.
    /// Returns true if that is news.
    pub fn handle_risk(&mut self, now: Moment) -> bool {
        self.check(now).is_ok() && !std::mem::replace(&mut self.is_at_risk, true)
    }

    /// True if it is held, but the last extension was not confirmed.
    #[must_use]
    pub const fn is_at_risk(&self) -> bool {
        self.is_at_risk && self.lost.is_none()
    }

    /// Why it is known to be lost, if it is. Time alone is not asked: see [`check`](Self::check).
    #[must_use]
    pub const fn lost(&self) -> Option<LostReason> {
        self.lost
    }

    /// True if extending can still make it last longer.
    #[must_use]
    pub fn can_grow(&self) -> bool {
        self.lost.is_none() && self.valid_until < self.hold_until
    }

    /// The lease is known to be gone. The first reason stays.
    pub fn handle_lost(&mut self, reason: LostReason) {
        self.lost.get_or_insert(reason);
    }
}

/// Names one extension of one lease.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Extension(u64);

/// Why a lease ended.
///
/// # Examples
///
/// ```
/// use quorate_core::lease::LostReason;
///
/// let is_own_doing = |reason| matches!(reason, LostReason::MaxHold | LostReason::ShutDown);
/// assert!(is_own_doing(LostReason::MaxHold));
/// assert_eq!(LostReason::Gone.to_string(), "a majority of the nodes no longer has it");
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum LostReason {
    /// Its time ran out.
    Expired,
    /// A majority of the nodes no longer has it, or has another's.
    Gone,
    /// It was held for as long as its holder had allowed.
    MaxHold,
    /// The client was shut down.
    ShutDown,
}

impl LostReason {
    /// One word for labels.
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
            Self::Expired => "its time ran out",
            Self::Gone => "a majority of the nodes no longer has it",
            Self::MaxHold => "it was held for as long as allowed",
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
    fn a_lease_ends_at_its_deadline_and_not_a_nanosecond_later() {
        let lease = lease(Moment::from_nanos(10));
        assert_eq!(lease.check(Moment::from_nanos(9)), Ok(()));
        assert_eq!(lease.remaining(Moment::from_nanos(9)), Duration::from_nanos(1));
        assert_eq!(lease.check(Moment::from_nanos(10)), Err(LostReason::Expired));
        assert_eq!(lease.remaining(Moment::from_nanos(11)), Duration::ZERO);
    }

    #[test]
    fn an_extension_counts_from_when_it_was_sent() {
        let mut lease = lease(at(10));
        let extension = lease.handle_extension_sent(&terms(20), at(5));
        assert_eq!(lease.valid_until(), at(10), "not before a majority has agreed");
        lease.handle_extended(extension, at(25), at(9));
        assert_eq!(lease.valid_until(), at(25));
    }

    #[test]
    fn nothing_revives_a_lease() {
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
    fn a_shortening_counts_from_when_it_is_sent() {
        let mut lease = lease(at(100));
        let extension = lease.handle_extension_sent(&terms(20), at(5));
        assert_eq!(lease.valid_until(), at(25), "the reply may be lost");
        lease.handle_extended(extension, at(25), at(6));
        assert_eq!(lease.valid_until(), at(25));
    }

    #[test]
    fn an_extension_counts_no_further_than_the_one_that_was_sent_after_it() {
        let mut lease = lease(at(10));
        let long = lease.handle_extension_sent(&terms(1_000), at(1));
        let short = lease.handle_extension_sent(&terms(20), at(2));
        lease.handle_extended(long, at(1_001), at(3));
        assert_eq!(lease.valid_until(), at(22), "the holder wants no more by now");
        lease.handle_extended(short, at(22), at(4));
        assert_eq!(lease.valid_until(), at(22));
    }

    /// The answer to each comes when the next one was sent already.
    #[test]
    fn whoever_extends_faster_than_the_nodes_answer_keeps_the_lease() {
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
    fn no_extension_goes_beyond_the_holders_own_limit() {
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
    fn risk_is_told_once_and_ends_with_the_next_extension() {
        let mut lease = lease(at(10));
        assert!(lease.handle_risk(at(5)));
        assert!(!lease.handle_risk(at(6)), "told already");
        assert!(lease.is_at_risk());
        let extension = lease.handle_extension_sent(&terms(20), at(6));
        lease.handle_extended(extension, at(26), at(7));
        assert!(!lease.is_at_risk());
        assert!(!lease.handle_risk(at(26)), "what is lost is not at risk");
    }
}
