//! Nodes that are met by clients, with the stores that they have.

use super::*;
use crate::{
    command::{ClientId, Command, Reply, Stay},
    guard::{Greeting, NodeId, STEP_TOLERANCE_MS, WALL_TOLERANCE_MS},
    line::{Session, Speaker},
    moment::NodeTime,
    store::Store,
};

/// Nodes and clients that meet them, with clocks that agree.
struct Hall {
    stores: Vec<Store>,
    now_ms: u64,
    next: u128,
    /// Whether clients find that the nodes write everything to disk at once.
    is_durable: bool,
}

const GUARD: u64 = 1_000;
const TTL: u64 = 500;

impl Hall {
    fn new(nodes: usize) -> Self {
        let stores = vec![Store::new(); nodes];
        Self { stores, now_ms: 1_800_000_000_000, next: 1, is_durable: false }
    }

    fn client(nodes: &[usize]) -> Council {
        Council::new(nodes.iter().map(|node| format!("node{node}").into()), TTL, GUARD)
    }

    fn fresh(&mut self) -> u128 {
        self.next += 1;
        self.next
    }

    fn apply(&mut self, node: usize, command: &Command) -> Reply {
        let now = NodeTime::from_micros(self.now_ms * 1_000);
        self.stores[node].apply(now, command)
    }

    /// What a client says that has never met the node.
    fn greeting(&mut self) -> Greeting {
        Greeting {
            wall_ms: self.now_ms,
            known: None,
            mark: Mark::from_random(self.fresh()),
            id: NodeId::from_random(self.fresh()),
            life_ms: 100,
            guard_ms: GUARD,
            is_looking: false,
            is_durable: self.is_durable,
        }
    }

    fn met(&mut self, node: usize) -> Met {
        let greeting = self.greeting();
        match self.apply(node, &Command::Meet { greeting }) {
            Reply::Met(met) => *met,
            other => panic!("{other:?}"),
        }
    }

    /// Meets a node and does what the council says, until it votes or has to wait.
    fn call(&mut self, council: &mut Council, seat: usize, node: usize) -> Opinion {
        loop {
            council.ask(seat);
            let met = self.met(node);
            let fresh = Mark::from_random(self.fresh());
            let (command, then) = match council.hear(seat, met).0 {
                Opinion::Enrol(it) => {
                    let enrolment = Enrolment { wall_ms: self.now_ms, ..it };
                    (Command::Enrol { enrolment }, Reply::Enrolled)
                }
                Opinion::Tell { mark, pact } => {
                    (Command::Change { mark, pact, fresh }, Reply::Changed)
                }
                opinion => return opinion,
            };
            assert_eq!(self.apply(node, &command), then);
        }
    }

    fn call_all(&mut self, council: &mut Council, nodes: &[usize]) -> Vec<Opinion> {
        // What was to be heard from the last is known in the second round; then others must have
        // been seen to stay as they are.
        for (seat, node) in nodes.iter().enumerate().cycle().take(6 * nodes.len()) {
            self.call(council, seat, *node);
        }
        nodes.iter().enumerate().map(|(seat, node)| self.call(council, seat, *node)).collect()
    }

    fn founded(nodes: usize) -> (Self, Council) {
        let mut hall = Self::new(nodes);
        let numbers: Vec<usize> = (0..nodes).collect();
        let mut council = Self::client(&numbers);
        hall.call_all(&mut council, &numbers);
        hall.now_ms += GUARD;
        let opinions = hall.call_all(&mut council, &numbers);
        assert!(opinions.iter().all(votes), "{opinions:?}");
        (hall, council)
    }

    fn pact(&mut self, change: u64, nodes: &[usize]) -> Pact {
        let known = self.met(nodes[0]).pact.expect("it was founded");
        let of = |node: &usize| known.members.at(&format!("node{node}")).cloned();
        let fresh = NodeId::from_random(self.fresh());
        let new = |node: &usize| Member { id: fresh, label: format!("node{node}").into() };
        let members: Vec<_> =
            nodes.iter().map(|node| of(node).unwrap_or_else(|| new(node))).collect();
        let newcomer = members.iter().map(|it| it.id).find(|id| !known.members.has(*id));
        Pact { change, members: Members::new(members), newcomer, ..known }
    }

    fn change(&mut self, node: usize, pact: &Pact) -> Reply {
        let mark = self.met(node).mark;
        let (pact, fresh) = (pact.clone(), Mark::from_random(self.fresh()));
        self.apply(node, &Command::Change { mark, pact, fresh })
    }
}

fn votes(opinion: &Opinion) -> bool {
    matches!(opinion, Opinion::Votes(_))
}

fn waits(opinion: &Opinion, doubt: Doubt) -> bool {
    matches!(opinion, Opinion::Waits { why, .. } if *why == doubt)
}

