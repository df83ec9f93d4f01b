//! Progress of a wait: live on a terminal, otherwise in the message after the wait.

use std::{cell::RefCell, convert::Infallible, fmt, time::Duration};

use quorate::{
    Client,
    error::{NodeAnswer, NodeError, NodeReport},
    inspect::LockReport,
};

use super::request::{Mode, Request};
use crate::{
    inspect::{holders, redact_foreign_holders},
    reporter::Reporter,
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

    /// Reports the progress on a terminal while it is polled. That the nodes do not vote yet is
    /// reported everywhere, once, because that wait can take a minute.
    pub(super) async fn report(
        &self,
        client: &Client,
        requests: &[Request<'_>],
        reporter: &Reporter,
    ) -> Infallible {
        let all = All(requests);
        let mut is_reported = false;
        tokio::time::sleep(FIRST_REPORT_AFTER).await;
        loop {
            let nodes = client.node_status();
            match quarantined_for(&nodes) {
                Some(left) => {
                    if !is_reported {
                        is_reported = true;
                        reporter.warn(&format!("waiting for {all}: {}", Quarantined(&nodes)));
                    }
                    let left = time::shown(left);
                    reporter.status(&format!(
                        "waiting for {all}: no majority votes for another {left}"
                    ));
                }
                None if reporter.is_interactive() || reporter.is_verbose() => {
                    self.inspect_all(client, requests, reporter).await;
                }
                None => {}
            }
            tokio::time::sleep(RECHECK_AFTER).await;
        }
    }

    /// Of several locks, reports the first that is not reserved for this client.
    async fn inspect_all(&self, client: &Client, requests: &[Request<'_>], reporter: &Reporter) {
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
            let Ok(report) = inspected else {
                return reporter
                    .status(&format!("waiting for {request}: too few nodes report the holder"));
            };
            let holder = report.holder.as_ref();
            let is_blocking = holder.is_some_and(|holder| !holder.is_this_client);
            last = Some((request, redact_foreign_holders(report)));
            if is_blocking {
                break;
            }
        }
        if let Some((request, report)) = last {
            self.report_lock(request, &report, reporter);
        }
    }

    fn report_lock(&self, request: &Request<'_>, report: &LockReport, reporter: &Reporter) {
        reporter.status(&status_line(request, report));
        // The first waiter for a permit is not a holder.
        let is_ours = report.holder.as_ref().is_some_and(|holder| holder.is_this_client);
        if !request.is_permit() && !is_ours && report.holder.is_some() {
            self.holder.replace(holders(report));
        }
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

/// How long until a majority votes, if quarantine is the reason that it does not.
fn quarantined_for(nodes: &[NodeReport]) -> Option<Duration> {
    let quorum = nodes.len() / 2 + 1;
    let votes = nodes.iter().filter(|it| it.answer == NodeAnswer::Attached).count();
    let quarantined = nodes.iter().filter_map(|it| match &it.answer {
        NodeAnswer::NodeError(NodeError::Quarantined { left, .. }) => Some(*left),
        _ => None,
    });
    let mut quarantined: Vec<Duration> = quarantined.collect();
    quarantined.sort_unstable();
    // The last quarantine that must end; if too many nodes are unreachable, the last that is known.
    let needed = quorum.checked_sub(votes)?.checked_sub(1)?;
    quarantined.get(needed).or_else(|| quarantined.last()).copied()
}

/// The status of nodes that do not vote yet, and what the operator can do.
struct Quarantined<'a>(&'a [NodeReport]);

impl fmt::Display for Quarantined<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for node in self.0 {
            write!(f, "{node}; ")?;
        }
        f.write_str("if these servers are new, `quorate nodes admit` lets them vote at once")
    }
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

/// Waits shorter than this are not reported.
const FIRST_REPORT_AFTER: Duration = Duration::from_millis(300);

const RECHECK_AFTER: Duration = Duration::from_secs(1);
