//! Schedules for guarded nodes that write everything to disk, and for leases on them.

use quorate_core::{command::Command, contend::Outcome, store::Store};

use super::{
    super::{Try, at, name, terms},
    Guest, Hall, STEP_MS, TTL_MS,
};

/// A holds a node that writes its data to disk later. The node restarts without that grant, and
/// writes everything at once from then on.
///
/// # Errors
///
/// If the node votes for B.
pub fn node_that_was_not_durable_is_guarded_after_a_restart() -> Result<(), String> {
    restart_without_the_last_grant(false, true)
}

/// A node writes everything to disk at once when it is met, and not any more when it grants the
/// lock to A. It restarts without that grant.
///
/// # Errors
///
/// If the node votes for B.
pub fn node_that_is_not_durable_any_more_is_guarded_after_a_restart() -> Result<(), String> {
    restart_without_the_last_grant(true, false)
}

fn restart_without_the_last_grant(was_durable: bool, is_durable: bool) -> Result<(), String> {
    let mut hall = Hall::founded(3);
    hall.is_durable = was_durable;
    let a = Guest::start(&mut hall, 1, 0);
    let on_disk = hall.stores[0].clone();
    a.hold_two(&mut hall)?;
    hall.stores[0] = on_disk;
    hall.is_durable = is_durable;
    restarted_node_votes_for_nobody(&mut hall)
}

/// A holds a node that writes everything to disk. The node is flushed, and restarts in its guard.
///
/// # Errors
///
/// If the node votes for B.
pub fn restart_does_not_end_the_guard_of_a_durable_node() -> Result<(), String> {
    let mut hall = Hall::founded(3);
    hall.is_durable = true;
    Guest::start(&mut hall, 1, 0).hold_two(&mut hall)?;
    hall.stores[0].clear();
    hall.enrol(0, 5);
    restarted_node_votes_for_nobody(&mut hall)
}

/// A holds a node that writes everything to disk. The node restarts with a clock that was set
/// forward: A's key has expired.
///
/// # Errors
///
/// If the node votes for B.
pub fn durable_node_with_a_wrong_clock_is_guarded_after_a_restart() -> Result<(), String> {
    let mut hall = Hall::founded(3);
    hall.is_durable = true;
    Guest::start(&mut hall, 1, 0).hold_two(&mut hall)?;
    hall.ahead_ms[0] = STEP_MS;
    restarted_node_votes_for_nobody(&mut hall)
}

/// The first of three nodes is another run from now on. B asks it, and the node that A does not
/// hold.
fn restarted_node_votes_for_nobody(hall: &mut Hall) -> Result<(), String> {
    hall.stores[0].membership.set_run(99);
    let mut b = Guest::start(hall, 2, 10);
    [0, 2].into_iter().for_each(|node| b.exchange(hall, node, 11));
    match b.held() {
        Ok(_) => Err("a node that has forgotten its vote votes again".to_owned()),
        Err(_) => Ok(()),
    }
}

/// A lease was left on two nodes of three. On one of them it has expired, and B holds the lock by
/// that one and the third. The third is made a replica of the one that still has the lease, and a
/// master again. Then C adopts the lease.
///
/// # Errors
///
/// If C holds the lock, too.
pub fn stale_session_cannot_adopt() -> Result<(), String> {
    let mut hall = Hall::founded(3);
    let mut a = Guest::start(&mut hall, 1, 0);
    [1, 2].into_iter().for_each(|node| a.exchange(&mut hall, node, 1));
    a.held()?;
    let left = a.place.owner(99);
    for (node, ms) in [(2, 60), (1, 90)] {
        let adopt = Command::Adopt {
            name: name(),
            from: a.owner(),
            owner: left.clone(),
            ttl_ms: TTL_MS,
            speaker: Some(a.speaker(node)),
        };
        hall.apply(node, ms, &adopt);
    }
    let mut b = Guest::start(&mut hall, 2, 100);
    (0..3).for_each(|node| b.exchange(&mut hall, node, 101));
    b.machine.handle_timeout(at(170));
    b.pull();
    [0, 2, 0].into_iter().for_each(|node| b.exchange(&mut hall, node, 170));
    b.held()?;

    let c = Guest::start(&mut hall, 3, 171);
    let other: Store = hall.stores[1].clone();
    hall.stores[0].copy(&other);
    let mut taking = Try::start(terms(TTL_MS), 3, 172);
    for node in 0..3 {
        let (from, owner, speaker) = (left.clone(), c.owner(), Some(c.speaker(node)));
        let adopt = Command::Adopt { name: name(), from, owner, ttl_ms: TTL_MS, speaker };
        let reply = hall.apply(node, 172, &adopt);
        taking.vote(node, adopt.vote(&reply), 172);
    }
    match taking.outcome() {
        Some(Outcome::Held { .. }) => {
            Err("a node that has forgotten its vote gives away a lease".to_owned())
        }
        _ => Ok(()),
    }
}

impl Guest {
    /// Wins the lock by the first two nodes of three.
    fn hold_two(mut self, hall: &mut Hall) -> Result<(), String> {
        [0, 1].into_iter().for_each(|node| self.exchange(hall, node, 1));
        self.held().map(drop)
    }
}