#[test]
fn new_nodes_become_a_set_when_all_were_met_and_vote_after_the_guard() {
    let mut hall = Hall::new(3);
    let mut council = Hall::client(&[0, 1, 2]);
    for node in [0, 1, 0, 1] {
        assert!(waits(&hall.call(&mut council, node, node), Doubt::Unknown));
        assert_eq!(council.pact(), None, "one is missing");
    }
    for node in [2, 0, 1, 2, 0, 1, 2] {
        assert!(waits(&hall.call(&mut council, node, node), Doubt::Unknown));
    }
    assert_eq!(council.pact().map(|pact| pact.members.len()), Some(3));
    hall.call_all(&mut council, &[0, 1, 2]);
    hall.now_ms += GUARD - 1;
    let opinion = hall.call(&mut council, 0, 0);
    assert_eq!(opinion, Opinion::Waits { why: Doubt::Unknown, left_ms: 1 });
    hall.now_ms += 1;
    assert!(hall.call_all(&mut council, &[0, 1, 2]).iter().all(votes));
}

#[test]
fn two_clients_found_the_same_set_whatever_their_order() {
    let mut hall = Hall::new(3);
    let (mut one, mut two) = (Hall::client(&[0, 1, 2]), Hall::client(&[2, 0, 1]));
    for seat in 0..3 {
        hall.call(&mut one, seat, seat);
        hall.call(&mut two, seat, [2, 0, 1][seat]);
    }
    hall.call_all(&mut one, &[0, 1, 2]);
    hall.call_all(&mut two, &[2, 0, 1]);
    hall.now_ms += GUARD;
    assert!(hall.call_all(&mut one, &[0, 1, 2]).iter().all(votes));
    assert!(hall.call_all(&mut two, &[2, 0, 1]).iter().all(votes));
    assert_eq!(one.pact(), two.pact());
}

#[test]
fn a_node_that_forgot_has_its_place_again_after_the_guard() {
    let (mut hall, mut council) = Hall::founded(3);
    let id = hall.met(1).id;
    hall.stores[1].clear();
    assert!(waits(&hall.call(&mut council, 1, 1), Doubt::Unknown));
    assert!(!hall.met(1).is_enrolled, "the others may be what they are since it forgot, or not");
    assert!(waits(&hall.call_all(&mut council, &[0, 1, 2])[1], Doubt::Unknown));
    hall.now_ms += GUARD;
    assert!(votes(&hall.call(&mut council, 1, 1)));
    assert_eq!(hall.met(1).id, id);
}

#[test]
fn a_node_with_the_data_of_another_has_its_own_place_again() {
    let (mut hall, mut council) = Hall::founded(3);
    let id = hall.met(1).id;
    let other = hall.stores[0].clone();
    hall.stores[0].set_run(7);
    hall.stores[1].copy(&other);
    hall.stores[1].set_run(8);
    assert!(waits(&hall.call_all(&mut council, &[0, 1, 2])[1], Doubt::OtherRun));
    hall.now_ms += GUARD;
    assert!(votes(&hall.call(&mut council, 1, 1)));
    assert_eq!(hall.met(1).id, id);
}

#[test]
fn a_server_at_another_address_has_no_place() {
    let (mut hall, _) = Hall::founded(3);
    let copy = hall.stores[2].clone();
    hall.stores.push(Store::new());
    let mut stranger = Hall::client(&[0, 1, 3]);
    for round in 0..2 {
        let opinions = hall.call_all(&mut stranger, &[0, 1, 3]);
        assert!(votes(&opinions[0]) && votes(&opinions[1]), "{opinions:?}");
        let is_refused = matches!(&opinions[2], Opinion::Differs(Disagreement::NotMember { .. }));
        assert!(is_refused, "{round}: {opinions:?}");
        // A copy of a node's data at another address is no node either.
        hall.stores[3].copy(&copy);
        hall.stores[3].set_run(9);
        hall.now_ms += GUARD;
    }
}

#[test]
fn one_node_alone_does_not_give_a_forgotten_one_its_place() {
    let (mut hall, _) = Hall::founded(5);
    hall.stores[1].clear();
    let mut council = Hall::client(&[0, 1, 2, 3, 4]);
    hall.call(&mut council, 0, 0);
    hall.now_ms += 1;
    hall.call(&mut council, 1, 1);
    hall.now_ms += GUARD;
    assert!(waits(&hall.call(&mut council, 1, 1), Doubt::Unknown), "three are needed");
    for (node, is_enrolled) in [(2, false), (3, true)] {
        for seat in [node, 0, 2, node, 1] {
            hall.call(&mut council, seat, seat);
        }
        assert_eq!(hall.met(1).is_enrolled, is_enrolled, "{node}");
    }
    hall.now_ms += GUARD;
    assert!(votes(&hall.call(&mut council, 1, 1)));
}

