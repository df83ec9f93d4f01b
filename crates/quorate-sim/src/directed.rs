//! Schedules that random seeds do not reach, step by step over the core's machines.

mod batch;
mod fixture;
mod full;
mod quarantine;
mod queue;
mod shares;
mod watchdog;

use std::time::Duration;

use quorate_core::{
    acquire::{self, Acquire, NodeAction, NodeCall, Outcome, Wait},
    command::{ClientId, Command, KeyExtension, Owner, Reply, SessionTerms},
    lease::{Lease, LostReason},
    moment::{Moment, NodeTime},
    mutant::Mutant,
    name::Name,
    queue::{AcquireRequest, Extend, Position, PushKind, Sender, Session, Yield},
    quorum::{NodeSet, Vote},
    renew::{self, Renew},
    store::Store,
    terms::Terms,
    tickets::Tickets,
};

use crate::{members, settings::DRIFT};

/// A schedule. It returns what it observed if a promise is broken.
pub type Schedule = fn() -> Result<(), String>;

/// All schedules, with the mutants that they detect.
pub(crate) fn schedules() -> impl Iterator<Item = (Mutant, Schedule)> {
    let lists = [
        SCHEDULES,
        batch::SCHEDULES,
        queue::SCHEDULES,
        queue::leases::SCHEDULES,
        shares::SCHEDULES,
        quarantine::SCHEDULES,
        full::SCHEDULES,
        watchdog::SCHEDULES,
        members::directed::SCHEDULES,
        &[
            (Mutant::WritingInspect, members::hunt),
            (Mutant::AnyConfig, members::hunt),
            (Mutant::AnyLabel, members::hunt),
        ],
    ];
    lists.into_iter().flatten().copied()
}

const SCHEDULES: &[(Mutant, Schedule)] = &[
    (Mutant::LeaseRevives, a_lost_lease_stays_lost),
    (Mutant::ExtendCreates, a_renewal_that_comes_after_the_release_creates_nothing),
    (Mutant::ExtendShortens, an_extension_that_comes_late_shortens_nothing),
    (Mutant::YieldAnyGrant, a_late_yield_gives_back_only_the_grant_that_it_names),
    (Mutant::YieldAnyShare, a_late_yield_gives_back_only_the_share_that_it_names),
    (Mutant::YieldBeforeConfirm, a_member_of_a_set_gives_back_what_it_asked_a_node_to_store),
    (Mutant::EntryHealsOutdated, an_entry_restores_no_key_after_another_grant),
    (Mutant::HandOffUnsubscribed, waiters_without_a_connection_are_passed_over),
    (Mutant::HandOffLapsed, waiters_with_an_expired_session_are_passed_over),
    (Mutant::TicketByOwnClock, callers_queue_in_the_order_in_which_they_came),
    (Mutant::TicketsNeverGoBack, callers_queue_in_the_order_in_which_they_came),
];

/// A short renewal is delayed on a connection that breaks. A longer extension is sent on the next
/// connection. Then the short renewal arrives.
///
/// Fails if the key expires before the lease.
fn an_extension_that_comes_late_shortens_nothing() -> Result<(), String> {
    let (mut node, owner) = (Store::new(), owner());
    let (short, long) = (terms(100), terms(1_000));
    let set = Command::SetKey { name: name(), owner: owner.clone(), ttl_ms: 100, sender: None };
    node.apply(node_time(0), &set);
    let mut lease = Lease::new(short.valid_until(at(0)), Moment::from_nanos(u64::MAX));

    lease.handle_extension_sent(&short, at(30));
    let late = extend_keys(&owner, 100);
    let extension = lease.handle_extension_sent(&long, at(40));
    let mut machine = Renew::start(long, 1, lease.valid_until(), at(40));
    let extend = extend_keys(&owner, 1_000);
    let reply = node.apply(node_time(41), &extend);
    machine.handle_vote(0, extend.vote(&reply), at(42));
    let Some(renew::Outcome::Extended { valid_until }) = machine.outcome() else {
        return Err(format!("the extension ended as {:?}", machine.outcome()));
    };
    lease.handle_extended(extension, valid_until, at(42));
    node.apply(node_time(50), &late);

    for ms in 51..2_000 {
        let has_it = has(&mut node, ms, owner.clone());
        if lease.check(at(ms)).is_ok() && !has_it {
            return Err(format!("the lease is valid after {ms} ms, but its key has expired"));
        }
    }
    Ok(())
}

/// The nodes confirm a renewal, but their replies are delayed. Meanwhile the nodes lose the key,
/// and a check reports to the holder that the lock is gone. Then the replies arrive.
///
/// Fails if the lease is valid again.
fn a_lost_lease_stays_lost() -> Result<(), String> {
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
        other => Err(format!("the lease was lost, and now its check returns {other:?}")),
    }
}

