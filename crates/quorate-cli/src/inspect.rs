//! `quorate ls` and `quorate show`: the holders and waiters of locks.

mod permits;
mod watch;

use std::{fmt, time::Duration};

use clap::Args;
use quorate::{
    blocking::Client,
    inspect::{Holder, LockPage, LockReport, NodeView, Observation, Waiter},
};
use serde_json::{Value, json};

use self::permits::Permits;
use crate::{
    cli::{Output, SCHEMA_VERSION, print},
    exit::{Failure, check_distinct, node_failure_code, quorum_failure_code},
    progress,
    reporter::Reporter,
    settings::NodeArgs,
    table,
};

/// List locks that are held or waited for
#[derive(Args, Debug)]
pub(crate) struct Ls {
    /// Only locks whose names begin with this
    #[arg(default_value = "", value_name = "PREFIX", hide_default_value = true)]
    names: String,
    /// Repeat the list every second. Where standard output is not a terminal, or with `-o json`,
    /// write it only when it has changed: one object per line
    #[arg(long)]
    watch: bool,
    /// Report only errors
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    node_args: NodeArgs,
}

/// Show one lock: its holder, its queue, and the state of each node; or the permits of a name
#[derive(Args, Debug)]
pub(crate) struct Show {
    /// Name of the lock, or of the permits
    name: String,
    /// Report only errors
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    node_args: NodeArgs,
}

impl Ls {
    pub(crate) fn run(&self) -> Result<u8, Failure> {
        let client = client(&self.node_args, self.quiet)?;
        match self.watch {
            true => watch::run(self, &client),
            false => {
                let found = progress::during(progress::NODES, || self.find(&client))?;
                let text = self.text(&found);
                if self.is_empty(&found) {
                    Reporter::of_quiet(self.quiet)
                        .warn("no locks: try `quorate run demo -- sleep 30`");
                } else if !text.is_empty() {
                    print(&text)?;
                }
                check_complete(&found)?;
                check_distinct(&client.node_status())?;
                Ok(0)
            }
        }
    }

    fn find(&self, client: &Client) -> Result<LockPage, Failure> {
        let mut found = client.locks(&self.names).all()?;
        found.locks = found.locks.into_iter().map(redact_foreign_holders).collect();
        Ok(found)
    }

    /// Whether there is no lock to show, and none may be missing. JSON is complete without locks.
    fn is_empty(&self, found: &LockPage) -> bool {
        !self.output.is_json() && found.locks.is_empty() && found.is_complete
    }

    fn text(&self, found: &LockPage) -> String {
        if self.output.is_json() {
            let locks: Vec<Value> = found.locks.iter().map(lock).collect();
            let (version, is_complete) = (SCHEMA_VERSION, found.is_complete);
            let list =
                json!({ "schema_version": version, "locks": locks, "is_complete": is_complete });
            return list.to_string();
        }
        if found.locks.is_empty() {
            return String::new();
        }
        // A prefix with the mark of a permit asks for single permits.
        let rows = permits::rows(&found.locks, !self.names.contains('#'));
        let rows: Vec<[String; 6]> = rows.iter().map(permits::Row::cells).collect();
        let head = ["NAME", "HOLDER", "HELD FOR", "RENEW WITHIN", "FENCE", "WAITING"];
        table::render(head, &rows)
    }
}

/// Fails if locks may be missing, or the state of one is unknown.
fn check_complete(found: &LockPage) -> Result<(), Failure> {
    if !found.is_complete {
        let code = quorum_failure_code(&found.nodes);
        return Err(unknown(code, "some locks may be missing", &found.nodes));
    }
    found.locks.iter().try_for_each(check_known)
}

impl Show {
    pub(crate) fn run(&self) -> Result<u8, Failure> {
        let client = client(&self.node_args, self.quiet)?;
        let (report, permits) = progress::during(progress::NODES, || self.find(&client))?;
        self.show(&report, permits.as_ref())?;
        check_known(&report)?;
        check_distinct(&client.node_status())?;
        Ok(0)
    }

    /// The lock, and its permits if no client holds or awaits a lock of this name.
    fn find(&self, client: &Client) -> Result<(LockReport, Option<Permits>), Failure> {
        let report = redact_foreign_holders(client.inspect(&self.name)?);
        let is_free = report.holder.is_none() && report.waiting_total == 0;
        let permits = match is_free && report.is_known() {
            true => Permits::find(client, &self.name)?,
            false => None,
        };
        Ok((report, permits))
    }

