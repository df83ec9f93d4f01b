//! The locks themselves: settings and waiting, but no protocol.

pub(crate) mod acquire;
pub(crate) mod guard;
pub(crate) mod inner;
pub(crate) mod mutex;
pub(crate) mod rwlock;
pub(crate) mod semaphore;
pub(crate) mod signal;
