//! What is known of the nodes when an operator decides, and what holds while one acts.

use quorate_core::guard::{Disagreement, Doubt, Met, Opinion};

use super::AdmitError;
use crate::{
    error::{NodeAnswer, NodeReport, Trouble},
    node::redis::{Chamber, differs_by},
};

/// What is known of one node.
#[derive(Debug)]
pub(super) struct Known {
    report: NodeReport,
    met: Option<Met>,
    /// What would be done about it by one who acts.
    outlook: Option<Opinion>,
}

impl Known {
    pub(super) fn of_all(chamber: &Chamber, reports: &[NodeReport], is_vouched: bool) -> Vec<Self> {
        let told = chamber.met().into_iter().zip(chamber.outlook(is_vouched)).zip(reports);
        told.map(|(((_, met), outlook), report)| Self { report: report.clone(), met, outlook })
            .collect()
    }

    /// What each of them says, or would say to one who acts.
    pub(super) fn reports(all: &[Self]) -> Box<[NodeReport]> {
        let report = |it: &Self| match it.differs() {
            Some(differs) => {
                let answer = NodeAnswer::Trouble(differs_by(differs));
                NodeReport { answer, ..it.report.clone() }
            }
            None => it.report.clone(),
        };
        all.iter().map(report).collect()
    }

    pub(super) const fn is_met(&self) -> bool {
        self.met.is_some()
    }

    /// It votes, or does as soon as somebody comes who does not only look.
    pub(super) fn votes(&self) -> bool {
        let is_trusted = self.met.as_ref().is_some_and(|met| met.doubt.is_none());
        let is_up = matches!(self.report.answer, NodeAnswer::Attached | NodeAnswer::Ready(_));
        let is_ours = matches!(self.outlook, Some(Opinion::Votes(_) | Opinion::Tell { .. }));
        is_trusted && (is_up || is_ours)
    }

    /// It is one of the nodes, and votes or waits until its guard is over.
    pub(super) fn has_place(&self) -> bool {
        self.votes() || self.met.as_ref().is_some_and(|met| met.is_enrolled && met.doubt.is_some())
    }

    /// It is one of the nodes, or becomes one by whoever acts.
    pub(super) fn may_have_place(&self) -> bool {
        let is_given = matches!(self.outlook, Some(Opinion::Enrol(_) | Opinion::Tell { .. }));
        self.differs().is_none() && (self.has_place() || is_given)
    }

    /// It must not be a node, and no wait helps.
    pub(super) fn is_refused(&self) -> bool {
        match &self.report.answer {
            // It may have been told long ago, and is asked again.
            NodeAnswer::Trouble(Trouble::NotEmpty(_)) => false,
            NodeAnswer::Trouble(trouble) => trouble.is_lasting(),
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
    let unheard = || AdmitError::Unheard { nodes: Known::reports(nodes) };
    if nodes.iter().any(|it| it.is_refused() && !it.votes()) {
        return Err(unheard());
    }
    if nodes.iter().any(Known::votes) {
        return Err(AdmitError::InUse { nodes: Known::reports(nodes) });
    }
    for Known { report, met, .. } in nodes {
        let (node, met) = (report.node.clone(), met.as_ref().ok_or_else(unheard)?);
        if let Some((why, _)) = met.doubt.filter(|(why, _)| *why != Doubt::Unknown) {
            return Err(AdmitError::NotNew { node, why: why.to_string() });
        }
        if met.keys > 0 {
            return Err(AdmitError::NotEmpty { node, keys: met.keys });
        }
    }
    if nodes.iter().all(Known::may_have_place) { Ok(()) } else { Err(unheard()) }
}

/// Something is so for a client's nodes while this lives, however the caller goes.
pub(super) struct While<'a> {
    chamber: &'a Chamber,
    set: fn(&Chamber, bool),
}

impl<'a> While<'a> {
    pub(super) fn is(chamber: &'a Chamber, set: fn(&Chamber, bool)) -> Self {
        set(chamber, true);
        Self { chamber, set }
    }
}

impl Drop for While<'_> {
    fn drop(&mut self) {
        (self.set)(self.chamber, false);
    }
}

/// A change that is told to the nodes until it is agreed upon, or its caller goes.
pub(super) struct Proposal<'a> {
    chamber: &'a Chamber,
    pub(super) is_agreed: bool,
}

impl<'a> Proposal<'a> {
    pub(super) const fn new(chamber: &'a Chamber) -> Self {
        Self { chamber, is_agreed: false }
    }
}

impl Drop for Proposal<'_> {
    fn drop(&mut self) {
        if !self.is_agreed {
            self.chamber.retract();
        }
    }
}
