//! The events that a person needs to understand a violation.

use std::fmt;

use crate::{
    check::Violation,
    clock::{MS, Nanos},
    settings::{QuarantineSettings, Settings},
    trace::{Key, LEGEND, Line, Position, SHARING, Scene, Trace, millis},
};

/// A violation and the events that led to it.
#[derive(Clone, Debug)]
pub struct Story {
    /// The settings of the run.
    pub settings: Settings,
    /// The broken promise.
    pub violation: Violation,
    /// The events, in order.
    pub lines: Vec<Line>,
}

impl Story {
    /// Leaves out events that are unrelated to the violation.
    #[must_use]
    pub fn of(settings: Settings, violation: Violation, trace: &Trace) -> Self {
        let all = trace.lines();
        let owners = violation.owners.clone();
        let is_ours = |line: &Line| match &line.what {
            Scene::Lease { .. } => true,
            Scene::Ran { key, .. } if *key != Key::Same => true,
            other => mentions(other.words(), &owners),
        };
        let is_about = |line: &&Line| line.lock == violation.lock && is_ours(line);
        let shown: Vec<&Line> = all.iter().filter(is_about).collect();
        let begins = |line: &&&Line| mentions(line.what.words(), &owners);
        let first = match shown.iter().position(|line| begins(&line)) {
            Some(first) if !owners.is_empty() => shown[first].at.saturating_sub(MS),
            _ => shown.get(shown.len().saturating_sub(LINES_MAX)).map_or(0, |line| line.at),
        };
        let is_shown = |line: &&Line| match &line.what {
            Scene::Fault { until, place, .. } => {
                (line.at >= first || *until >= first) && is_near(*place, &shown, first)
            }
            _ => line.at >= first && is_about(line),
        };
        let lines = all.iter().filter(is_shown).cloned().collect();
        Self { settings, violation, lines }
    }

    /// Its first and last point in true time.
    #[must_use]
    pub fn span(&self) -> (Nanos, Nanos) {
        let is_event = |line: &&Line| !matches!(line.what, Scene::Fault { .. });
        let first = self.lines.iter().find(is_event).map_or(0, sent);
        (first, self.violation.at)
    }
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Violation { promise, at, text, .. } = &self.violation;
        writeln!(f, "{promise} broken after {} ms: {text}", millis(*at))?;
        writeln!(f, "{}", head(&self.settings))?;
        self.lines.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// The head of a trace: the settings of the run, and how to read the lines.
#[must_use]
pub fn head(settings: &Settings) -> String {
    let Settings { nodes, clients, ttls_ms, quarantine, sharing, .. } = settings;
    let quarantine = match quarantine {
        None => String::new(),
        Some(QuarantineSettings { quarantine_ms, wall_ms, is_durable }) => format!(
            ", quarantine {quarantine_ms} ms, wall clocks within {wall_ms} ms{}",
            if *is_durable { ", durable" } else { "" }
        ),
    };
    let sharing = sharing.map_or_else(String::new, |_| format!("\n{SHARING}"));
    format!("{nodes} nodes, {clients} clients, ttls {ttls_ms:?} ms{quarantine}\n{LEGEND}{sharing}")
}

fn mentions(text: &str, owners: &[String]) -> bool {
    let words = text.split([' ', ',', ':']);
    words.into_iter().any(|word| owners.iter().any(|owner| owner == word))
}

/// True if a fault affects a client or node of the story.
fn is_near(place: Position, shown: &[&Line], first: Nanos) -> bool {
    let is_client = |wanted: usize| {
        shown.iter().any(|line| line.at >= first && line.what.client() == Some(wanted))
    };
    match place {
        Position::Client(client) | Position::Link(client, _) => is_client(client),
        Position::Node(_) | Position::Everywhere => true,
    }
}

const fn sent(line: &Line) -> Nanos {
    match line.what {
        Scene::Ran { sent_at, .. } => sent_at,
        _ => line.at,
    }
}

/// The number of lines that are shown of a story without a clear beginning.
const LINES_MAX: usize = 60;
