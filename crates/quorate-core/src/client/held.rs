//! One held lease.

use super::round::Claim;
use crate::{
    command::Owner,
    dialect::Target,
    fence::Fence,
    lease::{Extension, Lease, LostReason},
    moment::Moment,
    name::Name,
    queue::{FencedLease, Group, group},
    quorum::NodeSet,
    terms::Terms,
};

/// Names a held lease of one client.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LeaseId(pub(super) u64);

/// Whether a lease is renewed.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Renewal {
    /// While it is held.
    On,
    /// Never: a fixed lease.
    Off,
}

/// A lock that was acquired.
#[derive(Clone, Debug)]
pub struct Won {
    /// The lock.
    pub name: Name,
    /// Who holds it.
    pub owner: Owner,
    /// What it is renewed with.
    pub terms: Terms,
    /// Absent in classic mode.
    pub fenced: Option<FencedLease>,
    /// Nodes to which the owner was never sent.
    pub untaken: NodeSet,
    /// Whether it is renewed.
    pub renewal: Renewal,
    /// When it ends.
    pub valid_until: Moment,
    /// The holder's own limit.
    pub hold_until: Moment,
    /// From when on the nodes count its first ttl.
    pub granted_at: Moment,
}

/// One held lease. It stays until its guard lets go, even after it is lost.
#[derive(Clone, Debug, Hash)]
pub struct HeldLease {
    name: Name,
    owner: Owner,
    fenced: Option<FencedLease>,
    untaken: NodeSet,
    renewal: Renewal,
    pub(super) lease: Lease,
    terms: Terms,
    longest: Terms,
    /// Nodes that have a larger fence for it, and which: other entries of its identity have that.
    above: Vec<(usize, Fence)>,
    is_extended: bool,
    is_retired: bool,
    pub(super) is_loss_reported: bool,
}

impl HeldLease {
    pub(super) fn new(won: Won) -> Self {
        Self {
            name: won.name,
            owner: won.owner,
            fenced: won.fenced,
            untaken: won.untaken,
            renewal: won.renewal,
            lease: Lease::new(won.valid_until, won.hold_until),
            terms: won.terms,
            longest: won.terms,
            above: Vec::new(),
            is_extended: false,
            is_retired: false,
            is_loss_reported: false,
        }
    }

    /// The lock.
    #[must_use]
    pub const fn name(&self) -> &Name {
        &self.name
    }

    /// Who holds it.
    #[must_use]
    pub const fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Its fence; absent in classic mode.
    #[must_use]
    pub const fn fenced(&self) -> Option<FencedLease> {
        self.fenced
    }

    /// Its times.
    #[must_use]
    pub const fn lease(&self) -> &Lease {
        &self.lease
    }

    /// What it is renewed with.
    #[must_use]
    pub const fn terms(&self) -> Terms {
        self.terms
    }

    /// The terms of the longest life that any node may have given the key.
    #[must_use]
    pub const fn longest(&self) -> Terms {
        self.longest
    }

    /// Whether it is renewed.
    #[must_use]
    pub const fn renewal(&self) -> Renewal {
        self.renewal
    }

    /// True once the holder was notified of the loss.
    #[must_use]
    pub const fn is_loss_reported(&self) -> bool {
        self.is_loss_reported
    }

    /// Nodes to which the owner was never sent. An extension may have made the key anew where it
    /// never was.
    #[must_use]
    pub const fn untaken(&self) -> NodeSet {
        let is_spread = self.fenced.is_some() && self.is_extended;
        if is_spread { NodeSet::EMPTY } else { self.untaken }
    }

    /// What a round about this lease is about.
    #[must_use]
    pub fn claim(&self, terms: Terms) -> Claim {
        let (name, owner) = (self.name.clone(), self.owner.clone());
        let (from, untaken, fenced) = (None, self.untaken(), self.fenced);
        Claim { name, owner, terms, from, untaken, fenced }
    }

    /// What it is extended as.
    pub(super) fn target(&self) -> Target<'_> {
        Target { name: &self.name, owner: self.owner.clone(), ttl_ms: self.terms.ttl_ms() }
    }

    pub(super) fn is_renewed(&self) -> bool {
        self.renewal == Renewal::On && !self.is_loss_reported
    }

    /// A node that lost the key takes it again.
    pub(super) fn may_heal(&self) -> bool {
        self.fenced.is_some_and(FencedLease::may_heal)
    }

    /// A node has extended it, and has this fence. If a majority of them have a larger one than the
    /// lease, its identity has that, and the lease is renewed with it. Otherwise a node where an
    /// entry with the larger fence came and went would count as one that another was granted since.
    pub(super) fn note_stored(&mut self, node: usize, fence: Fence, quorum: usize) {
        let Some(fenced) = self.fenced.filter(|fenced| fence > fenced.fence()) else { return };
        mutate!(EntryFenceStays => return);
        if !matches!(group(&self.owner), Some(Group::Identity(_))) {
            return;
        }
        self.above.retain(|(known, _)| *known != node);
        self.above.push((node, fence));
        let mut fences: Vec<Fence> = self.above.iter().map(|(_, fence)| *fence).collect();
        fences.sort_unstable_by(|one, other| other.cmp(one));
        if let Some(agreed) = fences.get(quorum.saturating_sub(1)) {
            self.fenced = Some(fenced.with_fence(*agreed));
            self.above.retain(|(_, fence)| fence > agreed);
        }
    }

    /// From now on it is held like this.
    pub(super) fn set_hold(&mut self, renewal: Renewal, hold_until: Moment) {
        self.renewal = renewal;
        self.lease.limit(hold_until);
    }

    /// No extension leaves from now on: the lease is released or detached. An extension that came
    /// after the release would take the key again for nobody.
    pub(super) const fn retire(&mut self) {
        self.is_retired = true;
    }

    /// The same, if no extension was ever sent and at least half of the ttl is left. Returns
    /// whether so.
    pub(super) fn retire_unextended(&mut self, now: Moment) -> bool {
        let half = self.terms.ttl().checked_div(2).unwrap_or_default();
        let is_as_it_was = !self.is_extended && self.lease.remaining(now) >= half;
        self.is_retired |= is_as_it_was;
        is_as_it_was
    }

    /// An extension by the holder is about to leave: from now on it is renewed with these terms.
    pub(super) fn extend_to(&mut self, terms: Terms, now: Moment) -> Result<Extension, LostReason> {
        self.check_extension(now)?;
        self.terms = terms;
        if terms.ttl() > self.longest.ttl() {
            self.longest = terms;
        }
        Ok(self.note_extension(&terms, now))
    }

    /// An extension by the watchdog is about to leave, if it can be of use.
    pub(super) fn renew(&mut self, terms: &Terms, now: Moment) -> Option<Extension> {
        let can_grow = self.check_extension(now).is_ok() && self.lease.can_grow();
        can_grow.then(|| self.note_extension(terms, now))
    }

    fn check_extension(&self, now: Moment) -> Result<(), LostReason> {
        if self.is_retired { Err(LostReason::ShutDown) } else { self.lease.check(now) }
    }

    fn note_extension(&mut self, terms: &Terms, now: Moment) -> Extension {
        self.is_extended = true;
        self.lease.handle_extension_sent(terms, now)
    }
}