    fn show(&self, report: &LockReport, permits: Option<&Permits>) -> Result<u8, Failure> {
        if self.output.is_json() {
            let mut json = lock(report);
            json["schema_version"] = SCHEMA_VERSION.into();
            json["permits"] = permits.map_or(Value::Null, Permits::json);
            json["waiting"] = report.waiting.iter().map(waiter).collect();
            json["nodes"] = report.nodes.iter().map(node).collect();
            return print(&json.to_string());
        }
        let lines = permits.map_or_else(|| lines(report), Permits::lines);
        print(&lines.join("\n"))
    }
}

/// What is known about a lock, for people.
fn lines(report: &LockReport) -> Vec<String> {
    let mut lines = vec![report.to_string()];
    if let Some(fence) = report.holder.as_ref().and_then(|holder| holder.fence) {
        lines.push(format!("fence {fence}"));
    }
    if let Some(identity) = report.holder.as_ref().and_then(|it| it.identity.as_deref()) {
        // With several entries, the report already names the identity.
        if report.shared_with.is_empty() {
            lines.push(format!("entered once by {identity:?}"));
        }
        let other_entry = |other: &Holder| format!("also held by {other}");
        lines.extend(report.shared_with.iter().map(other_entry));
    }
    if report.holder.as_ref().is_some_and(|holder| holder.is_shared) {
        let with = |other: &Holder| format!("shared with {other}");
        lines.extend(report.shared_with.iter().map(with));
        if report.shared_with.is_empty() {
            lines.push("shared, with one holder".into());
        }
    }
    let waiters: Vec<String> = report.waiting.iter().map(ToString::to_string).collect();
    lines.extend(numbered(&waiters, report.waiting_total));
    lines.extend(report.nodes.iter().map(ToString::to_string));
    lines
}

/// The first waiters, and how many more there are.
fn numbered(waiters: &[String], total: u64) -> Vec<String> {
    let line = |(before, it): (usize, &String)| format!("{:>3}. {it}", before + 1);
    let more = total.saturating_sub(waiters.len() as u64);
    let more = (more > 0).then(|| format!("and {more} more"));
    waiters.iter().enumerate().map(line).chain(more).collect()
}

fn client(node_args: &NodeArgs, is_quiet: bool) -> Result<Client, Failure> {
    let (settings, reporter) = (node_args.settings()?, Reporter::of_quiet(is_quiet));
    settings.warn(&reporter);
    settings.note_local_inspection(&reporter);
    // Reading writes nothing to the nodes. A node that does not vote yet is not asked about locks.
    let client = settings.builder()?.read_only().build()?;
    Client::try_from(client).map_err(|error| Failure::system("cannot wait for nodes", error))
}

/// Fails if too few nodes answered to know whether the lock is held.
fn check_known(report: &LockReport) -> Result<(), Failure> {
    if report.is_known() {
        return Ok(());
    }
    let node_error = |view: &NodeView| match &view.observation {
        Observation::NodeError(node_error) => Some(node_error.clone()),
        _ => None,
    };
    let code = node_failure_code(report.nodes.iter().map(node_error));
    Err(unknown(code, &format!("the state of {:?} is unknown", report.name), &report.nodes))
}

fn unknown(code: u8, what: &str, nodes: &[impl fmt::Display]) -> Failure {
    let nodes: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    Failure::new(code, format!("{what}: too few nodes answered: {}", nodes.join(", ")))
}

/// Hides the value of a lock of another library: for most libraries the value releases the lock.
pub(crate) fn redact_foreign_holders(mut report: LockReport) -> LockReport {
    let observed = report.nodes.iter_mut().filter_map(|view| match &mut view.observation {
        Observation::Held(holder) => Some(holder),
        _ => None,
    });
    let foreign = report.holder.iter_mut().chain(&mut report.shared_with).chain(observed);
    for holder in foreign.filter(|holder| holder.is_foreign) {
        holder.who = truncated(&holder.who);
    }
    report
}

/// The first characters of a value: enough to recognize it, too few to use it.
pub(crate) fn truncated(value: &str) -> String {
    match value.char_indices().nth(VALUE_SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.to_owned(),
    }
}

/// The holders of the lock, in a few words.
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

/// How many entries a reentrant lock has.
fn times(report: &LockReport) -> String {
    match report.shared_with.len() + 1 {
        entries @ ENTRIES_REPORTED_MAX.. => format!("{entries} times or more"),
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

fn waiter(it: &Waiter) -> Value {
    json!({ "who": it.who, "waiting_for_ms": millis(it.waiting_for) })
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

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A report lists at most this many holders. There may be more.
const ENTRIES_REPORTED_MAX: usize = 100;

/// How many characters of another library's value are shown.
const VALUE_SHOWN_MAX: usize = 8;
