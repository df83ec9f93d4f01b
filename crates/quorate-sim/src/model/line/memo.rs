//! What nodes do, remembered: the same node meets the same request in very many states.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use quorate_core::{command::Reply, moment::NodeTime, name::Name};

use super::{
    link::{Heard, Request},
    node::Node,
};

/// Something that happens to a node.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Change {
    /// It runs a request of a client that speaks with this session.
    Run(usize, u8, Request),
    /// A client does not listen any more.
    HangUp(usize),
    /// The session of a client ends.
    Lapse(usize, u8),
    /// The key goes.
    LoseKey,
    /// Time has passed.
    Look,
}

/// What came of it.
#[derive(Clone, Debug)]
pub(super) struct Changed {
    pub(super) node: Arc<Node>,
    pub(super) reply: Option<Reply>,
    /// What the node tells, and whom.
    pub(super) pushes: Vec<(usize, Heard)>,
}

/// All changes of all nodes so far, by the node's print and the time.
#[derive(Debug, Default)]
pub(super) struct Memo(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    changes: HashMap<(u64, u64, Change), Changed>,
    /// Each node once, however it came about.
    nodes: HashMap<(u64, u64), Arc<Node>>,
}

impl Memo {
    pub(super) fn change(
        &self,
        node: &Node,
        now: NodeTime,
        change: Change,
        name: &Name,
        make: impl FnOnce(&mut Node) -> (Option<Reply>, Vec<(usize, Heard)>),
    ) -> Changed {
        let mut known = self.0.lock().expect("nobody panics here");
        let key = (node.print(), now.as_micros(), change);
        if let Some(changed) = known.changes.get(&key) {
            return changed.clone();
        }
        let mut node = node.clone();
        let (reply, pushes) = make(&mut node);
        node.look(name, now);
        let node = known
            .nodes
            .entry((node.print(), now.as_micros()))
            .or_insert_with(|| Arc::new(node))
            .clone();
        let changed = Changed { node, reply, pushes };
        known.changes.insert(key, changed.clone());
        changed
    }
}
