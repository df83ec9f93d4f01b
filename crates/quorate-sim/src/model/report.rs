//! The result of a search, for people and for tests.

use std::{fmt, time::Duration};

use super::{property::Kind, row::About, settings::Expected};

/// The result of searching one row.
#[derive(Clone, Debug)]
pub struct Report {
    /// The row.
    pub about: About,
    /// How many states were reached, repeated ones included.
    pub states: usize,
    /// How many of them differ.
    pub unique_states: usize,
    /// The most steps from the beginning to any of them.
    pub depth: usize,
    /// How long it took.
    pub took: Duration,
    /// True if every state of this row was checked.
    pub is_exhaustive: bool,
    /// The result of each claim.
    pub findings: Vec<Finding>,
}

/// The result of one claim.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The claim, as a sentence.
    pub claim: &'static str,
    /// Where it must be true.
    pub kind: Kind,
    /// The shortest path to a violation or to the first example, one line for each step.
    pub path: Option<Vec<String>>,
}

impl Finding {
    /// True if the claim must hold in every state and does not.
    #[must_use]
    pub fn is_violation(&self) -> bool {
        self.kind == Kind::Always && self.path.is_some()
    }
}

impl Report {
    /// True if the search ended as its settings expect.
    #[must_use]
    pub fn is_as_expected(&self) -> bool {
        match self.about.expected {
            Expected::Safe => {
                let is_seen = |it: &Finding| (it.kind == Kind::Sometimes) == it.path.is_some();
                self.is_exhaustive && self.findings.iter().all(is_seen)
            }
            Expected::Broken(claim) => {
                self.findings.iter().any(|it| it.is_violation() && it.claim == claim)
            }
        }
    }

    /// The claim that is broken first, if one is.
    #[must_use]
    pub fn violation(&self) -> Option<&Finding> {
        let broken = self.findings.iter().filter(|finding| finding.is_violation());
        broken.min_by_key(|finding| finding.path.as_ref().map_or(0, Vec::len))
    }

    /// The result in a few words.
    #[must_use]
    pub fn result(&self) -> String {
        let unseen =
            self.findings.iter().find(|it| it.kind == Kind::Sometimes && it.path.is_none());
        match (self.violation(), unseen) {
            (Some(Finding { claim, path: Some(path), .. }), _) => {
                format!("VIOLATED after {} steps: {claim}", path.len().saturating_sub(1))
            }
            (_, Some(unseen)) if self.is_exhaustive => format!("NEVER SEEN: {}", unseen.claim),
            _ if self.is_exhaustive => "holds, exhaustive".to_owned(),
            _ => format!("holds up to depth {}, NOT exhaustive", self.depth),
        }
    }
}

/// Every claim, with the path that breaks it or the length of the example.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let About { name, what, .. } = &self.about;
        writeln!(f, "{name}: {what}: {}", self.result())?;
        for Finding { claim, kind, path } in &self.findings {
            match (kind, path) {
                (Kind::Always, None) => writeln!(f, "  always    {claim}")?,
                (Kind::Always, Some(path)) => {
                    writeln!(f, "  VIOLATED  {claim}")?;
                    path.iter().try_for_each(|line| writeln!(f, "    {line}"))?;
                }
                (Kind::Sometimes, Some(path)) => {
                    let steps = path.len().saturating_sub(1);
                    writeln!(f, "  sometimes {claim} (after {steps} steps)")?;
                }
                (Kind::Sometimes, None) => writeln!(f, "  NOT SEEN  {claim}")?,
            }
        }
        Ok(())
    }
}

/// The reports as a table, one line for each.
#[must_use]
pub fn table(reports: &[Report]) -> String {
    let mut lines = vec![
        "| row | what | result | states | different | depth | seconds |".to_owned(),
        "|---|---|---|---|---|---|---|".to_owned(),
    ];
    lines.extend(reports.iter().map(|report| {
        let Report { about, states, unique_states, depth, took, .. } = report;
        let (name, what, result) = (about.name, about.what, report.result());
        let seconds = took.as_secs_f64();
        format!(
            "| {name} | {what} | {result} | {states} | {unique_states} | {depth} | {seconds:.1} |"
        )
    }));
    lines.join("\n")
}
