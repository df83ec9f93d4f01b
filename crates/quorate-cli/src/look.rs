//! `quorate ls` and `quorate show`: who has which lock, and who waits.

use std::{fmt, time::Duration};

use clap::Args;
use quorate::{
    blocking::Client,
    error::{NodeAnswer, NodeReport},
    inspect::{Holder, LockReport, Locks, NodeView, Observation, Waiter},
};
use serde_json::{Value, json};

use crate::{
    cli::{Output, SCHEMA_VERSION, print},
    exit::{Failure, too_few},
    settings::Place,
    table, time,
    voice::Voice,
};

/// Lists locks that are held or waited for.
#[derive(Args, Debug)]
pub(crate) struct Ls {
    /// How their names begin; all, if it is not given.
    #[arg(default_value = "", value_name = "PREFIX", hide_default_value = true)]
    names: String,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    place: Place,
}

/// Shows one lock: its holder, its line, and what each node says.
#[derive(Args, Debug)]
pub(crate) struct Show {
    /// The name of the lock.
    name: String,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    place: Place,
}

impl Ls {
    pub(crate) fn run(&self) -> Result<u8, Failure> {
        let mut found = client(&self.place)?.locks(&self.names)?;
        found.locks = found.locks.into_iter().map(discreet).collect();
        self.show(&found)?;
        if !found.is_complete {
            let node_error = |node: &NodeReport| match &node.answer {
                NodeAnswer::NodeError(node_error) => Some(node_error.clone()),
                _ => None,
            };
            let code = too_few(found.nodes.iter().map(node_error));
            return Err(unknown(code, "some locks may be missing", &found.nodes));
        }
        // All could be listed, and one not looked at.
        found.locks.iter().try_for_each(check_known)?;
        Ok(0)
    }

    fn show(&self, found: &Locks) -> Result<u8, Failure> {
        if self.output.is_json() {
            let locks: Vec<Value> = found.locks.iter().map(lock).collect();
            let (version, is_complete) = (SCHEMA_VERSION, found.is_complete);
            let list =
                json!({ "schema_version": version, "locks": locks, "is_complete": is_complete });
            return print(&list.to_string());
        }
        if found.locks.is_empty() {
            if found.is_complete {
                Voice::default().warn("no locks: try `quorate run demo -- sleep 30`");
            }
            return Ok(0);
        }
        let row = |lock: &LockReport| {
            let holder = lock.holder.as_ref();
            let shown = |time: Option<Duration>| time.map_or_else(|| "-".into(), time::shown);
            let fence = holder.and_then(|it| it.fence).map(|fence| fence.to_string());
            [
                lock.name.clone(),
                holders(lock).unwrap_or_else(|| "-".into()),
                shown(holder.and_then(|it| it.held_for)),
                shown(holder.and_then(|it| it.expires_in)),
                fence.unwrap_or_else(|| "-".into()),
                lock.waiting_total.to_string(),
            ]
        };
        let rows: Vec<[String; 6]> = found.locks.iter().map(row).collect();
        let head = ["NAME", "HOLDER", "HELD FOR", "EXPIRES IN", "FENCE", "WAITING"];
        print(&table::render(head, &rows))
    }
}

impl Show {
    pub(crate) fn run(&self) -> Result<u8, Failure> {
        let report = discreet(client(&self.place)?.inspect(&self.name)?);
        self.show(&report)?;
        check_known(&report)?;
        Ok(0)
    }

    fn show(&self, report: &LockReport) -> Result<u8, Failure> {
        if self.output.is_json() {
            let mut json = lock(report);
            json["schema_version"] = SCHEMA_VERSION.into();
            let waiter =
                |it: &Waiter| json!({ "who": it.who, "waiting_for_ms": millis(it.waiting_for) });
            json["waiting"] = report.waiting.iter().map(waiter).collect();
            json["nodes"] = report.nodes.iter().map(node).collect();
            return print(&json.to_string());
        }
        let mut lines = vec![report.to_string()];
        if let Some(fence) = report.holder.as_ref().and_then(|holder| holder.fence) {
            lines.push(format!("fence {fence}"));
        }
        if let Some(identity) = report.holder.as_ref().and_then(|it| it.identity.as_deref()) {
            // If there are several entries, the report has named the identity already.
            if report.shared_with.is_empty() {
                lines.push(format!("entered once by {identity:?}"));
            }
            let also = |other: &Holder| format!("also held by {other}");
            lines.extend(report.shared_with.iter().map(also));
        }
        if report.holder.as_ref().is_some_and(|holder| holder.is_shared) {
            let with = |other: &Holder| format!("shared with {other}");
            lines.extend(report.shared_with.iter().map(with));
            if report.shared_with.is_empty() {
                lines.push("shared, with nobody else now".into());
            }
        }
        let number = |(before, it): (usize, &Waiter)| format!("{:>3}. {it}", before + 1);
        lines.extend(report.waiting.iter().enumerate().map(number));
        let shown = report.waiting.len() as u64;
        if report.waiting_total > shown {
            lines.push(format!("and {} more", report.waiting_total - shown));
        }
        lines.extend(report.nodes.iter().map(ToString::to_string));
        print(&lines.join("\n"))
    }
}

