//! Whether the user may call all commands that Quorate uses, and whether scripts run.

use quorate::{
    diagnose::{Purpose, Right},
    error::NodeError,
};

use super::{
    check::{Check, Problem},
    observed::{Node, Observed},
    servers::each,
};

pub(super) const CHECKS: &[Check] = &[
    Check { id: "scripts", problems: scripts, fine: scripts_run },
    Check { id: "rights", problems: rights, fine: rights_are_fine },
];

fn scripts(observed: &Observed) -> Vec<Problem> {
    let problem = |node: &Node| {
        let error = node.facts.script_error.as_ref()?;
        let is_other = super::check::check_of(error) == "reachable";
        let remedy = "use Redis 6.2 or later, or Valkey, with EVAL not renamed";
        is_other.then(|| Problem::error(format!("it runs no scripts: {error}"), remedy))
    };
    each(observed, problem)
}

fn scripts_run(observed: &Observed) -> Option<String> {
    let is_run = |node: &Node| node.facts.script_error.is_none();
    observed.reached().any(is_run).then(|| "the servers run Lua scripts".into())
}

fn rights(observed: &Observed) -> Vec<Problem> {
    let problem = |node: &Node| {
        let is_denial = |error: &&NodeError| matches!(error, NodeError::NoPermission(_));
        let denial = |error: &NodeError| denied(node, error, &observed.settings.prefix);
        if let Some(error) = node.facts.node_error.as_ref().or(node.facts.script_error.as_ref()) {
            return Some(error).filter(is_denial).map(denial);
        }
        if !node.is_reached() {
            return None;
        }
        let Some(missing) = &node.facts.missing_rights else {
            let text = "a server older than Redis 7.0 cannot tell what the user may do";
            let remedy = "compare ACL GETUSER with the list in docs/operations.md";
            return Some(Problem::warning(text, remedy));
        };
        let needs_config = observed.settings.has_durable_nodes;
        let needed = |right: &&&Right| needs_config || right.purpose != Purpose::Durability;
        let missing: Vec<&Right> = missing.iter().filter(needed).copied().collect();
        let rules: Vec<&str> = missing.iter().map(|right| right.rule).collect();
        let remedy = format!("ACL SETUSER {} {}", node.facts.user, rules.join(" "));
        let names: Vec<&str> = rules.iter().map(|rule| rule.trim_start_matches('+')).collect();
        let text = format!("the user may not call {}", names.join(", "));
        match missing.iter().all(|right| right.purpose == Purpose::Listing) {
            _ if missing.is_empty() => node.errors().find(is_denial).map(denial),
            true => {
                Some(Problem::warning(format!("{text}, so `quorate ls` does not work"), remedy))
            }
            false => {
                let prefix = &observed.settings.prefix;
                let text = text + " with Quorate's own keys and channels";
                Some(Problem::error(text, format!("{remedy} ~{prefix}* &{prefix}c:*")))
            }
        }
    };
    let nodes = observed.nodes.iter();
    nodes.filter_map(|node| Some(problem(node)?.of(node.name()))).collect()
}

/// The server has denied a request, so it could not be asked what else the user may not do. Its
/// text names the command, or says that it is a key or a channel.
fn denied(node: &Node, error: &NodeError, prefix: &str) -> Problem {
    let (text, user) = (error.to_string(), &node.facts.user);
    let command = text.split_once("run the '").and_then(|(_, rest)| rest.split_once('\''));
    let remedy = match command {
        Some((command, _)) => format!("ACL SETUSER {user} +{command}"),
        None if text.contains("channel") => format!("ACL SETUSER {user} &{prefix}c:*"),
        None => format!("ACL SETUSER {user} ~{prefix}*; the names of your locks need one, too"),
    };
    Problem::error(text, remedy)
}

fn rights_are_fine(observed: &Observed) -> Option<String> {
    observed.reached().next()?;
    Some("the user may call all commands that Quorate uses".into())
}
