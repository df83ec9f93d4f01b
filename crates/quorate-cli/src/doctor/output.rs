//! The report, as text and as JSON.

use quorate::error::{NodeAnswer, NodeError};
use serde_json::{Value, json};

use super::{
    check::{Diagnosis, Finding, Level},
    clocks::ahead_ms,
    observed::{Node, Observed},
    set::verdict,
    style::{Style, Vote},
};
use crate::{
    cli::SCHEMA_VERSION,
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
            let symbol_width = if style.is_ascii { 2 } else { 1 };
            let id = format!("{:width$}  ", finding.id);
            let column = symbol_width + 1 + id.chars().count();
            let is_wide = style.columns.is_none_or(|it| it >= column + TEXT_COLUMNS_MIN);
            let (start, indent) = match is_wide {
                true => (format!("{symbol} {id}"), column),
                false => (format!("{symbol} {}\n  ", finding.id), 2),
            };
            text += &start;
            match (line(finding), &finding.remedy) {
                (line, Some(remedy)) if !style.fits(&format!("{:indent$}{line}", "")) => {
                    style.append(&mut text, &found(finding), indent, indent);
                    text += &format!("{:indent$}", "");
                    style.append(&mut text, &format!("-> {remedy}"), indent, indent + 3);
                }
                (line, _) => style.append(&mut text, &line, indent, indent),
            }
        }
        style.append(&mut text, &self.summary(), 0, 0);
        text
    }

    /// The quorum at one glance: who votes, how many are needed, how many more may fail.
    fn drawing(&self, style: Style) -> String {
        let nodes = &self.observed.nodes;
        if nodes.is_empty() {
            return String::new();
        }
        let quorum = self.observed.quorum();
        let bar = |number| if number == quorum.needed() { "|" } else { "" };
        let vote = |number| match number {
            _ if number < quorum.granting() => Vote::Any,
            _ if number < quorum.voting => Vote::HeldOnly,
            _ => Vote::No,
        };
        let dots = (0..nodes.len()).map(|number| style.vote(vote(number)) + bar(number + 1));
        let mut text = dots.collect::<String>() + "  ";
        let indent = nodes.len() + 3;
        style.append(&mut text, &verdict(self.observed), indent, indent);
        let width = nodes.iter().map(|node| node.name().chars().count()).max().unwrap_or(0);
        for node in nodes {
            let (vote, name) = (style.vote(vote_of(node)), style.text(node.name()));
            let (state, name) = (self.state(node), format!("{name:width$}  "));
            if style.fits(&format!("  ● {name}{state}")) {
                text += &format!("  {vote} {name}{}\n", style.text(&state));
            } else {
                text += &format!("  {vote} {}\n    ", name.trim_end());
                style.append(&mut text, &state, 4, 4);
            }
        }
        text + "\n"
    }

    /// What the drawing says about a node.
    fn state(&self, node: &Node) -> String {
        let state = match &node.answer {
            NodeAnswer::Attached if node.is_full() => "votes for held locks only".to_owned(),
            NodeAnswer::Attached => "votes".to_owned(),
            NodeAnswer::Ready(_) => "votes when a client connects".to_owned(),
            NodeAnswer::NodeError(NodeError::Quarantined { left, .. }) => {
                format!("in quarantine for {} more", shown(*left))
            }
            NodeAnswer::NodeError(error) => error.to_string(),
            _ => "unknown".to_owned(),
        };
        let elsewhere = self.observed.is_outdated(node).then(|| "not an agreed node".to_owned());
        let parts = [Some(state), elsewhere, node.product(), node.round_trip().map(micros)];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    fn summary(&self) -> String {
        let count = |level, one: &str| match self.diagnosis.count(level) {
            1 => format!("1 {one}"),
            count => format!("{count} {one}s"),
        };
        let (errors, warnings) = (count(Level::Error, "error"), count(Level::Warning, "warning"));
        match self.diagnosis.findings.iter().any(|finding| finding.level > Level::Ok) {
            true => format!("\n{errors}, {warnings}. What to do about each: {RUNBOOK}#ID"),
            false => "\nno findings".into(),
        }
    }

    pub(super) fn json(&self) -> Value {
        let nodes = &self.observed.nodes;
        let counts = self.observed.quorum();
        let quorum = (!nodes.is_empty()).then(|| {
            json!({
                "nodes": nodes.len(),
                "needed": counts.needed(),
                "voting": counts.voting,
                "full": counts.full,
                "may_fail": counts.spare().filter(|_| !self.observed.has_twins()),
                "verdict": verdict(self.observed),
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
    let remedy = finding.remedy.as_ref().map(|it| format!(" -> {it}")).unwrap_or_default();
    found(finding) + &remedy
}

/// Where, and what.
fn found(finding: &Finding) -> String {
    let node = finding.node.as_ref().map(|node| format!("{node}: ")).unwrap_or_default();
    format!("{node}{}", finding.text)
}

fn vote_of(node: &Node) -> Vote {
    match (node.votes(), node.is_full()) {
        (true, false) => Vote::Any,
        (true, true) => Vote::HeldOnly,
        (false, _) => Vote::No,
    }
}

fn node_json(node: &Node) -> Value {
    let error = match &node.answer {
        NodeAnswer::NodeError(error) => Some(error.to_string()),
        _ => None,
    };
    json!({
        "node": node.name(),
        "votes": node.votes(),
        "is_full": node.is_full(),
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

/// The columns for a text next to the id of its check. In a narrower terminal the text is below it.
const TEXT_COLUMNS_MIN: usize = 40;

/// Its sections have the ids of the checks as names.
const RUNBOOK: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/runbook.md");
