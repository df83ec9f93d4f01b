//! What the checks start from.

use std::time::{Duration, SystemTime};

use quorate::{
    diagnose::{FolderFacts, ServerFacts},
    error::{NodeAnswer, NodeError},
};

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
    pub(super) max_ttl: Duration,
    /// The prefix of Quorate's own keys.
    pub(super) prefix: String,
    pub(super) has_quarantine: bool,
    pub(super) has_durable_nodes: bool,
}

impl Observed {
    /// The nodes whose servers answered.
    pub(super) fn reached(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.is_reached())
    }

    /// How many nodes vote.
    pub(super) fn votes(&self) -> usize {
        self.nodes.iter().filter(|node| node.votes()).count()
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
