//! The manual: what to know before relying on a lock. These modules have no code.

pub mod _01_do_you_need_a_lock;
pub mod _02_holding_a_lock;
pub mod _03_when_things_fail;
pub mod _04_defaults;
