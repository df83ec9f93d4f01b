//! What the nodes of a set and their clients have agreed upon.

use std::{fmt, fmt::Write as _, sync::Arc};

use super::NodeId;

/// One node of a set: its name, and the address by which it was first known.
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
    /// Puts them in order.
    #[must_use]
    pub fn new(members: impl IntoIterator<Item = Member>) -> Self {
        let mut members: Vec<Member> = members.into_iter().collect();
        members.sort();
        Self(members.into())
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Member> {
        self.0.iter()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the node is one of them.
    #[must_use]
    pub fn has(&self, id: NodeId) -> bool {
        self.iter().any(|member| member.id == id)
    }

    /// The one with this address.
    #[must_use]
    pub fn at(&self, label: &str) -> Option<&Member> {
        self.iter().find(|member| &*member.label == label)
    }

    /// Whether they are the same nodes, whatever their addresses.
    #[must_use]
    pub fn are(&self, others: &Self) -> bool {
        self.iter().map(|it| it.id).eq(others.iter().map(|it| it.id))
    }

    /// One line for each: its name, a blank, its address.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for Member { id, label } in self.iter() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{id} {label}");
        }
        text
    }

    /// Reads what `to_text` writes.
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

/// What the nodes of a set and their clients have agreed upon.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct AgreedConfig {
    /// Counts the changes of the set, from 1 when it was founded.
    pub change: u64,
    /// Names the set: what its first nodes are called, taken together.
    pub origin: NodeId,
    /// The nodes.
    pub members: Members,
    /// The nodes before the last change, while clients with that list are still let in.
    pub before: Option<Members>,
    /// The node that joined with the last change, if one did.
    pub newcomer: Option<NodeId>,
    /// No lock has a longer ttl.
    pub max_ttl_ms: u64,
    /// How long a quarantine lasts.
    pub quarantine_ms: u64,
}

impl AgreedConfig {
    /// The first one of a set.
    #[must_use]
    pub fn founded_by(members: Members, max_ttl_ms: u64, quarantine_ms: u64) -> Option<Self> {
        if members.is_empty() {
            return None;
        }
        // All of them have a part in it: two lists that were founded at the same time are two sets,
        // even if they have nodes in common.
        let origin = NodeId(members.iter().fold(0, |name, member| name ^ member.id.0));
        let (before, newcomer) = (None, None);
        Some(Self { change: 1, origin, members, before, newcomer, max_ttl_ms, quarantine_ms })
    }

    /// The lists of nodes that clients may have: this one, and the one before.
    pub fn lists(&self) -> impl Iterator<Item = &Members> {
        [Some(&self.members), self.before.as_ref()].into_iter().flatten()
    }

    /// Whether it is the same change to the same nodes: two operators may give one number to two.
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
    fn lists_are_read_as_they_are_written() {
        let id = |bits| NodeId::from_random(bits);
        let member = |bits, label: &str| Member { id: id(bits), label: label.into() };
        let members = Members::new([member(9, "b:1"), member(3, "/a path")]);
        assert_eq!(Members::parse(&members.to_text()), Some(members.clone()));
        assert_eq!(members.to_string(), "/a path, b:1");
        assert_eq!(Members::parse(""), None);
        assert_eq!(Members::parse("no"), None);
    }

    #[test]
    fn sets_that_differ_in_one_node_have_different_names() {
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
