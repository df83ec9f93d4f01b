//! Quorate's HTTP service: distributed locks for every language.
//!
//! [`router`] is the whole service as an [`axum::Router`], to be embedded anywhere. [`listen`]
//! serves it with limits on connections and times, and with TLS. `quorate serve` is both.
//!
//! Instances share nothing but the nodes. A lease that one instance has granted is renewed and
//! released through any other, and an instance that is killed loses no lease that its client renews
//! elsewhere.

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
