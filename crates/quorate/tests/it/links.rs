//! One link to one server: order, reconnects, attach, errors.

mod attach;
pub(crate) mod executor;
mod forgotten;
mod monitor;
mod nonces;
mod order;
mod pressure;
mod replies;
mod secrets;
pub(crate) mod strangers;
mod twins;
mod upkeep;
