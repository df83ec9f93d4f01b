//! Majorities: which sets of nodes decide, and the tally of their votes.

use std::fmt;

/// The smallest number of nodes that two disjoint groups cannot both have.
#[must_use]
pub const fn majority(nodes: usize) -> usize {
    (nodes / 2).saturating_add(1)
}

/// The vote of one node.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Vote {
    /// The node did what was asked.
    Grant,
    /// The node refused: it stores nothing of this owner.
    Refuse,
    /// No usable answer. The command may have run, may still run, or may never run.
    Unknown,
}

/// The votes of one round, at most one per node.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Tally {
    nodes: usize,
    granted: NodeSet,
    refused: NodeSet,
    unknown: NodeSet,
}

impl Tally {
    /// An empty tally.
    ///
    /// # Panics
    ///
    /// If `nodes` is zero or more than [`NODES_MAX`]. The configuration is validated earlier.
    #[must_use]
    pub fn new(nodes: usize) -> Self {
        assert!((1..=NODES_MAX).contains(&nodes), "a quorum needs 1 to {NODES_MAX} nodes");
        let none = NodeSet::EMPTY;
        Self { nodes, granted: none, refused: none, unknown: none }
    }

    /// Counts the vote of a node that has not voted. A second vote is ignored: after `Unknown` the
    /// undo is already sent.
    pub fn count(&mut self, node: usize, vote: Vote) {
        if !self.pending().contains(node) {
            return;
        }
        mutate!(UnknownIsRefusal if vote == Vote::Unknown => let vote = Vote::Refuse);
        match vote {
            Vote::Grant => self.granted.insert(node),
            Vote::Refuse => self.refused.insert(node),
            Vote::Unknown => self.unknown.insert(node),
        }
    }

    /// The verdict so far.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        if self.granted.len() >= self.quorum() {
            Verdict::Won
        } else if self.granted.len().saturating_add(self.pending().len()) < self.quorum() {
            Verdict::Lost
        } else {
            Verdict::Open
        }
    }

    /// Whether enough nodes refused that no majority can remain.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.nodes.saturating_sub(self.refused.len()) < self.quorum()
    }

    /// The nodes that granted.
    #[must_use]
    pub const fn granted(&self) -> NodeSet {
        self.granted
    }

    /// The nodes that refused.
    #[must_use]
    pub const fn refused(&self) -> NodeSet {
        self.refused
    }

    /// The nodes that have not voted.
    #[must_use]
    pub fn pending(&self) -> NodeSet {
        NodeSet::all(self.nodes).without(self.granted).without(self.refused).without(self.unknown)
    }

    /// All nodes of the round.
    #[must_use]
    pub fn nodes(&self) -> NodeSet {
        NodeSet::all(self.nodes)
    }

    fn quorum(&self) -> usize {
        mutate!(SmallQuorum => return majority(self.nodes).saturating_sub(1).max(1));
        majority(self.nodes)
    }
}

/// The state of a tally.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Verdict {
    /// A majority granted.
    Won,
    /// A majority can no longer be reached.
    Lost,
    /// Pending votes decide.
    Open,
}

/// A set of node numbers.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct NodeSet(u32);

impl NodeSet {
    /// No node.
    pub const EMPTY: Self = Self(0);

    /// The nodes `0..nodes`.
    #[must_use]
    pub fn all(nodes: usize) -> Self {
        (0..nodes).fold(Self::EMPTY, |set, node| Self(set.0 | bit(node)))
    }

    /// Only `node`.
    #[must_use]
    pub fn one(node: usize) -> Self {
        Self(bit(node))
    }

    /// Adds `node`.
    pub fn insert(&mut self, node: usize) {
        self.0 |= bit(node);
    }

    /// Removes `node`.
    pub fn remove(&mut self, node: usize) {
        self.0 &= !bit(node);
    }

    /// Whether `node` is in the set.
    #[must_use]
    pub fn contains(self, node: usize) -> bool {
        self.0 & bit(node) != 0
    }

    /// The nodes of this set that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The nodes of both sets.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The number of nodes.
    #[must_use]
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The nodes in ascending order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut left = self;
        std::iter::from_fn(move || {
            let node = left.0.trailing_zeros() as usize;
            left.remove(node);
            (node < NODES_MAX).then_some(node)
        })
    }
}

impl fmt::Debug for NodeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// The most nodes of a client.
pub const NODES_MAX: usize = 31;

fn bit(node: usize) -> u32 {
    u32::try_from(node).ok().and_then(|shift| 1_u32.checked_shl(shift)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_majorities_always_overlap() {
        for nodes in 1..=NODES_MAX {
            assert!(2 * majority(nodes) > nodes, "{nodes}");
            assert!(2 * (majority(nodes) - 1) <= nodes, "{nodes}: no more than needed");
        }
    }

    #[test]
    fn first_vote_of_a_node_counts() {
        let votes = [Vote::Grant, Vote::Refuse, Vote::Unknown];
        for first in votes {
            let mut tally = Tally::new(3);
            tally.count(0, first);
            let counted = tally;
            votes.iter().for_each(|second| tally.count(0, *second));
            assert_eq!(tally, counted);
            assert_eq!(tally.pending().len(), 2);
        }
    }

    #[test]
    fn tie_is_lost() {
        let mut tally = Tally::new(2);
        tally.count(0, Vote::Grant);
        assert_eq!(tally.verdict(), Verdict::Open);
        tally.count(1, Vote::Refuse);
        assert_eq!(tally.verdict(), Verdict::Lost);
    }

    #[test]
    fn node_sets_contain_what_was_inserted() {
        let mut set = NodeSet::all(5);
        set.remove(3);
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 1, 2, 4]);
        assert_eq!(format!("{set:?}"), "{0, 1, 2, 4}");
        assert_eq!(set.without(NodeSet::one(0)).union(NodeSet::one(3)).len(), 4);
        assert!(NodeSet::EMPTY.is_empty() && !set.is_empty());
    }
}
