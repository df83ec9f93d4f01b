//! The state of a world in line, and when two of them are the same.

use std::{
    hash::{Hash, Hasher},
    sync::Arc,
};

use quorate_core::{
    fence::Fence,
    moment::{Moment, NodeTime},
    name::Name,
    quorum::NodeSet,
};

use super::{
    client::{Client, Doing},
    link::{Link, Phase},
    node::{Node, ORIGIN_MS},
    settings::{Settings, TICK_MS},
};
use crate::model::print::{END_OF_TIME, Print, Reading};

/// Everything that can differ between two moments of a world.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct State {
    pub(super) ticks: u64,
    /// How long ago something may lie and still matter; nothing if time stands still.
    memory_ms: u64,
    pub(super) nodes: Vec<Arc<Node>>,
    pub(super) clients: Vec<Arc<Client>>,
    /// The links of the first client, then those of the second, and so on.
    pub(super) links: Vec<Arc<Link>>,
    pub(super) left: Left,
    /// The fences that holders had, the smallest first.
    pub(super) fences: Vec<Fence>,
    /// What is wrong with the last of them.
    pub(super) fault: Option<Fault>,
}

/// How often each of these may still happen.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Left {
    pub(super) breaks: u8,
    pub(super) vanishings: u8,
    pub(super) cancels: u8,
    pub(super) deaths: u8,
    pub(super) lapses: u8,
}

/// What can be wrong with a fence.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Fault {
    /// Another holder had the same.
    Twice,
    /// An earlier holder had a larger one.
    Backwards,
}

impl State {
    pub(super) fn new(settings: &Settings, fences: &[u8], name: &Name) -> Self {
        let Settings { breaks, vanishings, cancels, deaths, lapses, .. } = *settings;
        let clients = settings.attempts.len();
        let node = |fence: &u8| Arc::new(Node::new(*fence, clients, name, node_time(0)));
        Self {
            ticks: 0,
            memory_ms: settings.ticks.map_or(0, |ticks| ticks * TICK_MS - 1),
            nodes: fences.iter().map(node).collect(),
            clients: settings.attempts.iter().map(|left| Arc::new(Client::new(*left))).collect(),
            links: (0..clients * settings.nodes).map(|_| Arc::new(Link::new())).collect(),
            left: Left { breaks, vanishings, cancels, deaths, lapses },
            fences: Vec::new(),
            fault: None,
        }
    }

    pub(super) fn client_now(&self) -> Moment {
        Moment::from_nanos(CLIENT_ORIGIN_NS + self.ticks * TICK_MS * NS_PER_MS)
    }

    pub(super) fn node_now(&self) -> NodeTime {
        node_time(self.ticks)
    }

    pub(super) fn link(&self, client: usize, node: usize) -> &Link {
        &self.links[client * self.nodes.len() + node]
    }

    pub(super) fn link_mut(&mut self, client: usize, node: usize) -> &mut Link {
        let at = client * self.nodes.len() + node;
        Arc::make_mut(&mut self.links[at])
    }

    pub(super) fn client_mut(&mut self, client: usize) -> &mut Client {
        Arc::make_mut(&mut self.clients[client])
    }

    /// The nodes that a client can speak to.
    pub(super) fn up(&self, client: usize) -> NodeSet {
        let mut up = NodeSet::EMPTY;
        for node in 0..self.nodes.len() {
            if self.link(client, node).phase == Phase::Up {
                up.insert(node);
            }
        }
        up
    }

    /// Takes off the network what makes no difference any more.
    pub(super) fn settle(&mut self) {
        let is_timed = self.memory_ms > 0 || self.ticks > 0;
        let nodes = self.nodes.len();
        for (at, link) in self.links.iter_mut().enumerate() {
            let (client, node) = (&self.clients[at / nodes], at % nodes);
            if link.answers.iter().any(|heard| !client.heeds(node, heard, is_timed)) {
                let link = Arc::make_mut(link);
                link.answers.retain(|heard| client.heeds(node, heard, is_timed));
            }
            if link.pushes.iter().any(|heard| !client.heeds(node, heard, is_timed)) {
                let link = Arc::make_mut(link);
                link.pushes.retain(|heard| client.heeds(node, heard, is_timed));
            }
        }
    }

    /// Somebody begins to hold.
    pub(super) fn note(&mut self, fence: Fence, floor: Fence, is_forgetful: bool) {
        let last = self.fences.last().copied().unwrap_or(Fence::ZERO);
        let above = if is_forgetful { floor } else { last };
        if self.fences.contains(&fence) {
            self.fault = Some(Fault::Twice);
        } else if fence <= above {
            self.fault = Some(Fault::Backwards);
        }
        let at = self.fences.partition_point(|known| *known < fence);
        self.fences.insert(at, fence);
    }

