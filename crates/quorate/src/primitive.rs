//! The locks themselves: settings and waiting, but no protocol.

pub(crate) mod mutex;
pub(crate) mod rwlock;
pub(crate) mod semaphore;
