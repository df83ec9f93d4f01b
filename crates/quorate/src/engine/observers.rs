//! Notices for observers, which are sent when the engine's mutex is free.

use std::time::Duration;

use quorate_core::{client::watchdog, name::Name, renew};

use super::Engine;
use crate::{
    error::NodeAnswer,
    observe::{Action, Event, LockKind, Outcome},
};

/// A notice for the observers.
#[derive(Debug)]
pub(super) enum Notice {
    Answered {
        round: u64,
        action: Action,
        node: usize,
        answer: NodeAnswer,
        took: Duration,
    },
    Ended {
        round: u64,
        action: Action,
        name: Name,
        kind: LockKind,
        outcome: Outcome,
        took: Duration,
    },
    WaitStarted {
        name: Name,
        kind: LockKind,
    },
    WaitEnded {
        name: Name,
        kind: LockKind,
        waited: Duration,
    },
    Lease {
        name: Name,
        kind: LockKind,
        event: watchdog::Event,
    },
}

impl Notice {
    pub(super) fn send(&self, engine: &Engine) {
        match self {
            Self::Answered { round, action, node, answer, took } => {
                let (round, action, took) = (*round, *action, *took);
                let node = engine.nodes[*node].label();
                engine.notify_observer(&Event::Answered { round, action, node, answer, took });
            }
            Self::Ended { round, action, name, kind, outcome, took } => {
                let (round, action, kind) = (*round, *action, *kind);
                let (name, outcome, took) = (name.as_str(), *outcome, *took);
                engine.notify_observer(&Event::Ended { round, action, name, kind, outcome, took });
            }
            Self::WaitStarted { name, kind } => {
                engine.notify_observer(&Event::WaitStarted { name: name.as_str(), kind: *kind });
            }
            Self::WaitEnded { name, kind, waited } => {
                let (name, kind, waited) = (name.as_str(), *kind, *waited);
                engine.notify_observer(&Event::WaitEnded { name, kind, waited });
            }
            Self::Lease { name, kind, event } => send_lease(engine, name.as_str(), *kind, *event),
        }
    }
}

fn send_lease(engine: &Engine, name: &str, kind: LockKind, event: watchdog::Event) {
    match event {
        watchdog::Event::Valid { .. } => {}
        watchdog::Event::Renewed { outcome, margin, .. } => {
            let outcome = match outcome {
                renew::Outcome::Extended { .. } => Outcome::Done,
                renew::Outcome::Unsure => Outcome::NoQuorum,
                renew::Outcome::Gone | renew::Outcome::TooLate => Outcome::Gone,
            };
            engine.notify_observer(&Event::Renewed { name, kind, outcome, margin });
        }
        watchdog::Event::AtRisk { .. } => engine.notify_observer(&Event::AtRisk { name, kind }),
        watchdog::Event::Lost { reason, .. } => {
            engine.notify_observer(&Event::Lost { name, kind, reason });
        }
    }
}