fn client(place: &Place) -> Result<Client, Failure> {
    let settings = place.settings()?;
    settings.warn(&Voice::default());
    // Nothing is written to the nodes. One that does not vote yet is not asked about locks.
    let client = settings.builder()?.read_only().build()?;
    Client::try_from(client).map_err(|error| Failure::system("cannot wait for nodes", error))
}

/// Fails if too few nodes have answered to tell whether somebody has the lock.
fn check_known(report: &LockReport) -> Result<(), Failure> {
    if report.is_known() {
        return Ok(());
    }
    let node_error = |view: &NodeView| match &view.observation {
        Observation::NodeError(node_error) => Some(node_error.clone()),
        _ => None,
    };
    let code = too_few(report.nodes.iter().map(node_error));
    Err(unknown(code, &format!("{:?} is not known", report.name), &report.nodes))
}

fn unknown(code: u8, what: &str, nodes: &[impl fmt::Display]) -> Failure {
    let nodes: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    Failure::new(code, format!("{what}: too few nodes answered: {}", nodes.join(", ")))
}

/// Hides what could release the lock of another library: for most of them that is its value.
pub(crate) fn discreet(mut report: LockReport) -> LockReport {
    let seen = report.nodes.iter_mut().filter_map(|view| match &mut view.observation {
        Observation::Held(holder) => Some(holder),
        _ => None,
    });
    let foreign = report.holder.iter_mut().chain(&mut report.shared_with).chain(seen);
    for holder in foreign.filter(|holder| holder.is_foreign) {
        holder.who = beginning(&holder.who);
    }
    report
}

/// So much of a value that people can tell it from others, and no more.
pub(crate) fn beginning(value: &str) -> String {
    match value.char_indices().nth(VALUE_SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.to_owned(),
    }
}

/// Who has the lock, in a few words.
pub(crate) fn holders(report: &LockReport) -> Option<String> {
    let holder = report.holder.as_ref()?;
    let first = &holder.who;
    if let Some(identity) = &holder.identity {
        return Some(match report.shared_with.is_empty() {
            true => format!("{first} as {identity:?}"),
            false => format!("{first} as {identity:?}, entered {}", times(report)),
        });
    }
    Some(match report.shared_with.len() {
        0 => first.clone(),
        1 => format!("{first} and 1 other"),
        others => format!("{first} and {others} others"),
    })
}

/// How often a reentrant lock is entered.
fn times(report: &LockReport) -> String {
    match report.shared_with.len() + 1 {
        entries @ ENTRIES_TOLD.. => format!("{entries} times or more"),
        entries => format!("{entries} times"),
    }
}

/// A lock as JSON.
fn lock(report: &LockReport) -> Value {
    json!({
        "name": report.name,
        "is_held": report.is_held(),
        "is_known": report.is_known(),
        "votes": report.votes,
        "holder": report.holder.as_ref().map(holder),
        "shared_with": report.shared_with.iter().map(holder).collect::<Vec<_>>(),
        "waiting_total": report.waiting_total,
    })
}

fn holder(holder: &Holder) -> Value {
    json!({
        "who": holder.who,
        "owner_prefix": holder.owner_prefix,
        "fence": holder.fence.map(quorate::fence::Fence::get),
        "held_for_ms": holder.held_for.map(millis),
        "expires_in_ms": holder.expires_in.map(millis),
        "identity": holder.identity,
        "is_foreign": holder.is_foreign,
        "is_shared": holder.is_shared,
    })
}

fn node(view: &NodeView) -> Value {
    let (state, more) = match &view.observation {
        Observation::Free => ("free", Value::Null),
        Observation::Held(it) => ("held", holder(it)),
        Observation::NodeError(node_error) => ("node_error", json!(node_error.to_string())),
        _ => ("other", Value::Null),
    };
    let key = if state == "node_error" { "node_error" } else { "holder" };
    json!({ "node": view.node, "state": state, key: more })
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A report lists this many holders at most. There may be more.
const ENTRIES_TOLD: usize = 100;

/// How many characters are shown of a value that is another library's.
const VALUE_SHOWN_MAX: usize = 8;
