//! The locks themselves: settings and waiting, but no protocol.

pub(crate) mod acquire;
mod delegate;
pub(crate) mod guard;
pub(crate) mod guard_all;
pub(crate) mod inner;
mod join;
pub(crate) mod mutex;
pub(crate) mod mutex_all;
mod patience;
pub(crate) mod permit;
pub(crate) mod read_guard;
pub(crate) mod rwlock;
pub(crate) mod semaphore;
pub(crate) mod signal;
pub(crate) mod write_guard;
