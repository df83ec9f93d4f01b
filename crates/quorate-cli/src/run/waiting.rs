//! What somebody is told who waits for a lock: at a terminal at once, elsewhere afterwards.

use std::{cell::RefCell, convert::Infallible, fmt, time::Duration};

use quorate::{
    Client,
    error::{NodeAnswer, NodeError, NodeReport},
    inspect::LockReport,
};

use super::want::{How, Want};
use crate::{
    look::{discreet, holders},
    time,
    voice::Voice,
};

/// Keeps an eye on who has the lock while it is waited for.
#[derive(Debug, Default)]
pub(super) struct Watch {
    holder: RefCell<Option<String>>,
}

impl Watch {
    /// Who was last seen to have the lock.
    pub(super) fn holder(self) -> Option<String> {
        self.holder.into_inner()
    }

    /// Looks, and tells somebody at a terminal, for as long as it is polled. That the nodes do not
    /// vote yet is told to everybody, once: the wait can be a minute.
    pub(super) async fn tell(
        &self,
        client: &Client,
        wants: &[Want<'_>],
        voice: &Voice,
    ) -> Infallible {
        let all = All(wants);
        let mut is_told = false;
        tokio::time::sleep(SILENCE).await;
        loop {
            let nodes = client.node_status();
            match quarantined_for(&nodes) {
                Some(left) => {
                    if !is_told {
                        is_told = true;
                        voice.warn(&format!("waiting for {all}: {}", Quarantined(&nodes)));
                    }
                    let left = time::shown(left);
                    voice.status(&format!("waiting for {all}: no majority votes for {left} yet"));
                }
                None if voice.is_watched() || voice.is_verbose() => {
                    self.look_at_all(client, wants, voice).await;
                }
                None => {}
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Of several locks, those that are reserved for us are not what is waited for.
    async fn look_at_all(&self, client: &Client, wants: &[Want<'_>], voice: &Voice) {
        let mut last = None;
        for want in wants {
            let looked = match want.how {
                How::Alone | How::Reentrant | How::Shared => client.inspect(want.name).await,
                How::Permit(_) | How::Permits { .. } => client.inspect(want.line()).await,
            };
            let Ok(report) = looked else {
                return voice.status(&format!("waiting for {want}: no node can tell who has it"));
            };
            let holder = report.holder.as_ref();
            let is_awaited = holder.is_some_and(|holder| !holder.is_this_client);
            last = Some((want, discreet(report)));
            if is_awaited {
                break;
            }
        }
        if let Some((want, report)) = last {
            self.say(want, &report, voice);
        }
    }

    fn say(&self, want: &Want<'_>, report: &LockReport, voice: &Voice) {
        voice.status(&line(want, report));
        // Who is the first in line for a permit has none.
        let is_ours = report.holder.as_ref().is_some_and(|holder| holder.is_this_client);
        if !want.is_permit() && !is_ours && report.holder.is_some() {
            self.holder.replace(holders(report));
        }
    }
}

/// As what is waited for.
pub(super) struct All<'a>(pub(super) &'a [Want<'a>]);

impl fmt::Display for All<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, want) in self.0.iter().enumerate() {
            write!(f, "{}{want}", if at == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// How long it lasts until a majority votes, if it is the restart guard that keeps it from that.
fn quarantined_for(nodes: &[NodeReport]) -> Option<Duration> {
    let quorum = nodes.len() / 2 + 1;
    let votes = nodes.iter().filter(|it| it.answer == NodeAnswer::Attached).count();
    let quarantined = nodes.iter().filter_map(|it| match &it.answer {
        NodeAnswer::NodeError(NodeError::Quarantined { left, .. }) => Some(*left),
        _ => None,
    });
    let mut quarantined: Vec<Duration> = quarantined.collect();
    quarantined.sort_unstable();
    // The last one that is needed; if others are away, the last one that there is.
    let needed = quorum.checked_sub(votes)?.checked_sub(1)?;
    quarantined.get(needed).or_else(|| quarantined.last()).copied()
}

/// What nodes say that do not vote yet, and what can be done about it.
struct Quarantined<'a>(&'a [NodeReport]);

impl fmt::Display for Quarantined<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for node in self.0 {
            write!(f, "{node}; ")?;
        }
        f.write_str("if these servers are new, `quorate nodes admit` lets them vote at once")
    }
}

fn line(want: &Want<'_>, report: &LockReport) -> String {
    let mut line = format!("waiting for {want}");
    let before = match want.how {
        How::Alone | How::Reentrant | How::Shared => {
            if let Some(holders) = holders(report) {
                line.push_str(&format!(", held by {holders}"));
            }
            if let Some(held_for) = report.holder.as_ref().and_then(|holder| holder.held_for) {
                line.push_str(&format!(" for {}", time::shown(held_for)));
            }
            report.place_of_this_client()
        }
        // Whoever stands in line has seen that all are taken; who has the line is its first.
        How::Permit(_) | How::Permits { .. } => match &report.holder {
            Some(first) => {
                line.push_str(", all in use");
                let behind = report.place_of_this_client().map(|place| place + 1);
                if first.is_this_client { Some(0) } else { behind }
            }
            None => None,
        },
    };
    match before {
        Some(0) => line.push_str("; we are next"),
        Some(1) => line.push_str("; 1 is before us"),
        Some(before) => line.push_str(&format!("; {before} are before us")),
        None => {}
    }
    line
}

/// Who waits for no longer than this is told nothing.
const SILENCE: Duration = Duration::from_millis(300);

const LOOK_AGAIN: Duration = Duration::from_secs(1);
