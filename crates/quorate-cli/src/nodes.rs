//! `quorate nodes`: how an operator inspects and changes the nodes.

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
    settings::NodeArgs,
};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show whether each node votes, and if not, why and for how much longer. Writes nothing
    #[command(after_help = EXIT_CODES_OF_NODES)]
    Show(NodeArgs),
    /// Let new, empty nodes vote at once
    ///
    /// Use it once for new servers, and never as a routine: servers that have all lost their data
    /// look just like new ones. If quarantine is off, there is nothing to admit.
    #[command(after_help = EXIT_CODES_OF_NODES)]
    Admit(NodeArgs),
    /// Make these nodes the set that all clients use
    ///
    /// Adds one node, removes one node, or replaces one node. Run it again with the same nodes when
    /// all clients have the new list.
    #[command(after_help = EXIT_CODES_OF_NODES)]
    Change(NodeArgs),
    /// Confirm that no change of the set is missing
    ///
    /// A node that has forgotten its place in the set gets it back, even though other nodes are
    /// gone.
    #[command(after_help = EXIT_CODES_OF_NODES)]
    Vouch(NodeArgs),
}

impl Command {
    /// Returns the text to print.
    pub(crate) fn run(&self) -> Result<String, Failure> {
        let (Self::Show(set) | Self::Admit(set) | Self::Change(set) | Self::Vouch(set)) = self;
        let settings = set.settings()?;
        if settings.nodes.value.is_empty() {
            let text = "no nodes given: use --node URL for each node, or set QUORATE_NODES";
            return Err(Failure::usage(text));
        }
        // The same settings as all clients: a set that they cannot use must not be changed. The
        // client only reads until a change has been decided.
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

/// One line for each node, once its status has settled.
fn show(client: &Client) -> Result<String, Failure> {
    let nodes = settled_status(client);
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

/// The status of the nodes. The status of a node that does not vote can change when the other nodes
/// answer, so it counts only after it has been the same for a while.
fn settled_status(client: &Client) -> Box<[NodeReport]> {
    let started = Instant::now();
    let (mut nodes, mut since) = (client.node_status(), started);
    loop {
        let is_settled = since.elapsed() >= SETTLED_AFTER && nodes.iter().all(is_known);
        if nodes.iter().all(votes) || is_settled || started.elapsed() >= PATIENCE {
            return nodes;
        }
        thread::park_timeout(RECHECK_AFTER);
        let now = client.node_status();
        let is_same = |(one, two): (&NodeReport, &NodeReport)| reason(one) == reason(two);
        if !nodes.iter().zip(&now).all(is_same) {
            since = Instant::now();
        }
        nodes = now;
    }
}

/// Whether the node votes now, or will as soon as a client connects that does more than read.
fn votes(report: &NodeReport) -> bool {
    matches!(report.answer, NodeAnswer::Attached | NodeAnswer::Ready(_))
}

fn is_known(report: &NodeReport) -> bool {
    report.answer != NodeAnswer::NodeError(NodeError::Connecting)
}

/// The status of a node without the remaining time.
fn reason(report: &NodeReport) -> String {
    match &report.answer {
        NodeAnswer::NodeError(NodeError::Quarantined { why, .. }) => why.clone(),
        _ => report.to_string(),
    }
}

/// Longer than the interval at which a node that does not vote is asked.
const SETTLED_AFTER: Duration = Duration::from_millis(1_200);

/// How long to wait for nodes that do not answer.
const PATIENCE: Duration = Duration::from_secs(3);

const RECHECK_AFTER: Duration = Duration::from_millis(10);