#[test]
fn clients_with_another_view_are_told_what_differs() {
    let (mut hall, _) = Hall::founded(3);
    let mut fewer = Hall::client(&[0]);
    let opinion = hall.call(&mut fewer, 0, 0);
    let Opinion::Differs(differs) = opinion else { panic!("{opinion:?}") };
    assert_eq!(
        differs.to_string(),
        "the nodes have agreed to be 3 (node0, node1, node2), this client has 1"
    );
    let mut longer = Council::new(["node0", "node1", "node2"].map(Into::into), TTL * 2, GUARD);
    let opinion = hall.call(&mut longer, 0, 0);
    let Opinion::Differs(differs) = opinion else { panic!("{opinion:?}") };
    assert_eq!(
        differs.to_string(),
        "the nodes have agreed on a max_ttl of 500 ms, this client has 1000 ms"
    );
    let mut twice = Hall::client(&[0, 1, 2]);
    assert!(votes(&hall.call(&mut twice, 0, 0)));
    let opinion = hall.call(&mut twice, 1, 0);
    assert!(matches!(&opinion, Opinion::Differs(Disagreement::SameNode { .. })), "{opinion:?}");
}

/// One was made a copy of another before there was a set.
#[test]
fn no_set_is_founded_in_which_two_have_one_name() {
    let mut hall = Hall::new(3);
    let mut council = Hall::client(&[0, 1, 2]);
    hall.met(1);
    hall.stores[2] = hall.stores[1].clone();
    for seat in [0, 1, 2, 0, 1, 2] {
        let opinion = hall.call(&mut council, seat, seat);
        assert!(!matches!(opinion, Opinion::Enrol(_)), "{opinion:?}");
    }
    let opinion = hall.call(&mut council, 2, 2);
    let twin = Disagreement::SameNode { label: "node1".into() };
    assert_eq!((opinion, council.pact()), (Opinion::Differs(twin), None));
    hall.stores[2].clear();
    let opinions = hall.call_all(&mut council, &[0, 1, 2]);
    assert!(opinions.iter().all(|it| waits(it, Doubt::Unknown)), "{opinions:?}");
    assert!(council.pact().is_some());
}

/// A node was a replica of another for a while, when all had forgotten that they were a set.
#[test]
fn a_copy_of_a_node_that_is_of_no_set_has_a_name_of_its_own() {
    let mut hall = Hall::new(3);
    (0..3).for_each(|node| hall.stores[node].set_run(node as u64 + 1));
    let mut council = Hall::client(&[0, 1, 2]);
    hall.met(1);
    let other = hall.stores[1].clone();
    hall.stores[2].copy(&other);
    hall.call_all(&mut council, &[0, 1, 2]);
    let pact = council.pact().expect("they are a set");
    assert_eq!(pact.members.len(), 3, "{pact:?}");
    hall.now_ms += GUARD;
    let opinions = hall.call_all(&mut council, &[0, 1, 2]);
    assert!(opinions.iter().all(votes), "{opinions:?}");
}

#[test]
fn a_node_of_another_set_is_refused() {
    let (mut hall, mut council) = Hall::founded(3);
    let (other, _) = Hall::founded(3);
    hall.next += 1_000;
    hall.stores[2] = other.stores[2].clone();
    let mut store = Store::new();
    std::mem::swap(&mut store, &mut hall.stores[2]);
    // The same run and another origin, as if the address led elsewhere.
    hall.stores[2] = store;
    let met = hall.met(2);
    let foreign = Pact { origin: NodeId::from_random(9), ..met.pact.clone().expect("founded") };
    let (opinion, is_changed) = council.hear(2, Met { pact: Some(foreign), ..met });
    assert_eq!((opinion, is_changed), (Opinion::Differs(Disagreement::OtherSet), false));
}

