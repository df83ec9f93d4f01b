//! What the quarantine of nodes means for callers.

use std::{fmt, time::Duration};

use quorate_core::{quorum::majority, time_text::TimeText};

use super::{NodeAnswer, NodeError, NodeReport, QuarantineCause};

/// That no majority of the nodes votes because of quarantine: how long this lasts, and which
/// command ends it.
///
/// # Examples
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use quorate::{Client, error::QuarantineNotice};
///
/// let nodes = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
/// let client = Client::builder().nodes(nodes).build()?;
/// if let Some(notice) = QuarantineNotice::of(&client.node_status()) {
///     println!("{notice}"); // all 3 nodes are in quarantine for 1 min 13 s more, because …
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct QuarantineNotice {
    /// The time until a majority votes.
    pub votes_in: Duration,
    /// True if [`Client::admit`](crate::Client::admit) accepts the nodes: all of them answer, know
    /// no lock, and are empty.
    pub is_admissible: bool,
    /// How many nodes there are.
    pub nodes: usize,
}

impl QuarantineNotice {
    /// The notice for the nodes of one client. `None` if a majority votes, or if too many nodes do
    /// not vote for another reason.
    ///
    /// # Examples
    ///
    /// ```
    /// use quorate::{Client, error::QuarantineNotice};
    ///
    /// assert_eq!(QuarantineNotice::of(&Client::memory().node_status()), None);
    /// ```
    #[must_use]
    pub fn of(nodes: &[NodeReport]) -> Option<Self> {
        let voting = nodes.iter().filter(|it| !matches!(it.answer, NodeAnswer::NodeError(_)));
        let mut ends: Vec<Duration> = nodes.iter().filter_map(votes_in).collect();
        ends.sort_unstable();
        // The last quarantine that must end.
        let missing = majority(nodes.len()).checked_sub(voting.count())?.checked_sub(1)?;
        let votes_in = *ends.get(missing)?;
        let is_admissible = nodes.iter().all(is_new);
        Some(Self { votes_in, is_admissible, nodes: nodes.len() })
    }
}

impl fmt::Display for QuarantineNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left = TimeText(self.votes_in);
        match (self.is_admissible, self.nodes) {
            (false, _) => write!(f, "a majority of the nodes votes in {left}, after quarantine"),
            (true, 1) => write!(
                f,
                "the node is in quarantine for {left} more, because it is new or has lost its \
                 data: if it is new, `quorate nodes admit` lets it vote at once"
            ),
            (true, nodes) => write!(
                f,
                "all {nodes} nodes are in quarantine for {left} more, because they are new or \
                 have lost their data: if they are new, `quorate nodes admit` lets them vote at \
                 once"
            ),
        }
    }
}

/// When the node votes, if it is in quarantine.
fn votes_in(report: &NodeReport) -> Option<Duration> {
    match &report.answer {
        NodeAnswer::NodeError(NodeError::Quarantined { left, .. }) => Some(*left),
        _ => None,
    }
}

fn is_new(report: &NodeReport) -> bool {
    let cause = match &report.answer {
        NodeAnswer::NodeError(NodeError::Quarantined { cause, .. }) => Some(*cause),
        _ => None,
    };
    cause == Some(QuarantineCause::New)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quarantined(cause: QuarantineCause, seconds: u64) -> NodeAnswer {
        let (left, why) = (Duration::from_secs(seconds), String::new());
        NodeAnswer::NodeError(NodeError::Quarantined { left, why, cause })
    }

    fn notice(answers: impl IntoIterator<Item = NodeAnswer>) -> Option<(u64, bool)> {
        let nodes: Vec<NodeReport> =
            answers.into_iter().map(|answer| NodeReport::new("node", answer)).collect();
        let notice = QuarantineNotice::of(&nodes)?;
        Some((notice.votes_in.as_secs(), notice.is_admissible))
    }

    #[test]
    fn admission_is_suggested_if_all_nodes_are_new() {
        let new = |seconds| quarantined(QuarantineCause::New, seconds);
        let down = || NodeAnswer::NodeError(NodeError::ConnectionRefused);
        assert_eq!(notice([new(60), new(68), new(64)]), Some((64, true)));
        assert_eq!(notice([new(60), new(68), down()]), Some((68, false)));
        assert_eq!(notice([new(60), NodeAnswer::Attached, down()]), Some((60, false)));
        let forgotten = quarantined(QuarantineCause::Forgotten, 7);
        assert_eq!(notice([new(60), new(68), forgotten]), Some((60, false)));
        assert_eq!(notice([new(60)]), Some((60, true)));
    }

    #[test]
    fn there_is_no_notice_if_quarantine_is_not_the_reason() {
        let new = || quarantined(QuarantineCause::New, 60);
        let down = || NodeAnswer::NodeError(NodeError::ConnectionRefused);
        assert_eq!(notice([NodeAnswer::Attached, NodeAnswer::Attached, new()]), None);
        assert_eq!(notice([down(), down(), new()]), None);
        assert_eq!(notice([down(), down(), down()]), None);
    }
}