/// A holder releases. Then a renewal arrives that it had sent on an older connection.
///
/// Fails if the node has the key again.
fn a_renewal_that_comes_after_the_release_creates_nothing() -> Result<(), String> {
    let (mut node, owner) = (Store::new(), owner());
    let set = Command::SetKey { name: name(), owner: owner.clone(), ttl_ms: 100, sender: None };
    node.apply(node_time(0), &set);
    node.apply(node_time(10), &Command::DeleteKey { name: name(), owner: owner.clone() });
    node.apply(node_time(11), &extend_keys(&owner, 100));
    match node.names(node_time(12)).as_slice() {
        [] => Ok(()),
        _ => Err("a renewal created the key after its release".to_owned()),
    }
}

/// Two clients wait. The connection of the first one closes, and then the holder releases.
///
/// Fails if the lock is handed off to the first one.
fn waiters_without_a_connection_are_passed_over() -> Result<(), String> {
    pass_over(|node, client| node.unsubscribe(client), 2)
}

/// Two clients wait. The session of the first one expires although its connection seems to be open,
/// and then the holder releases.
///
/// Fails if the lock is handed off to the first one.
fn waiters_with_an_expired_session_are_passed_over() -> Result<(), String> {
    pass_over(|_, _| {}, 600)
}

/// One client holds and two wait, the first of them with a session of 500 ms. `happen` changes the
/// first waiter, and at `release_ms` the lock is released.
fn pass_over(happen: impl FnOnce(&mut Store, ClientId), release_ms: u64) -> Result<(), String> {
    let mut node = Store::new();
    let [first, second, third] = [(1, 5_000), (2, 500), (3, 5_000)].map(|(number, lifetime_ms)| {
        let sender = attach(&mut node, number, lifetime_ms);
        let owner = place(sender, number.into()).owner(1);
        ask(&mut node, 1, sender, &owner);
        (sender.client, owner)
    });
    happen(&mut node, second.0);
    release(&mut node, release_ms, first.1, None);
    match has(&mut node, release_ms + 1, third.1) {
        true => Ok(()),
        false => Err("the lock went to a waiter that has left".to_owned()),
    }
}

/// A waiter yields a grant and gets a new one. A client with an earlier ticket asks for it. Then
/// the yield arrives once more, from an older connection.
///
/// Fails if the node gives away the new grant, which its owner counts.
fn a_late_yield_gives_back_only_the_grant_that_it_names() -> Result<(), String> {
    yield_late(Position::owner)
}

/// The same for a reader.
///
/// Fails if the node gives away the new share, which its owner counts.
fn a_late_yield_gives_back_only_the_share_that_it_names() -> Result<(), String> {
    yield_late(Position::shared_owner)
}

fn yield_late(kind: fn(&Position, u64) -> Owner) -> Result<(), String> {
    let mut node = Store::new();
    let [later, earlier] = [2, 1].map(|number| attach(&mut node, number, 5_000));
    let (owner, other) = (kind(&place(later, 20), 1), place(earlier, 10).owner(1));
    let Reply::Granted { fence, .. } = ask(&mut node, 1, later, &owner) else {
        return Err("a free lock is granted".to_owned());
    };
    let yields = Some(Yield { fence, sender: later });
    release(&mut node, 2, owner.clone(), yields);
    ask(&mut node, 3, earlier, &other);
    release(&mut node, 4, owner.clone(), yields);
    match has(&mut node, 5, owner) {
        true => Ok(()),
        false => Err("the node gave away a grant that its owner counts".to_owned()),
    }
}

/// A node loses the key of an entry. It grants the lock to another client, which releases it. Then
/// the entry is extended.
///
/// Fails if the node stores the key of the entry again.
fn an_entry_restores_no_key_after_another_grant() -> Result<(), String> {
    let mut node = Store::new();
    let [sender, other] = [1, 2].map(|number| attach(&mut node, number, 5_000));
    let (owner, later) = (place(sender, 10).reentrant_owner(1, "x"), place(other, 20).owner(1));
    let Reply::Granted { fence, .. } = ask(&mut node, 1, sender, &owner) else {
        return Err("a free lock is granted".to_owned());
    };
    node.forget(&name());
    ask(&mut node, 2, other, &later);
    release(&mut node, 3, later, None);
    let entry = Extend { name: name(), owner: owner.clone(), fence, ttl_ms: 1_000, may_heal: true };
    node.apply(node_time(4), &Command::Extend { sender, entries: [entry].into() });
    match has(&mut node, 5, owner) {
        true => Err("the node stored the key of an entry again after another grant".to_owned()),
        false => Ok(()),
    }
}

