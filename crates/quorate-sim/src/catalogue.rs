//! The deliberate bugs that must be detected, and what detects them.

use std::{fmt, sync::LazyLock};

use quorate_core::mutant::{self, Mutant};

use crate::directed::{Schedule, schedules};

/// One deliberate bug.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The bug itself.
    pub door: Door,
    /// What the bug does.
    pub about: &'static str,
    /// What must detect it.
    pub noticed: Noticed,
}

/// Where the bug is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Door {
    /// In the core.
    Core(Mutant),
    /// In the simulated machine: the client's clock stops while its process is paused.
    StoppedClock,
}

/// What must detect a bug.
#[derive(Clone, Copy, Debug)]
pub enum Noticed {
    /// Random seeds.
    Seeds,
    /// A fixed schedule: see [`directed`](crate::directed).
    Directed(Schedule),
    /// Nothing can detect it, because another rule compensates for it.
    Redundant(&'static str),
}

impl Entry {
    /// Switches the bug on for this thread until the returned value is dropped.
    #[must_use]
    pub fn switch_on(&self) -> On {
        match self.door {
            Door::Core(mutant) => mutant::switch(Some(mutant)),
            Door::StoppedClock => {}
        }
        On(())
    }

    /// True if the simulated clocks stop while a client is paused.
    #[must_use]
    pub fn stops_clocks(&self) -> bool {
        self.door == Door::StoppedClock
    }
}

/// Keeps a bug switched on until it is dropped.
#[derive(Debug)]
pub struct On(());

impl Drop for On {
    fn drop(&mut self) {
        mutant::switch(None);
    }
}

/// Finds a bug by its name.
///
/// # Errors
///
/// A text that lists the valid names, if the name is unknown.
pub fn find(name: &str) -> Result<&'static Entry, String> {
    CATALOGUE.iter().find(|entry| entry.to_string() == name).ok_or_else(|| {
        let names: Vec<String> = CATALOGUE.iter().map(Entry::to_string).collect();
        format!("unknown mutant `{name}`: use one of {}", names.join(", "))
    })
}

/// Finds a bug of the core by its name.
///
/// # Errors
///
/// A text that lists the valid names, or says that the bug is not in the core.
pub fn find_in_core(name: &str) -> Result<Mutant, String> {
    match find(name)?.door {
        Door::Core(mutant) => Ok(mutant),
        Door::StoppedClock => {
            Err(format!("mutant `{name}` is not in the core: it works with seeds only"))
        }
    }
}

/// The name on the command line: `small-quorum`.
impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.door {
            Door::Core(mutant) => format!("{mutant:?}"),
            Door::StoppedClock => format!("{:?}", self.door),
        };
        for (at, letter) in name.char_indices() {
            let dash = if at > 0 && letter.is_uppercase() { "-" } else { "" };
            write!(f, "{dash}{}", letter.to_ascii_lowercase())?;
        }
        Ok(())
    }
}

/// All bugs.
pub static CATALOGUE: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    let noticed = |mutant: Mutant| {
        let redundant = REDUNDANT.iter().find(|(known, _)| *known == mutant);
        let directed = schedules().find(|(known, _)| *known == mutant);
        let redundant = redundant.map(|(_, argument)| Noticed::Redundant(argument));
        redundant
            .or_else(|| directed.map(|(_, schedule)| Noticed::Directed(schedule)))
            .unwrap_or(Noticed::Seeds)
    };
    let core = CORE.iter().map(|(mutant, about)| {
        let (door, noticed) = (Door::Core(*mutant), noticed(*mutant));
        Entry { door, about, noticed }
    });
    let about = "the lease's clock does not count the time while the client is paused";
    core.chain([Entry { door: Door::StoppedClock, about, noticed: Noticed::Seeds }]).collect()
});

