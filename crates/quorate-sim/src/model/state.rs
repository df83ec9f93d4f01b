//! The state of a model, and when two states are the same.

use std::{
    hash::{Hash, Hasher},
    sync::Arc,
};

use quorate_core::{
    fence::Fence,
    moment::{Moment, NodeTime},
};

use super::{
    link::Link,
    member::Member,
    node::{Node, ORIGIN_MS},
    print::{END_OF_TIME, Plain, Print, Reading},
    settings::{Clocks, Settings},
};

/// Everything that can differ between two states of a model.
#[derive(Clone, Debug)]
pub(super) struct State {
    /// `None` if time stands still. Then only the fair schedule makes it pass.
    clocks: Option<Clocks>,
    pub(super) ticks: u64,
    pub(super) nodes: Vec<Arc<Node>>,
    pub(super) clients: Vec<Arc<Member>>,
    /// The links of the first client, then those of the second, and so on.
    pub(super) links: Vec<Arc<Link>>,
    pub(super) left: Left,
    /// The fences of all holders so far, the smallest first.
    pub(super) fences: Vec<Fence>,
    /// The largest fence of an exclusive holder.
    last_exclusive: Fence,
    /// What is wrong with the last fence.
    pub(super) fault: Option<Fault>,
}

/// How often each of these may still happen.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Left {
    pub(super) renewals: u8,
    pub(super) breaks: u8,
    pub(super) vanishings: u8,
    pub(super) restarts: u8,
    pub(super) cancels: u8,
    pub(super) deaths: u8,
    pub(super) lapses: u8,
}

/// What can be wrong with a fence.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Fault {
    /// Another holder had the same fence.
    Twice,
    /// An earlier holder had a larger fence.
    Backwards,
}

impl State {
    pub(super) fn new(settings: &Settings, nodes: Vec<Node>, clients: Vec<Member>) -> Self {
        let Settings { renewals_in_all: renewals, breaks, vanishings, .. } = *settings;
        let Settings { restarts, cancels, deaths, lapses, .. } = *settings;
        let links = 0..clients.len() * nodes.len();
        Self {
            clocks: settings.clocks,
            ticks: 0,
            links: links.map(|_| Arc::new(Link::new())).collect(),
            nodes: nodes.into_iter().map(Arc::new).collect(),
            clients: clients.into_iter().map(Arc::new).collect(),
            left: Left { renewals, breaks, vanishings, restarts, cancels, deaths, lapses },
            fences: Vec::new(),
            last_exclusive: Fence::ZERO,
            fault: None,
        }
    }

    pub(super) fn client_now(&self) -> Moment {
        client_time(self.clocks, self.ticks)
    }

    pub(super) fn node_now(&self) -> NodeTime {
        node_time(self.clocks, self.ticks)
    }

    /// How to distinguish the clients' points in time from other numbers.
    pub(super) fn reading(&self) -> Reading {
        let is_still = self.clocks.is_none() && self.ticks == 0;
        let Clocks { ttl_ms, client_ms, .. } = clocks(self.clocks);
        // The longest time that the core adds to a point in time.
        let memory = ttl_ms.max(2 * client_ms) * NS_PER_MS;
        Reading {
            origin: CLIENT_ORIGIN_NS,
            now: self.client_now().as_nanos(),
            back: if is_still { 0 } else { memory },
            ahead: if is_still { 0 } else { u64::MAX },
            horizon: END_OF_TIME,
        }
    }

    pub(super) fn link(&self, client: usize, node: usize) -> &Link {
        &self.links[client * self.nodes.len() + node]
    }

    pub(super) fn link_mut(&mut self, client: usize, node: usize) -> &mut Link {
        let at = client * self.nodes.len() + node;
        Arc::make_mut(&mut self.links[at])
    }

    /// An exclusive client begins to hold the lock.
    pub(super) fn note(&mut self, fence: Fence, floor: Fence, is_forgetful: bool) {
        let last = self.last_fence();
        let above = if is_forgetful { floor } else { last };
        if self.fences.contains(&fence) {
            self.fault = Some(Fault::Twice);
        } else if fence <= above {
            self.fault = Some(Fault::Backwards);
        }
        self.last_exclusive = self.last_exclusive.max(fence);
        let at = self.fences.partition_point(|known| *known < fence);
        self.fences.insert(at, fence);
    }

