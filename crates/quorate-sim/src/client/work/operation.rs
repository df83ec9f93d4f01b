//! One operation of a user, drawn by the seed.

use quorate_core::{client::owners::OwnerKind, moment::Moment};

use crate::{
    clock::{MS, Nanos, SECOND},
    dice::Dice,
    settings::Settings,
    trace::Group,
};

/// One operation: a lock is acquired, used and given up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    pub(super) lock: usize,
    /// The other locks of a set, as bits.
    pub(super) others: u32,
    pub(super) ttl_ms: u64,
    pub(super) group: Option<Group>,
    /// How often the lock is acquired again while it is held.
    pub(super) nested: u8,
    /// For how long it is waited for; `None` is one try.
    pub(super) patience: Option<Nanos>,
    pub(super) give_up_at: Moment,
    pub(super) hold: Nanos,
    pub(super) is_renewed: bool,
    pub(super) max_hold: Option<Nanos>,
    pub(super) act: Act,
    /// Keeps the guard although the lock is lost.
    pub(super) is_stubborn: bool,
    pub(super) end: End,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    Nothing,
    Extend(u64),
    Verify,
}

impl Act {
    /// Something in three of `among` cases.
    pub(super) fn draw(dice: &mut Dice, ttl_ms: u64, among: u64) -> Self {
        match dice.below(among) {
            0 => Self::Extend(ttl_ms),
            1 => Self::Extend((ttl_ms / 2).max(20)),
            2 => Self::Verify,
            _ => Self::Nothing,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Release,
    Drop,
    LeaveTo(usize),
}

impl Operation {
    pub(super) fn draw(dice: &mut Dice, settings: &Settings) -> Self {
        let ttl_ms = dice.pick(&settings.ttls_ms);
        let ttl = ttl_ms * MS;
        let short = (ttl / 8).min(20 * MS);
        let hold = match dice.below(8) {
            _ if settings.is_hoarding => dice.between(ttl / 2, ttl * 3),
            0 => dice.between(ttl, ttl * 2).min(settings.hold_max),
            1 => dice.between(ttl / 2, ttl).min(settings.hold_max),
            _ => dice.between(0, short),
        };
        let hold = if settings.is_coarse && !settings.is_hoarding {
            dice.pick(&[0, MS, ttl / 3, ttl])
        } else {
            hold
        };
        let is_shared = settings.sharing.is_some_and(|known| dice.below(100) < known.percent);
        let hold = match is_shared && settings.is_crowded() {
            true => dice.between(CROWD_HOLD_MIN, 3 * CROWD_HOLD_MIN),
            false => hold,
        };
        // Some hold the lock while all nodes restart.
        let is_long = settings.is_rolling && dice.below(4) == 0;
        let other = dice.pick(&settings.ttls_ms);
        Self {
            lock: dice.index(settings.locks),
            others: 0,
            ttl_ms,
            group: is_shared.then_some(Group::Readers),
            nested: 0,
            patience: match dice.below(4) {
                0 => None,
                1 => Some(dice.between(MS, 100 * MS)),
                // Otherwise no task would wait for as long as a quarantine may take.
                2 if settings.quarantine.is_some() => Some(PATIENT_FOR),
                _ => Some(dice.between(200, 2_000) * MS),
            },
            give_up_at: Moment::ZERO,
            hold: if is_long { LONG_HOLD } else { hold.min(settings.hold_max) },
            is_renewed: is_long || dice.below(4) != 0,
            max_hold: (dice.below(6) == 0).then(|| dice.between(1, ttl * 2)),
            act: Act::draw(dice, other, 8),
            is_stubborn: dice.below(4) == 0 && !settings.is_calm,
            end: match dice.below(8) {
                0 => End::LeaveTo(dice.index(settings.clients)),
                1 | 2 => End::Drop,
                _ => End::Release,
            },
        }
    }
}

impl Operation {
    /// Wants other locks as well, in some of the runs that have sets.
    pub(super) fn with_others(mut self, dice: &mut Dice, settings: &Settings) -> Self {
        if settings.has_sets && self.group.is_none() && dice.below(2) == 0 {
            let all = (1_u64 << settings.locks) - 1;
            self.others = (dice.below(all + 1) as u32) & !(1 << self.lock);
        }
        self
    }

    /// Acquires the lock as an entry, in some of the runs that have identities.
    pub(super) fn with_identity(mut self, dice: &mut Dice, settings: &Settings) -> Self {
        if settings.has_identities && self.group.is_none() && dice.below(2) == 0 {
            self.group = Some(Group::Identity(dice.pick(&['x', 'y'])));
            self.nested = if dice.below(2) == 0 { dice.between(1, 2) as u8 } else { 0 };
        }
        self
    }

    /// What kind of owner asks for it.
    pub(super) fn kind(&self) -> OwnerKind {
        let identity = match self.group {
            Some(Group::Identity(identity)) => Some(identity.to_string().into()),
            Some(Group::Readers) | None => None,
        };
        let is_shared = self.group == Some(Group::Readers);
        OwnerKind { is_shared, identity, ..OwnerKind::default() }
    }

    /// Every lock that it wants, its own first.
    pub(super) fn locks(&self) -> impl Iterator<Item = usize> + use<> {
        let others = self.others;
        let others = (0..u32::BITS as usize).filter(move |lock| others & (1 << lock) != 0);
        std::iter::once(self.lock).chain(others)
    }
}

/// Longer than a few restarts take.
const LONG_HOLD: Nanos = 5 * SECOND;

/// Longer than a waiter may have to wait where nodes use quarantine.
const PATIENT_FOR: Nanos = 10 * SECOND;

/// With many readers, each holds the lock for one to three times this time.
const CROWD_HOLD_MIN: Nanos = 20 * MS;
