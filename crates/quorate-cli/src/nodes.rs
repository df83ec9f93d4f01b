//! `quorate nodes`: what an operator says about the nodes themselves.

use std::{
    thread,
    time::{Duration, Instant},
};

use clap::Subcommand;
use quorate::{
    blocking::Client,
    error::{NodeAnswer, NodeReport, Trouble},
};

use crate::{
    exit::{Failure, SOFTWARE, UNAVAILABLE},
    settings::Place,
};

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Shows whether each node votes, and if not, why and for how much longer.
    Show(Place),
    /// Lets new, empty nodes vote at once. Say this once for new servers, and never by habit:
    /// servers that have all lost their data look just like new ones.
    Admit(Place),
    /// Makes these nodes the set that all clients go by: one more, one less, or one exchanged. Say
    /// it once more with the same nodes when all clients have the new list.
    Change(Place),
    /// Says that no change of the set is missing, so that a node which has forgotten its place has
    /// it again although others are dead.
    Vouch(Place),
}

impl Verb {
    /// Returns what is to be said about it.
    pub(crate) fn run(&self) -> Result<String, Failure> {
        let (Self::Show(set) | Self::Admit(set) | Self::Change(set) | Self::Vouch(set)) = self;
        let settings = set.settings()?;
        if settings.nodes.value.is_empty() {
            let text = "no nodes are given: write --node URL once for each, or set QUORATE_NODES";
            return Err(Failure::usage(text));
        }
        // Guarded however few they are.
        let settings = settings.builder()?.restart_guard(true);
        let settings = match self {
            Self::Show(_) => settings.look_only(),
            Self::Admit(_) | Self::Change(_) | Self::Vouch(_) => settings,
        };
        let client = Client::try_from(settings.build()?)
            .map_err(|error| Failure { code: SOFTWARE, text: error.to_string() })?;
        match self {
            Self::Show(_) => show(&client),
            Self::Admit(_) => {
                client.admit()?;
                Ok(format!("{} nodes vote", client.nodes().len()))
            }
            Self::Change(_) => Ok(client.change_nodes()?.to_string()),
            Self::Vouch(_) => {
                client.vouch_for_nodes()?;
                show(&client)
            }
        }
    }
}

/// One line for each node, once something is known about all of them.
fn show(client: &Client) -> Result<String, Failure> {
    let started = Instant::now();
    let is_known = |report: &NodeReport| report.answer != NodeAnswer::Trouble(Trouble::Connecting);
    while !client.nodes().iter().all(is_known) && started.elapsed() < PATIENCE {
        thread::park_timeout(LOOK_AGAIN);
    }
    let nodes = client.nodes();
    let lines: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    let votes = nodes.iter().filter(|it| it.answer == NodeAnswer::Attached).count();
    let text = lines.join("\n");
    match votes > nodes.len() / 2 {
        true => Ok(text),
        false => Err(Failure { code: UNAVAILABLE, text: format!("no majority votes\n{text}") }),
    }
}

/// How long nodes are waited for that do not answer.
const PATIENCE: Duration = Duration::from_secs(3);

const LOOK_AGAIN: Duration = Duration::from_millis(10);
