//! A Redis or Valkey server as a node: one connection, ordered, batched, made anew when in doubt.

mod attach;
mod drive;
mod link;
mod outbox;
mod script;
mod target;
mod transport;
mod wire;

pub(crate) use self::{
    attach::Identities,
    drive::drive,
    link::{Link, Surroundings},
    target::{Target, blot},
};