/// The bugs of the core, and what each does. Random seeds detect a bug unless it has a directed
/// schedule or is redundant.
const CORE: &[(Mutant, &str)] = &[
    (Mutant::SmallQuorum, "one node less than a majority is enough"),
    (Mutant::SilenceIsGrant, "a node without an answer counts as a grant"),
    (Mutant::UnknownIsRefusal, "a missing answer counts as a refusal"),
    (Mutant::NoDriftRate, "validity has no allowance for clock rates"),
    (Mutant::NoDriftFixed, "validity has no fixed allowance"),
    (Mutant::ValidFromReply, "validity counts from the deciding reply instead of the request"),
    (Mutant::NoLateCheck, "a majority that arrives after the lease has ended still wins"),
    (Mutant::RenewedFromReply, "an extension counts from its reply instead of its request"),
    (Mutant::RenewTooLate, "an extension that is confirmed after the old deadline still counts"),
    (Mutant::LateRenewal, "the same, and the lease accepts it as well"),
    (Mutant::LeaseRevives, "a lost lease accepts an extension"),
    (Mutant::NoDeadline, "the holder ignores its local deadline"),
    (Mutant::NoLossSignal, "no holder is notified at its local deadline"),
    (Mutant::NoMaxHold, "the holder's own limit is ignored"),
    (Mutant::NoUndo, "a failed attempt releases nothing"),
    (Mutant::UndoGrantedOnly, "a failed attempt releases only the grants it knows of"),
    (Mutant::AbandonKeeps, "a cancelled call releases nothing"),
    (Mutant::ReleaseMajorityOnly, "a release is sent to a majority only"),
    (Mutant::NoDebts, "an unanswered release is not sent again"),
    (Mutant::EarlyPushIgnored, "a push that overtakes the reply to its request is ignored"),
    (Mutant::DebtOnce, "an unanswered release is sent again only once"),
    (Mutant::LostIsUnsent, "an unanswered request counts as never sent"),
    (Mutant::ShutdownForgetsLost, "a client that shuts down does not release its lost leases"),
    (Mutant::ExtensionIgnored, "a confirmed extension does not count"),
    (Mutant::SameOwner, "all requests of a client have one owner id"),
    (Mutant::SetOverwrites, "a classic acquire overwrites an existing key"),
    (Mutant::SetNeverExpires, "a key is stored without an expiry"),
    (Mutant::AdoptNotOwned, "any lock can be adopted by any client"),
    (Mutant::AdoptWithoutSession, "an adoption needs no session"),
    (Mutant::AdoptKeepsPosition, "an owner whose lease was adopted stays in the queue"),
    (Mutant::AdoptedHeals, "an adopted lease stores a lost key again"),
    (Mutant::DeleteNotOwned, "a key is deleted without the owner check"),
    (Mutant::ExtendNotOwned, "a key is extended without the owner check"),
    (Mutant::ExtendCreates, "extending creates a key that is gone"),
    (Mutant::ExtendShortens, "extending can shorten the lifetime of a key"),
    (Mutant::BatchByFirst, "all entries of a batch get the fate of the first on the node"),
    (Mutant::AbsentCountsAsExtended, "an absent key counts as extended"),
    (Mutant::YieldWithoutSession, "a yield from an older connection is executed"),
    (Mutant::NoSession, "commands from an older connection are executed"),
    (Mutant::NoInquire, "an earlier waiter does not ask for a split vote to be resolved"),
    (Mutant::NoEarlierFlag, "a grant does not report that an earlier waiter exists"),
    (Mutant::YieldAnyGrant, "a yield gives back any grant of its owner"),
    (Mutant::HandOffUnsubscribed, "a lock is handed off to a client without a connection"),
    (Mutant::HandOffLapsed, "a lock is handed off to a client whose session has expired"),
    (Mutant::LastFirst, "the lock goes to the last waiter"),
    (Mutant::OrphansKept, "a grant to a waiter that has left is kept"),
    (Mutant::ConfirmAnyFence, "a fence counts as stored where a larger one is"),
    (Mutant::ConfirmHeals, "a confirm stores a lost key again"),
    (Mutant::HealAnyFence, "a heal ignores the fence"),
    (Mutant::DetachQueued, "a lease is detached with an owner that may be queued"),
    (Mutant::NoClamp, "a node stores any fence that a client proposes"),
    (Mutant::BriefFence, "a fence is forgotten within a day of its grant"),
    (Mutant::FenceNotKept, "an extension does not keep the fence"),
    (Mutant::PushedNow, "validity counts from the push"),
    (Mutant::NoWriteBack, "a fence is used that no majority has stored"),
    (Mutant::ExpiredGrantCounts, "expired grants count for the fence"),
    (Mutant::TicketByOwnClock, "a ticket follows the client's clock until the nodes report theirs"),
    (Mutant::TicketsNeverGoBack, "tickets stay ahead of the nodes' time"),
    (Mutant::AlmostExpired, "a waiter accepts a lease that is about to end"),
    (Mutant::NoYield, "no waiter yields to an earlier ticket"),
    (Mutant::CountAfterYield, "a grant that was given back counts"),
    (Mutant::EndlessReject, "grants of a node that forgot its fences are never accepted"),
    (Mutant::NoWithdraw, "a waiter that is cut off keeps its grants"),
    (Mutant::HastyWithdraw, "a waiter gives up its position although its connections come back"),
    (Mutant::SameOwnerAgain, "a waiter that withdrew returns with the same owner"),
    (Mutant::ShutdownKeeps, "a shutdown leaves leases to expire"),
    (Mutant::ReleasedRenews, "a released lease is still renewed"),
    (Mutant::RenewsOnce, "a lease is renewed only once"),
    (Mutant::NoRenewalRetry, "a failed renewal is not retried"),
    (Mutant::AnswerOfFirst, "every entry of a batch gets the answer to the first one"),
    (Mutant::OnlyFirstSent, "only the first command of a batch is sent"),
    (Mutant::OvertakesSameLock, "a batch overtakes an earlier command about the same lock"),
    (Mutant::FailedEntryDropped, "an entry that fails in a batch is forgotten"),
    (Mutant::HolderForgotten, "pushes for a holder are dropped as if it were gone"),
    (Mutant::ReturnUnregistered, "a waiter that comes back is not notified of its grants"),
    (
        Mutant::MemberNeverYields,
        "a lock of a set that has a majority is not yielded to an earlier ticket",
    ),
    (Mutant::MemberHoldsAlone, "a lock of a set is held before the others are"),
    (Mutant::TicketForEachMember, "each lock of a set is queued with its own ticket"),
    (Mutant::MembersKept, "if one lock of a set cannot be acquired, the others are kept"),
    (Mutant::YieldBeforeConfirm, "a yield names a fence that is about to be replaced"),
    (Mutant::JoinAnyIdentity, "an entry joins the entries of another identity"),
    (Mutant::EntryQueues, "an entry queues although its identity holds the lock"),
    (Mutant::EntryHealsOutdated, "an entry stores a lost key again after another client's grant"),
    (Mutant::EntryFenceStays, "an entry is always renewed with its first fence"),
    (Mutant::EntryNeverYields, "an entry does not yield to an earlier ticket"),
    (Mutant::NoHeartbeat, "a waiter asks once and then only listens"),
    (Mutant::ShareWithExclusive, "a reader joins an exclusive holder"),
    (Mutant::ExclusiveIgnoresShares, "a writer ignores the readers of the lock"),
    (Mutant::ShareOvertakes, "a reader overtakes queued writers"),
    (Mutant::ShareFreesAll, "a reader's release ends the leases of all readers"),
    (Mutant::ShareKeyShort, "a shared key expires with its first reader"),
    (Mutant::ExpiredSharesStay, "an expired share is never removed"),
    (Mutant::ShareHealsExclusive, "a lost share is stored again over an exclusive holder"),
    (Mutant::ShareNeverYields, "a reader never yields"),
    (Mutant::SharesNotAsked, "readers are not asked to yield"),
    (Mutant::YieldAnyShare, "a yield gives back any share of its owner"),
    (Mutant::DepartedWriterBlocks, "readers still wait for a writer that has left"),
    (Mutant::ShareOneByOne, "only the first waiting reader is granted the lock"),
    (Mutant::DowngradeFreesFirst, "the key of a writer that becomes a reader is free in between"),
    (Mutant::DowngradeAdmitsWriter, "a writer that becomes a reader admits the next writer"),
    (Mutant::DowngradeStillRenews, "a writer that becomes a reader is still renewed as a writer"),
    (Mutant::NoRecovery, "a node grants locks before their holders can renew them"),
    (Mutant::NoQuarantine, "a node that may have forgotten locks votes at once"),
    (Mutant::AnyRun, "a restart or replacement of a server goes unnoticed"),
    (Mutant::NoRollbackCheck, "a node with older data than before goes unnoticed"),
    (Mutant::NoStepCheck, "a node whose clock jumped forward goes unnoticed"),
    (
        Mutant::QuarantineFromCause,
        "the quarantine counts from its cause, not from when the node joined",
    ),
    (Mutant::NewlyDurable, "a restarted node votes although it was not durable before"),
    (Mutant::OnceDurable, "a restarted node votes although it is no longer durable"),
    (Mutant::DurableInQuarantine, "a restart ends the quarantine of a durable node"),
    (Mutant::DurableAnyClock, "the clock of a durable node is not checked after a restart"),
    (Mutant::DurableAnyPlace, "a durable node votes with the record of another node"),
    (Mutant::QuarantineByNodeClock, "only the node's clock decides when the quarantine ends"),
    (Mutant::HealInQuarantine, "a quarantined node stores a lost key again"),
    (Mutant::AnyMark, "a session continues although the node has changed since the handshake"),
    (
        Mutant::LateSession,
        "a session begins although no client was attached for longer than a session",
    ),
    (Mutant::SetWithoutSession, "a classic vote needs no session"),
    (Mutant::ExtendWithoutSession, "a classic renewal needs no session"),
    (Mutant::AnyPush, "a grant counts although it belongs to another session"),
    (Mutant::AdmitAnything, "a node that stores locks is admitted"),
    (Mutant::HastyChange, "the set changes again at once"),
    (Mutant::HastyNewNode, "a new node votes before a majority knows of it"),
    (Mutant::WritingInspect, "a read-only client writes to the node"),
    (Mutant::AnyConfig, "nodes count although they belong to different lists"),
    (Mutant::AnyLabel, "a server votes whatever its address"),
    (Mutant::FullEndsSessions, "sessions expire on a full node"),
    (Mutant::FullDropsWaiters, "a full node rejects its waiters"),
    (Mutant::FullGrants, "a full node stores new locks and queue entries"),
    (Mutant::FullHealsAnything, "a full node stores leases that it never had"),
    (Mutant::OldExtensionCounts, "an extension counts for longer than a later one that was sent"),
    (Mutant::ShortenedByReply, "a shorter lease counts only when it is confirmed"),
];

