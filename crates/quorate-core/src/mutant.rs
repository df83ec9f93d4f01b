//! Deliberate bugs, switched on one at a time, to prove that the tests detect them.
//!
//! In an ordinary build there is no switch, and `mutate!` does nothing. With the feature
//! `__mutants`, a test can switch one bug on for its own thread. Without all `mutate!` lines the
//! program is correct.

/// Breaks a rule while one of the mutants is on. It runs an expression or replaces the value of a
/// variable, and can have a condition: `mutate!(A => return)`, `mutate!(A | B if c => let x = y)`.
macro_rules! mutate {
    ($($mutant:ident)|+ $(if $is:expr)? => let $name:ident = $broken:expr) => {
        let $name = if $crate::mutant::is_on(&[$($crate::mutant::Mutant::$mutant),+]) $(&& $is)? {
            $broken
        } else {
            $name
        };
    };
    ($($mutant:ident)|+ $(if $is:expr)? => $broken:expr) => {
        if $crate::mutant::is_on(&[$($crate::mutant::Mutant::$mutant),+]) $(&& $is)? {
            $broken;
        }
    };
}

/// One deliberate bug.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum Mutant {
    /// One node less than a majority is enough.
    SmallQuorum,
    /// A node without an answer counts as a grant.
    SilenceIsGrant,
    /// A missing answer counts as a refusal.
    UnknownIsRefusal,
    /// Validity has no allowance for clock rates.
    NoDriftRate,
    /// Validity has no fixed allowance.
    NoDriftFixed,
    /// Validity counts from the deciding reply instead of the request.
    ValidFromReply,
    /// A majority that arrives after the lease has ended still wins.
    NoLateCheck,
    /// An extension counts from its reply instead of its request.
    RenewedFromReply,
    /// An extension that is confirmed after the old deadline still counts.
    RenewTooLate,
    /// A lost lease accepts an extension.
    LeaseRevives,
    /// [`RenewTooLate`](Self::RenewTooLate) and [`LeaseRevives`](Self::LeaseRevives) together.
    LateRenewal,
    /// The holder ignores its local deadline.
    NoDeadline,
    /// No holder is notified at its local deadline.
    NoLossSignal,
    /// The holder's own limit is ignored.
    NoMaxHold,
    /// A failed attempt releases nothing.
    NoUndo,
    /// A failed attempt releases only the grants it knows of.
    UndoGrantedOnly,
    /// A cancelled call releases nothing.
    AbandonKeeps,
    /// A release is sent to a majority only.
    ReleaseMajorityOnly,
    /// An unanswered release is not sent again.
    NoDebts,
    /// An unanswered release is sent again only once.
    DebtOnce,
    /// A push that overtakes the reply to its request is ignored.
    EarlyPushIgnored,
    /// An unanswered request counts as never sent.
    LostIsUnsent,
    /// A client that shuts down does not release its lost leases.
    ShutdownForgetsLost,
    /// A confirmed extension does not count.
    ExtensionIgnored,
    /// All requests of a client have the same owner.
    SameOwner,
    /// A classic acquire overwrites an existing key.
    SetOverwrites,
    /// A key is stored without an expiry.
    SetNeverExpires,
    /// Any lock can be adopted by any client.
    AdoptNotOwned,
    /// A ticket follows the client's clock until the nodes report theirs.
    TicketByOwnClock,
    /// Tickets stay ahead of the nodes' time.
    TicketsNeverGoBack,
    /// An adoption needs no session.
    AdoptWithoutSession,
    /// An owner whose lease was adopted stays in the queue.
    AdoptKeepsPosition,
    /// An adopted lease stores a lost key again.
    AdoptedHeals,
    /// A lease is detached with an owner that may be queued.
    DetachQueued,
    /// A key is deleted without the owner check.
    DeleteNotOwned,
    /// A key is extended without the owner check.
    ExtendNotOwned,
    /// An extension creates a key that does not exist.
    ExtendCreates,
    /// An extension can make a key expire earlier.
    ExtendShortens,
    /// All entries of a batch have the result of the first one on the node.
    BatchByFirst,
    /// An absent key counts as extended.
    AbsentCountsAsExtended,
    /// An extension counts for longer than a later one that was sent.
    OldExtensionCounts,
    /// An extension that shortens the lease counts only once it is confirmed.
    ShortenedByReply,
    /// Commands from an older connection are executed.
    NoSession,
    /// A node stores any fence that a client proposes.
    NoClamp,
    /// A fence is forgotten within a day of its grant.
    BriefFence,
    /// An extension does not keep the fence.
    FenceNotKept,
    /// A node sends no inquiries for waiters with an earlier ticket.
    NoInquire,
    /// The reply to a granted owner does not report a waiter with an earlier ticket.
    NoEarlierFlag,
    /// A yield returns any grant of its owner.
    YieldAnyGrant,
    /// A yield from an older connection is executed.
    YieldWithoutSession,
    /// A lock is handed off to a client that is not subscribed.
    HandOffUnsubscribed,
    /// A lock is handed off to a client whose session has expired.
    HandOffLapsed,
    /// The lock goes to the last waiter.
    LastFirst,
    /// A client keeps grants for an owner that it has given up.
    OrphansKept,
    /// A fence counts as stored where a larger one is.
    ConfirmAnyFence,
    /// A confirm stores a lost key again.
    ConfirmHeals,
    /// A heal ignores the fence.
    HealAnyFence,
    /// Validity counts from the push.
    PushedNow,
    /// A fence is used that no majority has stored.
    NoWriteBack,
    /// Expired grants count for the fence.
    ExpiredGrantCounts,
    /// A waiter accepts a lease that is about to end.
    AlmostExpired,
    /// No waiter yields to an earlier ticket.
    NoYield,
    /// A grant that was yielded still counts.
    CountAfterYield,
    /// Grants of a node that forgot its fences are never accepted.
    EndlessReject,
    /// A waiter that is cut off keeps its grants.
    NoWithdraw,
    /// A waiter gives up its position although its connections come back.
    HastyWithdraw,
    /// A waiter that withdrew returns with the same owner.
    SameOwnerAgain,
    /// A waiter asks once and then only listens.
    NoHeartbeat,
    /// A reader joins an exclusive holder.
    ShareWithExclusive,
    /// A yield names a fence that is about to be replaced.
    YieldBeforeConfirm,
    /// An entry joins the entries of another identity.
    JoinAnyIdentity,
    /// An entry queues although its identity holds the lock.
    EntryQueues,
    /// An entry stores a lost key again after another client's grant.
    EntryHealsOutdated,
    /// An entry is always renewed with its first fence.
    EntryFenceStays,
    /// An entry does not yield to an earlier ticket.
    EntryNeverYields,
    /// A writer ignores the readers of the lock.
    ExclusiveIgnoresShares,
    /// A reader overtakes queued writers.
    ShareOvertakes,
    /// A reader's release ends the leases of all readers.
    ShareFreesAll,
    /// A shared key expires with its first reader.
    ShareKeyShort,
    /// An expired share is never removed.
    ExpiredSharesStay,
    /// A lost share is stored again over an exclusive holder.
    ShareHealsExclusive,
    /// A reader never yields.
    ShareNeverYields,
    /// Readers are not asked to yield.
    SharesNotAsked,
    /// A yield returns any share of its owner.
    YieldAnyShare,
    /// Readers still wait for a writer that has left the queue.
    DepartedWriterBlocks,
    /// Only the first waiting reader is granted the lock.
    ShareOneByOne,
    /// The key of a writer that becomes a reader is free in between.
    DowngradeFreesFirst,
    /// A writer that becomes a reader admits the next writer.
    DowngradeAdmitsWriter,
    /// A writer that becomes a reader is still renewed as a writer.
    DowngradeStillRenews,
    /// A node that may have forgotten locks votes immediately.
    NoQuarantine,
    /// A restart or replacement of a server goes unnoticed.
    AnyRun,
    /// A node with older data than before goes unnoticed.
    NoRollbackCheck,
    /// A node whose clock jumped forward goes unnoticed.
    NoStepCheck,
    /// The quarantine counts from its cause, not from when the node joined.
    QuarantineFromCause,
    /// A restarted node votes although it was not durable before.
    NewlyDurable,
    /// A restarted node votes although it has stopped being durable.
    OnceDurable,
    /// A restart ends the quarantine of a durable node.
    DurableInQuarantine,
    /// The clock of a durable node is not checked after a restart.
    DurableAnyClock,
    /// A durable node votes with the record of another node.
    DurableAnyPlace,
    /// Only the node's clock decides when the quarantine ends.
    QuarantineByNodeClock,
    /// A node grants locks before their holders can renew them.
    NoRecovery,
    /// A quarantined node stores a lost key again.
    HealInQuarantine,
    /// A session continues although the node has changed since the handshake.
    AnyMark,
    /// A session begins although no client was attached for longer than a session lasts.
    LateSession,
    /// A classic vote needs no session.
    SetWithoutSession,
    /// A classic renewal needs no session.
    ExtendWithoutSession,
    /// A grant counts although it belongs to another session.
    AnyPush,
    /// A node that stores locks is admitted.
    AdmitAnything,
    /// The set of nodes changes again immediately.
    HastyChange,
    /// A new node votes before a majority knows of it.
    HastyNewNode,
    /// A read-only client writes to the node.
    WritingInspect,
    /// Nodes count although they belong to different lists.
    AnyConfig,
    /// A server votes whatever its address.
    AnyLabel,
    /// A shutdown leaves leases to expire.
    ShutdownKeeps,
    /// A released lease is still renewed.
    ReleasedRenews,
    /// A lease is renewed only once.
    RenewsOnce,
    /// A failed renewal is not retried.
    NoRenewalRetry,
    /// Every entry of a batch gets the answer to the first one.
    AnswerOfFirst,
    /// Only the first command of a batch is sent.
    OnlyFirstSent,
    /// A batch overtakes an earlier command about the same lock.
    OvertakesSameLock,
    /// An entry that fails in a batch is forgotten.
    FailedEntryDropped,
    /// Pushes for a holder are dropped as if it had been released.
    HolderForgotten,
    /// A waiter that comes back is not notified of its grants.
    ReturnUnregistered,
    /// A lock of a set that has a majority is not yielded to an earlier ticket.
    MemberNeverYields,
    /// A lock of a set is held before the others are.
    MemberHoldsAlone,
    /// Each lock of a set is queued with its own ticket.
    TicketForEachMember,
    /// If one lock of a set cannot be acquired, the others are kept.
    MembersKept,
    /// Sessions expire on a full node.
    FullEndsSessions,
    /// A full node rejects its waiters.
    FullDropsWaiters,
    /// A full node stores new locks and queue entries.
    FullGrants,
    /// A full node stores leases that it never had.
    FullHealsAnything,
}

/// Switches one bug on for this thread, or all bugs off.
#[cfg(feature = "__mutants")]
pub fn switch(to: Option<Mutant>) {
    switch_state::ON.set(to);
}

/// The bug that is on for this thread, for bugs outside of this crate.
#[cfg(feature = "__mutants")]
#[must_use]
pub fn current() -> Option<Mutant> {
    switch_state::ON.get()
}

#[cfg(feature = "__mutants")]
mod switch_state {
    use std::cell::Cell;

    use super::Mutant;

    thread_local! {
        pub(super) static ON: Cell<Option<Mutant>> = const { Cell::new(None) };
    }
}

#[cfg(feature = "__mutants")]
pub(crate) fn is_on(mutants: &[Mutant]) -> bool {
    switch_state::ON.get().is_some_and(|on| mutants.contains(&on))
}

#[cfg(not(feature = "__mutants"))]
pub(crate) const fn is_on(_: &[Mutant]) -> bool {
    false
}
