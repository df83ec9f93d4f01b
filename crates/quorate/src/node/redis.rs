//! A Redis or Valkey server as a node: one connection, ordered, batched, made anew when in doubt.

mod attach;
mod chamber;
mod drive;
mod greeting;
mod link;
mod meeting;
mod outbox;
mod replies;
mod script;
mod target;
#[cfg(feature = "tls")]
mod tls;
mod transport;
mod version;
mod wire;

#[cfg(feature = "tls")]
pub use self::tls::Tls;
pub(crate) use self::{
    attach::Identities,
    chamber::Chamber,
    drive::drive,
    link::{Link, Surroundings},
    meeting::{CHANGED_LATELY, differs_by},
    target::{Target, blot},
    transport::Security,
};
