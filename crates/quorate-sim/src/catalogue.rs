//! The deliberate bugs that must be noticed, and what notices them.

use std::{fmt, sync::LazyLock};

use quorate_core::mutant::{self, Mutant};

use crate::directed::{Schedule, schedules};

/// One deliberate bug.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// How it is switched on.
    pub door: Door,
    /// What it does wrong.
    pub about: &'static str,
    /// What must notice it.
    pub noticed: Noticed,
}

/// Where a bug is made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Door {
    /// In the core.
    Core(Mutant),
    /// In the simulated machine: the client's clock stops while it stands still.
    StoppedClock,
}

/// What must notice a bug.
#[derive(Clone, Copy, Debug)]
pub enum Noticed {
    /// Random seeds.
    Seeds,
    /// A schedule that was written for it: see [`directed`](crate::directed).
    Directed(Schedule),
    /// Nothing can: another rule makes up for it.
    Redundant(&'static str),
}

impl Entry {
    /// Switches it on for this thread until the returned value is dropped.
    #[must_use]
    pub fn switch_on(&self) -> On {
        match self.door {
            Door::Core(mutant) => mutant::switch(Some(mutant)),
            Door::StoppedClock => {}
        }
        On(())
    }

    /// True if the simulated clocks are to stop.
    #[must_use]
    pub fn stops_clocks(&self) -> bool {
        self.door == Door::StoppedClock
    }
}

/// A bug is switched on while this lives.
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
/// A text that lists the names, if there is no such bug.
pub fn find(name: &str) -> Result<&'static Entry, String> {
    CATALOGUE.iter().find(|entry| entry.to_string() == name).ok_or_else(|| {
        let names: Vec<String> = CATALOGUE.iter().map(Entry::to_string).collect();
        format!("there is no mutant `{name}`; there are {}", names.join(", "))
    })
}

/// Finds one that is in the core.
///
/// # Errors
///
/// A text that says what there is instead.
pub fn find_in_core(name: &str) -> Result<Mutant, String> {
    match find(name)?.door {
        Door::Core(mutant) => Ok(mutant),
        Door::StoppedClock => Err(format!("`{name}` is not in the core: it is for seeds only")),
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

/// All of them.
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
    let about = "the lease's clock does not count the time in which the client stands still";
    core.chain([Entry { door: Door::StoppedClock, about, noticed: Noticed::Seeds }]).collect()
});

