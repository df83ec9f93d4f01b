//! Progress of a wait: live on a terminal, otherwise in a line from time to time.

use std::{
    cell::RefCell,
    fmt,
    time::{Duration, Instant},
};

use quorate::{
    Client,
    error::{NodeAnswer, NodeError, NodeReport, QuarantineNotice},
    inspect::LockReport,
};

use super::request::{Mode, Request};
use crate::{
    exit::{Failure, check_distinct, majority},
    inspect::{holders, redact_foreign_holders},
    reporter::{Reporter, columns, first_fitting, fitting},
    time,
};

/// Observes the holder of the lock during a wait.
#[derive(Debug, Default)]
pub(super) struct WaitStatus {
    holder: RefCell<Option<String>>,
}

impl WaitStatus {
    /// The last observed holder.
    pub(super) fn holder(self) -> Option<String> {
        self.holder.into_inner()
    }

    /// Reports the progress while it is polled: live on a terminal, elsewhere once and then ever
    /// more rarely. Completes if waiting is in vain.
    pub(super) async fn report(
        &self,
        client: &Client,
        requests: &[Request<'_>],
        reporter: &Reporter,
    ) -> Failure {
        let (started, mut due) = (Instant::now(), Due::default());
        loop {
            let nodes = client.node_status();
            if let Err(failure) = check_distinct(&nodes) {
                return failure;
            }
            let waited = started.elapsed();
            if waited < SETTLED_AFTER {
                tokio::time::sleep(SETTLED_AFTER / 10).await;
                continue;
            }
            match Obstacle::of(&nodes) {
                // It is not known yet why a node does not answer.
                Some(obstacle) if obstacle.is_connecting && waited < CONNECTED_AFTER => {}
                Some(obstacle) => due.report_obstacle(requests, &obstacle, waited, reporter),
                None => {
                    due.obstacle = None;
                    if reporter.is_interactive() || reporter.is_verbose() || due.is_due(waited) {
                        let columns = reporter.is_interactive().then(columns);
                        let line = self.inspect_all(client, requests, columns).await;
                        due.report(&line, waited, reporter);
                    }
                }
            }
            tokio::time::sleep(due.pause(started.elapsed())).await;
        }
    }

    /// Of several locks, describes the first that is not reserved for this client.
    async fn inspect_all(
        &self,
        client: &Client,
        requests: &[Request<'_>],
        columns: Option<usize>,
    ) -> String {
        let mut last = None;
        for request in requests {
            let inspected = match request.mode {
                Mode::Exclusive | Mode::Reentrant | Mode::Shared => {
                    client.inspect(request.name).await
                }
                Mode::Permit(_) | Mode::Permits { .. } => {
                    client.inspect(request.queue_lock()).await
                }
            };
            let report = match inspected {
                Ok(report) => report,
                Err(error) => return format!("waiting for {request}: {error}"),
            };
            let holder = report.holder.as_ref();
            let is_blocking = holder.is_some_and(|holder| !holder.is_this_client);
            last = Some((request, redact_foreign_holders(report)));
            if is_blocking {
                break;
            }
        }
        let Some((request, report)) = last else { return String::new() };
        // The first waiter for a permit is not a holder.
        let is_ours = report.holder.as_ref().is_some_and(|holder| holder.is_this_client);
        if !request.is_permit() && !is_ours && report.holder.is_some() {
            self.holder.replace(holders(&report));
        }
        match columns {
            Some(columns) => fitting_status_line(request, &report, columns),
            None => status_line(request, &report),
        }
    }
}

/// When the progress is reported where no status line can be.
#[derive(Debug)]
struct Due {
    next: Duration,
    interval: Duration,
    /// The obstacle that was reported on a terminal.
    obstacle: Option<&'static str>,
}

impl Default for Due {
    fn default() -> Self {
        Self { next: FIRST_LINE_AFTER, interval: INTERVAL_MIN, obstacle: None }
    }
}

impl Due {
    fn is_due(&self, waited: Duration) -> bool {
        waited >= self.next
    }

    /// How long until the next look.
    fn pause(&self, waited: Duration) -> Duration {
        match self.next.checked_sub(waited) {
            Some(left) => left.clamp(PAUSE_MIN, RECHECK_AFTER),
            None => RECHECK_AFTER,
        }
    }

    /// Replaces the status line, or writes a line if one is due.
    fn report(&mut self, line: &str, waited: Duration, reporter: &Reporter) {
        if reporter.is_interactive() {
            return reporter.status(line);
        }
        if self.is_due(waited) {
            let since = time::shown(waited.max(FIRST_LINE_AFTER));
            reporter.progress(&format!("{line}; waited {since} so far"));
            self.next = waited + self.interval;
            self.interval = (self.interval * 2).min(INTERVAL_MAX);
        }
    }

    /// The nodes are the obstacle, not another holder. On a terminal, one line has the details.
    fn report_obstacle(
        &mut self,
        requests: &[Request<'_>],
        obstacle: &Obstacle,
        waited: Duration,
        reporter: &Reporter,
    ) {
        let all = All(requests);
        let is_news = self.obstacle != Some(obstacle.kind);
        self.obstacle = Some(obstacle.kind);
        if reporter.is_interactive() {
            if is_news {
                reporter.warn(&format!("waiting for {all}: {}", obstacle.details));
            }
            let text = format!("waiting for {all}: {}", obstacle.summary);
            return reporter.status_of([text, obstacle.summary.clone()]);
        }
        // It can last for a minute, so the first line does not wait for its time.
        if is_news && obstacle.kind == QUARANTINE {
            self.next = self.next.min(waited);
        }
        self.report(&format!("waiting for {all}: {}", obstacle.details), waited, reporter);
    }
}

/// Why no majority of the nodes votes.
struct Obstacle {
    kind: &'static str,
    /// In a few words.
    summary: String,
    /// With every node.
    details: String,
    /// A node has not failed yet.
    is_connecting: bool,
}

impl Obstacle {
    fn of(nodes: &[NodeReport]) -> Option<Self> {
        let is_down = |it: &&NodeReport| matches!(it.answer, NodeAnswer::NodeError(_));
        let down: Vec<String> = nodes.iter().filter(is_down).map(ToString::to_string).collect();
        let voting = nodes.len() - down.len();
        if voting >= majority(nodes.len()) {
            return None;
        }
        let down = down.join("; ");
        let connecting = NodeAnswer::NodeError(NodeError::Connecting);
        let is_connecting = nodes.iter().any(|it| it.answer == connecting);
        Some(match QuarantineNotice::of(nodes) {
            Some(notice) => Self {
                kind: QUARANTINE,
                summary: format!("no majority votes for another {}", time::shown(notice.votes_in)),
                details: match notice.is_admissible {
                    true => notice.to_string(),
                    false => format!("{down}; {notice}"),
                },
                is_connecting,
            },
            None => {
                let summary = format!("too few nodes vote: {voting} of {}", nodes.len());
                let details = format!("{summary}: {down}");
                Self { kind: SILENCE, summary, details, is_connecting }
            }
        })
    }
}

/// All requests, as they appear in messages about waiting.
pub(super) struct All<'a>(pub(super) &'a [Request<'a>]);

impl fmt::Display for All<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, request) in self.0.iter().enumerate() {
            write!(f, "{}{request}", if at == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// The status line. If it is too long, the holder is shortened, and then other parts are left out.
fn fitting_status_line(request: &Request<'_>, report: &LockReport, columns: usize) -> String {
    let shortened = |line: &dyn Fn(&LockReport) -> String| {
        let (text, mut report) = (line(report), report.clone());
        let excess = (text.chars().count() + 1).saturating_sub(columns);
        let Some(holder) = report.holder.as_mut().filter(|_| excess > 0) else { return text };
        let room = holder.who.chars().count().saturating_sub(excess).max(WHO_LEN_MIN);
        holder.who = fitting(&holder.who, room + 1);
        line(&report)
    };
    let state = |report: &LockReport| match request.is_permit() {
        true => "all in use".to_owned(),
        false => holders(report).map_or_else(String::new, |holders| format!("held by {holders}")),
    };
    let full = shortened(&|report| status_line(request, report));
    if report.holder.is_none() {
        return fitting(&full, columns);
    }
    let short = shortened(&|report| format!("waiting for {request}, {}", state(report)));
    let shorter = shortened(&|report| format!("{request}: {}", state(report)));
    first_fitting([full, short, shorter], columns)
}

fn status_line(request: &Request<'_>, report: &LockReport) -> String {
    let mut line = format!("waiting for {request}");
    let before = match request.mode {
        Mode::Exclusive | Mode::Reentrant | Mode::Shared => {
            if let Some(holders) = holders(report) {
                line.push_str(&format!(", held by {holders}"));
            }
            if let Some(held_for) = report.holder.as_ref().and_then(|holder| holder.held_for) {
                line.push_str(&format!(" for {}", time::shown(held_for)));
            }
            report.place_of_this_client()
        }
        // A queued waiter has seen that all permits are in use. The holder of the queue lock is the
        // first waiter.
        Mode::Permit(_) | Mode::Permits { .. } => match &report.holder {
            Some(first) => {
                line.push_str(", all in use");
                let behind = report.place_of_this_client().map(|ahead| ahead + 1);
                if first.is_this_client { Some(0) } else { behind }
            }
            None => None,
        },
    };
    match before {
        Some(0) => line.push_str("; next in the queue"),
        Some(1) => line.push_str("; 1 waiter ahead"),
        Some(before) => line.push_str(&format!("; {before} waiters ahead")),
        None => {}
    }
    line
}

const QUARANTINE: &str = "quarantine";
const SILENCE: &str = "silence";

/// Shorter waits are not reported. Until then only the addresses are checked.
const SETTLED_AFTER: Duration = Duration::from_millis(300);

/// By then a silent node has failed.
const CONNECTED_AFTER: Duration = Duration::from_secs(3);

/// How much of the holder is shown on the narrowest terminal.
const WHO_LEN_MIN: usize = 12;

const RECHECK_AFTER: Duration = Duration::from_secs(1);

/// The least time between two looks.
const PAUSE_MIN: Duration = Duration::from_millis(20);

/// Without a terminal: when the first line is written, and the time to the next ones.
const FIRST_LINE_AFTER: Duration = Duration::from_secs(1);
const INTERVAL_MIN: Duration = Duration::from_secs(10);
const INTERVAL_MAX: Duration = Duration::from_secs(600);
