//! The deliberate bugs that must be noticed, and what notices them.

use std::fmt;

use quorate_core::mutant::{self, Mutant};

use crate::members;

/// One deliberate bug.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it does wrong.
    pub about: &'static str,
    /// How it is switched on.
    pub door: Door,
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
    Directed(fn() -> Result<(), String>),
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
    CATALOGUE.iter().find(|entry| entry.name == name).ok_or_else(|| {
        let names: Vec<&str> = CATALOGUE.iter().map(|entry| entry.name).collect();
        format!("there is no mutant `{name}`; there are {}", names.join(", "))
    })
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

const fn seeds(name: &'static str, mutant: Mutant, about: &'static str) -> Entry {
    Entry { name, about, door: Door::Core(mutant), noticed: Noticed::Seeds }
}

const fn directed(
    name: &'static str,
    mutant: Mutant,
    about: &'static str,
    schedule: fn() -> Result<(), String>,
) -> Entry {
    Entry { name, about, door: Door::Core(mutant), noticed: Noticed::Directed(schedule) }
}

const fn redundant(
    name: &'static str,
    mutant: Mutant,
    about: &'static str,
    argument: &'static str,
) -> Entry {
    Entry { name, about, door: Door::Core(mutant), noticed: Noticed::Redundant(argument) }
}

