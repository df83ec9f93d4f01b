//! What observers are told, once the engine's mutex is free.

use std::time::Duration;

use quorate_core::{client::watchdog, name::Name, renew};

use super::Engine;
use crate::{
    error::NodeAnswer,
    observe::{Action, Event, Outcome},
};

/// One thing to tell.
#[derive(Debug)]
pub(super) enum Told {
    Answered { round: u64, action: Action, node: usize, answer: NodeAnswer, took: Duration },
    Ended { round: u64, action: Action, name: Name, outcome: Outcome, took: Duration },
    WaitStarted { name: Name },
    WaitEnded { name: Name, waited: Duration },
    Lease { name: Name, event: watchdog::Event },
}

impl Told {
    pub(super) fn tell(&self, engine: &Engine) {
        match self {
            Self::Answered { round, action, node, answer, took } => {
                let (round, action, took) = (*round, *action, *took);
                let node = engine.nodes[*node].label();
                engine.tell(&Event::Answered { round, action, node, answer, took });
            }
            Self::Ended { round, action, name, outcome, took } => {
                let (round, action, outcome, took) = (*round, *action, *outcome, *took);
                let name = name.as_str();
                engine.tell(&Event::Ended { round, action, name, outcome, took });
            }
            Self::WaitStarted { name } => engine.tell(&Event::WaitStarted { name: name.as_str() }),
            Self::WaitEnded { name, waited } => {
                engine.tell(&Event::WaitEnded { name: name.as_str(), waited: *waited });
            }
            Self::Lease { name, event } => tell_lease(engine, name.as_str(), *event),
        }
    }
}

fn tell_lease(engine: &Engine, name: &str, event: watchdog::Event) {
    match event {
        watchdog::Event::Valid { .. } => {}
        watchdog::Event::Renewed { outcome, margin, .. } => {
            let outcome = match outcome {
                renew::Outcome::Extended { .. } => Outcome::Done,
                renew::Outcome::Unsure => Outcome::NoQuorum,
                renew::Outcome::Gone | renew::Outcome::TooLate => Outcome::Gone,
            };
            engine.tell(&Event::Renewed { name, outcome, margin });
        }
        watchdog::Event::AtRisk { .. } => engine.tell(&Event::AtRisk { name }),
        watchdog::Event::Lost { reason, .. } => engine.tell(&Event::Lost { name, reason }),
    }
}
