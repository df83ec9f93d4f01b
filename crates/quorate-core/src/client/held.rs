//! A lease that a client holds.

use std::sync::Arc;

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
    schedule::Times,
    terms::Terms,
};

/// Identifies a lease of one client.
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

/// A lock that was acquired, from which a lease is made.
#[derive(Clone, Debug)]
pub struct Acquired {
    /// The lock.
    pub name: Name,
    /// The owner that holds it.
    pub owner: Owner,
    /// The terms with which it is renewed.
    pub terms: Terms,
    /// Absent in classic mode.
    pub fenced: Option<FencedLease>,
    /// Nodes to which the owner was never sent.
    pub untaken: NodeSet,
    /// Whether it is renewed.
    pub renewal: Renewal,
    /// When the lease ends.
    pub valid_until: Moment,
    /// The limit that the holder has set.
    pub hold_until: Moment,
    /// When its first ttl began.
    pub granted_at: Moment,
}

/// A lease. It stays until its guard is dropped, even after it is lost.
#[derive(Clone, Debug, Hash)]
pub struct HeldLease {
    name: Name,
    owner: Owner,
    fenced: Option<FencedLease>,
    untaken: NodeSet,
    renewal: Renewal,
    pub(super) lease: Lease,
    pub(super) times: Times,
    /// Shared by leases with the same terms.
    terms: Arc<Terms>,
    longest: Arc<Terms>,
    /// The nodes that have a larger fence, which another entry of its identity has. Absent for
    /// other leases, of which there may be many.
    #[expect(clippy::box_collection, reason = "a third of the size while it is absent")]
    above: Option<Box<Vec<(usize, Fence)>>>,
    /// Set once every node has answered the call that acquired it.
    pub(super) has_only_keys: bool,
    is_extended: bool,
    is_retired: bool,
    pub(super) is_loss_reported: bool,
}

