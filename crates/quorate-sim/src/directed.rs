//! Schedules that random seeds do not reach, written down step by step over the core's machines.

mod full;
mod guard;
mod line;
mod shares;
mod watchdog;

use std::time::Duration;

pub use self::full::a_waiter_comes_back_to_full_nodes_one_by_one;
pub use self::guard::{
    a_clock_that_is_set_after_the_meeting_gives_no_session,
    a_clock_that_is_set_right_again_is_doubted, a_node_in_its_guard_takes_no_lost_key_again,
    a_node_that_was_a_replica_hands_nothing_on, a_node_that_was_a_replica_prolongs_nothing,
    a_session_does_not_outlive_what_was_judged,
    durable_node_with_a_wrong_clock_is_guarded_after_a_restart,
    node_that_is_not_durable_any_more_is_guarded_after_a_restart,
    node_that_was_not_durable_is_guarded_after_a_restart,
    restart_does_not_end_the_guard_of_a_durable_node, stale_session_cannot_adopt,
    the_guard_is_not_ended_by_the_nodes_clock_alone,
};
pub use self::line::{
    a_confirmation_takes_no_lost_key_again, a_grant_that_has_run_out_says_nothing_about_the_fence,
    a_late_release_takes_nothing_from_one_who_came_back,
    a_lease_that_is_not_the_newest_does_not_live_on,
    a_lease_that_was_handed_over_does_not_come_back, adopted_lease_never_heals,
    adopted_owner_leaves_the_queue, confirmation_counts_with_the_fence_that_is_stored,
    extension_keeps_the_fence, fence_lives_for_a_day_after_its_grant,
    fences_neither_go_back_nor_run_away, lease_that_was_waited_for_has_time_left,
    waiter_trusts_a_node_again_after_one_doubt, what_an_older_connection_has_given_back_stays,
    what_an_older_connection_has_sent_takes_nothing,
};
pub use self::shares::{
    one_who_gives_up_clears_the_way, those_who_wait_to_share_are_let_in_together,
    those_whose_time_is_over_keep_nobody_out,
};
pub use self::watchdog::{
    confirmed_extension_counts, renewal_without_an_answer_is_tried_again,
    shutdown_releases_what_was_lost,
};
use quorate_core::{
    command::{ClientId, Command, Owner, Prolongation, Reply, SessionTerms},
    contend::{Contend, Outcome, Said, Saying, Wait},
    lease::{Lease, LostReason},
    line::{Ask, Place, Session, Speaker, Yield},
    moment::{Moment, NodeTime},
    name::Name,
    quorum::{NodeSet, Vote},
    renew::{self, Renew},
    store::Store,
    terms::Terms,
    tickets::Tickets,
};

use crate::settings::DRIFT;

/// A short renewal leaves on a connection that breaks, and stays behind. A longer extension follows
/// on the next connection. Then the first one arrives after all.
///
/// # Errors
///
/// If the key goes before the lease that it carries.
pub fn an_extension_that_comes_late_shortens_nothing() -> Result<(), String> {
    let (mut node, owner) = (Store::new(), owner());
    let (short, long) = (terms(100), terms(1_000));
    let taken = Command::Take { name: name(), owner: owner.clone(), ttl_ms: 100, speaker: None };
    node.apply(node_time(0), &taken);
    let mut lease = Lease::new(short.valid_until(at(0)), Moment::from_nanos(u64::MAX));

    lease.handle_extension_sent(&short, at(30));
    let late = prolong(&owner, 100);
    let extension = lease.handle_extension_sent(&long, at(40));
    let mut machine = Renew::start(long, 1, lease.valid_until(), at(40));
    let extend = prolong(&owner, 1_000);
    let reply = node.apply(node_time(41), &extend);
    machine.handle_vote(0, extend.vote(&reply), at(42));
    let Some(renew::Outcome::Extended { valid_until }) = machine.outcome() else {
        return Err(format!("the extension ended as {:?}", machine.outcome()));
    };
    lease.handle_extended(extension, valid_until, at(42));
    node.apply(node_time(50), &late);

    let check = Command::Check { name: name(), owner };
    for ms in 51..2_000 {
        let reply = node.apply(node_time(ms), &check);
        if lease.check(at(ms)).is_ok() && check.vote(&reply) != Vote::Grant {
            return Err(format!("the lease is valid after {ms} ms, and the node has forgotten it"));
        }
    }
    Ok(())
}

/// A renewal is confirmed by the nodes, but its answers are held up. Meanwhile the nodes forget the
/// key, and a question to them tells the holder that the lock is gone. Then the answers come.
///
/// # Errors
///
/// If the lease is valid again.
pub fn a_lost_lease_stays_lost() -> Result<(), String> {
    let terms = terms(300);
    let mut lease = Lease::new(terms.valid_until(at(0)), Moment::from_nanos(u64::MAX));
    let extension = lease.handle_extension_sent(&terms, at(100));
    let mut machine = Renew::start(terms, 3, lease.valid_until(), at(100));
    lease.handle_lost(LostReason::Gone);
    machine.handle_vote(0, Vote::Grant, at(120));
    machine.handle_vote(1, Vote::Grant, at(120));
    if let Some(renew::Outcome::Extended { valid_until }) = machine.outcome() {
        lease.handle_extended(extension, valid_until, at(120));
    }
    match lease.check(at(121)) {
        Err(LostReason::Gone) => Ok(()),
        other => Err(format!("the lease was lost, and now says {other:?}")),
    }
}

