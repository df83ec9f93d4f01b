//! Checks turn what was observed into findings.

use quorate::error::NodeError;

use super::{certificates, clocks, folder, observed::Observed, rights, servers, set};

/// One thing that is checked. Its id is stable: the runbook has a section for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Check {
    pub(super) id: &'static str,
    /// What is wrong.
    pub(super) problems: fn(&Observed) -> Vec<Problem>,
    /// What is fine, if nothing is wrong. `None` if the check does not apply, or nothing is known.
    pub(super) fine: fn(&Observed) -> Option<String>,
}

/// Something that is wrong.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Problem {
    pub(super) level: Level,
    /// The node; `None` if it concerns all, or this machine.
    pub(super) node: Option<String>,
    pub(super) text: String,
    /// What to do.
    pub(super) remedy: String,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Level {
    Ok,
    /// Locks work, but an operator should check this.
    Warning,
    /// Locks do not work, a failure is no longer tolerated, or locks may be lost.
    Error,
}

impl Problem {
    pub(super) fn error(text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { level: Level::Error, node: None, text: text.into(), remedy: remedy.into() }
    }

    pub(super) fn warning(text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { level: Level::Warning, ..Self::error(text, remedy) }
    }

    /// Of one node.
    pub(super) fn of(self, node: &str) -> Self {
        Self { node: Some(node.to_owned()), ..self }
    }
}

/// The result of a check: that all is fine, or one problem.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Finding {
    pub(super) id: &'static str,
    pub(super) level: Level,
    pub(super) node: Option<String>,
    pub(super) text: String,
    pub(super) remedy: Option<String>,
}

/// All findings.
#[derive(Debug)]
pub(super) struct Diagnosis {
    pub(super) findings: Vec<Finding>,
}

impl Diagnosis {
    pub(super) fn of(observed: &Observed) -> Self {
        let findings = checks().flat_map(|check| check.findings(observed)).collect();
        Self { findings }
    }

    pub(super) fn count(&self, level: Level) -> usize {
        self.findings.iter().filter(|finding| finding.level == level).count()
    }

    pub(super) fn has_errors(&self) -> bool {
        self.count(Level::Error) > 0
    }
}

/// All checks, in the order in which they are reported.
pub(super) fn checks() -> impl Iterator<Item = &'static Check> {
    let groups = [servers::CHECKS, rights::CHECKS, certificates::CHECKS, clocks::CHECKS];
    groups.into_iter().chain([set::CHECKS, folder::CHECKS]).flatten()
}

impl Check {
    fn findings(&self, observed: &Observed) -> Vec<Finding> {
        let mut problems = (self.problems)(observed);
        for node in &observed.nodes {
            let is_found = problems.iter().any(|it| it.node.as_deref() == Some(node.name()));
            // What is wrong is that it is in the list.
            let is_elsewhere = self.id == "reachable" && observed.is_outdated(node);
            let error = node.errors().find(|error| check_of(error) == self.id);
            if let Some(error) = error.filter(|_| !is_found && !is_elsewhere) {
                problems.push(Problem::error(error.to_string(), remedy(error)).of(node.name()));
            }
        }
        let found = problems.into_iter().map(|problem| Finding {
            id: self.id,
            level: problem.level,
            node: problem.node,
            text: problem.text,
            remedy: Some(problem.remedy),
        });
        let found: Vec<Finding> = found.collect();
        if !found.is_empty() {
            return found;
        }
        let fine = (self.fine)(observed).map(|text| Finding {
            id: self.id,
            level: Level::Ok,
            node: None,
            text,
            remedy: None,
        });
        fine.into_iter().collect()
    }
}

/// The id of the check that reports an error which a node gave.
pub(super) fn check_of(error: &NodeError) -> &'static str {
    match error {
        NodeError::Auth(_) => "login",
        NodeError::NoPermission(_) => "rights",
        NodeError::ReadOnly => "role",
        NodeError::OutOfMemory => "memory",
        NodeError::Evicts(_) => "eviction",
        NodeError::Busy => "slow-scripts",
        NodeError::SameServer(_) => "same-server",
        NodeError::Tls(_) => "tls",
        NodeError::Unsupported(_) => "server",
        NodeError::Quarantined { .. } => "quarantine",
        NodeError::WrongType
        | NodeError::Disagreement(_)
        | NodeError::DamagedRecord { .. }
        | NodeError::NotEmpty(_) => "membership",
        NodeError::ClockStandsStill => "clock-rate",
        _ => "reachable",
    }
}

/// What to do about an error that no check has explained better.
fn remedy(error: &NodeError) -> &'static str {
    match error {
        NodeError::ConnectionRefused => "start the server, or correct the address",
        NodeError::TimedOut | NodeError::Unreachable(_) | NodeError::Connecting => {
            "check that the server runs and is not stopped, and the network and firewall between"
        }
        NodeError::ConnectionLost(_) | NodeError::Protocol(_) => {
            "check that the address is one of a Redis or Valkey server"
        }
        NodeError::Loading => "wait until the server has read its data",
        NodeError::Auth(_) => "correct user and password in the address",
        NodeError::NoPermission(_) => "grant the user what docs/operations.md lists",
        NodeError::ReadOnly => "use the master, or REPLICAOF NO ONE if it is to be independent",
        NodeError::OutOfMemory => "free memory, or raise maxmemory",
        NodeError::Evicts(_) => "CONFIG SET maxmemory-policy noeviction, and in its file",
        NodeError::Busy => "end the script: SCRIPT KILL",
        NodeError::SameServer(_) => "give each node a server of its own",
        NodeError::Tls(_) => "renew the certificate, or set tls_ca, tls_cert and tls_key",
        NodeError::Unsupported(_) => "use Redis 6.2 or later, or Valkey, and no cluster",
        NodeError::Quarantined { .. } => "wait: it votes again by itself",
        NodeError::DamagedRecord { .. } => "delete that key: the node is quarantined anew",
        NodeError::WrongType | NodeError::Disagreement(_) | NodeError::NotEmpty(_) => {
            "use the same nodes, max_ttl, quarantine and prefix in all clients"
        }
        NodeError::ClockStandsStill => "repair the clock of the server",
        _ => "see the log of the server",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_of_a_node_belongs_to_a_check() {
        let ids: Vec<&str> = checks().map(|check| check.id).collect();
        let text = || "x".to_owned();
        for error in [
            NodeError::TimedOut,
            NodeError::Auth(text()),
            NodeError::NoPermission(text()),
            NodeError::ReadOnly,
            NodeError::OutOfMemory,
            NodeError::Evicts(text()),
            NodeError::Busy,
            NodeError::SameServer(text()),
            NodeError::Tls(text()),
            NodeError::Unsupported(text()),
            NodeError::Quarantined {
                left: std::time::Duration::ZERO,
                why: text(),
                cause: quorate::error::QuarantineCause::New,
            },
            NodeError::Disagreement(text()),
            NodeError::ClockStandsStill,
        ] {
            assert!(ids.contains(&check_of(&error)), "{error}");
        }
    }

    #[test]
    fn ids_are_unique() {
        let mut ids: Vec<&str> = checks().map(|check| check.id).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count);
    }
}
