//! What the checks start from.

use std::time::{Duration, SystemTime};

use quorate::{
    diagnose::{FolderFacts, ServerFacts},
    error::{NodeAnswer, NodeError},
};

use crate::quorum::{Quorum, is_full};

/// Everything that was observed. The checks read nothing else.
#[derive(Debug)]
pub(super) struct Observed {
    pub(super) nodes: Vec<Node>,
    pub(super) folder: Option<Folder>,
    pub(super) client_certificate_ends: Option<SystemTime>,
    pub(super) settings: Settings,
    pub(super) now: SystemTime,
}

/// One node.
#[derive(Debug)]
pub(super) struct Node {
    /// What the server reported about itself.
    pub(super) facts: ServerFacts,
    /// What a client that connects to it concludes.
    pub(super) answer: NodeAnswer,
}

/// The folder of local locks.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) facts: FolderFacts,
    /// Whether the folder is used only because no nodes are configured.
    pub(super) is_by_default: bool,
    /// What is wrong with the content of the file.
    pub(super) file_problem: Option<String>,
}

/// The settings that matter here.
#[derive(Debug)]
pub(super) struct Settings {
    /// Where the list of nodes comes from.
    pub(super) nodes_from: String,
    /// Whether an address in it has a user or a password.
    pub(super) has_login: bool,
    pub(super) max_ttl: Duration,
    /// The prefix of Quorate's own keys.
    pub(super) prefix: String,
    pub(super) has_quarantine: bool,
    pub(super) has_durable_nodes: bool,
}

/// The list of nodes that the nodes have agreed on.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Agreed<'a> {
    /// The number of its change.
    pub(super) change: u64,
    pub(super) nodes: Vec<&'a str>,
    /// The list before, while clients with that list are still accepted.
    before: Vec<&'a str>,
}

impl Agreed<'_> {
    pub(super) fn has(&self, node: &str) -> bool {
        self.nodes.contains(&node) || self.before.contains(&node)
    }
}

impl Observed {
    /// The nodes whose servers answered.
    pub(super) fn reached(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.is_reached())
    }

    pub(super) fn quorum(&self) -> Quorum {
        let voting = || self.nodes.iter().filter(|node| node.votes());
        let full = voting().filter(|node| node.is_full()).count();
        Quorum { nodes: self.nodes.len(), voting: voting().count(), full }
    }

    /// The address of an earlier node that leads to the same server as this one.
    pub(super) fn twin(&self, node: &Node) -> Option<&str> {
        let run = node.info("run_id")?;
        let earlier = self.reached().take_while(|other| other.name() != node.name());
        earlier.filter(|other| other.info("run_id") == Some(run)).map(Node::name).next()
    }

    /// Whether two addresses lead to one server. No client accepts that.
    pub(super) fn has_twins(&self) -> bool {
        self.nodes.iter().any(|node| self.twin(node).is_some())
    }

    /// The latest list that the nodes know. `None` if they know none, or belong to several sets.
    pub(super) fn agreed(&self) -> Option<Agreed<'_>> {
        let record = |node: &Node| {
            let origin = node.facts.record.get("origin").filter(|origin| !origin.is_empty())?;
            Some((node.recorded("change")?, origin.clone()))
        };
        let known = || self.nodes.iter().filter_map(|node| Some((record(node)?, node)));
        let ((_, origin), _) = known().next()?;
        let ((change, _), latest) = known().max_by_key(|((change, _), _)| *change)?;
        let list = |field: &str| {
            let text = latest.facts.record.get(field).map_or("", String::as_str);
            text.lines().filter_map(|line| Some(line.split_once(' ')?.1)).collect()
        };
        let is_one_set = known().all(|((_, other), _)| other == origin);
        is_one_set.then(|| Agreed { change, nodes: list("members"), before: list("before") })
    }

    /// Whether the set was changed, and this node, which does not vote, is not in the new list.
    pub(super) fn is_outdated(&self, node: &Node) -> bool {
        let is_other = |agreed: Agreed<'_>| agreed.change > 1 && !agreed.has(node.name());
        !node.votes() && self.settings.has_quarantine && self.agreed().is_some_and(is_other)
    }
}

impl Node {
    pub(super) fn name(&self) -> &str {
        &self.facts.node
    }

    pub(super) fn is_reached(&self) -> bool {
        !self.facts.info.is_empty()
    }

    /// Whether it votes now, or as soon as a client connects that does more than read.
    pub(super) const fn votes(&self) -> bool {
        matches!(self.answer, NodeAnswer::Attached | NodeAnswer::Ready(_))
    }

    /// Whether its memory is full, so that it keeps its locks and grants no new ones.
    pub(super) fn is_full(&self) -> bool {
        is_full(&self.facts.info)
    }

    /// A field of its INFO.
    pub(super) fn info(&self, field: &str) -> Option<&str> {
        self.facts.info.get(field).map(String::as_str)
    }

    /// A number in its INFO.
    pub(super) fn number(&self, field: &str) -> Option<u64> {
        self.info(field)?.parse().ok()
    }

    /// A number in its record.
    pub(super) fn recorded(&self, field: &str) -> Option<u64> {
        self.facts.record.get(field)?.parse().ok()
    }

    /// The kind of the server and its version.
    pub(super) fn product(&self) -> Option<String> {
        let of = |name, field| Some(format!("{name} {}", self.info(field)?));
        of("Valkey", "valkey_version").or_else(|| of("Redis", "redis_version"))
    }

    /// The shortest round trip.
    pub(super) fn round_trip(&self) -> Option<Duration> {
        self.facts.clock.iter().map(|it| it.answered.saturating_sub(it.asked)).min()
    }

    /// Everything that failed, the most recent last.
    pub(super) fn errors(&self) -> impl Iterator<Item = &NodeError> {
        let answered = match &self.answer {
            NodeAnswer::NodeError(error) => Some(error),
            _ => None,
        };
        let facts = &self.facts;
        facts.node_error.iter().chain(&facts.script_error).chain(answered)
    }
}