/// A holder releases; a renewal that it had sent on an older connection arrives after that.
///
/// # Errors
///
/// If the node has the key again.
pub fn a_renewal_that_comes_after_the_release_creates_nothing() -> Result<(), String> {
    let (mut node, owner) = (Store::new(), owner());
    let take = Command::Take { name: name(), owner: owner.clone(), ttl_ms: 100, speaker: None };
    node.apply(node_time(0), &take);
    node.apply(node_time(10), &Command::Free { name: name(), owner: owner.clone() });
    node.apply(node_time(11), &prolong(&owner, 100));
    match node.names(node_time(12)).as_slice() {
        [] => Ok(()),
        _ => Err("the key is there after its release".to_owned()),
    }
}

/// Two wait in line; the connection of the first one closes, and then the holder releases.
///
/// # Errors
///
/// If the lock is handed to the one that is not there.
pub fn those_who_do_not_listen_are_passed_over() -> Result<(), String> {
    pass_over(|node, client| node.hang_up(client), 2)
}

/// Two wait in line; the first one is not heard of any more, though its connection seems to be
/// there, and then the holder releases.
///
/// # Errors
///
/// If the lock is handed to the one that is not heard of.
pub fn those_whose_session_has_lapsed_are_passed_over() -> Result<(), String> {
    pass_over(|_, _| {}, 600)
}

/// One holds and two wait, the first of them with a session of 500 ms. Something happens to it, and
/// at `release_ms` the lock is released.
fn pass_over(happen: impl FnOnce(&mut Store, ClientId), release_ms: u64) -> Result<(), String> {
    let mut node = Store::new();
    let clients = [1, 2, 3].map(|byte| ClientId::from_random([byte; 20]));
    let session = Session::from_random(1);
    let owners = clients.map(|client| {
        let ticket = u64::from(client.to_string().as_bytes()[1]);
        Place { ticket, ttl_ms: 1_000, client }.owner(1)
    });
    for (client, owner) in clients.iter().zip(&owners) {
        let speaker = Speaker { client: *client, session };
        node.listen(*client);
        let life_ms = if *client == clients[1] { 500 } else { 5_000 };
        node.apply(
            node_time(0),
            &Command::Attach { speaker, terms: SessionTerms::without_membership(life_ms) },
        );
        let (is_waiting, is_known) = (true, false);
        let ask = Ask { name: name(), owner: owner.clone(), is_waiting, is_known };
        node.apply(node_time(1), &Command::Acquire { speaker, ask });
    }
    happen(&mut node, clients[1]);
    let release = Command::Release { name: name(), owner: owners[0].clone(), yields: None };
    node.apply(node_time(release_ms), &release);
    let check = Command::Check { name: name(), owner: owners[2].clone() };
    let reply = node.apply(node_time(release_ms + 1), &check);
    match check.vote(&reply) {
        Vote::Grant => Ok(()),
        Vote::Refuse | Vote::Unknown => Err("the lock went to one who is not there".to_owned()),
    }
}

/// A grant is given back, and the owner is granted the lock anew; somebody who came earlier asks
/// for it; then the yield arrives once more, from an older connection.
///
/// # Errors
///
/// If the later grant is given away, though its owner counts it.
pub fn a_late_yield_gives_back_only_the_grant_that_it_names() -> Result<(), String> {
    yield_late(Place::owner)
}

/// The same, by one who shares the lock.
///
/// # Errors
///
/// If the later part is given away, though its owner counts it.
pub fn a_late_yield_gives_back_only_the_part_that_it_names() -> Result<(), String> {
    yield_late(Place::shared_owner)
}

fn yield_late(later: fn(&Place, u64) -> Owner) -> Result<(), String> {
    let mut node = Store::new();
    let session = Session::from_random(1);
    let kinds = [(2, 20, later), (1, 10, Place::owner)];
    let [later, earlier] = kinds.map(|(byte, ticket, owner)| {
        let client = ClientId::from_random([byte; 20]);
        let speaker = Speaker { client, session };
        node.listen(client);
        node.apply(
            node_time(0),
            &Command::Attach { speaker, terms: SessionTerms::without_membership(5_000) },
        );
        let owner = owner(&Place { ticket, ttl_ms: 1_000, client }, 1);
        let ask = Ask { name: name(), owner: owner.clone(), is_waiting: true, is_known: false };
        (owner, Command::Acquire { speaker, ask }, speaker)
    });
    let Reply::Granted { fence, .. } = node.apply(node_time(1), &later.1) else {
        return Err("a free lock is granted".to_owned());
    };
    let yields = Some(Yield { fence, speaker: later.2 });
    let given_back = Command::Release { name: name(), owner: later.0.clone(), yields };
    node.apply(node_time(2), &given_back);
    node.apply(node_time(3), &earlier.1);
    node.apply(node_time(4), &given_back);
    let check = Command::Check { name: name(), owner: later.0 };
    let reply = node.apply(node_time(5), &check);
    match check.vote(&reply) {
        Vote::Grant => Ok(()),
        Vote::Refuse | Vote::Unknown => Err("a grant that is counted was given away".to_owned()),
    }
}