/// Those in the core, and what each does wrong. Seeds notice it, unless a schedule was written for
/// it or it is redundant.
const CORE: &[(Mutant, &str)] = &[
    (Mutant::SmallQuorum, "one node less than a majority decides"),
    (Mutant::SilenceIsGrant, "a silent node counts as one that granted"),
    (Mutant::UnknownIsRefusal, "no answer counts as a plain refusal"),
    (Mutant::NoDriftRate, "validity: no allowance for clock rates"),
    (Mutant::NoDriftFixed, "validity: no fixed allowance"),
    (Mutant::ValidFromReply, "validity counts from the deciding reply"),
    (Mutant::NoLateCheck, "a majority wins after the lease has ended"),
    (Mutant::RenewedFromReply, "an extension counts from its reply"),
    (Mutant::RenewTooLate, "an extension counts after the old deadline"),
    (Mutant::LateRenewal, "and the lease takes it in, too"),
    (Mutant::LeaseRevives, "a lost lease takes in an extension"),
    (Mutant::NoDeadline, "the local deadline is not looked at"),
    (Mutant::NoLossSignal, "nobody is told at the local deadline"),
    (Mutant::NoMaxHold, "the holder's own limit is not looked at"),
    (Mutant::NoUndo, "a failed attempt gives nothing back"),
    (Mutant::UndoGrantedOnly, "it gives back only what it knows of"),
    (Mutant::AbandonKeeps, "a cancelled call gives nothing back"),
    (Mutant::ReleaseMajorityOnly, "a release asks a majority only"),
    (Mutant::NoDebts, "an unanswered release is not sent again"),
    (Mutant::EarlyPushIgnored, "a push that overtakes the reply to a question is ignored"),
    (Mutant::DebtOnce, "an unanswered release is sent again only once"),
    (Mutant::LostIsUnsent, "an unanswered question counts as never sent"),
    (Mutant::ShutdownForgetsLost, "a client that ends does not release what it has lost"),
    (Mutant::ExtensionIgnored, "a confirmed extension does not count"),
    (Mutant::SameOwner, "all requests of a client have one owner id"),
    (Mutant::TakeOverwrites, "a taker replaces what is there"),
    (Mutant::TakeForever, "a key that is taken never expires"),
    (Mutant::AdoptAnyones, "anybody takes over a lock"),
    (Mutant::AdoptUnspoken, "an adoption needs no session"),
    (Mutant::AdoptKeepsPlace, "an owner whose lease was adopted stays in line"),
    (Mutant::AdoptedHeals, "an adopted lease takes a lost key again"),
    (Mutant::FreeAnyones, "a key is freed without the owner check"),
    (Mutant::ProlongAnyones, "a key is prolonged without the owner check"),
    (Mutant::ProlongCreates, "prolonging creates a key that is gone"),
    (Mutant::ProlongShortens, "prolonging can make a key go earlier"),
    (Mutant::BatchByFirst, "a batch shares the fate of its first entry"),
    (Mutant::AbsentLivesOn, "an absent key counts as prolonged"),
    (Mutant::YieldUnspoken, "what an older connection has given back is given away"),
    (Mutant::NoSession, "what an older connection has sent is done as well"),
    (Mutant::NoInquire, "an earlier waiter does not ask for a split vote"),
    (Mutant::NoEarlierFlag, "a grant does not say who came earlier"),
    (Mutant::YieldAnyGrant, "a yield gives back whichever grant is there"),
    (Mutant::HandOnUnheard, "a lock goes to one who does not listen"),
    (Mutant::HandOnLapsed, "a lock goes to one whose session has lapsed"),
    (Mutant::LastFirst, "the lock goes to whoever came last"),
    (Mutant::OrphansKept, "what is handed to one who has gone is kept"),
    (Mutant::ConfirmAnyFence, "a fence counts where a larger one is stored"),
    (Mutant::ConfirmHeals, "a confirm takes a lost key again"),
    (Mutant::HealAnyFence, "a heal does not look at the fence"),
    (Mutant::HandOverInLine, "a lease is handed over with an owner that may stand in line"),
    (Mutant::NoClamp, "a fence is whatever a client proposes"),
    (Mutant::BriefFence, "a fence is forgotten within a day of its grant"),
    (Mutant::FenceNotKept, "an extension does not keep the fence"),
    (Mutant::PushedNow, "validity counts from the push"),
    (Mutant::NoWriteBack, "a fence that no majority has stored is taken"),
    (Mutant::DeadGrantCounts, "run-out grants count for the fence"),
    (Mutant::TicketByOwnClock, "a ticket goes by the client's clock until nodes tell theirs"),
    (Mutant::TicketsNeverGoBack, "tickets stay ahead of the nodes' time"),
    (Mutant::LittleLeft, "a lease that was waited for may be about to end"),
    (Mutant::NoYield, "nobody gives way to an earlier ticket"),
    (Mutant::CountAfterYield, "a grant that was given back counts"),
    (Mutant::EndlessDoubt, "a node that has forgotten its fences is doubted for ever"),
    (Mutant::NoWithdraw, "a waiter that is cut off keeps what it was granted"),
    (Mutant::HastyWithdraw, "a waiter gives its place up although its connections come back"),
    (Mutant::SameOwnerAgain, "a waiter that withdrew comes back as the same owner"),
    (Mutant::ShutdownKeeps, "a shutdown leaves leases to expire"),
    (Mutant::ReleasedRenews, "what is released is renewed all the same"),
    (Mutant::RenewsOnce, "a lease is renewed once and never again"),
    (Mutant::NoRenewalRetry, "a failed renewal is not tried again"),
    (Mutant::AnswerOfFirst, "every entry of a batch gets the answer to its first entry"),
    (Mutant::OnlyFirstSent, "of the commands that leave together only the first is sent"),
    (Mutant::FailedEntryDropped, "an entry that fails in a batch is forgotten"),
    (Mutant::HolderForgotten, "a holder counts as gone"),
    (Mutant::ReturnUnregistered, "a waiter that comes back is not told of its grants"),
    (
        Mutant::MemberNeverYields,
        "a lock of a set that has a majority is kept from an earlier ticket",
    ),
    (Mutant::MemberHoldsAlone, "a lock of a set is held before the others are"),
    (Mutant::TicketForEachMember, "each lock of a set is waited for with a ticket of its own"),
    (Mutant::MembersStay, "if one lock of a set cannot be had, the others are still waited for"),
    (Mutant::YieldBeforeConfirm, "a grant is given back by a fence that is about to be replaced"),
    (Mutant::JoinAnyIdentity, "an entry joins those of another identity"),
    (Mutant::EntryWaitsItsTurn, "an entry queues although its identity holds the lock"),
    (Mutant::EntryHealsPast, "an entry takes a lost key again after another's grant"),
    (Mutant::EntryFenceStays, "an entry is renewed with its first fence for ever"),
    (Mutant::EntryNeverGivesWay, "an entry keeps what an earlier ticket waits for"),
    (Mutant::NoHeartbeat, "a waiter asks once and then only listens"),
    (Mutant::ShareAnyones, "one who shares joins one who holds alone"),
    (Mutant::AloneAmongShares, "one alone does not see those who share"),
    (Mutant::SharePasses, "one who shares passes those who want it alone"),
    (Mutant::ShareFreesAll, "one who shares takes the lock from all"),
    (Mutant::ShareKeyShort, "a key goes with the first who shares it"),
    (Mutant::DeadSharesStay, "a part that is over is never thrown out"),
    (Mutant::ShareHealsAnyones, "a lost part is taken from one alone"),
    (Mutant::ShareNeverYields, "one who shares gives nothing back"),
    (Mutant::SharesNotAsked, "those who share are not asked to give way"),
    (Mutant::YieldAnyShare, "a yield gives back whichever part is there"),
    (Mutant::WayNotCleared, "one who has gone is still waited for"),
    (Mutant::ShareOneByOne, "only the first who shares is let in"),
    (Mutant::DowngradeFreesFirst, "the key of a writer that becomes a reader is free in between"),
    (Mutant::DowngradeAdmitsWriter, "a writer that becomes a reader lets the next writer in"),
    (Mutant::DowngradeStillRenews, "a writer that becomes a reader is still renewed"),
    (Mutant::NoRecovery, "a node grants locks before their holders renew them"),
    (Mutant::NoGuard, "a node that may have forgotten votes at once"),
    (Mutant::AnyRun, "a node is not asked which run of which server it is"),
    (Mutant::NoRollbackCheck, "a node may be older than it was"),
    (Mutant::NoStepCheck, "a node's clock may go forward by itself"),
    (Mutant::GuardFromDoubt, "the guard counts from the doubt, not from the node's place"),
    (Mutant::NewlyDurable, "a restarted node votes that was not durable before"),
    (Mutant::OnceDurable, "a restarted node votes that is not durable any more"),
    (Mutant::DurableInGuard, "a restart ends the guard of a durable node"),
    (Mutant::DurableAnyClock, "the clock of a durable node is not checked after a restart"),
    (Mutant::DurableAnyPlace, "a durable node votes with the record of another"),
    (Mutant::GuardByNodeClock, "the node's clock alone ends the guard"),
    (Mutant::HealInGuard, "a doubted node takes a lost key again"),
    (Mutant::AnyMark, "a session goes on though the node is not what it was judged to be"),
    (Mutant::LateSession, "a session begins where nobody was for longer than one lasts"),
    (Mutant::TakeUnspoken, "a classic vote needs no session"),
    (Mutant::ProlongUnspoken, "a classic renewal needs no session"),
    (Mutant::AnyPush, "a grant counts though it is by another's session"),
    (Mutant::AdmitAnything, "a node that holds something is admitted"),
    (Mutant::HastyChange, "the set changes again at once"),
    (Mutant::HastyNewcomer, "a new node has its place before a majority has heard of it"),
    (Mutant::WritingLook, "a look leaves its trace"),
    (Mutant::AnyPact, "nodes count that go by other lists"),
    (Mutant::AnyLabel, "any server has a place"),
    (Mutant::FullEndsSessions, "sessions lapse on a full node"),
    (Mutant::FullDropsWaiters, "a full node refuses those who wait"),
    (Mutant::FullGrants, "a full node stores new locks and places"),
    (Mutant::FullHealsAnything, "a full node stores a new lease"),
    (Mutant::OldExtensionCounts, "an extension counts for longer than a later one that was sent"),
    (Mutant::ShortenedByReply, "a shorter life counts only when it is confirmed"),
];

/// Those that nothing can notice, and why.
const REDUNDANT: &[(Mutant, &str)] = &[
    (
        Mutant::NoEarlierFlag,
        "an earlier waiter asks for the grant at every poll, not only when it comes",
    ),
    (
        Mutant::OrphansKept,
        "whoever goes tells every node that it asked, again and again until that is heard",
    ),
    (
        Mutant::OldExtensionCounts,
        "nodes never shorten a key, so what a majority confirmed holds whatever was sent later",
    ),
    (
        Mutant::ShortenedByReply,
        "nodes never shorten a key, so the longer life that was confirmed before still holds",
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
            assert!(schedule().is_err(), "{entry} is not noticed: {}", entry.about);
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
