//! Checks of the nodes as a set: how many there are, what they agree on, and which of them vote.

use std::time::Duration;

use quorate::error::{NodeAnswer, NodeError};

use super::{
    check::{Check, Problem},
    observed::{Node, Observed},
    servers::each,
};
use crate::{exit::majority, quorum::Quorum, time::shown};

pub(super) const CHECKS: &[Check] = &[
    Check { id: "node-count", problems: node_count, fine: node_count_is_fine },
    Check { id: "membership", problems: membership, fine: membership_is_fine },
    Check { id: "max-ttl", problems: max_ttl, fine: max_ttl_is_fine },
    Check { id: "quarantine", problems: quarantine, fine: no_quarantine },
    Check { id: "quorum", problems: quorum, fine: quorum_is_fine },
];

fn node_count(observed: &Observed) -> Vec<Problem> {
    match observed.nodes.len() {
        0 => Vec::new(),
        count if count.is_multiple_of(2) => {
            let fewer = count - 1;
            let text = format!("{count} nodes tolerate no more failures than {fewer}");
            vec![Problem::warning(text, "add or remove one: an odd number is best")]
        }
        _ => Vec::new(),
    }
}

fn node_count_is_fine(observed: &Observed) -> Option<String> {
    match observed.nodes.len() {
        0 => None,
        1 => Some("one node: its outage stops all work".into()),
        count => Some(format!("{count} nodes: {} may fail", count - majority(count))),
    }
}

fn membership(observed: &Observed) -> Vec<Problem> {
    let outdated = lists(observed);
    let change = |node: &Node| node.recorded("change");
    let newest = observed.nodes.iter().filter_map(change).max();
    let problem = |node: &Node| {
        let (change, newest) = (change(node)?, newest?);
        (change < newest).then(|| {
            let text = format!("it knows change {change} of the set, others know change {newest}");
            Problem::warning(text, "start any client that is not read-only: it informs the node")
        })
    };
    let disagrees = |node: &Node| {
        let is_disagreement = |error: &&NodeError| super::check::check_of(error) == "membership";
        node.errors().any(|error| is_disagreement(&error))
    };
    // What a client concludes says more.
    let missed = each(observed, problem).into_iter();
    let is_shown = |problem: &Problem| {
        let of = |node: &&Node| problem.node.as_deref() == Some(node.name());
        let is_known = outdated.iter().any(|other| other.node == problem.node);
        !is_known && !observed.nodes.iter().find(of).is_some_and(disagrees)
    };
    let missed: Vec<Problem> = missed.filter(is_shown).collect();
    outdated.into_iter().chain(missed).collect()
}

/// The nodes that show that the list of this host is not the agreed one.
fn lists(observed: &Observed) -> Vec<Problem> {
    let Some(agreed) = observed.agreed() else { return Vec::new() };
    let settings = &observed.settings;
    let login = if settings.has_login { " (add user and password to each)" } else { "" };
    // In the order of this host, so that the difference is visible.
    let ours = observed.nodes.iter().map(Node::name).filter(|node| agreed.nodes.contains(node));
    let others = agreed.nodes.iter().copied();
    let others = others.filter(|node| observed.nodes.iter().all(|ours| ours.name() != *node));
    let nodes: Vec<&str> = ours.chain(others).collect();
    let (list, from) = (nodes.join(","), &settings.nodes_from);
    let remedy = || format!("update the list of nodes in {from}: {list}{login}");
    let is_listed = observed.nodes.iter().all(|node| agreed.has(node.name()))
        && observed.nodes.len() == agreed.nodes.len();
    let problem = |node: &Node| {
        if observed.is_outdated(node) {
            let (change, nodes) = (agreed.change, nodes.join(", "));
            let text = format!("it is not one of the agreed nodes (change {change}): {nodes}");
            return Some(Problem::error(text, remedy()).of(node.name()));
        }
        let error = node.errors().find(|error| matches!(error, NodeError::Disagreement(_)))?;
        let text = error.to_string();
        // Clients and nodes can differ in other settings, too.
        let is_about_nodes = !text.contains("max_ttl") && !text.contains("quarantine");
        (is_about_nodes && !is_listed).then(|| Problem::error(text, remedy()).of(node.name()))
    };
    observed.nodes.iter().filter_map(problem).collect()
}