/// All of them.
pub const CATALOGUE: &[Entry] = &[
    seeds("small-quorum", Mutant::SmallQuorum, "one node less than a majority decides"),
    seeds("silence-is-grant", Mutant::SilenceIsGrant, "a silent node counts as one that granted"),
    seeds("unknown-is-refusal", Mutant::UnknownIsRefusal, "no answer counts as a plain refusal"),
    seeds("no-drift-rate", Mutant::NoDriftRate, "validity: no allowance for clock rates"),
    seeds("no-drift-fixed", Mutant::NoDriftFixed, "validity: no fixed allowance"),
    seeds("valid-from-reply", Mutant::ValidFromReply, "validity counts from the deciding reply"),
    seeds("no-late-check", Mutant::NoLateCheck, "a majority wins after the lease has ended"),
    seeds("renewed-from-reply", Mutant::RenewedFromReply, "an extension counts from its reply"),
    seeds("renew-too-late", Mutant::RenewTooLate, "an extension counts after the old deadline"),
    seeds("late-renewal", Mutant::LateRenewal, "and the lease takes it in, too"),
    directed(
        "lease-revives",
        Mutant::LeaseRevives,
        "a lost lease takes in an extension",
        crate::directed::a_lost_lease_stays_lost,
    ),
    seeds("no-deadline", Mutant::NoDeadline, "the local deadline is not looked at"),
    seeds("no-loss-signal", Mutant::NoLossSignal, "nobody is told at the local deadline"),
    seeds("no-max-hold", Mutant::NoMaxHold, "the holder's own limit is not looked at"),
    Entry {
        name: "stopped-clock",
        about: "the lease's clock does not count the time in which the client stands still",
        door: Door::StoppedClock,
        noticed: Noticed::Seeds,
    },
    seeds("no-undo", Mutant::NoUndo, "a failed attempt gives nothing back"),
    seeds("undo-granted-only", Mutant::UndoGrantedOnly, "it gives back only what it knows of"),
    seeds("abandon-keeps", Mutant::AbandonKeeps, "a cancelled call gives nothing back"),
    seeds("release-majority-only", Mutant::ReleaseMajorityOnly, "a release asks a majority only"),
    seeds("no-debts", Mutant::NoDebts, "an unanswered release is not sent again"),
    seeds(
        "early-push-ignored",
        Mutant::EarlyPushIgnored,
        "a push that overtakes the reply to a question is ignored",
    ),
    seeds("debt-once", Mutant::DebtOnce, "an unanswered release is sent again only once"),
    seeds("lost-is-unsent", Mutant::LostIsUnsent, "an unanswered question counts as never sent"),
    directed(
        "shutdown-forgets-lost",
        Mutant::ShutdownForgetsLost,
        "a client that ends does not release what it has lost",
        crate::directed::shutdown_releases_what_was_lost,
    ),
    directed(
        "extension-ignored",
        Mutant::ExtensionIgnored,
        "a confirmed extension does not count",
        crate::directed::confirmed_extension_counts,
    ),
    seeds("same-owner", Mutant::SameOwner, "all requests of a client have one owner id"),
    seeds("take-overwrites", Mutant::TakeOverwrites, "a taker replaces what is there"),
    seeds("take-forever", Mutant::TakeForever, "a key that is taken never expires"),
    seeds("adopt-anyones", Mutant::AdoptAnyones, "anybody takes over a lock"),
    directed(
        "adopt-unspoken",
        Mutant::AdoptUnspoken,
        "an adoption needs no session",
        crate::directed::stale_session_cannot_adopt,
    ),
    directed(
        "adopt-keeps-place",
        Mutant::AdoptKeepsPlace,
        "an owner whose lease was adopted stays in line",
        crate::directed::adopted_owner_leaves_the_queue,
    ),
    directed(
        "adopted-heals",
        Mutant::AdoptedHeals,
        "an adopted lease takes a lost key again",
        crate::directed::adopted_lease_never_heals,
    ),
    seeds("free-anyones", Mutant::FreeAnyones, "a key is freed without the owner check"),
    seeds("prolong-anyones", Mutant::ProlongAnyones, "a key is prolonged without the owner check"),
    directed(
        "prolong-creates",
        Mutant::ProlongCreates,
        "prolonging creates a key that is gone",
        crate::directed::a_renewal_that_comes_after_the_release_creates_nothing,
    ),
    directed(
        "prolong-shortens",
        Mutant::ProlongShortens,
        "prolonging can make a key go earlier",
        crate::directed::an_extension_that_comes_late_shortens_nothing,
    ),
    seeds("batch-by-first", Mutant::BatchByFirst, "a batch shares the fate of its first entry"),
    seeds("absent-lives-on", Mutant::AbsentLivesOn, "an absent key counts as prolonged"),
    directed(
        "yield-unspoken",
        Mutant::YieldUnspoken,
        "what an older connection has given back is given away",
        crate::directed::what_an_older_connection_has_given_back_stays,
    ),
    directed(
        "no-session",
        Mutant::NoSession,
        "what an older connection has sent is done as well",
        crate::directed::what_an_older_connection_has_sent_takes_nothing,
    ),
    seeds("no-inquire", Mutant::NoInquire, "an earlier waiter does not ask for a split vote"),
    redundant(
        "no-earlier-flag",
        Mutant::NoEarlierFlag,
        "a grant does not say who came earlier",
        "an earlier waiter asks for the grant at every poll, not only when it comes",
    ),
    directed(
        "yield-any-grant",
        Mutant::YieldAnyGrant,
        "a yield gives back whichever grant is there",
        crate::directed::a_late_yield_gives_back_only_the_grant_that_it_names,
    ),
    directed(
        "hand-on-unheard",
        Mutant::HandOnUnheard,
        "a lock goes to one who does not listen",
        crate::directed::those_who_do_not_listen_are_passed_over,
    ),
    directed(
        "hand-on-lapsed",
        Mutant::HandOnLapsed,
        "a lock goes to one whose session has lapsed",
        crate::directed::those_whose_session_has_lapsed_are_passed_over,
    ),
    seeds("last-first", Mutant::LastFirst, "the lock goes to whoever came last"),
    redundant(
        "orphans-kept",
        Mutant::OrphansKept,
        "what is handed to one who has gone is kept",
        "whoever goes tells every node that it asked, again and again until that is heard",
    ),
    directed(
        "confirm-any-fence",
        Mutant::ConfirmAnyFence,
        "a fence counts where a larger one is stored",
        crate::directed::confirmation_counts_with_the_fence_that_is_stored,
    ),
    directed(
        "confirm-heals",
        Mutant::ConfirmHeals,
        "a confirm takes a lost key again",
        crate::directed::a_confirmation_takes_no_lost_key_again,
    ),
    directed(
        "heal-any-fence",
        Mutant::HealAnyFence,
        "a heal does not look at the fence",
        crate::directed::a_lease_that_is_not_the_newest_does_not_live_on,
    ),
    directed(
        "hand-over-in-line",
        Mutant::HandOverInLine,
        "a lease is handed over with an owner that may stand in line",
        crate::directed::a_lease_that_was_handed_over_does_not_come_back,
    ),
    directed(
        "no-clamp",
        Mutant::NoClamp,
        "a fence is whatever a client proposes",
        crate::directed::fences_neither_go_back_nor_run_away,
    ),
    directed(
        "brief-fence",
        Mutant::BriefFence,
        "a fence is forgotten within a day of its grant",
        crate::directed::fence_lives_for_a_day_after_its_grant,
    ),
    directed(
        "fence-not-kept",
        Mutant::FenceNotKept,
        "an extension does not keep the fence",
        crate::directed::extension_keeps_the_fence,
    ),
    seeds("pushed-now", Mutant::PushedNow, "validity counts from the push"),
    seeds("no-write-back", Mutant::NoWriteBack, "a fence that no majority has stored is taken"),
    directed(
        "dead-grant-counts",
        Mutant::DeadGrantCounts,
        "run-out grants count for the fence",
        crate::directed::a_grant_that_has_run_out_says_nothing_about_the_fence,
    ),
    directed(
        "ticket-by-own-clock",
        Mutant::TicketByOwnClock,
        "a ticket goes by the client's clock until nodes tell theirs",
        crate::directed::callers_queue_in_the_order_in_which_they_came,
    ),
    directed(
        "tickets-never-go-back",
        Mutant::TicketsNeverGoBack,
        "tickets stay ahead of the nodes' time",
        crate::directed::callers_queue_in_the_order_in_which_they_came,
    ),
    directed(
        "little-left",
        Mutant::LittleLeft,
        "a lease that was waited for may be about to end",
        crate::directed::lease_that_was_waited_for_has_time_left,
    ),
    seeds("no-yield", Mutant::NoYield, "nobody gives way to an earlier ticket"),
    seeds("count-after-yield", Mutant::CountAfterYield, "a grant that was given back counts"),
    directed(
        "endless-doubt",
        Mutant::EndlessDoubt,
        "a node that has forgotten its fences is doubted for ever",
        crate::directed::waiter_trusts_a_node_again_after_one_doubt,
    ),
    seeds("no-withdraw", Mutant::NoWithdraw, "a waiter that is cut off keeps what it was granted"),
    directed(
        "hasty-withdraw",
        Mutant::HastyWithdraw,
        "a waiter gives its place up although its connections come back",
        crate::directed::a_waiter_comes_back_to_full_nodes_one_by_one,
    ),
    directed(
        "same-owner-again",
        Mutant::SameOwnerAgain,
        "a waiter that withdrew comes back as the same owner",
        crate::directed::a_late_release_takes_nothing_from_one_who_came_back,
    ),
    seeds("shutdown-keeps", Mutant::ShutdownKeeps, "a shutdown leaves leases to expire"),
    seeds("released-renews", Mutant::ReleasedRenews, "what is released is renewed all the same"),
    seeds("renews-once", Mutant::RenewsOnce, "a lease is renewed once and never again"),
    directed(
        "no-renewal-retry",
        Mutant::NoRenewalRetry,
        "a failed renewal is not tried again",
        crate::directed::renewal_without_an_answer_is_tried_again,
    ),
    seeds(
        "answer-of-first",
        Mutant::AnswerOfFirst,
        "every entry of a batch gets the answer to its first entry",
    ),
    seeds(
        "only-first-sent",
        Mutant::OnlyFirstSent,
        "of the commands that leave together only the first is sent",
    ),
    seeds(
        "failed-entry-dropped",
        Mutant::FailedEntryDropped,
        "an entry that fails in a batch is forgotten",
    ),
    seeds("holder-forgotten", Mutant::HolderForgotten, "a holder counts as gone"),
    seeds(
        "return-unregistered",
        Mutant::ReturnUnregistered,
        "a waiter that comes back is not told of its grants",
    ),
    seeds("no-heartbeat", Mutant::NoHeartbeat, "a waiter asks once and then only listens"),
    seeds("share-anyones", Mutant::ShareAnyones, "one who shares joins one who holds alone"),
    seeds("alone-among-shares", Mutant::AloneAmongShares, "one alone does not see those who share"),
    seeds("share-passes", Mutant::SharePasses, "one who shares passes those who want it alone"),
    seeds("share-frees-all", Mutant::ShareFreesAll, "one who shares takes the lock from all"),
    seeds("share-key-short", Mutant::ShareKeyShort, "a key goes with the first who shares it"),
    directed(
        "dead-shares-stay",
        Mutant::DeadSharesStay,
        "a part that is over is never thrown out",
        crate::directed::those_whose_time_is_over_keep_nobody_out,
    ),
    seeds("share-heals-anyones", Mutant::ShareHealsAnyones, "a lost part is taken from one alone"),
    seeds("share-never-yields", Mutant::ShareNeverYields, "one who shares gives nothing back"),
    seeds("shares-not-asked", Mutant::SharesNotAsked, "those who share are not asked to give way"),
    directed(
        "yield-any-share",
        Mutant::YieldAnyShare,
        "a yield gives back whichever part is there",
        crate::directed::a_late_yield_gives_back_only_the_part_that_it_names,
    ),
    directed(
        "way-not-cleared",
        Mutant::WayNotCleared,
        "one who has gone is still waited for",
        crate::directed::one_who_gives_up_clears_the_way,
    ),
    directed(
        "share-one-by-one",
        Mutant::ShareOneByOne,
        "only the first who shares is let in",
        crate::directed::those_who_wait_to_share_are_let_in_together,
    ),
    seeds("no-recovery", Mutant::NoRecovery, "a node grants locks before their holders renew them"),
    seeds("no-guard", Mutant::NoGuard, "a node that may have forgotten votes at once"),
    seeds("any-run", Mutant::AnyRun, "a node is not asked which run of which server it is"),
    seeds("no-rollback-check", Mutant::NoRollbackCheck, "a node may be older than it was"),
    seeds("no-step-check", Mutant::NoStepCheck, "a node's clock may go forward by itself"),
    directed(
        "guard-from-doubt",
        Mutant::GuardFromDoubt,
        "the guard counts from the doubt, not from the node's place",
        members::directed::guard_counts_from_when_the_node_got_its_place,
    ),
    directed(
        "newly-durable",
        Mutant::NewlyDurable,
        "a restarted node votes that was not durable before",
        crate::directed::node_that_was_not_durable_is_guarded_after_a_restart,
    ),
    directed(
        "once-durable",
        Mutant::OnceDurable,
        "a restarted node votes that is not durable any more",
        crate::directed::node_that_is_not_durable_any_more_is_guarded_after_a_restart,
    ),
    directed(
        "durable-in-guard",
        Mutant::DurableInGuard,
        "a restart ends the guard of a durable node",
        crate::directed::restart_does_not_end_the_guard_of_a_durable_node,
    ),
    directed(
        "durable-any-clock",
        Mutant::DurableAnyClock,
        "the clock of a durable node is not checked after a restart",
        crate::directed::durable_node_with_a_wrong_clock_is_guarded_after_a_restart,
    ),
    directed(
        "durable-any-place",
        Mutant::DurableAnyPlace,
        "a durable node votes with the record of another",
        members::directed::durable_server_with_the_data_of_another_does_not_vote,
    ),
    directed(
        "guard-by-node-clock",
        Mutant::GuardByNodeClock,
        "the node's clock alone ends the guard",
        crate::directed::the_guard_is_not_ended_by_the_nodes_clock_alone,
    ),
    directed(
        "heal-in-guard",
        Mutant::HealInGuard,
        "a doubted node takes a lost key again",
        crate::directed::a_node_in_its_guard_takes_no_lost_key_again,
    ),
    directed(
        "any-mark",
        Mutant::AnyMark,
        "a session goes on though the node is not what it was judged to be",
        crate::directed::a_session_does_not_outlive_what_was_judged,
    ),
    directed(
        "late-session",
        Mutant::LateSession,
        "a session begins where nobody was for longer than one lasts",
        crate::directed::a_clock_that_is_set_after_the_meeting_gives_no_session,
    ),
    seeds("take-unspoken", Mutant::TakeUnspoken, "a classic vote needs no session"),
    directed(
        "prolong-unspoken",
        Mutant::ProlongUnspoken,
        "a classic renewal needs no session",
        crate::directed::a_node_that_was_a_replica_prolongs_nothing,
    ),
    directed(
        "any-push",
        Mutant::AnyPush,
        "a grant counts though it is by another's session",
        crate::directed::a_node_that_was_a_replica_hands_nothing_on,
    ),
    directed(
        "admit-anything",
        Mutant::AdmitAnything,
        "a node that holds something is admitted",
        members::directed::a_node_with_old_data_is_not_admitted,
    ),
    directed(
        "hasty-change",
        Mutant::HastyChange,
        "the set changes again at once",
        members::directed::the_set_does_not_change_away_from_a_holder,
    ),
    directed(
        "hasty-newcomer",
        Mutant::HastyNewcomer,
        "a new node has its place before a majority has heard of it",
        members::directed::a_newcomer_waits_until_a_majority_has_heard_of_it,
    ),
    directed("writing-look", Mutant::WritingLook, "a look leaves its trace", members::hunt),
    directed("any-pact", Mutant::AnyPact, "nodes count that go by other lists", members::hunt),
    directed("any-label", Mutant::AnyLabel, "any server has a place", members::hunt),
    seeds("full-ends-sessions", Mutant::FullEndsSessions, "sessions lapse on a full node"),
    seeds("full-drops-waiters", Mutant::FullDropsWaiters, "a full node refuses those who wait"),
    seeds("full-grants", Mutant::FullGrants, "a full node stores new locks and places"),
    seeds("full-heals-anything", Mutant::FullHealsAnything, "a full node stores a new lease"),
    redundant(
        "old-extension-counts",
        Mutant::OldExtensionCounts,
        "an extension counts for longer than a later one that was sent",
        "nodes never shorten a key, so what a majority confirmed holds whatever was sent later",
    ),
    redundant(
        "shortened-by-reply",
        Mutant::ShortenedByReply,
        "a shorter life counts only when it is confirmed",
        "nodes never shorten a key, so the longer life that was confirmed before still holds",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for entry in CATALOGUE {
            assert_eq!(find(entry.name).unwrap().door, entry.door);
        }
        assert!(find("frob").unwrap_err().contains("small-quorum"));
    }

    #[test]
    fn every_schedule_notices_its_mutant_and_nothing_else() {
        for entry in CATALOGUE {
            let Noticed::Directed(schedule) = entry.noticed else { continue };
            assert_eq!(schedule(), Ok(()), "{entry} without the mutant");
            let _on = entry.switch_on();
            assert!(schedule().is_err(), "{entry} is not noticed: {}", entry.about);
        }
    }
}
