//! Deliberate bugs, switched on one at a time, to show that the tests would notice them.
//!
//! In an ordinary build there is no switch and every `mutate!` below does nothing. With the feature
//! `mutants` a test can switch one on for its own thread. Whoever deletes every `mutate!` is left
//! with the correct program.

/// Breaks a rule while one of the mutants is on. It runs an expression, or gives a variable another
/// value, and can have a condition: `mutate!(A => return)`, `mutate!(A | B if c => let x = y)`.
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
    /// One node less than a majority decides.
    SmallQuorum,
    /// A silent node counts as one that granted.
    SilenceIsGrant,
    /// No usable answer counts as a plain refusal.
    UnknownIsRefusal,
    /// The drift allowance leaves out the difference of clock rates.
    NoDriftRate,
    /// The drift allowance leaves out its fixed part.
    NoDriftFixed,
    /// The validity of a new lock counts from the deciding reply.
    ValidFromReply,
    /// A majority that comes after the lease has ended still wins.
    NoLateCheck,
    /// The validity of an extension counts from the deciding reply.
    RenewedFromReply,
    /// A majority that extends after the old deadline still counts for the round.
    RenewTooLate,
    /// A lease takes in an extension although it has ended.
    LeaseRevives,
    /// Both of the above at once.
    LateRenewal,
    /// The local deadline of a lease is not looked at.
    NoDeadline,
    /// Nobody is told when the local deadline comes.
    NoLossSignal,
    /// The holder's own limit is not looked at.
    NoMaxHold,
    /// An attempt that failed gives nothing back.
    NoUndo,
    /// An attempt that failed gives back only what it knows to have.
    UndoGrantedOnly,
    /// A caller that goes away gives nothing back.
    AbandonKeeps,
    /// A release asks no more nodes than a majority.
    ReleaseMajorityOnly,
    /// A release that got no answer is not sent again.
    NoDebts,
    /// It is sent again once.
    DebtOnce,
    /// A push that overtakes the reply to a question is ignored.
    EarlyPushIgnored,
    /// A question that got no answer is taken for one that was never sent.
    LostIsUnsent,
    /// A client that ends releases only what it has not lost before.
    ShutdownForgetsLost,
    /// An extension that the nodes confirmed does not count.
    ExtensionIgnored,
    /// All requests of a client have the same owner.
    SameOwner,
    /// A taker replaces what is there.
    SetOverwrites,
    /// A key that is taken never expires.
    SetNeverExpires,
    /// Anybody can take over a lock that was left to somebody.
    AdoptNotOwned,
    /// A ticket goes by the client's own clock until the nodes have told their time.
    TicketByOwnClock,
    /// Tickets never go back, even if the nodes' time turns out to be much earlier.
    TicketsNeverGoBack,
    /// An adoption needs no session.
    AdoptWithoutSession,
    /// An owner whose lease was adopted stays in line.
    AdoptKeepsPosition,
    /// An adopted lease takes a lost key again.
    AdoptedHeals,
    /// A lease is handed over with an owner that may stand in line.
    DetachQueued,
    /// Whoever frees a key need not be its owner.
    DeleteNotOwned,
    /// Whoever prolongs a key need not be its owner.
    ExtendNotOwned,
    /// Prolonging a key that is gone creates it again.
    ExtendCreates,
    /// Prolonging can make a key go earlier.
    ExtendShortens,
    /// All entries of a batch share the result of the first.
    BatchByFirst,
    /// A key that is absent counts as prolonged.
    AbsentCountsAsExtended,
    /// An extension counts for longer than a later one that was sent.
    OldExtensionCounts,
    /// An extension that shortens counts only when it is confirmed.
    ShortenedByReply,
    /// What an older connection has sent is done as well.
    NoSession,
    /// A fence is whatever a client proposes.
    NoClamp,
    /// A fence is forgotten although its grant is less than a day old.
    BriefFence,
    /// An extension does not keep the fence of its lock alive.
    FenceNotKept,
    /// A waiter with an earlier ticket does not ask for what a later one was granted.
    NoInquire,
    /// A granted owner is not told that somebody with an earlier ticket waits.
    NoEarlierFlag,
    /// Giving a grant back gives back whichever is there.
    YieldAnyGrant,
    /// A grant is given back by what an older connection has sent.
    YieldWithoutSession,
    /// A lock is handed to a process that does not listen.
    HandOffUnsubscribed,
    /// A lock is handed to a process whose session has lapsed.
    HandOffLapsed,
    /// The lock goes to whoever came last.
    LastFirst,
    /// A client keeps what is handed to an owner that has gone.
    OrphansKept,
    /// A fence that was to be stored counts although a larger one is there.
    ConfirmAnyFence,
    /// Whoever has not decided its fence yet takes a lost key again.
    ConfirmHeals,
    /// A lost key is taken again although another was granted it since.
    HealAnyFence,
    /// The validity of a lock that was handed over counts from the push.
    PushedNow,
    /// A fence is taken although no majority has stored it.
    NoWriteBack,
    /// Grants that have run out count for the fence.
    DeadGrantCounts,
    /// A lease that was waited for may be about to end.
    AlmostExpired,
    /// Nobody gives a grant back to an earlier ticket.
    NoYield,
    /// A grant counts although it was given back.
    CountAfterYield,
    /// A waiter doubts every grant of a node that has forgotten its fences.
    EndlessReject,
    /// A waiter that is cut off from the majority keeps what it was granted.
    NoWithdraw,
    /// A waiter gives its place up at the first look that finds too few nodes.
    HastyWithdraw,
    /// A waiter that withdrew comes back as the same owner.
    SameOwnerAgain,
    /// A waiter asks once and then only listens.
    NoHeartbeat,
    /// One who shares a lock joins whoever holds it alone.
    ShareWithExclusive,
    /// A member of a set gives a grant back by a fence that the node was asked to replace.
    YieldBeforeConfirm,
    /// An entry of a reentrant lock joins those of another identity.
    JoinAnyIdentity,
    /// An entry of a reentrant lock waits in line although its identity holds the lock.
    EntryQueues,
    /// An entry of a reentrant lock takes a lost key again although another was granted it since.
    EntryHealsOutdated,
    /// An entry of a reentrant lock is renewed with its first fence for ever.
    EntryFenceStays,
    /// An entry of a reentrant lock never gives way to an earlier ticket.
    EntryNeverYields,
    /// One who wants a lock alone does not see those who hold it together.
    ExclusiveIgnoresShares,
    /// One who shares a lock passes those in line who want it alone.
    ShareOvertakes,
    /// The first of those who hold a lock together to go takes it from all.
    ShareFreesAll,
    /// A key that is shared goes when the time of the first who shares it is over.
    ShareKeyShort,
    /// A part whose time is over is never thrown out.
    DeadSharesStay,
    /// A lost part is taken again from whoever holds the lock alone.
    ShareHealsExclusive,
    /// One who shares a lock never gives its part back to an earlier ticket.
    ShareNeverYields,
    /// Those who share a lock are not asked for their parts by one who wants it alone.
    SharesNotAsked,
    /// Giving a part back gives back whichever is there.
    YieldAnyShare,
    /// One who wanted a lock alone and has gone is still waited for.
    DepartedWriterBlocks,
    /// Of those who wait to share a lock only the first is let in.
    ShareOneByOne,
    /// The key of a writer that becomes a reader is free in between.
    DowngradeFreesFirst,
    /// A writer that becomes a reader lets the next writer in.
    DowngradeAdmitsWriter,
    /// A writer that becomes a reader is still renewed.
    DowngradeStillRenews,
    /// A node that may have forgotten locks votes at once.
    NoQuarantine,
    /// A node is never asked which run of which server it is.
    AnyRun,
    /// A node whose data is older than it was is not doubted.
    NoRollbackCheck,
    /// A node whose clock went forward by itself is not doubted.
    NoStepCheck,
    /// The guard counts from the doubt, not from when the node got its place.
    QuarantineFromCause,
    /// A restarted node keeps its vote although it was not durable before.
    NewlyDurable,
    /// A restarted node keeps its vote although it is not durable any more.
    OnceDurable,
    /// A restart ends the guard of a durable node.
    DurableInQuarantine,
    /// The clock of a durable node that was restarted is not checked.
    DurableAnyClock,
    /// A durable node votes with the record of another one.
    DurableAnyPlace,
    /// The node's own clock alone says when the guard is over.
    QuarantineByNodeClock,
    /// A node whose guard has ended grants locks before their holders could renew them there.
    NoRecovery,
    /// A node takes a lost key again while it is doubted.
    HealInQuarantine,
    /// A session goes on although the node is not what it was judged to be.
    AnyMark,
    /// A session begins although nobody was there for longer than one lasts.
    LateSession,
    /// In classic mode a guarded node is taken without a session.
    SetWithoutSession,
    /// In classic mode a guarded node lets a key live on without a session.
    ExtendWithoutSession,
    /// A grant counts although it is by another's session.
    AnyPush,
    /// A node that holds something is admitted.
    AdmitAnything,
    /// The set of nodes changes again at once.
    HastyChange,
    /// A new node gets its place before a majority has heard of it.
    HastyNewNode,
    /// A node that is only looked at keeps what it found out about itself.
    WritingInspect,
    /// A client counts nodes that go by different lists.
    AnyConfig,
    /// A server gets a place among the nodes whatever its address.
    AnyLabel,
    /// A client that is shut down leaves its leases to expire.
    ShutdownKeeps,
    /// The watchdog goes on to renew a lease that was released.
    ReleasedRenews,
    /// The watchdog renews a lease once, and never again.
    RenewsOnce,
    /// A renewal that was not confirmed is not tried again.
    NoRenewalRetry,
    /// Every entry of a batch gets the answer to its first entry.
    AnswerOfFirst,
    /// Of the commands that leave together only the first is sent.
    OnlyFirstSent,
    /// An entry that fails in a batch is forgotten.
    FailedEntryDropped,
    /// Pushes about an owner go nowhere once it holds the lock, as if it were gone.
    HolderForgotten,
    /// Pushes about the owners of a waiter that withdrew go nowhere.
    ReturnUnregistered,
    /// A lock of a set that has a majority is not given back to an earlier ticket.
    MemberNeverYields,
    /// A lock of a set is held before the others are.
    MemberHoldsAlone,
    /// Each lock of a set is waited for with a ticket of its own.
    TicketForEachMember,
    /// When one lock of a set cannot be had, the others are kept.
    MembersKept,
    /// A node without memory lets the sessions of its clients lapse.
    FullEndsSessions,
    /// A node without memory refuses those who wait in its queues.
    FullDropsWaiters,
    /// A node without memory stores new locks and places.
    FullGrants,
    /// A node without memory is given leases by their renewals that it never had.
    FullHealsAnything,
}

/// Switches one on for this thread, or all off.
#[cfg(feature = "mutants")]
pub fn switch(to: Option<Mutant>) {
    door::ON.set(to);
}

/// The one that is on for this thread: for bugs outside of this crate.
#[cfg(feature = "mutants")]
#[must_use]
pub fn current() -> Option<Mutant> {
    door::ON.get()
}

#[cfg(feature = "mutants")]
mod door {
    use std::cell::Cell;

    use super::Mutant;

    thread_local! {
        pub(super) static ON: Cell<Option<Mutant>> = const { Cell::new(None) };
    }
}

#[cfg(feature = "mutants")]
pub(crate) fn is_on(mutants: &[Mutant]) -> bool {
    door::ON.get().is_some_and(|on| mutants.contains(&on))
}

#[cfg(not(feature = "mutants"))]
pub(crate) const fn is_on(_: &[Mutant]) -> bool {
    false
}
