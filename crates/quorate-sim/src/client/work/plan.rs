//! What a user wants to do with a lock, drawn before it is done.

use quorate_core::moment::Moment;

use crate::{
    clock::{MS, Nanos},
    dice::Dice,
    settings::Settings,
};

/// What is to be done next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    pub(super) lock: usize,
    pub(super) ttl_ms: u64,
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
    /// For one who has not begun.
    pub(super) const NOTHING: Self = Self {
        lock: 0,
        ttl_ms: 0,
        patience: None,
        give_up_at: Moment::ZERO,
        hold: 0,
        is_renewed: false,
        max_hold: None,
        act: Act::Nothing,
        is_stubborn: false,
        end: End::Release,
    };

    pub(super) fn draw(dice: &mut Dice, settings: &Settings) -> Self {
        let ttl_ms = dice.pick(&settings.ttls_ms);
        let ttl = ttl_ms * MS;
        let short = (ttl / 8).min(20 * MS);
        let hold = match dice.below(8) {
            _ if settings.is_hoarding => dice.between(ttl / 2, ttl * 3),
            0 => dice.between(ttl, ttl * 2).min(HOLD_MAX),
            1 => dice.between(ttl / 2, ttl).min(HOLD_MAX),
            _ => dice.between(0, short),
        };
        let hold = if settings.is_coarse && !settings.is_hoarding {
            dice.pick(&[0, MS, ttl / 3, ttl])
        } else {
            hold
        };
        let other = dice.pick(&settings.ttls_ms);
        Self {
            lock: dice.index(settings.locks),
            ttl_ms,
            patience: match dice.below(4) {
                0 => None,
                1 => Some(dice.between(MS, 100 * MS)),
                _ => Some(dice.between(200, 2_000) * MS),
            },
            give_up_at: Moment::ZERO,
            hold: hold.min(HOLD_MAX),
            is_renewed: dice.below(4) != 0,
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

/// Users hold a lock for so long, at the most.
pub(super) const HOLD_MAX: Nanos = 600 * MS;
