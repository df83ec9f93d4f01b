//! Schedules that random seeds do not reach, written down step by step over the core's machines.

use std::time::Duration;

use quorate_core::{
    command::{ClientId, Command, Owner, Prolongation},
    lease::{Lease, LostReason},
    moment::{Moment, NodeTime},
    name::Name,
    quorum::Vote,
    renew::{self, Renew},
    store::Store,
    terms::Terms,
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
    let taken = Command::Take { name: name(), owner: owner.clone(), ttl_ms: 100 };
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

fn prolong(owner: &Owner, ttl_ms: u64) -> Command {
    let entry = Prolongation { name: name(), owner: owner.clone(), ttl_ms };
    Command::Prolong { entries: [entry].into() }
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
    }
}