#[test]
fn who_has_not_heard_of_a_change_is_told_and_the_replaced_node_is_out() {
    let (mut hall, mut council) = Hall::founded(3);
    hall.stores.push(Store::new());
    let pact = hall.pact(2, &[0, 1, 3]);
    assert_eq!(hall.change(0, &pact), Reply::Changed);
    assert!(votes(&hall.call(&mut council, 2, 2)), "nothing is known of it yet");
    let met = hall.met(0);
    assert!(council.hear(0, met).1, "the others must be met again");
    assert!(votes(&hall.call(&mut council, 0, 0)));
    assert!(votes(&hall.call(&mut council, 1, 1)), "it was told by us");
    let opinion = hall.call(&mut council, 2, 2);
    assert!(matches!(&opinion, Opinion::Differs(Disagreement::NotMember { .. })), "{opinion:?}");
    assert_eq!(hall.met(1).pact, Some(pact.clone()));
    // The new one has its place when a majority with it goes by the list, and votes when a guard
    // has passed from then.
    let mut new = Hall::client(&[0, 1, 3]);
    let opinions = hall.call_all(&mut new, &[0, 1, 3]);
    assert!(votes(&opinions[0]) && waits(&opinions[2], Doubt::Unknown), "{opinions:?}");
    hall.now_ms += 1;
    let left_ms = hall.met(0).changes_in_ms;
    assert_eq!(left_ms, GUARD - 1, "it tells beforehand");
    assert_eq!(hall.change(0, &hall_next(&pact)), Reply::TooSoon { left_ms });
    hall.now_ms += GUARD;
    assert_eq!(hall.met(0).changes_in_ms, 0);
    assert!(hall.call_all(&mut new, &[0, 1, 3]).iter().all(votes));
    assert_eq!(hall.change(0, &hall_next(&pact)), Reply::Changed);
}

fn hall_next(pact: &Pact) -> Pact {
    Pact { change: pact.change + 1, ..pact.clone() }
}

#[test]
fn both_lists_are_let_in_while_a_change_is_under_way() {
    let (mut hall, mut old) = Hall::founded(3);
    hall.stores.push(Store::new());
    let before = hall.met(0).pact.expect("founded").members;
    let pact = Pact { before: Some(before), ..hall.pact(2, &[0, 1, 2, 3]) };
    for node in 0..3 {
        assert_eq!(hall.change(node, &pact), Reply::Changed);
    }
    let mut new = Hall::client(&[0, 1, 2, 3]);
    assert!(hall.call_all(&mut new, &[0, 1, 2, 3])[..3].iter().all(votes));
    assert!(hall.call_all(&mut old, &[0, 1, 2]).iter().all(votes));
    hall.now_ms += GUARD;
    assert!(hall.call_all(&mut new, &[0, 1, 2, 3]).iter().all(votes));
    let closed = Pact { change: 3, before: None, ..pact };
    assert_eq!(hall.change(0, &closed), Reply::Changed);
    let opinion = hall.call(&mut old, 0, 0);
    assert!(matches!(&opinion, Opinion::Differs(Disagreement::Count { .. })), "{opinion:?}");
}

mod changes;
mod durable;
mod looks;

/// Two clients with different terms may found a set at the same time.
#[test]
fn a_node_with_other_terms_is_refused() {
    let (mut hall, mut council) = Hall::founded(3);
    let met = hall.met(2);
    let other = Pact { max_ttl_ms: 2 * TTL, ..met.pact.clone().expect("founded") };
    council.ask(2);
    let (opinion, _) = council.hear(2, Met { pact: Some(other), ..met });
    let expected = Disagreement::MaxTtl { agreed_ms: 2 * TTL, ours_ms: TTL };
    assert_eq!(opinion, Opinion::Differs(expected.clone()));
    assert_eq!(council.check_terms(), Err(expected));
    hall.call(&mut council, 2, 2);
    assert_eq!(council.check_terms(), Ok(()));
}

/// All sessions lapse then, but one that begins just after would hide it from everybody.
#[test]
fn a_clock_that_is_set_after_the_meeting_gives_no_session() {
    let (mut hall, _) = Hall::founded(3);
    let greeting = hall.greeting();
    let Reply::Met(met) = hall.apply(0, &Command::Meet { greeting }) else { panic!("it is met") };
    assert_eq!(met.doubt, None);
    let client = ClientId::from_random([7; 20]);
    let speaker = Speaker { client, session: Session::from_random(7) };
    let (mark, wall_ms) = (Some(met.mark), hall.now_ms);
    let stay = Stay { life_ms: 100, mark, slack_us: 1, wall_ms };
    let attach = Command::Attach { speaker, stay };
    hall.now_ms += 101;
    assert_eq!(hall.apply(0, &attach), Reply::Stale);
    hall.now_ms -= 1;
    assert!(matches!(hall.apply(0, &attach), Reply::Attached { .. }));
}

/// The clock of the client that found it so was an hour ahead.
#[test]
fn a_guard_is_not_as_long_as_a_clock_was_ahead() {
    let (mut hall, mut council) = Hall::founded(3);
    hall.stores[1].clear();
    let now_ms = hall.now_ms;
    let hour_ms = 3_600_000;
    let greeting = Greeting { wall_ms: now_ms + hour_ms, ..hall.greeting() };
    hall.apply(1, &Command::Meet { greeting });
    hall.call_all(&mut council, &[0, 1, 2]);
    hall.now_ms += GUARD;
    assert!(votes(&hall.call(&mut council, 1, 1)));
}