    pub(super) fn last_fence(&self) -> Fence {
        self.fences.last().copied().unwrap_or(Fence::ZERO)
    }

    pub(super) fn print(&self) -> u64 {
        let Self { ticks, memory_ms, nodes, clients, links, left, fences, fault } = self;
        let now = self.client_now().as_nanos();
        let is_still = *memory_ms == 0 && *ticks == 0;
        let clock = Reading {
            origin: CLIENT_ORIGIN_NS,
            now,
            back: if is_still { 0 } else { (*memory_ms).max(2 * TICK_MS) * NS_PER_MS },
            ahead: if is_still { 0 } else { u64::MAX },
            horizon: END_OF_TIME,
        };
        let mut print = Print::new(nodes.len());
        print.add(clock, &(left, fences, fault));
        for client in clients {
            let Client { attempts_left, attempt, ticket, beats_left, floor, doing } = &**client;
            print.add(clock, &(attempts_left, attempt, ticket, beats_left, floor));
            match doing {
                Doing::Nothing => print.add(clock, &0_u8),
                Doing::Waiting(waiter) => {
                    let (seats, rest) = waiter.machine.parts();
                    print.add(clock, &(1_u8, rest));
                    seats
                        .enumerate()
                        .for_each(|(node, seat)| print.add_of_node(node, clock, &seat));
                    // A timer that will not strike is of no interest, nor for how long it is late.
                    let will_strike = *beats_left > 0 || *memory_ms == 0;
                    if will_strike && !is_still {
                        print.add(clock, &waiter.due.as_nanos().max(now));
                    }
                }
                Doing::Holding(hand) => print.add(clock, &(2_u8, hand)),
                Doing::Dead => print.add(clock, &3_u8),
            }
        }
        for (number, node) in nodes.iter().enumerate() {
            print.add_of_node(number, clock, &Plain(node.print()));
        }
        for (at, link) in links.iter().enumerate() {
            print.add_of_node(at % nodes.len(), clock, link);
        }
        print.number()
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.print());
    }
}

/// A number that is no point in time, however large.
struct Plain(u64);

impl Hash for Plain {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(&self.0.to_le_bytes());
    }
}

const fn node_time(ticks: u64) -> NodeTime {
    NodeTime::from_micros((ORIGIN_MS + ticks * TICK_MS) * 1_000)
}

const NS_PER_MS: u64 = 1_000_000;

/// Where the clients' clocks start: above every number that is not a point in time.
const CLIENT_ORIGIN_NS: u64 = 1 << 40;

#[cfg(test)]
mod tests {
    use stateright::Model;

    use super::{
        super::{step::Step, world::World},
        *,
    };

    fn print_after(settings: Settings, steps: &[Step]) -> u64 {
        let world = World::new(settings);
        let first = world.init_states().remove(0);
        let last = steps.iter().fold(first, |state, step| {
            world.next_state(&state, *step).expect("every step leads somewhere")
        });
        last.print()
    }

    /// A has one node and knows it; another node has run A's request; B has the third, and is asked
    /// for it.
    fn steps([a, b, c]: [usize; 3]) -> Vec<Step> {
        let of_a = [Step::Start(0, 1), Step::Run(0, a), Step::Receive(0, a), Step::Run(0, b)];
        let of_b = [Step::Start(1, 2), Step::Run(1, c), Step::Run(0, c), Step::Run(1, a)];
        of_a.into_iter().chain(of_b).collect()
    }

    #[test]
    fn a_world_with_its_nodes_renumbered_is_the_same() {
        let print = |order| print_after(Settings::new("", "", 3), &steps(order));
        let one = print([0, 1, 2]);
        for order in [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            assert_eq!(print(order), one, "{order:?}");
        }
        assert_ne!(print([0, 1, 1]), one);
    }

    #[test]
    fn a_world_that_starts_later_is_the_same() {
        let print = |steps: &[Step]| print_after(Settings::timed("", "", 3, 2), steps);
        let late: Vec<_> = [Step::Tick; 7].into_iter().chain(steps([0, 1, 2])).collect();
        assert_eq!(print(&late), print(&steps([0, 1, 2])));
        let mut slower = steps([0, 1, 2]);
        slower.insert(3, Step::Tick);
        assert_ne!(print(&slower), print(&steps([0, 1, 2])));
    }
}
