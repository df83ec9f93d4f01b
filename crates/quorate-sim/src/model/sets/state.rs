//! The state of a model of sets: machines, stores, and what is on its way.

use std::{
    collections::VecDeque,
    hash::{Hash, Hasher},
};

use quorate_core::{
    client::{
        CallId, Client, Observer, Transmit, owners::OwnerKind, owners::OwnerSource,
        watchdog::LeaseId,
    },
    command::{ClientId, Owner, Reply},
    moment::Moment,
    queue::{Position, Push},
    store::Store,
};

use crate::model::print::{Print, Reading};

#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) clients: Vec<Member>,
    pub(super) nodes: Vec<Store>,
    /// By client, then by node.
    pub(super) links: Vec<Link>,
    pub(super) cancels_left: u8,
    /// A part of a set was held without the others.
    pub(super) is_torn: bool,
    /// A set gave a lock back to an earlier ticket.
    pub(super) has_yielded: bool,
}

/// One client, which wants its set once.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) machine: Client<Named>,
    pub(super) doing: Doing,
}

#[derive(Clone, Debug, Hash)]
pub(super) enum Doing {
    Nothing,
    Waiting(Box<[CallId]>),
    Holding(Vec<LeaseId>),
    Gone,
}

/// A connection that keeps the order of what is on it.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Link {
    pub(super) requests: VecDeque<Transmit>,
    pub(super) answers: VecDeque<Message>,
}

#[derive(Clone, Debug, Hash)]
pub(super) enum Message {
    Reply(Transmit, Reply),
    Push(Push),
}

/// Owners with the ticket that the search has chosen.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) client: ClientId,
    pub(super) ticket: u64,
    pub(super) owners: u64,
}

impl OwnerSource for Named {
    fn next_owner(&mut self, place: &Position, _kind: &OwnerKind) -> Owner {
        self.owners += 1;
        place.owner(self.owners)
    }

    fn next_plain_owner(&mut self, _kind: &OwnerKind) -> Owner {
        self.owners += 1;
        Owner::new(&self.client, self.owners, "")
    }

    fn ticket(&mut self, _drawn: u64) -> u64 {
        self.ticket
    }
}

impl State {
    pub(super) fn link(&mut self, client: usize, node: usize) -> &mut Link {
        let at = client * self.nodes.len() + node;
        &mut self.links[at]
    }

    /// The same for states that differ in the numbers of their nodes only.
    fn print(&self) -> u64 {
        let Self { clients, nodes, links, cancels_left, is_torn, has_yielded } = self;
        let mut print = Print::new(nodes.len());
        print.add(Reading::EXACT, &(cancels_left, is_torn, has_yielded));
        for Member { machine, doing } in clients {
            print.add(Reading::EXACT, doing);
            machine.observe(&mut Observed(&mut print));
        }
        for (node, store) in nodes.iter().enumerate() {
            print.add_of_node(node, Reading::EXACT, store);
        }
        for (at, link) in links.iter().enumerate() {
            print.add_of_node(at % nodes.len(), Reading::EXACT, link);
        }
        print.number()
    }
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.print() == other.print()
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, to: &mut H) {
        self.print().hash(to);
    }
}

struct Observed<'a>(&'a mut Print);

impl Observer for Observed<'_> {
    fn whole(&mut self, part: &impl Hash) {
        self.0.add(Reading::EXACT, part);
    }

    fn of_node(&mut self, node: usize, part: &impl Hash) {
        self.0.add_of_node(node, Reading::EXACT, part);
    }

    fn detail(&mut self, _part: &impl Hash) {}

    /// No timer strikes.
    fn due(&mut self, _at: Option<Moment>) {}
}
