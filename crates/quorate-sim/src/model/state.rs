//! The state of a world, and when two of them are the same.

use std::{
    hash::{Hash, Hasher},
    sync::Arc,
};

use quorate_core::moment::{Moment, NodeTime};

use super::{
    client::Client,
    link::{Answer, Link},
    node::Node,
    print::{END_OF_TIME, Print, Reading},
    settings::{Clocks, Settings},
};

/// Everything that can differ between two moments of a world.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct State {
    clocks: Clocks,
    pub(super) ticks: u64,
    pub(super) nodes: Vec<Arc<Node>>,
    pub(super) clients: Vec<Arc<Client>>,
    /// One row for each client, with one link for each node.
    pub(super) links: Vec<Vec<Arc<Link>>>,
    pub(super) left: Left,
}

/// How often each of these may still happen.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Left {
    pub(super) renewals: u8,
    pub(super) abandons: u8,
    pub(super) crashes: u8,
    pub(super) breaks: u8,
    pub(super) vanishings: u8,
    pub(super) restarts: u8,
}

impl Left {
    const fn new(settings: &Settings) -> Self {
        let Settings { renewals, abandons, crashes, breaks, vanishings, restarts, .. } = *settings;
        Self { renewals, abandons, crashes, breaks, vanishings, restarts }
    }
}

impl State {
    pub(super) fn new(settings: &Settings) -> Self {
        let Settings { nodes, attempts, clocks, .. } = settings;
        let client = |(number, left): (u8, &u8)| Arc::new(Client::new(number, *left));
        Self {
            clocks: *clocks,
            ticks: 0,
            nodes: vec![Arc::default(); *nodes],
            clients: (0..).zip(attempts).map(client).collect(),
            links: vec![vec![Arc::default(); *nodes]; attempts.len()],
            left: Left::new(settings),
        }
    }

    pub(super) fn client_now(&self) -> Moment {
        Moment::from_nanos(CLIENT_ORIGIN_NS + self.ticks * self.clocks.client_ms * NS_PER_MS)
    }

    pub(super) fn node_now(&self) -> NodeTime {
        NodeTime::from_micros((NODE_ORIGIN_MS + self.ticks * self.clocks.node_ms) * US_PER_MS)
    }

    pub(super) fn link(&self, client: u8, node: usize) -> &Link {
        &self.links[usize::from(client)][node]
    }

    /// Takes off the network what makes no difference any more: answers that no machine waits for.
    /// Reading them would change nothing, so neither does when they are read.
    pub(super) fn settle(&mut self) {
        let now = self.client_now();
        for (client, links) in self.clients.iter_mut().zip(&mut self.links) {
            // Whether the caller has learned of it makes a difference only if it may go away.
            if self.left.abandons == 0 && client.has_won() {
                Arc::make_mut(client).accept();
            }
            if client.ended_unseen(now) {
                Arc::make_mut(client).observe_end();
            }
            for (node, link) in links.iter_mut().enumerate() {
                let is_idle = |answer: &Answer| !client.awaits(answer.request.topic, node);
                if link.answers.iter().any(is_idle) {
                    Arc::make_mut(link).answers.retain(|answer| !is_idle(answer));
                }
            }
        }
    }

    pub(super) fn node_mut(&mut self, node: usize) -> &mut Node {
        Arc::make_mut(&mut self.nodes[node])
    }

    pub(super) fn link_mut(&mut self, client: usize, node: usize) -> &mut Link {
        Arc::make_mut(&mut self.links[client][node])
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { clocks, ticks: _, nodes, clients, links, left } = self;
        // The longest time that the core adds to a point in time.
        let memory_ms = clocks.ttl_ms;
        let client_clock = Reading {
            origin: CLIENT_ORIGIN_NS,
            now: self.client_now().as_nanos(),
            back: memory_ms * NS_PER_MS,
            ahead: u64::MAX,
            horizon: END_OF_TIME,
        };
        let now = self.node_now().as_millis();
        let (origin, back) = (NODE_ORIGIN_MS, memory_ms);
        let node_clock = Reading { origin, now, back, ahead: u64::MAX, horizon: END_OF_TIME };
        let mut print = Print::new(nodes.len());
        print.add(client_clock, left);
        print.add(client_clock, clients);
        for (number, node) in nodes.iter().enumerate() {
            print.add_of_node(number, node_clock, &(node.store(), node.is_forged()));
            for links in links {
                print.add_of_node(number, client_clock, &links[number]);
            }
        }
        print.finish(state);
    }
}

const NS_PER_MS: u64 = 1_000_000;
const US_PER_MS: u64 = 1_000;

/// Where the clocks start: above every number that is not a point in time.
const CLIENT_ORIGIN_NS: u64 = 1 << 40;
const NODE_ORIGIN_MS: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use std::hash::DefaultHasher;

    use stateright::Model;

    use super::{
        super::{
            desk::Move,
            world::{Step, World},
        },
        *,
    };

    fn hash_after(steps: &[Step]) -> u64 {
        let settings = Settings { attempts: vec![2, 2], ..Settings::new("", "", 3) };
        let world = World::new(settings);
        let first = world.init_states().remove(0);
        let last = steps.iter().fold(first, |state, step| {
            world.next_state(&state, *step).expect("every step leads somewhere")
        });
        let mut hasher = DefaultHasher::new();
        last.hash(&mut hasher);
        hasher.finish()
    }

    /// A starts; A has one node's vote, another has run its request; B starts and has the third.
    fn steps([a, b, c]: [usize; 3]) -> Vec<Step> {
        let start = |client| Step::Client(client, Move::Start);
        let of_a = [start(0), Step::Run(0, a), Step::Receive(0, a), Step::Tick, Step::Run(0, b)];
        let of_b = [start(1), Step::Run(1, c), Step::Run(1, a), Step::Receive(1, c)];
        of_a.into_iter().chain(of_b).collect()
    }

    #[test]
    fn a_world_with_its_nodes_renumbered_is_the_same() {
        let one = hash_after(&steps([0, 1, 2]));
        for order in [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            assert_eq!(hash_after(&steps(order)), one, "{order:?}");
        }
        assert_ne!(hash_after(&steps([0, 1, 1])), one);
    }

    #[test]
    fn a_world_that_starts_later_is_the_same() {
        let late: Vec<_> = [Step::Tick; 7].into_iter().chain(steps([0, 1, 2])).collect();
        assert_eq!(hash_after(&late), hash_after(&steps([0, 1, 2])));
        let mut slower = steps([0, 1, 2]);
        slower.insert(3, Step::Tick);
        assert_ne!(hash_after(&slower), hash_after(&steps([0, 1, 2])));
    }

    #[test]
    fn a_node_that_has_let_go_is_as_new() {
        let tries = [Step::Client(0, Move::Start), Step::Run(0, 0), Step::Tick];
        let until_expired: Vec<_> = tries.into_iter().chain([Step::Tick; 2]).collect();
        let mut later = until_expired.clone();
        later.push(Step::Tick);
        assert_eq!(hash_after(&until_expired), hash_after(&later), "what is past is past");
    }
}
