//! An observer that records a line for each event.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quorate::{
    error::NodeAnswer,
    observe::{Event, Observer},
};

/// The events, in order. Clones are the same journal.
#[derive(Clone, Default)]
pub(crate) struct Journal(Arc<Mutex<Vec<String>>>);

impl Journal {
    pub(crate) fn lines(&self) -> Vec<String> {
        self.lock().clone()
    }

    /// How many lines begin like this.
    pub(crate) fn count(&self, start: &str) -> usize {
        self.lock().iter().filter(|line| line.starts_with(start)).count()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Journal {
    fn observe(&self, event: &Event<'_>) {
        let line = line(event);
        self.lock().push(line);
    }
}

/// Without rounds and times, which differ from run to run.
fn line(event: &Event<'_>) -> String {
    match event {
        Event::Started { action, name, .. } => format!("{} {name} started", action.as_str()),
        Event::Answered { action, node, answer, .. } => {
            let answer = match answer {
                NodeAnswer::NodeError(node_error) => node_error.kind().to_owned(),
                plain => format!("{plain:?}").to_lowercase(),
            };
            format!("{} {node} answered {answer}", action.as_str())
        }
        Event::Ended { action, name, outcome, .. } => {
            format!("{} {name} ended {}", action.as_str(), outcome.as_str())
        }
        Event::WaitStarted { name, .. } => format!("wait {name} started"),
        Event::WaitEnded { name, .. } => format!("wait {name} ended"),
        Event::Held { name, .. } => format!("held {name}"),
        Event::LetGo { name, .. } => format!("let go {name}"),
        Event::Renewed { name, outcome, .. } => format!("renewed {name} {}", outcome.as_str()),
        Event::AtRisk { name, .. } => format!("at risk {name}"),
        Event::Lost { name, reason, .. } => format!("lost {name} {}", reason.as_str()),
        Event::NodeUp { node } => format!("up {node}"),
        Event::NodeDown { node, node_error } => format!("down {node} {}", node_error.kind()),
        other => format!("{other:?}"),
    }
}
