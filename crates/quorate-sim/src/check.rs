//! The checker: it knows the true time and reports broken promises.

mod claim;
mod order;
mod promise;
mod stall;

use quorate_core::{command::Owner, fence::Fence};

pub use self::promise::{Promise, Violation};
pub(crate) use self::{claim::Claim, order::Queued};
use self::{
    order::{How, Order},
    stall::Stall,
};
use crate::{
    clock::Nanos,
    fault::Bound,
    trace::{Group, millis, owner_name},
};

/// All claims of a run, and the promises that were broken.
#[derive(Debug)]
pub(crate) struct Checker {
    nodes: usize,
    claims: Vec<Claim>,
    /// By lock: the claims that may still matter.
    open: Vec<Vec<u32>>,
    /// By lock: since when a waiter has been stalled although nothing blocks it.
    stalled: Vec<Stall>,
    pub(crate) order: Order,
    progress_within: Nanos,
    /// A waiter for several locks blocks others from the locks that were already granted to it.
    has_sets: bool,
    /// No lock can be granted for now, and that is expected.
    is_suspended: bool,
    healed_at: Option<Nanos>,
    broken: Vec<Bound>,
    /// Nodes with quarantine enabled lost keys; and nodes lost their fences as well.
    has_lost_keys: bool,
    has_forgotten: bool,
    /// A node's clock was set in a run where nodes forget.
    is_clock_wrong: bool,
    pub(crate) violation: Option<Violation>,
    pub(crate) beyond: Vec<Bound>,
}

impl Checker {
    pub(crate) fn new(nodes: usize, locks: usize, progress_within: Nanos, has_sets: bool) -> Self {
        Self {
            nodes,
            has_sets,
            claims: Vec::new(),
            open: vec![Vec::new(); locks],
            stalled: vec![Stall::default(); locks],
            order: Order::default(),
            progress_within,
            is_suspended: false,
            healed_at: None,
            broken: Vec::new(),
            has_lost_keys: false,
            has_forgotten: false,
            is_clock_wrong: false,
            violation: None,
            beyond: Vec::new(),
        }
    }

    /// Exclusion is not promised from now on.
    pub(crate) fn break_bound(&mut self, bound: Bound) {
        if !self.broken.contains(&bound) {
            self.broken.push(bound);
        }
    }

    pub(crate) const fn is_within_bounds(&self) -> bool {
        self.broken.is_empty()
    }

    /// A node with quarantine enabled lost its keys, but not its fences.
    pub(crate) const fn note_lost(&mut self) {
        self.has_lost_keys = true;
    }

    /// A node with quarantine enabled forgot everything, or its last writes.
    pub(crate) const fn note_forgotten(&mut self) {
        self.has_lost_keys = true;
        self.has_forgotten = true;
    }

    pub(crate) const fn note_wrong_clock(&mut self) {
        self.is_clock_wrong = true;
    }

    /// No node has lost anything so far.
    pub(crate) const fn is_remembered(&self) -> bool {
        self.is_within_bounds() && !self.has_lost_keys
    }

    /// True if faults had stopped by `at`.
    pub(crate) fn is_healed_since(&self, at: Nanos) -> bool {
        self.healed_at.is_some_and(|healed_at| healed_at <= at)
    }

    pub(crate) fn claim(&self, claim: u32) -> &Claim {
        &self.claims[claim as usize]
    }

    /// A client was notified that it holds the lock. `running` is a bit set of the running clients.
    pub(crate) fn begin(&mut self, now: Nanos, claim: Claim, running: u32) -> u32 {
        let (number, lock) = (self.claims.len() as u32, claim.lock);
        self.claims.push(claim);
        self.check_fence(now, number);
        self.check_limit(now, number);
        self.stalled[lock].since = None;
        if self.has_sets {
            self.stalled.iter_mut().for_each(|stall| stall.since = None);
        }
        let open = std::mem::take(&mut self.open[lock]);
        for other in open {
            let known = &self.claims[other as usize];
            // Members of one group may hold the lock together.
            let are_together = known.is_with(&self.claims[number as usize]);
            let is_unnotified = known.is_unnotified(running);
            if are_together {
            } else if now < known.end {
                self.overlap(now, lock, other, number);
            } else if is_unnotified && self.is_within_bounds() {
                let text = format!(
                    "the holder whose claim ended at {} was not notified before the next one began",
                    millis(known.end)
                );
                self.report(now, Promise::Loss, Some(lock), vec![other, number], text);
            }
            if now < self.claims[other as usize].end || (are_together && is_unnotified) {
                self.open[lock].push(other);
            }
        }
        self.open[lock].push(number);
        self.start_stall(now, lock);
        number
    }

