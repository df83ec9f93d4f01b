//! A Redis or Valkey server as a node: one ordered connection, replaced when in doubt.

mod attach;
#[cfg(feature = "tls")]
mod certificate;
mod diagnose;
mod drive;
mod handshake;
mod link;
mod masked;
#[cfg(feature = "__simulation")]
pub(crate) mod network;
mod outbox;
mod replies;
mod script;
mod target;
#[cfg(feature = "tls")]
mod tls;
mod transport;
mod wire;

pub use self::masked::masked_address;
#[cfg(feature = "tls")]
pub use self::tls::Tls;
#[cfg(feature = "__simulation")]
pub use self::wire::testing::{Decoded, Wire};
pub(crate) use self::{
    attach::Identities,
    diagnose::{Extent, diagnose},
    drive::drive,
    link::{Link, LinkContext},
    target::Target,
    transport::Security,
};