/// A member of a set asks a node to store the larger fence of another node. Meanwhile a client with
/// an earlier ticket asks the node, and the node asks the member to yield.
///
/// Fails if the node keeps the grant, which no client counts.
fn a_member_of_a_set_gives_back_what_it_asked_a_node_to_store() -> Result<(), String> {
    let mut node = Store::new();
    let [later, earlier] = [2, 1].map(|number| attach(&mut node, number, 5_000));
    let (owner, other) = (place(later, 20).owner(1), place(earlier, 10).owner(1));
    let wait = Wait::Patiently(Duration::from_secs(1));
    let mut attempt = Acquire::start(terms(1_000), 2, NodeSet::all(2), wait, at(0)).member();
    let call = NodeCall {
        incarnation: 0,
        action: NodeAction::Acquire { is_waiting: true, is_known: false },
    };
    let granted = ask(&mut node, 1, later, &owner);
    let Reply::Granted { fence, .. } = granted else {
        return Err("a free lock is granted".to_owned());
    };
    let elsewhere = Reply::Granted { fence: fence.next(), is_earlier: false };
    for (at_node, reply) in [(0, granted), (1, elsewhere)] {
        attempt.handle_reply(at_node, call, at(0), Some(&reply), at(2));
    }
    ask(&mut node, 3, earlier, &other);
    attempt.handle_push(0, 0, PushKind::Inquired, fence, at(4));
    while let acquire::Output::Call { node: to, call } = attempt.poll_output() {
        let sender = later;
        match call.action {
            NodeAction::Confirm(fence) if to == 0 => {
                let entry = Extend {
                    name: name(),
                    owner: owner.clone(),
                    fence,
                    ttl_ms: 1_000,
                    may_heal: false,
                };
                node.apply(node_time(5), &Command::Extend { sender, entries: [entry].into() });
            }
            NodeAction::Yield(fence) if to == 0 => {
                release(&mut node, 6, owner.clone(), Some(Yield { fence, sender }));
            }
            _ => {}
        }
    }
    match has(&mut node, 7, other) {
        true => Ok(()),
        false => Err("the node keeps a grant that was yielded".to_owned()),
    }
}

/// A client whose clock is an hour ahead asks for a lock before any node has reported its time.
/// Then another client asks, and then the first one again. The nodes' clocks were an hour ahead,
/// too, and have been set right.
///
/// Fails if they do not queue in the order in which they asked.
fn callers_queue_in_the_order_in_which_they_came() -> Result<(), String> {
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
        false => Err("a client that asked later is first in the queue".to_owned()),
    }
}

/// A client attaches to a node, with a session of this lifetime.
fn attach(node: &mut Store, number: u8, lifetime_ms: u64) -> Sender {
    let client = ClientId::from_random([number; 20]);
    let sender = Sender { client, session: Session::from_random(1) };
    node.subscribe(client);
    let terms = SessionTerms::without_membership(lifetime_ms);
    node.apply(node_time(0), &Command::Attach { sender, terms });
    sender
}

const fn place(Sender { client, .. }: Sender, ticket: u64) -> Position {
    Position { ticket, ttl_ms: 1_000, client }
}

fn ask(node: &mut Store, ms: u64, sender: Sender, owner: &Owner) -> Reply {
    let ask =
        AcquireRequest { name: name(), owner: owner.clone(), is_waiting: true, is_known: false };
    node.apply(node_time(ms), &Command::Acquire { sender, request: ask })
}

fn release(node: &mut Store, ms: u64, owner: Owner, yields: Option<Yield>) {
    node.apply(node_time(ms), &Command::Release { name: name(), owner, yields });
}

fn has(node: &mut Store, ms: u64, owner: Owner) -> bool {
    let check = Command::Check { name: name(), owner };
    check.vote(&node.apply(node_time(ms), &check)) == Vote::Grant
}

/// One try of a plain owner: the schedule asks the nodes, and counts their votes.
struct Try {
    machine: Acquire,
    sent_at: Moment,
}

impl Try {
    fn start(terms: Terms, nodes: usize, ms: u64) -> Self {
        let wait = Wait::Never;
        let machine = Acquire::start(terms, nodes, NodeSet::all(nodes), wait, at(ms)).classic(0);
        Self { machine, sent_at: at(ms) }
    }

    fn vote(&mut self, node: usize, vote: Vote, ms: u64) {
        let action = NodeAction::Acquire { is_waiting: false, is_known: false };
        self.machine.handle_vote(
            node,
            NodeCall { incarnation: 0, action },
            self.sent_at,
            vote,
            at(ms),
        );
    }

    const fn outcome(&self) -> Option<Outcome> {
        self.machine.outcome()
    }
}

fn extend_keys(owner: &Owner, ttl_ms: u64) -> Command {
    let entry = KeyExtension { name: name(), owner: owner.clone(), ttl_ms };
    Command::ExtendKeys { entries: [entry].into(), sender: None }
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
