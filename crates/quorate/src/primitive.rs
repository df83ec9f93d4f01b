//! The locks themselves: settings and waiting, but no protocol.

pub(crate) mod mutex;
mod retry;
pub(crate) mod rwlock;
pub(crate) mod semaphore;