    /// Checks that no waiter is overtaken repeatedly.
    pub(crate) fn check_order(&mut self, now: Nanos, number: u32, queued: &[Queued]) {
        let how = match self.is_together(now, number) {
            true if !self.claim(number).is_entry() && self.is_joining(now, number) => How::Joining,
            true => How::Together,
            false => How::First,
        };
        let Claim { lock, asked_at, ref owner, ref from, .. } = self.claims[number as usize];
        // An adopted lease takes the position of the lease it continues.
        if from.is_none()
            && let Some((since, times)) =
                self.order.overtake(now, lock, (owner, asked_at, how), queued)
            && self.is_within_bounds()
        {
            let since = millis(since);
            let text =
                format!("a waiter that came at {since} was overtaken {times} times by later ones");
            self.report(now, Promise::Order, Some(lock), vec![number], text);
        }
    }

    /// True if it joined holders that had shared the lock since before it asked.
    fn is_joining(&self, now: Nanos, number: u32) -> bool {
        let asked_at = self.claims[number as usize].asked_at;
        self.others_with(now, number).any(|other| other.start < asked_at)
    }

    /// True if other holders share the lock with it now.
    pub(crate) fn is_together(&self, now: Nanos, number: u32) -> bool {
        self.others_with(now, number).next().is_some()
    }

    fn others_with(&self, now: Nanos, number: u32) -> impl Iterator<Item = &Claim> {
        let claim = &self.claims[number as usize];
        let others = self.open[claim.lock].iter().filter(move |other| **other != number);
        let others = others.map(|other| &self.claims[*other as usize]);
        others.filter(move |other| other.is_with(claim) && now < other.end)
    }

    /// Fences grow with every holder.
    fn check_fence(&mut self, now: Nanos, number: u32) {
        let claim = &self.claims[number as usize];
        let (Some(fence), lock) = (claim.fence, claim.lock) else { return };
        // An adopted lease is the same lease, with the same fence.
        let is_adopted = claim.from.is_some();
        let asked_at = self.asked_at(claim);
        // A node that forgot its fences continues from its clock. Only a quarantine makes that
        // visible to clients.
        let is_lost = [Bound::Memory, Bound::Witness].iter().any(|it| self.broken.contains(it));
        if is_lost || (self.has_forgotten && self.is_clock_wrong) {
            return;
        }
        // While exclusion may be broken, the fences of requests that ran at the same time are
        // unordered.
        let is_exact = self.is_within_bounds();
        let is_wrong = |other: &Claim| match other.fence {
            // All entries of an identity may have one fence. It is at least that of any entry that
            // has held the lock since before this one asked.
            Some(known) if other.lock == lock && other.is_with(claim) && claim.is_entry() => {
                known > fence && other.start < asked_at && now < other.end
            }
            Some(known) if other.lock == lock => {
                (known == fence && !is_adopted)
                    || (known > fence && (is_exact || other.end <= asked_at))
            }
            Some(_) | None => false,
        };
        let earlier = &self.claims[..number as usize];
        if let Some(other) = earlier.iter().position(is_wrong) {
            let known = self.claims[other].fence.map_or(0, Fence::get);
            let text = format!("the fence {fence} follows {known}");
            self.report(now, Promise::Fence, Some(lock), vec![other as u32, number], text);
        }
    }

    /// When the lease was first asked for, before it was adopted or detached.
    fn asked_at(&self, claim: &Claim) -> Nanos {
        let mut lease = claim;
        while let Some(from) = &lease.from {
            let Some(before) = self.claims.iter().find(|known| known.owner == *from) else { break };
            lease = before;
        }
        lease.asked_at
    }

    /// The holder now believes that its claim lasts until `end`.
    pub(crate) fn set_end(&mut self, now: Nanos, number: u32, end: Nanos) {
        let claim = &mut self.claims[number as usize];
        if claim.is_notified || claim.is_given_up {
            if end > now {
                let lock = Some(claim.lock);
                let text = "a lease that was lost or given up is valid again".to_owned();
                self.report(now, Promise::Loss, lock, vec![number], text);
            }
            return;
        }
        let (is_longer, lock) = (end > claim.end, claim.lock);
        claim.end = end;
        claim.backed_until = end;
        self.check_limit(now, number);
        if is_longer {
            let rival = self.open[lock]
                .iter()
                .copied()
                .filter(|other| !self.claim(*other).is_with(self.claim(number)))
                .find(|other| *other != number && now < self.claims[*other as usize].end);
            if let Some(rival) = rival {
                self.overlap(now, lock, rival, number);
            }
        }
    }

    fn check_limit(&mut self, now: Nanos, number: u32) {
        let Claim { lock, end, end_max, .. } = self.claims[number as usize];
        if end > end_max {
            let (end, limit) = (millis(end), millis(end_max));
            let text = format!("held until {end}, beyond the holder's own limit {limit}");
            self.report(now, Promise::Limit, Some(lock), vec![number], text);
        }
    }

