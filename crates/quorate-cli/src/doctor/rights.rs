//! Whether the user may call all commands that Quorate uses, and whether scripts run.

use quorate::diagnose::{Purpose, Right};

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
        if node.facts.script_error.is_some() {
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
        let remedy = format!("ACL SETUSER <user> {}", rules.join(" "));
        let names: Vec<&str> = rules.iter().map(|rule| rule.trim_start_matches('+')).collect();
        let text = format!("the user may not call {}", names.join(", "));
        match missing.iter().all(|right| right.purpose == Purpose::Listing) {
            _ if missing.is_empty() => None,
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
    each(observed, problem)
}

fn rights_are_fine(observed: &Observed) -> Option<String> {
    observed.reached().next()?;
    Some("the user may call all commands that Quorate uses".into())
}