/// A lock is held. A client whose own clock is an hour ahead comes before any node has told its
/// time, then another client, then the first one again: the clocks of the nodes were an hour ahead,
/// too, and have been set right.
///
/// # Errors
///
/// If they do not queue in the order in which they came.
pub fn callers_queue_in_the_order_in_which_they_came() -> Result<(), String> {
    let hour = Duration::from_secs(3_600);
    let [mut one, mut other] = [Tickets::new(1), Tickets::new(1)];
    let at = |ms: u64| Moment::ZERO.saturating_add(Duration::from_millis(ms));
    let early = one.draw(at(1).saturating_add(hour));
    one.handle_time(0, node_time(2).as_micros(), at(2).saturating_add(hour));
    let first = early.or_else(|| one.draw(at(1).saturating_add(hour)));
    other.handle_time(0, node_time(2).as_micros() + hour.as_micros() as u64, at(2));
    let ahead = other.draw(at(3));
    other.handle_time(0, node_time(4).as_micros(), at(4));
    let (second, third) = (other.draw(at(500)), one.draw(at(501).saturating_add(hour)));
    match first < second && second < third && third < ahead {
        true => Ok(()),
        false => Err("one who came later is first in the queue".to_owned()),
    }
}

/// One try of a plain owner: the schedule asks the nodes, and counts their votes.
struct Try {
    machine: Contend,
    sent_at: Moment,
}

impl Try {
    fn start(terms: Terms, nodes: usize, ms: u64) -> Self {
        let wait = Wait::Never;
        let machine = Contend::start(terms, nodes, NodeSet::all(nodes), wait, at(ms)).plain(0);
        Self { machine, sent_at: at(ms) }
    }

    fn vote(&mut self, node: usize, vote: Vote, ms: u64) {
        let what = Saying::Ask { is_waiting: false, is_known: false };
        self.machine.handle_vote(node, Said { life: 0, what }, self.sent_at, vote, at(ms));
    }

    const fn outcome(&self) -> Option<Outcome> {
        self.machine.outcome()
    }
}

fn prolong(owner: &Owner, ttl_ms: u64) -> Command {
    let entry = Prolongation { name: name(), owner: owner.clone(), ttl_ms };
    Command::Prolong { entries: [entry].into(), speaker: None }
}

fn name() -> Name {
    Name::parse("lock", "").expect("a fair name")
}

fn owner() -> Owner {
    Owner::new(&ClientId::from_random([7; 20]), 1, "A")
}

fn terms(ttl_ms: u64) -> Terms {
    let timeout = Duration::from_millis(20);
    Terms::new(Duration::from_millis(ttl_ms), timeout, DRIFT).expect("fair terms")
}

fn at(ms: u64) -> Moment {
    Moment::ZERO.saturating_add(Duration::from_millis(ms))
}

fn node_time(ms: u64) -> NodeTime {
    NodeTime::from_micros(ms * 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schedules_hold_without_a_mutant() {
        an_extension_that_comes_late_shortens_nothing().unwrap();
        a_lost_lease_stays_lost().unwrap();
        a_renewal_that_comes_after_the_release_creates_nothing().unwrap();
        those_who_do_not_listen_are_passed_over().unwrap();
        a_late_yield_gives_back_only_the_grant_that_it_names().unwrap();
        a_late_yield_gives_back_only_the_part_that_it_names().unwrap();
        those_whose_time_is_over_keep_nobody_out().unwrap();
        one_who_gives_up_clears_the_way().unwrap();
        those_who_wait_to_share_are_let_in_together().unwrap();
        those_whose_session_has_lapsed_are_passed_over().unwrap();
        a_confirmation_takes_no_lost_key_again().unwrap();
        confirmation_counts_with_the_fence_that_is_stored().unwrap();
        a_lease_that_is_not_the_newest_does_not_live_on().unwrap();
        a_lease_that_was_handed_over_does_not_come_back().unwrap();
        fences_neither_go_back_nor_run_away().unwrap();
        a_grant_that_has_run_out_says_nothing_about_the_fence().unwrap();
        what_an_older_connection_has_sent_takes_nothing().unwrap();
        a_node_in_its_guard_takes_no_lost_key_again().unwrap();
        a_session_does_not_outlive_what_was_judged().unwrap();
        a_node_that_was_a_replica_hands_nothing_on().unwrap();
        a_node_that_was_a_replica_prolongs_nothing().unwrap();
        a_clock_that_is_set_right_again_is_doubted().unwrap();
        a_clock_that_is_set_after_the_meeting_gives_no_session().unwrap();
        the_guard_is_not_ended_by_the_nodes_clock_alone().unwrap();
    }
}