    /// The holder released the lock, or detached its lease.
    pub(crate) fn remove_lease(&mut self, now: Nanos, number: u32) {
        let backed_until = self.claims[number as usize].end.min(now);
        self.crash(now, number);
        self.claims[number as usize].backed_until = backed_until;
    }

    /// The holder crashed.
    pub(crate) fn crash(&mut self, now: Nanos, number: u32) {
        let claim = &mut self.claims[number as usize];
        claim.is_given_up = true;
        claim.end = claim.end.min(now);
        self.check_for_stall(now, number);
    }

    /// The holder becomes a reader with the owner id `reader`. Other readers may join, and a
    /// majority must have one of the two owners until the end.
    pub(crate) fn share(&mut self, now: Nanos, number: u32, reader: Owner) {
        let claim = &mut self.claims[number as usize];
        (claim.group, claim.reader) = (Some(Group::Readers), Some(reader));
        let lock = claim.lock;
        self.start_stall(now, lock);
    }

    /// The lease of `from` was adopted. Only members of the same group can have held the lock in
    /// between.
    pub(crate) fn adopt(&mut self, now: Nanos, number: u32, from: &Owner) {
        let heir = &self.claims[number as usize];
        let lock = heir.lock;
        let (known, _) = self.claims.split_at(number as usize);
        let of_lock = known.iter().enumerate().rev().filter(|(_, claim)| claim.lock == lock);
        let since = of_lock.take_while(|(_, claim)| claim.owner != *from);
        let mut between = since.filter(|(_, claim)| !claim.is_with(heir));
        if let Some((other, _)) = between.next()
            && self.is_within_bounds()
        {
            let claims = vec![other as u32, number];
            let text =
                "a lease was adopted although another client had held the lock since".to_owned();
            self.report(now, Promise::Loss, Some(lock), claims, text);
        }
    }

    /// The holder was notified that it lost the lock.
    pub(crate) fn notify_loss(&mut self, now: Nanos, number: u32) {
        let claim = &mut self.claims[number as usize];
        claim.is_notified = true;
        claim.end = claim.end.min(now);
        claim.backed_until = claim.end;
        self.check_for_stall(now, number);
    }

    /// A majority of the nodes must have a claim. `holders` is the number of nodes that do.
    pub(crate) fn back(&mut self, now: Nanos, number: u32, holders: usize) {
        let claim = &self.claims[number as usize];
        if holders < majority(self.nodes) && self.is_within_bounds() {
            let text = format!(
                "claimed until {}, but only {holders} nodes have it",
                millis(claim.backed_until)
            );
            self.report(now, Promise::Backing, Some(claim.lock), vec![number], text);
        }
    }

    /// Faults have stopped: progress is promised from now on.
    pub(crate) fn heal(&mut self, now: Nanos) {
        self.healed_at = Some(now);
        self.order.heal(now);
        (0..self.open.len()).for_each(|lock| self.start_stall(now, lock));
    }

    fn check_for_stall(&mut self, now: Nanos, number: u32) {
        let lock = self.claims[number as usize].lock;
        let locks = if self.has_sets { 0..self.open.len() } else { lock..lock + 1 };
        locks.for_each(|lock| self.start_stall(now, lock));
    }

    fn overlap(&mut self, now: Nanos, lock: usize, first: u32, second: u32) {
        if let Some(bound) = self.broken.first() {
            self.beyond.push(*bound);
            return;
        }
        let names = [first, second].map(|claim| {
            let owner = owner_name(&self.claims[claim as usize].owner);
            format!("{owner} until {}", millis(self.claims[claim as usize].end))
        });
        let text = format!("two holders at once: {} and {}", names[0], names[1]);
        self.report(now, Promise::Exclusion, Some(lock), vec![first, second], text);
    }

    /// Records a violation. Only the first one is kept.
    pub(crate) fn report(
        &mut self,
        at: Nanos,
        promise: Promise,
        lock: Option<usize>,
        claims: Vec<u32>,
        text: String,
    ) {
        let name = |claim: &u32| owner_name(&self.claims[*claim as usize].owner);
        let owners = claims.iter().map(name).collect();
        self.violation.get_or_insert(Violation { promise, at, lock, claims, owners, text });
    }

    /// The same, for a request that is not a claim.
    pub(crate) fn report_owner(
        &mut self,
        at: Nanos,
        promise: Promise,
        lock: Option<usize>,
        owner: String,
        text: String,
    ) {
        let (claims, owners) = (Vec::new(), vec![owner]);
        self.violation.get_or_insert(Violation { promise, at, lock, claims, owners, text });
    }
}

/// The smallest number of nodes of which two disjoint groups cannot exist. The checker does not use
/// the core's count, because that is under test.
pub(crate) const fn majority(nodes: usize) -> usize {
    nodes / 2 + 1
}
