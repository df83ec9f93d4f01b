//! How holders of a lock on three independent nodes can agree on numbers that only grow, and how
//! they cannot.
//!
//! This is about the rules, not about the product: there is no line, no time and no session, only
//! grants, replies that come late or never, keys that vanish, and the round in which a fence is
//! stored. The rules that the product follows are [`Store::Both`] with [`Decide::AnyMajority`]; the
//! product itself is searched by the rows whose names begin with `line`.

use self::world::World;
pub use self::{
    rows::rows,
    settings::{Decide, Forget, Settings, Store},
};
use super::{About, Report, search};

mod rows;
mod settings;
mod state;
mod world;

pub(super) fn run(about: About, settings: &Settings) -> Report {
    search(about, World::new(settings.clone()))
}
