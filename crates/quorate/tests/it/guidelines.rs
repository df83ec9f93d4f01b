//! Traits that every public type has, as the Rust API guidelines ask.

use std::{error::Error, fmt::Debug, hash::Hash};

use quorate::{
    Client, ClientBuilder, DetachedLease, DowngradedLease, Guard, GuardAll, LeaseTag, LockList,
    LossToken, Mutex, MutexAll, NodesChanged, OwnerId, ParseLeaseError, Permit, Permits, ReadGuard,
    RwLock, Semaphore, Shutdown, TaggedLease, Warning, WriteGuard, blocking, error, fence, inspect,
    memory, observe,
};

macro_rules! all {
    ($check:ident: $($it:ty),+ $(,)?) => { $( $check::<$it>(); )+ };
}

fn shared<T: Debug + Send + Sync + 'static>() {}
fn value<T: Clone + Debug + Eq + Send + Sync + 'static>() {}
fn key<T: Clone + Debug + Eq + Hash + Send + Sync + 'static>() {}
fn failure<T: Clone + Eq + Error + Send + Sync + 'static>() {}

#[test]
fn handles_and_guards_move_between_threads_and_are_debuggable() {
    all!(shared: Client, ClientBuilder, Mutex, MutexAll, RwLock, Semaphore, LockList, LossToken);
    all!(shared: Guard, GuardAll, ReadGuard, WriteGuard, Permit, Permits);
    all!(shared: blocking::Client, blocking::ClientBuilder, blocking::Mutex, blocking::MutexAll);
    all!(shared: blocking::RwLock, blocking::Semaphore, blocking::LockList, blocking::Guard);
    all!(shared: blocking::GuardAll, blocking::ReadGuard, blocking::WriteGuard);
    all!(shared: blocking::Permit, blocking::Permits);
    all!(shared: memory::MemoryNodes, fence::Gate, fence::Fenced<u32>, fence::sql::Table);
}

#[test]
fn values_can_be_cloned_and_compared() {
    all!(value: DetachedLease, DowngradedLease, NodesChanged, Shutdown, TaggedLease, Warning);
    all!(value: inspect::Holder, inspect::LockCursor, inspect::LockPage, inspect::LockReport);
    all!(value: inspect::NodeView, inspect::Observation, inspect::Waiter, observe::Event<'static>);
    all!(value: error::NodeAnswer, error::NodeReport);
    all!(key: LeaseTag, OwnerId, fence::Fence, error::LostReason);
    all!(key: observe::Action, observe::LockKind, observe::Outcome);
}

#[test]
fn errors_can_be_cloned_compared_and_passed_on() {
    all!(failure: error::AdmitError, error::ChangeError, error::ConfigError, error::ConnectError);
    all!(failure: error::DowngradeError, error::ExtendError, error::InspectError);
    all!(failure: error::LeaseError, error::LockError, error::Lost, error::NodeError);
    all!(failure: error::ReleaseError, error::TtlError, error::VerifyError, error::WithError);
    all!(failure: error::WouldDeadlock, fence::Stale, inspect::CursorError, ParseLeaseError);
}
