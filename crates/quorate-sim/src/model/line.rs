//! Small worlds whose clients wait in line.
//!
//! The client is the core's [`Contend`](quorate_core::contend::Contend), with its lease and its
//! renewals once it holds; a node is the core's store. What is made up is the connection between
//! them: what breaks, what still runs afterwards, who listens, and sessions.
//!
//! In most rows time stands still. Then a lease never ends by itself, and a waiter's timer may
//! strike at any moment. Keys that vanish stand for all that ends too early. The other rows have
//! clocks that tick, and leases that end.

use self::world::World;
pub use self::{
    claims::{BACKED, IN_ORDER, KEPT_GRANTS, NO_LEAK, PROGRESS, UNIQUE},
    rows::rows,
    settings::{Settings, Tickets},
};
use super::{About, Report, search};

mod claims;
mod client;
mod fair;
mod link;
mod memo;
mod node;
mod rows;
mod settings;
mod state;
mod step;
mod trace;
mod world;

pub(super) fn run(about: About, settings: &Settings) -> Report {
    search(about, World::new(settings.clone()))
}
