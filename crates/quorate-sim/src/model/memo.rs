//! A cache of what nodes and clients do: one node or client gets the same input in many states.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use quorate_core::{
    command::Reply,
    moment::{Moment, NodeTime},
    name::Name,
    queue::Push,
};

use super::{
    member::{Input, Member, Out, Rules},
    node::Node,
    print::Reading,
};

/// An input to a node.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Change {
    /// It runs a request: the client, its session, and the request's fingerprint.
    Run(usize, u8, u64),
    /// A client does not listen any more.
    HangUp(usize),
    /// The session of a client ends.
    Lapse(usize, u8),
    /// The key vanishes.
    LoseKey,
    /// The node loses everything.
    Forget,
    /// Time has passed.
    Tick,
}

/// The result of an input to a node.
#[derive(Clone, Debug)]
pub(super) struct Changed {
    pub(super) node: Arc<Node>,
    pub(super) reply: Option<Reply>,
    /// What the node pushes, and to whom.
    pub(super) pushes: Vec<(usize, Push)>,
}

/// All results so far, by fingerprint and time.
#[derive(Debug, Default)]
pub(super) struct Memo {
    nodes: Mutex<Nodes>,
    members: Mutex<Members>,
}

/// A client after an input, and what it sends.
type Acted = (Arc<Member>, Arc<Out>);

#[derive(Debug, Default)]
struct Nodes {
    changes: HashMap<(u64, u64, Change), Changed>,
    /// Each different node once.
    known: HashMap<(u64, u64), Arc<Node>>,
}

#[derive(Debug, Default)]
struct Members {
    /// By client, its fingerprint, the time and the input.
    acts: HashMap<(usize, u64, u64, u64), Acted>,
    known: HashMap<(usize, u64, u64), Arc<Member>>,
}

impl Memo {
    pub(super) fn change(
        &self,
        node: &Node,
        now: NodeTime,
        change: Change,
        name: &Name,
        make: impl FnOnce(&mut Node) -> (Option<Reply>, Vec<(usize, Push)>),
    ) -> Changed {
        let mut memo = self.nodes.lock().expect("no thread panics here");
        let key = (node.print(), now.as_micros(), change);
        if let Some(changed) = memo.changes.get(&key) {
            return changed.clone();
        }
        let mut node = node.clone();
        let (reply, pushes) = make(&mut node);
        node.refresh(name, now);
        let known = memo.known.entry((node.print(), now.as_micros()));
        let node = known.or_insert_with(|| Arc::new(node)).clone();
        let changed = Changed { node, reply, pushes };
        memo.changes.insert(key, changed.clone());
        changed
    }

    pub(super) fn act(
        &self,
        member: &Member,
        rules: &Rules,
        clock: Reading,
        now: Moment,
        input: Input,
    ) -> Acted {
        let mut memo = self.members.lock().expect("no thread panics here");
        let key = (rules.number, member.exact(), now.as_nanos(), input.print());
        if let Some(done) = memo.acts.get(&key) {
            return done.clone();
        }
        let mut member = member.clone();
        let out = member.act(rules, input, now);
        member.finish(rules, clock, now);
        let known = memo.known.entry((rules.number, member.exact(), now.as_nanos()));
        let member = known.or_insert_with(|| Arc::new(member)).clone();
        let done = (member, Arc::new(out));
        memo.acts.insert(key, done.clone());
        done
    }
}
