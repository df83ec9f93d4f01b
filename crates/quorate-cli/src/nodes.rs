//! `quorate nodes`: how an operator inspects and changes the nodes.

use std::{
    fmt, thread,
    time::{Duration, Instant},
};

use clap::{Args, Subcommand};
use quorate::{
    blocking::Client,
    error::{NodeAnswer, NodeError, NodeReport, QuarantineNotice},
};
use serde_json::{Value, json};

use crate::{
    cli::{Output, SCHEMA_VERSION, print},
    exit::{
        DEGRADED, EXIT_CODES_OF_NODES, EXIT_CODES_OF_NODES_SHOW, Failure, SOFTWARE, UNAVAILABLE,
        check_distinct, quorum_failure_code,
    },
    inspect::millis,
    progress,
    quorum::{Quorum, is_full},
    runtime,
    settings::{NodeArgs, Settings},
};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show whether each node votes, and if not, why and for how much longer. Writes nothing
    ///
    /// The first line states how many more nodes may fail.
    #[command(after_help = EXIT_CODES_OF_NODES_SHOW)]
    Show(Show),
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
    /// Let a node rejoin although too few other nodes are up to confirm it
    ///
    /// A node that has lost its record needs other nodes to confirm the list of nodes: with three
    /// nodes, both others. If one of them is down and cannot be restarted, this command confirms
    /// the list instead. Use it only if you know that the nodes that are up know the last `change`
    /// of the set. The node is still quarantined.
    #[command(after_help = EXIT_CODES_OF_NODES)]
    Vouch(NodeArgs),
}

/// The arguments of `quorate nodes show`.
#[derive(Args, Debug)]
pub(crate) struct Show {
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    node_args: NodeArgs,
}

impl Command {
    /// Returns the exit code.
    pub(crate) fn run(&self) -> Result<u8, Failure> {
        let settings = self.settings()?;
        let client = client(&settings)?;
        progress::during(progress::NODES, || match self {
            Self::Show(show) => show.run(&client, &settings),
            Self::Admit(_) => {
                client.admit()?;
                print(&format!("{} nodes vote", client.node_status().len()))
            }
            Self::Change(_) => print(&client.change_nodes()?.to_string()),
            Self::Vouch(_) => {
                client.vouch_for_nodes()?;
                let status = Status::of(&client, &settings)?;
                status.check()?;
                print(&status.to_string())
            }
        })
    }

    fn settings(&self) -> Result<Settings, Failure> {
        let set = match self {
            Self::Show(show) => &show.node_args,
            Self::Admit(set) | Self::Change(set) | Self::Vouch(set) => set,
        };
        let settings = set.settings()?;
        if settings.nodes.value.is_empty() {
            let text = "no nodes given: use --node URL for each node, or set QUORATE_NODES";
            return Err(Failure::usage(text));
        }
        Ok(settings)
    }

    /// The output format, for failures.
    pub(crate) fn output(&self) -> Output {
        match self {
            Self::Show(show) => show.output,
            Self::Admit(_) | Self::Change(_) | Self::Vouch(_) => Output::default(),
        }
    }
}

/// The same settings as all clients: a set that they cannot use must not be changed. The client
/// only reads until a change has been decided.
fn client(settings: &Settings) -> Result<Client, Failure> {
    Client::try_from(settings.builder()?.read_only().build()?)
        .map_err(|error| Failure::system("cannot wait for nodes", error))
}

impl Show {
    fn run(&self, client: &Client, settings: &Settings) -> Result<u8, Failure> {
        let status = Status::of(client, settings)?;
        if self.output.is_json() {
            print(&status.json().to_string())?;
            status.check()?;
        } else {
            status.check()?;
            print(&status.to_string())?;
        }
        Ok(if status.is_degraded() { DEGRADED } else { 0 })
    }
}

/// Which nodes vote, once their status has settled.
struct Status {
    nodes: Box<[NodeReport]>,
    /// Which of them vote, but have no memory for new locks.
    full: Vec<bool>,
    has_quarantine: bool,
    quorum: Quorum,
}

