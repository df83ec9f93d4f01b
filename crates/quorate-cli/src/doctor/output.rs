//! The report, as text and as JSON.

use quorate::error::{NodeAnswer, NodeError};
use serde_json::{Value, json};

use super::{
    check::{Diagnosis, Finding, Level},
    clocks::ahead_ms,
    observed::{Node, Observed},
    set::verdict,
    style::Style,
};
use crate::{
    cli::SCHEMA_VERSION,
    exit::majority,
    time::{micros, shown},
};

/// What was observed, and what follows from it.
#[derive(Debug)]
pub(super) struct Report<'a> {
    pub(super) observed: &'a Observed,
    pub(super) diagnosis: &'a Diagnosis,
}

impl Report<'_> {
    pub(super) fn text(&self, style: Style) -> String {
        let mut text = self.drawing(style);
        let findings = &self.diagnosis.findings;
        let width = findings.iter().map(|finding| finding.id.len()).max().unwrap_or(0);
        for finding in findings {
            let symbol = style.symbol(finding.level);
            let line = style.text(&line(finding));
            text += &format!("{symbol} {:width$}  {line}\n", finding.id);
        }
        text + &self.summary()
    }

    /// The quorum at one glance: who votes, how many are needed, how many more may fail.
    fn drawing(&self, style: Style) -> String {
        let nodes = &self.observed.nodes;
        if nodes.is_empty() {
            return String::new();
        }
        let (votes, needed) = (self.observed.votes(), majority(nodes.len()));
        let bar = |number| if number == needed { "|" } else { "" };
        let dots = (0..nodes.len()).map(|number| style.vote(number < votes) + bar(number + 1));
        let mut text = format!("{}  {}\n", dots.collect::<String>(), verdict(nodes.len(), votes));
        let width = nodes.iter().map(|node| node.name().chars().count()).max().unwrap_or(0);
        for node in nodes {
            let (dot, name) = (style.vote(node.votes()), style.text(node.name()));
            text += &format!("  {dot} {name:width$}  {}\n", style.text(&state(node)));
        }
        text + "\n"
    }

    fn summary(&self) -> String {
        let count = |level, one: &str| match self.diagnosis.count(level) {
            1 => format!("1 {one}"),
            count => format!("{count} {one}s"),
        };
        let (errors, warnings) = (count(Level::Error, "error"), count(Level::Warning, "warning"));
        match self.diagnosis.findings.iter().any(|finding| finding.level > Level::Ok) {
            true => format!("\n{errors}, {warnings}. What to do about each: {RUNBOOK}#ID\n"),
            false => "\nno findings\n".into(),
        }
    }

    pub(super) fn json(&self) -> Value {
        let nodes = &self.observed.nodes;
        let (votes, needed) = (self.observed.votes(), majority(nodes.len()));
        let quorum = (!nodes.is_empty()).then(|| {
            json!({
                "nodes": nodes.len(),
                "needed": needed,
                "voting": votes,
                "may_fail": votes.checked_sub(needed),
                "verdict": verdict(nodes.len(), votes),
            })
        });
        let errors = self.diagnosis.count(Level::Error);
        json!({
            "schema_version": SCHEMA_VERSION,
            "is_healthy": errors == 0,
            "errors": errors,
            "warnings": self.diagnosis.count(Level::Warning),
            "quorum": quorum,
            "nodes": nodes.iter().map(node_json).collect::<Vec<_>>(),
            "checks": self.diagnosis.findings.iter().map(finding_json).collect::<Vec<_>>(),
        })
    }
}

/// One line for a finding: where, what, and the remedy.
fn line(finding: &Finding) -> String {
    let node = finding.node.as_ref().map(|node| format!("{node}: ")).unwrap_or_default();
    let remedy = finding.remedy.as_ref().map(|it| format!(" -> {it}")).unwrap_or_default();
    format!("{node}{}{remedy}", finding.text)
}

/// What the drawing says about a node.
fn state(node: &Node) -> String {
    let state = match &node.answer {
        NodeAnswer::Attached => "votes".to_owned(),
        NodeAnswer::Ready(_) => "votes when a client connects".to_owned(),
        NodeAnswer::NodeError(NodeError::Quarantined { left, .. }) => {
            format!("in quarantine for {} more", shown(*left))
        }
        NodeAnswer::NodeError(error) => error.to_string(),
        _ => "unknown".to_owned(),
    };
    let parts = [Some(state), node.product(), node.round_trip().map(micros)];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn node_json(node: &Node) -> Value {
    let error = match &node.answer {
        NodeAnswer::NodeError(error) => Some(error.to_string()),
        _ => None,
    };
    json!({
        "node": node.name(),
        "votes": node.votes(),
        "node_error": error,
        "server": node.product(),
        "round_trip_us": node.round_trip().map(|it| it.as_micros()),
        "clock_ahead_ms": ahead_ms(node),
    })
}

fn finding_json(finding: &Finding) -> Value {
    let status = match finding.level {
        Level::Ok => "ok",
        Level::Warning => "warning",
        Level::Error => "error",
    };
    let see = (finding.level > Level::Ok).then(|| format!("{RUNBOOK}#{}", finding.id));
    json!({
        "id": finding.id,
        "status": status,
        "node": finding.node,
        "message": finding.text,
        "remedy": finding.remedy,
        "see": see,
    })
}

/// Its sections have the ids of the checks as names.
const RUNBOOK: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/runbook.md");
