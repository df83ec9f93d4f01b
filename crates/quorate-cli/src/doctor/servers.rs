//! Checks of each server: whether it answers, and whether it can keep locks.

use super::{
    check::{Check, Problem},
    observed::{Node, Observed},
};
use crate::{
    quorum::percent_used,
    time::{micros, shown},
};
use std::time::Duration;

pub(super) const CHECKS: &[Check] = &[
    Check { id: "reachable", problems: |_| Vec::new(), fine: reachable },
    Check { id: "login", problems: |_| Vec::new(), fine: login },
    Check { id: "round-trip", problems: slow_round_trips, fine: round_trips },
    Check { id: "server", problems: |_| Vec::new(), fine: products },
    Check { id: "role", problems: roles, fine: role_is_fine },
    Check { id: "same-server", problems: same_servers, fine: are_different },
    Check { id: "eviction", problems: evictions, fine: no_eviction },
    Check { id: "memory", problems: full_memory, fine: memory_is_fine },
    Check { id: "persistence", problems: persistence, fine: persistence_is_fine },
    Check { id: "slow-scripts", problems: slow_scripts, fine: no_slow_scripts },
];

fn reachable(observed: &Observed) -> Option<String> {
    let (count, all) = (observed.reached().count(), observed.nodes.len());
    (count > 0).then(|| format!("{count} of {all} nodes answer"))
}

fn login(observed: &Observed) -> Option<String> {
    observed.reached().next()?;
    Some("the servers accept this client, and speak RESP3".into())
}

fn slow_round_trips(observed: &Observed) -> Vec<Problem> {
    let is_slow = |node: &&Node| node.round_trip().is_some_and(|it| it >= SLOW_ROUND_TRIP);
    let slow = observed.nodes.iter().filter(is_slow);
    slow.map(|node| {
        let took = shown(node.round_trip().unwrap_or_default());
        let remedy = "use nodes that are closer, and a ttl of many round trips";
        Problem::warning(format!("the round trip takes {took}"), remedy).of(node.name())
    })
    .collect()
}

fn round_trips(observed: &Observed) -> Option<String> {
    let times: Vec<Duration> = observed.nodes.iter().filter_map(Node::round_trip).collect();
    let (min, max) = (micros(*times.iter().min()?), micros(*times.iter().max()?));
    Some(if min == max { min } else { format!("{min} to {max}") })
}

fn products(observed: &Observed) -> Option<String> {
    let mut products: Vec<String> = observed.reached().filter_map(Node::product).collect();
    products.sort();
    products.dedup();
    (!products.is_empty()).then(|| products.join(", "))
}

fn roles(observed: &Observed) -> Vec<Problem> {
    let problem = |node: &Node| {
        let replicas = node.number("connected_slaves").unwrap_or(0);
        match (node.info("role")?, replicas) {
            ("master", 0) => None,
            ("master", count) => Some(Problem::warning(
                format!("it has replicas ({count}); one that is promoted may not know a lock"),
                "never promote one: replace a dead node by `quorate nodes change`",
            )),
            _ => {
                let host = node.info("master_host").unwrap_or("another server");
                let text = format!("it is a replica of {host}, so its vote does not count");
                let remedy =
                    "use the master in its place, or make it independent: REPLICAOF NO ONE";
                Some(Problem::error(text, remedy))
            }
        }
    };
    each(observed, problem)
}

fn role_is_fine(observed: &Observed) -> Option<String> {
    observed.reached().next()?;
    Some("independent masters, without replicas".into())
}

fn same_servers(observed: &Observed) -> Vec<Problem> {
    let twin = |node: &Node| {
        let text = format!("it is the same server as {}", observed.twin(node)?);
        let remedy = "give each node a server of its own, on a machine of its own";
        Some(Problem::error(text, remedy))
    };
    each(observed, twin)
}

fn are_different(observed: &Observed) -> Option<String> {
    let count = observed.reached().count();
    (count > 1).then(|| format!("{count} addresses, {count} servers"))
}

fn evictions(observed: &Observed) -> Vec<Problem> {
    let problem = |node: &Node| {
        let policy = node.info("maxmemory_policy")?;
        let has_limit = node.number("maxmemory")? > 0;
        let remedy = "CONFIG SET maxmemory-policy noeviction, and in the server's file";
        match node.number("evicted_keys") {
            _ if policy != "noeviction" && has_limit => {
                let text = format!("maxmemory-policy {policy} evicts locks when memory is full");
                Some(Problem::error(text, remedy))
            }
            Some(count) if count > 0 => Some(Problem::warning(
                format!("it has evicted {count} keys since it was started"),
                "if locks were among them, restart the node, so that it is quarantined",
            )),
            _ if policy != "noeviction" => {
                let text = format!("maxmemory-policy {policy} evicts locks once maxmemory is set");
                Some(Problem::warning(text, remedy))
            }
            _ => None,
        }
    };
    each(observed, problem)
}