impl Status {
    fn of(client: &Client, settings: &Settings) -> Result<Self, Failure> {
        let builder = settings.builder()?;
        let (nodes, facts) = thread::scope(|scope| {
            let nodes = scope.spawn(|| settled_status(client));
            let facts = runtime::start()?.block_on(builder.server_info())?;
            let nodes = nodes.join().map_err(|_| Failure::new(SOFTWARE, "a thread failed"))?;
            Ok::<_, Failure>((nodes, facts))
        })?;
        let known = nodes.iter().zip(&facts.servers);
        let full: Vec<bool> =
            known.map(|(node, server)| votes(node) && is_full(&server.info)).collect();
        let quorum = Quorum {
            nodes: nodes.len(),
            voting: nodes.iter().filter(|node| votes(node)).count(),
            full: full.iter().filter(|is_full| **is_full).count(),
        };
        Ok(Self { nodes, full, has_quarantine: client.has_quarantine(), quorum })
    }

    const fn is_degraded(&self) -> bool {
        self.quorum.granting() < self.quorum.nodes
    }

    /// Fails if no majority votes or grants new locks, or if two addresses lead to one server.
    fn check(&self) -> Result<(), Failure> {
        check_distinct(&self.nodes)?;
        match (self.quorum.has_majority(), self.quorum.spare()) {
            (true, Some(_)) => Ok(()),
            (true, None) => Err(Failure::new(UNAVAILABLE, self.to_string())),
            (false, _) => Err(Failure::new(quorum_failure_code(&self.nodes), self.to_string())),
        }
    }

    /// How many nodes vote, which of them grant no new locks, and how many more may fail.
    fn verdict(&self) -> String {
        let (quorum, needed) = (self.quorum, self.quorum.needed());
        let meaning = match (quorum.spare(), quorum.full) {
            (None, _) if !quorum.has_majority() => format!("no majority ({needed} needed)"),
            (None, _) => format!("no majority for new locks ({needed} needed)"),
            (Some(0), 0) => "no further failure tolerated".to_owned(),
            (Some(1), 0) => "1 more failure tolerated".to_owned(),
            (Some(spare), 0) => format!("{spare} more failures tolerated"),
            (Some(0), _) => "new locks tolerate no further failure".to_owned(),
            (Some(1), _) => "new locks tolerate 1 more failure".to_owned(),
            (Some(spare), _) => format!("new locks tolerate {spare} more failures"),
        };
        let (voting, nodes, verb) = (quorum.voting, quorum.nodes, quorum.verb());
        format!("{voting} of {nodes} {verb}{}; {meaning}", quorum.full_text())
    }

    fn json(&self) -> Value {
        let notice = QuarantineNotice::of(&self.nodes);
        let nodes = self.nodes.iter().zip(&self.full);
        json!({
            "schema_version": SCHEMA_VERSION,
            "verdict": self.verdict(),
            "nodes_total": self.nodes.len(),
            "nodes_voting": self.quorum.voting,
            "nodes_full": self.quorum.full,
            "quorum": self.quorum.needed(),
            "has_quorum": self.quorum.has_majority(),
            "grants_new_locks": self.quorum.spare().is_some(),
            "failures_tolerated": self.quorum.spare().unwrap_or(0),
            "votes_in_ms": notice.map(|it| millis(it.votes_in)),
            "is_admissible": notice.is_some_and(|it| it.is_admissible),
            "has_quarantine": self.has_quarantine,
            "nodes": nodes.map(|(node, is_full)| node_json(node, *is_full)).collect::<Vec<_>>(),
        })
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.verdict())?;
        if let Some(notice) = QuarantineNotice::of(&self.nodes) {
            write!(f, "\n{notice}")?;
        }
        for (node, is_full) in self.nodes.iter().zip(&self.full) {
            write!(f, "\n{node}")?;
            if !self.has_quarantine && votes(node) {
                f.write_str(", without quarantine")?;
            }
            if *is_full {
                f.write_str("; its memory is full: it keeps its locks, and grants no new ones")?;
            }
        }
        Ok(())
    }
}

fn node_json(report: &NodeReport, is_full: bool) -> Value {
    let (state, left) = match &report.answer {
        NodeAnswer::NodeError(NodeError::Quarantined { left, .. }) => ("quarantined", Some(*left)),
        NodeAnswer::NodeError(node_error) => (node_error.kind(), None),
        NodeAnswer::Ready(_) => ("ready", None),
        _ => ("attached", None),
    };
    let text = report.to_string();
    let message = text.strip_prefix(&format!("{}: ", report.node)).unwrap_or(&text);
    json!({
        "node": report.node,
        "votes": votes(report),
        "is_full": is_full,
        "state": state,
        "message": message,
        "quarantined_for_ms": left.map(millis),
    })
}

/// The status of the nodes. The status of a node that does not vote can change when the other nodes
/// answer, so it counts only after it has been the same for a while.
pub(crate) fn settled_status(client: &Client) -> Box<[NodeReport]> {
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