fn membership_is_fine(observed: &Observed) -> Option<String> {
    if observed.nodes.is_empty() {
        return None;
    }
    if !observed.settings.has_quarantine {
        return Some("quarantine is off: the nodes keep no record of their set".into());
    }
    let change = observed.nodes.iter().filter_map(|node| node.recorded("change")).max();
    Some(match change? {
        1 => "the nodes agree on the set as it was founded".into(),
        change => format!("the nodes agree on change {change} of the set"),
    })
}

fn max_ttl(observed: &Observed) -> Vec<Problem> {
    let max = observed.settings.max_ttl;
    if observed.nodes.is_empty() || !observed.settings.has_quarantine || max <= LONG_TTL {
        return Vec::new();
    }
    let text = format!("a node that forgets locks does not vote for more than {}", shown(max));
    vec![Problem::warning(text, "use a smaller max_ttl: leases are renewed, so jobs may be longer")]
}

fn max_ttl_is_fine(observed: &Observed) -> Option<String> {
    if observed.nodes.is_empty() {
        return None;
    }
    let max = shown(observed.settings.max_ttl);
    let votes_after = observed.nodes.iter().find_map(|node| node.facts.votes_after());
    Some(match votes_after.filter(|_| observed.settings.has_quarantine) {
        Some(time) => format!("{max}, so a node that restarts votes again after {}", shown(time)),
        None => max,
    })
}

fn quarantine(observed: &Observed) -> Vec<Problem> {
    let are_new = are_new(observed);
    let problem = |node: &Node| match &node.answer {
        NodeAnswer::NodeError(NodeError::Quarantined { left, why, .. }) => {
            let text = format!("it does not vote for {} more: {why}", shown(*left));
            let remedy = match are_new {
                true => "if the servers are new, and did not lose data: quorate nodes admit",
                false => "wait: it votes again by itself",
            };
            Some(Problem::error(text, remedy))
        }
        NodeAnswer::Ready(why) => {
            let remedy = "nothing: the next `quorate run` or other client ends it";
            Some(Problem::warning(why.clone(), remedy))
        }
        _ => None,
    };
    let problems = observed.nodes.iter();
    problems.filter_map(|node| Some(problem(node)?.of(node.name()))).collect()
}

/// Whether `quorate nodes admit` would let the nodes vote: none of them remembers anything.
fn are_new(observed: &Observed) -> bool {
    let is_new = |node: &Node| {
        let is_quarantined =
            matches!(node.answer, NodeAnswer::NodeError(NodeError::Quarantined { .. }));
        let doubt = node.facts.record.get("doubt").map(String::as_str);
        is_quarantined && node.facts.keys == Some(0) && matches!(doubt, None | Some("unknown"))
    };
    observed.nodes.iter().all(is_new)
}

fn no_quarantine(observed: &Observed) -> Option<String> {
    match (observed.reached().count(), observed.settings.has_quarantine) {
        (0, _) => None,
        (_, true) => Some("no node is in quarantine".into()),
        (_, false) => Some("quarantine is off".into()),
    }
}

fn quorum(observed: &Observed) -> Vec<Problem> {
    let (quorum, text) = (observed.quorum(), verdict(observed));
    let remedy = "see the other findings, and repair one node at a time";
    match quorum.spare() {
        _ if quorum.nodes == 0 => Vec::new(),
        _ if observed.has_twins() => vec![Problem::error(text, "see same-server")],
        _ if quorum.granting() == quorum.nodes => Vec::new(),
        None | Some(0) => vec![Problem::error(text, remedy)],
        Some(_) => vec![Problem::warning(text, remedy)],
    }
}

fn quorum_is_fine(observed: &Observed) -> Option<String> {
    (!observed.nodes.is_empty()).then(|| verdict(observed))
}

/// How many vote, which of them grant no new locks, and how many more may fail.
pub(super) fn verdict(observed: &Observed) -> String {
    if observed.has_twins() {
        return TWINS.into();
    }
    let quorum = observed.quorum();
    let more = match quorum.spare() {
        None if quorum.has_majority() => "no new lock can be acquired".into(),
        None => "no lock can be acquired".into(),
        Some(0) => "no further failure is tolerated".into(),
        Some(spare) => format!("{spare} more may fail"),
    };
    let Quorum { nodes, voting, .. } = quorum;
    let (needed, full) = (quorum.needed(), quorum.full_text());
    format!("{voting} of {nodes} vote, {needed} needed{full}: {more}")
}

/// A client could count one server as a majority.
const TWINS: &str = "no lock can be acquired: two addresses lead to one server, so every command \
                     exits with 78";

/// Nodes stay away for longer than this after a restart.
const LONG_TTL: Duration = Duration::from_secs(60 * 60);
