//! `quorate nodes`: what an operator says about the nodes themselves.

use std::{
    thread,
    time::{Duration, Instant},
};

use clap::Subcommand;
use quorate::{
    blocking::Client,
    error::{NodeAnswer, NodeError, NodeReport},
};

use crate::{
    exit::{EXIT_CODES_OF_NODES, Failure, UNAVAILABLE},
    settings::Place,
};

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Shows whether each node votes, and if not, why and for how much longer. It writes nothing.
    #[command(after_help = EXIT_CODES_OF_NODES)]
    Show(Place),
    /// Lets new, empty nodes vote at once. Say this once for new servers, and never by habit:
    /// servers that have all lost their data look just like new ones. Without the restart guard
    /// there is nothing to admit.
    #[command(after_help = EXIT_CODES_OF_NODES)]
    Admit(Place),
    /// Makes these nodes the set that all clients go by: one more, one less, or one exchanged. Say
    /// it once more with the same nodes when all clients have the new list.
    #[command(after_help = EXIT_CODES_OF_NODES)]
    Change(Place),
    /// Says that no change of the set is missing, so that a node which has forgotten its place has
    /// it again although others are dead.
    #[command(after_help = EXIT_CODES_OF_NODES)]
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
        // With the settings that all clients have: what these cannot use is not to be changed. It
        // looks, and writes nothing before it has decided.
        let client = Client::try_from(settings.builder()?.read_only().build()?)
            .map_err(|error| Failure::system("cannot wait for nodes", error))?;
        match self {
            Self::Show(_) => show(&client),
            Self::Admit(_) => {
                client.admit()?;
                Ok(format!("{} nodes vote", client.node_status().len()))
            }
            Self::Change(_) => Ok(client.change_nodes()?.to_string()),
            Self::Vouch(_) => {
                client.vouch_for_nodes()?;
                show(&client)
            }
        }
    }
}

/// One line for each node, once they have said what they stay with.
fn show(client: &Client) -> Result<String, Failure> {
    let nodes = settled(client);
    let line = |node: &NodeReport| match client.has_quarantine() || !votes(node) {
        true => node.to_string(),
        false => format!("{node}, without quarantine"),
    };
    let lines: Vec<String> = nodes.iter().map(line).collect();
    let votes = nodes.iter().filter(|node| votes(node)).count();
    let text = lines.join("\n");
    match votes > nodes.len() / 2 {
        true => Ok(text),
        false => Err(Failure { code: UNAVAILABLE, text: format!("no majority votes\n{text}") }),
    }
}

/// What the nodes say. One that does not vote is asked again and again, and says something else
/// when the others were heard: it is believed when it has said the same for a while.
fn settled(client: &Client) -> Box<[NodeReport]> {
    let started = Instant::now();
    let (mut nodes, mut since) = (client.node_status(), started);
    loop {
        let is_settled = since.elapsed() >= SETTLED_AFTER && nodes.iter().all(is_known);
        if nodes.iter().all(votes) || is_settled || started.elapsed() >= PATIENCE {
            return nodes;
        }
        thread::park_timeout(LOOK_AGAIN);
        let now = client.node_status();
        let is_same = |(one, two): (&NodeReport, &NodeReport)| said(one) == said(two);
        if !nodes.iter().zip(&now).all(is_same) {
            since = Instant::now();
        }
        nodes = now;
    }
}

/// Now, or as soon as a client comes that does not only look.
fn votes(report: &NodeReport) -> bool {
    matches!(report.answer, NodeAnswer::Attached | NodeAnswer::Ready(_))
}

fn is_known(report: &NodeReport) -> bool {
    report.answer != NodeAnswer::NodeError(NodeError::Connecting)
}

/// What a node says, whatever the time.
fn said(report: &NodeReport) -> String {
    match &report.answer {
        NodeAnswer::NodeError(NodeError::Quarantined { why, .. }) => why.clone(),
        _ => report.to_string(),
    }
}

/// Longer than a node is left alone that does not vote.
const SETTLED_AFTER: Duration = Duration::from_millis(1_200);

/// How long nodes are waited for that do not answer.
const PATIENCE: Duration = Duration::from_secs(3);

const LOOK_AGAIN: Duration = Duration::from_millis(10);
