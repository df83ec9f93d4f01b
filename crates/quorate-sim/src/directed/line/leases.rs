//! Schedules for leases that move, for fences that are kept, and for grants that are doubted.

use quorate_core::{
    command::{Command, Owner},
    contend::Outcome,
    fence::{FENCE_LIFE_MS, Fence},
    line::{FencedLease, Speaker},
    moment::Moment,
    quorum::Vote,
    renew::{self, Renew},
};

use super::{
    super::{at, name, terms},
    Nodes, Party, TTL_MS, follows,
};

/// A holds two nodes of three and waits on the third, where B is first. A adopts its own lease as
/// another owner, to hand it over. Then A's process is cut off, and B gives up.
///
/// # Errors
///
/// If the third node grants the lock to the owner that A was, which nobody uses any more.
pub fn adopted_owner_leaves_the_queue() -> Result<(), String> {
    let mut nodes = Nodes::new(0);
    let mut b = Party::start(&mut nodes, 2, 1, &[2], 0);
    b.machine.handle_up(1, at(0));
    b.pull(0);
    b.exchange(&mut nodes, 2, 0);
    let mut a = Party::start(&mut nodes, 1, 2, &[0, 1, 2], 1);
    a.settle(&mut nodes, &[0, 1, 2], 2);
    a.held()?;
    let old = a.owner();
    nodes.adopt(&old, &a.place.owner(99), a.speaker(), 3);
    nodes.release(2, &b.owner(), 4);
    match nodes.has(2, &old, 5) {
        true => Err("the lock went to an owner that nobody uses any more".to_owned()),
        false => Ok(()),
    }
}

/// A hands its lease over. One process releases it, and another one, which knows nothing of that,
/// renews it.
///
/// # Errors
///
/// If the released lease is valid again.
pub fn adopted_lease_never_heals() -> Result<(), String> {
    let mut nodes = Nodes::new(0);
    let mut a = Party::start(&mut nodes, 1, 1, &[0, 1, 2], 0);
    a.settle(&mut nodes, &[0, 1, 2], 1);
    let (left, fence) = (a.place.owner(99), a.held()?);
    nodes.adopt(&a.owner(), &left, a.speaker(), 2);
    (0..3).for_each(|node| nodes.release(node, &left, 3));

    let c = Party::start(&mut nodes, 3, 3, &[], 4);
    let entry = FencedLease::adopted(fence).extend(name(), left, TTL_MS);
    let extend = Command::Extend { speaker: c.speaker(), entries: [entry].into() };
    // A process that did not win the lease does not know its end.
    let mut machine = Renew::start(terms(TTL_MS), 3, Moment::from_nanos(u64::MAX), at(5));
    for node in 0..3 {
        let reply = nodes.apply(node, 5, &extend);
        machine.handle_vote(node, extend.vote(&reply), at(6));
    }
    match machine.outcome() {
        Some(renew::Outcome::Extended { .. }) => Err("a released lease lives on".to_owned()),
        _ => Ok(()),
    }
}

/// A holds the lock and releases it. 23 hours later the clocks of all nodes are set back, and B
/// comes.
///
/// # Errors
///
/// If B has a smaller fence than A: no clock may be needed within a day of the grant.
pub fn fence_lives_for_a_day_after_its_grant() -> Result<(), String> {
    let mut nodes = Nodes::new(BEGIN_US);
    let mut a = Party::start(&mut nodes, 1, BEGIN_US, &[0, 1, 2], 0);
    a.settle(&mut nodes, &[0, 1, 2], 1);
    (0..3).for_each(|node| nodes.release(node, &a.owner(), 2));
    next_fence_follows(&mut nodes, a.held()?, 23 * HOUR_MS)
}

/// A holds the lock for more than a day and renews it, the last time within the last hour. It
/// releases the lock, the clocks of all nodes are set back, and B comes.
///
/// # Errors
///
/// If B has a smaller fence than A: no clock may be needed after a holder of today.
pub fn extension_keeps_the_fence() -> Result<(), String> {
    let mut nodes = Nodes::new(BEGIN_US);
    let mut a = Party::start(&mut nodes, 1, BEGIN_US, &[0, 1, 2], 0);
    a.settle(&mut nodes, &[0, 1, 2], 1);
    let fence = a.held()?;
    for ms in [50, 13 * HOUR_MS, FENCE_LIFE_MS - HOUR_MS] {
        a.attach(&mut nodes, ms);
        let entry = FencedLease::won(fence).extend(name(), a.owner(), 14 * HOUR_MS);
        let extend = Command::Extend { speaker: a.speaker(), entries: [entry].into() };
        (0..3).for_each(|node| _ = nodes.apply(node, ms, &extend));
    }
    (0..3).for_each(|node| nodes.release(node, &a.owner(), FENCE_LIFE_MS + 1));
    next_fence_follows(&mut nodes, fence, FENCE_LIFE_MS + 2)
}

