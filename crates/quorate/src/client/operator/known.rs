//! What is known about the nodes when an operator action decides.

use quorate_core::membership::{Disagreement, NodeInfo, Opinion, Reason};

use crate::{
    error::{AdmitError, NodeAnswer, NodeError, NodeReport},
    membership::{SharedMembership, differs_by},
};

/// What is known about one node.
#[derive(Debug)]
pub(super) struct Known {
    report: NodeReport,
    info: Option<NodeInfo>,
    /// What a client that may write would do about it.
    outlook: Option<Opinion>,
}

impl Known {
    pub(super) fn of_all(
        shared: &SharedMembership,
        reports: &[NodeReport],
        is_vouched: bool,
    ) -> Vec<Self> {
        let known = shared
            .node_infos()
            .into_iter()
            .zip(shared.lock().view.outlook(is_vouched))
            .zip(reports);
        known
            .map(|((info, outlook), report)| Self { report: report.clone(), info, outlook })
            .collect()
    }

    /// What each node answers, or would answer to a client that may write.
    pub(super) fn reports(all: &[Self]) -> Box<[NodeReport]> {
        let report = |it: &Self| match it.differs() {
            Some(differs) => {
                let answer = NodeAnswer::NodeError(differs_by(differs));
                NodeReport { answer, ..it.report.clone() }
            }
            None => it.report.clone(),
        };
        all.iter().map(report).collect()
    }

    pub(super) const fn has_answered(&self) -> bool {
        self.info.is_some()
    }

    /// It votes, or will vote when a client connects that may write.
    pub(super) fn votes(&self) -> bool {
        let is_trusted = self.info.as_ref().is_some_and(|info| info.quarantine.is_none());
        let is_up = matches!(self.report.answer, NodeAnswer::Attached | NodeAnswer::Ready(_));
        let is_ours = matches!(self.outlook, Some(Opinion::Votes(_) | Opinion::Update { .. }));
        is_trusted && (is_up || is_ours)
    }

    /// It is a member, and votes or is quarantined.
    pub(super) fn has_place(&self) -> bool {
        self.votes() || self.info.as_ref().is_some_and(NodeInfo::is_waiting)
    }

    /// It is a member, or the action can make it one.
    pub(super) fn may_have_place(&self) -> bool {
        let is_given = matches!(self.outlook, Some(Opinion::Enrol(_) | Opinion::Update { .. }));
        self.differs().is_none() && (self.has_place() || is_given)
    }

    /// It cannot be a node, and waiting does not help.
    pub(super) fn is_refused(&self) -> bool {
        match &self.report.answer {
            // The answer may be old, and the node is asked again.
            NodeAnswer::NodeError(NodeError::NotEmpty(_)) => false,
            NodeAnswer::NodeError(node_error) => node_error.is_lasting(),
            _ => false,
        }
    }

    const fn differs(&self) -> Option<&Disagreement> {
        match &self.outlook {
            Some(Opinion::Differs(differs)) => Some(differs),
            _ => None,
        }
    }
}

/// Whether all nodes are new and empty, and can become a set or are one.
pub(super) fn check_admissible(nodes: &[Known]) -> Result<(), AdmitError> {
    let unavailable = || AdmitError::Unavailable { nodes: Known::reports(nodes) };
    if nodes.iter().any(|it| it.is_refused() && !it.votes()) {
        return Err(unavailable());
    }
    if nodes.iter().any(Known::votes) {
        return Err(AdmitError::InUse { nodes: Known::reports(nodes) });
    }
    for Known { report, info, .. } in nodes {
        let (node, info) = (report.node.clone(), info.as_ref().ok_or_else(unavailable)?);
        if let Some(why) = info.reason().filter(|why| *why != Reason::Unknown) {
            return Err(AdmitError::NotNew { node, why: why.to_string() });
        }
        if info.keys > 0 {
            return Err(AdmitError::NotEmpty { node, keys: info.keys });
        }
    }
    if nodes.iter().all(Known::may_have_place) { Ok(()) } else { Err(unavailable()) }
}