    /// An entry begins to hold the lock. It may have the fence of another entry, but not a smaller
    /// fence than a holder had when it asked.
    pub(super) fn note_entry(&mut self, fence: Fence, floor: Fence) {
        if fence < floor || fence <= self.last_exclusive {
            self.fault = Some(Fault::Backwards);
        }
        if let Err(at) = self.fences.binary_search(&fence) {
            self.fences.insert(at, fence);
        }
    }

    pub(super) fn last_fence(&self) -> Fence {
        self.fences.last().copied().unwrap_or(Fence::ZERO)
    }

    pub(super) fn print(&self) -> u64 {
        let Self {
            clocks: _,
            ticks: _,
            nodes,
            clients,
            links,
            left,
            fences,
            last_exclusive,
            fault,
        } = self;
        let clock = self.reading();
        let mut print = Print::new(nodes.len());
        print.add(clock, &(left, fences, last_exclusive, fault));
        for client in clients {
            let (whole, columns) = client.prints();
            print.add(clock, &Plain(whole));
            for (node, column) in columns.iter().enumerate() {
                print.add_of_node(node, clock, &Plain(*column));
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

/// Two states are the same if their prints are.
impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.print() == other.print()
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.print());
    }
}

fn clocks(clocks: Option<Clocks>) -> Clocks {
    clocks.unwrap_or(Clocks::exact(2))
}

pub(super) fn client_time(known: Option<Clocks>, ticks: u64) -> Moment {
    Moment::from_nanos(CLIENT_ORIGIN_NS + ticks * clocks(known).client_ms * NS_PER_MS)
}

pub(super) fn node_time(known: Option<Clocks>, ticks: u64) -> NodeTime {
    NodeTime::from_micros((ORIGIN_MS + ticks * clocks(known).node_ms) * 1_000)
}

const NS_PER_MS: u64 = 1_000_000;

/// Where the clients' clocks start: above every number that is not a point in time.
const CLIENT_ORIGIN_NS: u64 = 1 << 40;

#[cfg(test)]
mod tests {
    use stateright::Model;

    use super::{
        super::{product::ProductModel, step::Step},
        *,
    };

    fn print_after(settings: Settings, steps: &[Step]) -> u64 {
        let model = ProductModel::new(settings);
        let first = model.init_states().remove(0);
        let last = steps.iter().fold(first, |state, step| {
            model.next_state(&state, *step).expect("every step leads somewhere")
        });
        last.print()
    }

    /// A has received the grant of one node; another node has run A's request; B has the third one,
    /// which has run A's request to yield it.
    fn steps([a, b, c]: [usize; 3]) -> Vec<Step> {
        let of_a = [Step::Start(0, 1), Step::Run(0, a), Step::Receive(0, a), Step::Run(0, b)];
        let of_b = [Step::Start(1, 2), Step::Run(1, c), Step::Run(0, c), Step::Run(1, a)];
        of_a.into_iter().chain(of_b).collect()
    }

    /// A row of each kind.
    fn rows() -> [Settings; 3] {
        [Settings::queue("", "", 3), Settings::timed("", "", 3), Settings::classic("", "", 3)]
    }

    #[test]
    fn state_with_its_nodes_renumbered_is_the_same() {
        for model in rows() {
            let print = |order| print_after(model.clone(), &steps(order));
            let one = print([0, 1, 2]);
            for order in [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
                assert_eq!(print(order), one, "{:?}: {order:?}", model.dialect);
            }
            assert_ne!(print([0, 1, 1]), one);
        }
    }

    #[test]
    fn search_that_starts_later_has_the_same_states() {
        for model in rows().into_iter().filter(|row| row.clocks.is_some()) {
            let print = |steps: &[Step]| print_after(model.clone(), steps);
            let late: Vec<_> = [Step::Tick; 7].into_iter().chain(steps([0, 1, 2])).collect();
            assert_eq!(print(&late), print(&steps([0, 1, 2])), "{:?}", model.dialect);
            let mut slower = steps([0, 1, 2]);
            slower.insert(3, Step::Tick);
            assert_ne!(print(&slower), print(&steps([0, 1, 2])));
        }
    }

    #[test]
    fn node_whose_key_has_expired_is_as_new() {
        let print = |steps: &[Step]| print_after(Settings::classic("", "", 3), steps);
        let tries = [Step::Start(0, 0), Step::Run(0, 0), Step::Tick];
        let until_expired: Vec<_> = tries.into_iter().chain([Step::Tick; 2]).collect();
        let mut later = until_expired.clone();
        later.push(Step::Tick);
        assert_eq!(print(&until_expired), print(&later));
    }
}