/// The clocks of all nodes are set back at `ms`, and another holder comes.
fn next_fence_follows(nodes: &mut Nodes, before: Fence, ms: u64) -> Result<(), String> {
    (0..3).for_each(|node| _ = nodes.apply(node, ms, &Command::Look { name: name() }));
    nodes.begin_us -= 2 * FENCE_LIFE_MS * 1_000;
    let ticket = nodes.time(ms).as_micros();
    let mut next = Party::start(nodes, 2, ticket, &[0, 1, 2], ms);
    next.settle(nodes, &[0, 1, 2], ms);
    follows(before, next.held()?)
}

/// A waits for B and stands still until shortly before the end of its ttl. Then B releases the
/// lock, and the nodes grant it to A.
///
/// # Errors
///
/// If A holds a lease that ends before it can be renewed.
pub fn lease_that_was_waited_for_has_time_left() -> Result<(), String> {
    let mut nodes = Nodes::new(0);
    let mut b = Party::start(&mut nodes, 2, 1, &[0, 1, 2], 0);
    b.settle(&mut nodes, &[0, 1, 2], 0);
    let mut a = Party::start(&mut nodes, 1, 2, &[0, 1, 2], 0);
    a.settle(&mut nodes, &[0, 1, 2], 1);
    let late = TTL_MS - 10;
    (0..3).for_each(|node| nodes.release(node, &b.owner(), late));
    (0..3).try_for_each(|node| a.listen(&mut nodes, node, late).map(drop))?;
    a.settle(&mut nodes, &[0, 1, 2], late);
    match a.machine.outcome() {
        Some(Outcome::Held { valid_until, .. }) => {
            let left = valid_until.saturating_since(at(late)).as_millis();
            let is_enough = left >= u128::from(TTL_MS / 4);
            is_enough.then_some(()).ok_or_else(|| format!("{left} ms of {TTL_MS} ms are left"))
        }
        other => Err(format!("an attempt ended as {other:?}, not with the lock")),
    }
}

/// B holds the lock with a large fence and A waits. All nodes lose their data and grant the lock to
/// A, with smaller fences than A has seen there.
///
/// # Errors
///
/// If A gives back every grant, so that nobody holds the lock.
pub fn waiter_trusts_a_node_again_after_one_doubt() -> Result<(), String> {
    let mut nodes = Nodes::new(BEGIN_US);
    let mut b = Party::start(&mut nodes, 2, BEGIN_US + 5_000_000, &[0, 1, 2], 0);
    b.settle(&mut nodes, &[0, 1, 2], 0);
    let mut a = Party::start(&mut nodes, 1, BEGIN_US, &[0, 1, 2], 1);
    a.settle(&mut nodes, &[0, 1, 2], 2);
    for node in 0..3 {
        nodes.stores[node].clear();
        a.machine.handle_down(node);
    }
    a.attach(&mut nodes, 3);
    (0..3).for_each(|node| a.machine.handle_up(node, at(3)));
    a.pull(3);
    // A node grants, A gives back, the node grants anew: that is enough.
    for ms in 4..8 {
        a.settle(&mut nodes, &[0, 1, 2], ms);
        (0..3).for_each(|node| _ = a.listen(&mut nodes, node, ms));
    }
    a.held().map(drop).map_err(|_| "a waiter gives back every grant".to_owned())
}

impl Nodes {
    /// The owner of a key becomes another one, on all nodes.
    fn adopt(&mut self, from: &Owner, owner: &Owner, speaker: Speaker, ms: u64) {
        let (from, owner, speaker) = (from.clone(), owner.clone(), Some(speaker));
        let adopt = Command::Adopt { name: name(), from, owner, ttl_ms: TTL_MS, speaker };
        (0..3).for_each(|node| _ = self.apply(node, ms, &adopt));
    }

    fn has(&mut self, node: usize, owner: &Owner, ms: u64) -> bool {
        let check = Command::Check { name: name(), owner: owner.clone() };
        let reply = self.apply(node, ms, &check);
        check.vote(&reply) == Vote::Grant
    }
}

const BEGIN_US: u64 = 1_800_000_000_000_000;
const HOUR_MS: u64 = FENCE_LIFE_MS / 24;
