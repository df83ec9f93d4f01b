//! The agreed config of a set of nodes.

use std::{fmt, fmt::Write as _, sync::Arc};

use super::NodeId;

/// A node of a set: its name, and the address under which it was first known.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Member {
    /// Its name.
    pub id: NodeId,
    /// Its address, without secrets.
    pub label: Arc<str>,
}

/// The nodes of a set, in the order of their names.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Members(Arc<[Member]>);

impl Members {
    /// The members, sorted by name.
    #[must_use]
    pub fn new(members: impl IntoIterator<Item = Member>) -> Self {
        let mut members: Vec<Member> = members.into_iter().collect();
        members.sort();
        Self(members.into())
    }

    /// Iterates over the members.
    pub fn iter(&self) -> impl Iterator<Item = &Member> {
        self.0.iter()
    }

    /// The number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the node is a member.
    #[must_use]
    pub fn has(&self, id: NodeId) -> bool {
        self.iter().any(|member| member.id == id)
    }

    /// The member with this address.
    #[must_use]
    pub fn at(&self, label: &str) -> Option<&Member> {
        self.iter().find(|member| &*member.label == label)
    }

    /// Whether these are the same nodes, even under other addresses.
    #[must_use]
    pub fn are(&self, others: &Self) -> bool {
        self.iter().map(|it| it.id).eq(others.iter().map(|it| it.id))
    }

    /// A line for each member: its name, a space, its address.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for Member { id, label } in self.iter() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{id} {label}");
        }
        text
    }

    /// Parses the result of `to_text`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let member = |line: &str| {
            let (id, label) = line.split_once(' ')?;
            Some(Member { id: NodeId::parse(id)?, label: label.into() })
        };
        let members = text.lines().map(member).collect::<Option<Vec<_>>>()?;
        (!members.is_empty()).then(|| Self::new(members))
    }
}

impl fmt::Display for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, member) in self.iter().enumerate() {
            write!(f, "{}{}", if number == 0 { "" } else { ", " }, member.label)?;
        }
        Ok(())
    }
}

/// The config that the nodes of a set and their clients have agreed on.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct AgreedConfig {
    /// The number of the last change. The foundation of the set has number 1.
    pub change: u64,
    /// Identifies the set: a combination of the names of its first nodes.
    pub origin: NodeId,
    /// The nodes.
    pub members: Members,
    /// The nodes before the last change, while clients with that list are still accepted.
    pub before: Option<Members>,
    /// The node that joined with the last change, if one did.
    pub newcomer: Option<NodeId>,
    /// The longest ttl of a lock.
    pub max_ttl_ms: u64,
    /// How long a quarantine lasts.
    pub quarantine_ms: u64,
}

impl AgreedConfig {
    /// The first config of a set.
    #[must_use]
    pub fn founded_by(members: Members, max_ttl_ms: u64, quarantine_ms: u64) -> Option<Self> {
        if members.is_empty() {
            return None;
        }
        // It depends on all members: two lists that were founded at the same time are two sets,
        // even if they have nodes in common.
        let origin = NodeId(members.iter().fold(0, |name, member| name ^ member.id.0));
        let (before, newcomer) = (None, None);
        Some(Self { change: 1, origin, members, before, newcomer, max_ttl_ms, quarantine_ms })
    }

    /// The lists of nodes that clients may have: this one, and the one before while it is accepted.
    pub fn lists(&self) -> impl Iterator<Item = &Members> {
        [Some(&self.members), self.before.as_ref()].into_iter().flatten()
    }

    /// Whether it is the same change to the same nodes. Two operators may give two changes the same
    /// number.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let terms = |it: &Self| (it.origin, it.change, it.max_ttl_ms, it.quarantine_ms);
        terms(self) == terms(other) && self.members.are(&other.members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_lists_are_parsed_back() {
        let id = |bits| NodeId::from_random(bits);
        let member = |bits, label: &str| Member { id: id(bits), label: label.into() };
        let members = Members::new([member(9, "b:1"), member(3, "/a path")]);
        assert_eq!(Members::parse(&members.to_text()), Some(members.clone()));
        assert_eq!(members.to_string(), "/a path, b:1");
        assert_eq!(Members::parse(""), None);
        assert_eq!(Members::parse("no"), None);
    }

    #[test]
    fn sets_that_differ_in_one_node_have_different_origins() {
        let member = |bits| Member { id: NodeId::from_random(bits), label: "x".into() };
        let origin = |ids: &[u128]| {
            let members = Members::new(ids.iter().copied().map(member));
            AgreedConfig::founded_by(members, 1, 1).map(|config| config.origin)
        };
        assert_eq!(origin(&[1, 2, 4]), origin(&[4, 1, 2]));
        assert_ne!(origin(&[1, 2, 4]), origin(&[1, 2, 5]));
        assert_eq!(origin(&[]), None);
    }
}