impl HeldLease {
    /// `known`: the terms of another lease, which may be the same.
    pub(super) fn new(acquired: Acquired, known: Option<&Arc<Terms>>) -> Self {
        let same = known.filter(|known| ***known == acquired.terms).cloned();
        let terms = same.unwrap_or_else(|| Arc::new(acquired.terms));
        Self {
            name: acquired.name,
            owner: acquired.owner,
            fenced: acquired.fenced,
            untaken: acquired.untaken,
            renewal: acquired.renewal,
            lease: Lease::new(acquired.valid_until, acquired.hold_until),
            times: Times::default(),
            longest: terms.clone(),
            terms,
            above: None,
            has_only_keys: false,
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

    /// The owner that holds it.
    #[must_use]
    pub const fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Its fence. Absent in classic mode.
    #[must_use]
    pub const fn fenced(&self) -> Option<FencedLease> {
        self.fenced
    }

    pub(super) const fn has_only_keys(&self) -> bool {
        self.has_only_keys
    }

    /// Its deadlines.
    #[must_use]
    pub const fn lease(&self) -> &Lease {
        &self.lease
    }

    /// The terms with which it is renewed.
    #[must_use]
    pub fn terms(&self) -> Terms {
        *self.terms
    }

    pub(super) const fn shared_terms(&self) -> &Arc<Terms> {
        &self.terms
    }

    /// The longest terms with which a node may have stored the key.
    #[must_use]
    pub fn longest(&self) -> Terms {
        *self.longest
    }

    /// Whether it is renewed.
    #[must_use]
    pub const fn renewal(&self) -> Renewal {
        self.renewal
    }

    /// Whether the holder was notified of the loss.
    #[must_use]
    pub const fn is_loss_reported(&self) -> bool {
        self.is_loss_reported
    }

    /// Nodes to which the owner was never sent. An extension may have stored the key on any node.
    #[must_use]
    pub const fn untaken(&self) -> NodeSet {
        let is_spread = self.fenced.is_some() && self.is_extended;
        if is_spread { NodeSet::EMPTY } else { self.untaken }
    }

    /// The claim for a round about this lease.
    #[must_use]
    pub fn claim(&self, terms: Terms) -> Claim {
        let (name, owner) = (self.name.clone(), self.owner.clone());
        let (from, untaken, fenced) = (None, self.untaken(), self.fenced);
        Claim { name, owner, terms, from, untaken, fenced }
    }

    /// The target of an extension.
    pub(super) fn target(&self) -> Target<'_> {
        Target { name: &self.name, owner: self.owner.clone(), ttl_ms: self.terms.ttl_ms() }
    }

    pub(super) fn is_renewed(&self) -> bool {
        self.renewal == Renewal::On && !self.is_loss_reported
    }

    /// Whether a node that has lost the key may store it again.
    pub(super) fn may_heal(&self) -> bool {
        self.fenced.is_some_and(FencedLease::may_heal)
    }

    /// Records the fence of a node that has extended the lease. If a majority has a larger fence
    /// than the lease, another entry of its identity has this fence, and the lease is renewed with
    /// it. Otherwise a node where that entry came and went would refuse to store this lease again.
    pub(super) fn record_fence(&mut self, node: usize, fence: Fence, quorum: usize) {
        let Some(fenced) = self.fenced.filter(|fenced| fence > fenced.fence()) else { return };
        mutate!(EntryFenceStays => return);
        if !matches!(group(&self.owner), Some(Group::Identity(_))) {
            return;
        }
        let above = self.above.get_or_insert_default();
        above.retain(|(known, _)| *known != node);
        above.push((node, fence));
        let mut fences: Vec<Fence> = above.iter().map(|(_, fence)| *fence).collect();
        fences.sort_unstable_by(|one, other| other.cmp(one));
        if let Some(agreed) = fences.get(quorum.saturating_sub(1)) {
            self.fenced = Some(fenced.with_fence(*agreed));
            above.retain(|(_, fence)| fence > agreed);
        }
    }

    /// Changes whether it is renewed, and its limit.
    pub(super) fn set_hold(&mut self, renewal: Renewal, hold_until: Moment) {
        self.renewal = renewal;
        self.lease.limit(hold_until);
    }

    /// Sends no extension from now on, because the lease is released or detached. An extension
    /// after the release would store the key again without a holder.
    pub(super) const fn retire(&mut self) {
        self.is_retired = true;
    }

    /// Retires the lease if no extension was ever sent and at least half of the ttl is left.
    /// Returns false otherwise.
    pub(super) fn retire_unextended(&mut self, now: Moment) -> bool {
        let half = self.terms.ttl().checked_div(2).unwrap_or_default();
        let is_unchanged = !self.is_extended && self.lease.remaining(now) >= half;
        self.is_retired |= is_unchanged;
        is_unchanged
    }

    /// Records that the holder is about to send an extension. From now on the lease is renewed with
    /// these terms.
    pub(super) fn extend_to(&mut self, terms: Terms, now: Moment) -> Result<Extension, LostReason> {
        self.check_extension(now)?;
        self.terms = Arc::new(terms);
        if terms.ttl() > self.longest.ttl() {
            self.longest = self.terms.clone();
        }
        Ok(self.record_extension(&terms, now))
    }

    /// Records that the watchdog is about to send an extension. `None` if it would be useless.
    pub(super) fn renew(&mut self, terms: &Terms, now: Moment) -> Option<Extension> {
        let can_grow = self.check_extension(now).is_ok() && self.lease.can_grow();
        can_grow.then(|| self.record_extension(terms, now))
    }

    fn check_extension(&self, now: Moment) -> Result<(), LostReason> {
        if self.is_retired { Err(LostReason::ShutDown) } else { self.lease.check(now) }
    }

    fn record_extension(&mut self, terms: &Terms, now: Moment) -> Extension {
        self.is_extended = true;
        self.lease.handle_extension_sent(terms, now)
    }
}