fn no_eviction(observed: &Observed) -> Option<String> {
    observed.reached().next()?;
    Some("no server evicts keys".into())
}

fn full_memory(observed: &Observed) -> Vec<Problem> {
    let problem = |node: &Node| {
        let percent = percent_used(&node.facts.info)?;
        let max = node.info("maxmemory_human").unwrap_or("maxmemory");
        let remedy = "free memory, or raise maxmemory";
        match percent {
            100.. => {
                let text =
                    format!("memory is full ({max}): it keeps its locks, and grants no new ones");
                Some(Problem::error(text, remedy))
            }
            90.. => {
                let text = format!("{percent} % of the memory ({max}) is used");
                Some(Problem::warning(text, remedy))
            }
            _ => None,
        }
    };
    each(observed, problem)
}

fn memory_is_fine(observed: &Observed) -> Option<String> {
    let used: Vec<&str> =
        observed.reached().filter_map(|node| node.info("used_memory_human")).collect();
    let percent = observed.nodes.iter().filter_map(|node| percent_used(&node.facts.info)).max();
    let limit =
        percent.map_or_else(|| "no limit".into(), |it| format!("up to {it} % of the limit"));
    (!used.is_empty()).then(|| format!("{} used, {limit}", used.join(", ")))
}

fn persistence(observed: &Observed) -> Vec<Problem> {
    let problem = |node: &Node| {
        let setting = |name: &str| node.facts.settings.get(name).map(String::as_str);
        if node.info("aof_last_write_status").is_some_and(|status| status != "ok") {
            let text = "the last write to its append-only file failed";
            return Some(Problem::error(text, "check the disk of the server: it may be full"));
        }
        let is_stopped = node.info("rdb_last_bgsave_status").is_some_and(|status| status != "ok")
            && setting("stop-writes-on-bgsave-error") != Some("no")
            && setting("save") != Some("");
        if is_stopped {
            let text = "its last snapshot failed, so it rejects all writes (MISCONF)";
            return Some(Problem::error(text, "check the disk of the server: it may be full"));
        }
        if observed.settings.has_durable_nodes && !is_durable(node) {
            let text = "durable_nodes is set, but the server does not write everything to disk";
            let remedy = "set appendonly yes, appendfsync always and no-appendfsync-on-rewrite \
                          no, and grant +config|get";
            return Some(Problem::error(text, remedy));
        }
        (!observed.settings.has_quarantine && !is_durable(node)).then(|| {
            let text = "a restart loses held locks, and there is no quarantine";
            let remedy = "set appendonly yes and appendfsync always, or use three nodes";
            Problem::warning(text, remedy)
        })
    };
    each(observed, problem)
}

/// Whether a restart loses nothing. Settings that the user may not read count as unsafe.
fn is_durable(node: &Node) -> bool {
    let is = |name: &str, value| node.facts.settings.get(name).map(String::as_str) == Some(value);
    node.info("aof_enabled") == Some("1")
        && is("appendfsync", "always")
        && is("no-appendfsync-on-rewrite", "no")
}

fn persistence_is_fine(observed: &Observed) -> Option<String> {
    let durable = observed.reached().filter(|node| is_durable(node)).count();
    Some(match (durable, observed.reached().count()) {
        (_, 0) => return None,
        (durable, count) if durable == count => "a restart loses nothing".into(),
        _ => "a node that restarts and loses its data is quarantined".into(),
    })
}

fn slow_scripts(observed: &Observed) -> Vec<Problem> {
    let problem = |node: &Node| {
        let calls = node.facts.slow_calls.iter().flatten();
        let recent = calls.filter(|call| call.age < RECENT && call.took >= SLOW_CALL);
        let slowest = recent.max_by_key(|call| call.took)?;
        let (took, age) = (shown(slowest.took), shown(slowest.age));
        let text = format!("{} blocked the server for {took}, {age} ago", slowest.command);
        let remedy = "find out who sends it (SLOWLOG GET), and keep other work off the nodes";
        Some(Problem::warning(text, remedy))
    };
    each(observed, problem)
}

fn no_slow_scripts(observed: &Observed) -> Option<String> {
    let known = observed.reached().filter(|node| node.facts.slow_calls.is_some()).count();
    Some(match (known, observed.reached().count()) {
        (_, 0) => return None,
        (0, _) => "not known: the user may not read SLOWLOG".into(),
        _ => format!("no call took {} in the last hour", shown(SLOW_CALL)),
    })
}

/// The problems of the servers that answered.
pub(super) fn each(
    observed: &Observed,
    problem: impl Fn(&Node) -> Option<Problem>,
) -> Vec<Problem> {
    observed.reached().filter_map(|node| Some(problem(node)?.of(node.name()))).collect()
}

/// A request for a lock waits at least 50 ms for votes.
const SLOW_ROUND_TRIP: Duration = Duration::from_millis(25);

/// A server executes one call at a time: all votes wait for it.
const SLOW_CALL: Duration = Duration::from_millis(50);

const RECENT: Duration = Duration::from_secs(60 * 60);