/// The bugs that nothing can detect, and why.
const REDUNDANT: &[(Mutant, &str)] = &[
    (
        Mutant::NoEarlierFlag,
        "an earlier waiter asks for the grant at every poll, not only when the grant is made",
    ),
    (
        Mutant::OrphansKept,
        "a waiter that goes sends a release to every node it asked, until each has answered",
    ),
    (
        Mutant::OldExtensionCounts,
        "nodes never shorten a key, so a confirmed extension holds whatever was sent later",
    ),
    (
        Mutant::ShortenedByReply,
        "nodes never shorten a key, so the longer lease that was confirmed before still holds",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for entry in CATALOGUE.iter() {
            assert_eq!(find(&entry.to_string()).unwrap().door, entry.door);
        }
        assert!(find("frob").unwrap_err().contains("small-quorum"));
    }

    #[test]
    fn every_schedule_notices_its_mutant_and_nothing_else() {
        for entry in CATALOGUE.iter() {
            let Noticed::Directed(schedule) = entry.noticed else { continue };
            assert_eq!(schedule(), Ok(()), "{entry} without the mutant");
            let _on = entry.switch_on();
            assert!(schedule().is_err(), "{entry} is not detected: {}", entry.about);
        }
    }

    #[test]
    fn every_schedule_is_for_a_mutant_of_the_catalogue() {
        for (mutant, _) in schedules() {
            let entry = CATALOGUE.iter().find(|entry| entry.door == Door::Core(mutant));
            let is_directed = entry.is_some_and(|it| matches!(it.noticed, Noticed::Directed(_)));
            assert!(is_directed, "{mutant:?}");
        }
    }
}
