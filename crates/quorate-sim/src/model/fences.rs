//! How holders of a lock on three independent nodes can agree on numbers that only grow, and how
//! they cannot.
//!
//! This is about the rules, not about the product: there is no line, no time and no session, only
//! grants, replies that come late or never, keys that vanish, and the round in which a fence is
//! stored. The rules that the product follows are [`Store::Both`] with [`Decide::AnyMajority`]; the
//! product itself is searched by the rows whose names begin with `line`.

use self::model::FenceModel;
pub use self::{
    rows::rows,
    settings::{Decide, Forget, Settings, Store},
};
use super::{About, Report, search};

mod model;
mod rows;
mod settings;
mod state;

pub(super) fn run(about: About, settings: &Settings) -> Report {
    search(about, FenceModel::new(settings.clone()))
}
