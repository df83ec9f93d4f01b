//! Lists the locks of one node after another, a page at a time.

use std::{collections::BTreeMap, time::Duration};

use quorate_core::{command::Command, inspect::Listed, moment::Moment, name::Name};

use super::{
    Engine,
    inspect::listed,
    survey::{Question, ask},
};
use crate::{
    error::NodeError,
    inspect::{LockCursor, LockReport, Observation},
};

/// The names on a page.
pub(crate) struct Names {
    /// The node that listed each name.
    nodes: BTreeMap<Name, usize>,
    /// How many nodes listed names on earlier pages. The last one may continue on this page.
    on_earlier_pages: usize,
    /// The nodes that could not list all of their names, one bit for each.
    pub(crate) failed: u32,
    /// Why each node could not list its locks, if it was asked and failed.
    pub(crate) node_errors: Vec<Option<NodeError>>,
}

impl Names {
    pub(crate) fn all(&self) -> Vec<Name> {
        self.nodes.keys().cloned().collect()
    }

    /// Whether a node has this lock that listed it on an earlier page, as far as its keys show.
    ///
    /// A node that is listed on this page only does not count: it received the lock after it was
    /// listed, or the lock would be on the page through that node.
    pub(crate) fn is_listed_before(&self, name: &Name, lock: &LockReport) -> bool {
        let node = self.nodes.get(name).copied().unwrap_or_default();
        let earlier = lock.nodes.iter().take(node.min(self.on_earlier_pages)).enumerate();
        let mut listed = earlier.filter(|(node, _)| self.failed & bit(*node) == 0);
        listed.any(|(_, view)| match &view.observation {
            // A node finds locks by their fences, which other libraries do not store.
            Observation::Held(holder) => holder.fence.is_some() || holder.is_shared,
            Observation::Free | Observation::NodeError(_) => false,
        })
    }
}

/// About `limit` names, and where the list continues. If no node replied, the error of each node.
pub(crate) async fn list_page(
    engine: &Engine,
    prefix: &str,
    mut cursor: LockCursor,
    limit: usize,
    patience: Duration,
) -> Result<(Names, Option<LockCursor>), Vec<Option<NodeError>>> {
    let end: Moment = engine.now().saturating_add(PAGE_TIME_MAX);
    let node_errors = vec![None; engine.nodes.len()];
    let on_earlier_pages = cursor.node.saturating_add(usize::from(cursor.place.is_some()));
    let mut found =
        Names { nodes: BTreeMap::new(), on_earlier_pages, failed: cursor.failed, node_errors };
    let all = (0..engine.nodes.len()).fold(0, |all, node| all | bit(node));
    while cursor.node < engine.nodes.len() {
        if found.nodes.len() >= limit || engine.now() >= end {
            cursor.failed = found.failed;
            return Ok((found, Some(cursor)));
        }
        let wanted = u32::try_from(limit - found.nodes.len()).unwrap_or(u32::MAX);
        let command = Command::List {
            prefix: prefix.into(),
            cursor: cursor.place.take(),
            count: wanted.clamp(SCANNED_MIN, SCANNED_MAX),
        };
        let question = Question { node: cursor.node, command };
        let answer = ask(engine, vec![question], patience, listed).await.pop();
        let next = match answer {
            Some(Ok(Listed { names, next })) => {
                for name in names {
                    found.nodes.entry(name).or_insert(cursor.node);
                }
                next
            }
            Some(Err(failure)) => {
                found.node_errors[cursor.node] = Some(failure.now(&*engine.nodes[cursor.node]));
                found.failed |= bit(cursor.node);
                None
            }
            None => None,
        };
        match next {
            Some(place) => cursor.place = Some(place),
            None => {
                cursor = LockCursor { node: cursor.node + 1, failed: found.failed, place: None }
            }
        }
    }
    match found.failed & all == all {
        true => Err(found.node_errors),
        false => Ok((found, None)),
    }
}

/// There are at most 31 nodes.
const fn bit(node: usize) -> u32 {
    1 << (node % 32)
}

/// The longest time for a page, even if few names match.
const PAGE_TIME_MAX: Duration = Duration::from_secs(1);

/// The smallest number of keys to scan at once: few names may match among many keys.
const SCANNED_MIN: u32 = 50;

/// The largest number of keys to scan at once: callers that acquire a lock wait while a node scans.
const SCANNED_MAX: u32 = 200;

#[cfg(test)]
mod tests {
    use quorate_core::fence::Fence;

    use super::*;
    use crate::inspect::NodeView;

    /// A lock that nodes 0 and 1 store when they are asked about it.
    fn on_two_nodes() -> (Name, LockReport) {
        on_two_nodes_with(Some(Fence::new(7)))
    }

    fn on_two_nodes_with(fence: Option<Fence>) -> (Name, LockReport) {
        let holder = || crate::error::Holder {
            who: "web/1".into(),
            owner_prefix: None,
            fence,
            held_for: None,
            expires_in: None,
            is_foreign: false,
            is_this_client: false,
            is_shared: false,
            identity: None,
        };
        let view = |node: usize| NodeView {
            node: node.to_string(),
            observation: Observation::Held(holder()),
        };
        let report = LockReport {
            name: "a".to_owned(),
            holder: Some(holder()),
            shared_with: Vec::new(),
            votes: 2,
            waiting: Vec::new(),
            waiting_total: 0,
            nodes: [0, 1].map(view).into(),
        };
        (Name::parse("a", "").expect("a valid name"), report)
    }

    /// A page on which node 1 listed the lock.
    fn page(on_earlier_pages: usize, failed: u32) -> Names {
        let (name, _) = on_two_nodes();
        let nodes = BTreeMap::from([(name, 1)]);
        Names { nodes, on_earlier_pages, failed, node_errors: Vec::new() }
    }

    #[test]
    fn lock_that_reached_a_node_after_its_list_is_not_left_out() {
        let (name, lock) = on_two_nodes();
        assert!(!page(0, 0).is_listed_before(&name, &lock));
    }

    #[test]
    fn lock_of_an_earlier_page_is_left_out() {
        let (name, lock) = on_two_nodes();
        assert!(page(1, 0).is_listed_before(&name, &lock));
        // Node 0 did not list it.
        assert!(!page(1, 1).is_listed_before(&name, &lock));
    }

    #[test]
    fn lock_beside_a_foreign_key_of_its_name_is_not_left_out() {
        let (name, lock) = on_two_nodes_with(None);
        assert!(!page(1, 0).is_listed_before(&name, &lock));
    }
}
