//! Quorate's HTTP service: distributed locks for any language.
//!
//! [`router`] is the whole service as an [`axum::Router`], to be embedded anywhere. [`listen`]
//! serves it with limits on connections and times, and with TLS. `quorate serve` combines both.
//!
//! Instances share only the nodes. Any instance renews and releases the leases that another one has
//! granted. If an instance is killed, no lease is lost that its client renews at another one.

mod api;
mod auth;
mod delivery;
mod idempotency;
mod lease_id;
mod limits;
pub mod listen;
mod problem;
mod service;
mod telemetry;
mod watch;

pub use self::{
    api::{openapi, router},
    auth::{Access, TokenFileError},
    limits::Limits,
    problem::{Code, Problem},
    service::Service,
};
