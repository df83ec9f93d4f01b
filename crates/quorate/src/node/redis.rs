//! A Redis or Valkey server as a node: one ordered connection, replaced when in doubt.

mod attach;
mod drive;
mod handshake;
mod link;
#[cfg(feature = "simulation")]
pub(crate) mod network;
mod outbox;
mod replies;
mod script;
mod target;
#[cfg(feature = "tls")]
mod tls;
mod transport;
mod wire;

#[cfg(feature = "tls")]
pub use self::tls::Tls;
pub(crate) use self::{
    attach::Identities,
    drive::drive,
    link::{Link, LinkContext},
    target::{Target, blot},
    transport::Security,
};
