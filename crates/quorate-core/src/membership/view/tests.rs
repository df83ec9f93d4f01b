//! Membership views of clients, with stores as nodes.

use super::*;
use crate::{
    command::{self, ClientId, SessionTerms},
    membership::{Command, Handshake, Reason, Reply, STEP_TOLERANCE_MS, WALL_TOLERANCE_MS},
    moment::NodeTime,
    queue::{Sender, Session},
    store::Store,
};

/// Nodes and their clients, with clocks that agree.
struct Fixture {
    stores: Vec<Store>,
    now_ms: u64,
    next: u128,
    /// Whether clients find that the nodes write everything to disk before they answer.
    is_durable: bool,
}

const QUARANTINE: u64 = 1_000;
const TTL: u64 = 500;

impl Fixture {
    fn new(nodes: usize) -> Self {
        let stores = vec![Store::new(); nodes];
        Self { stores, now_ms: 1_800_000_000_000, next: 1, is_durable: false }
    }

    fn client(nodes: &[usize]) -> View {
        View::new(nodes.iter().map(|node| format!("node{node}").into()), TTL, QUARANTINE)
    }

    fn fresh(&mut self) -> u128 {
        self.next += 1;
        self.next
    }

    fn apply(&mut self, node: usize, command: &command::Command) -> command::Reply {
        let now = NodeTime::from_micros(self.now_ms * 1_000);
        self.stores[node].apply(now, command)
    }

    fn send(&mut self, node: usize, command: Command) -> Option<Reply> {
        match self.apply(node, &command::Command::Membership(command)) {
            command::Reply::Membership(reply) => Some(reply),
            _ => None,
        }
    }

    fn handshake_with(&mut self, node: usize, handshake: Handshake) -> NodeInfo {
        match self.send(node, Command::Handshake(handshake)) {
            Some(Reply::Info(info)) => *info,
            other => panic!("{other:?}"),
        }
    }

    /// The handshake of a client that does not know the node's clock.
    fn handshake(&mut self) -> Handshake {
        Handshake {
            wall_ms: self.now_ms,
            known: None,
            mark: Mark::from_random(self.fresh()),
            id: NodeId::from_random(self.fresh()),
            lifetime_ms: 100,
            quarantine_ms: QUARANTINE,
            is_read_only: false,
            is_durable: self.is_durable,
        }
    }

    fn info(&mut self, node: usize) -> NodeInfo {
        let handshake = self.handshake();
        self.handshake_with(node, handshake)
    }

    /// Makes handshakes with a node and sends what the opinion requires, until nothing is left to
    /// send.
    fn call(&mut self, view: &mut View, seat: usize, node: usize) -> Opinion {
        loop {
            view.ask(seat);
            let info = self.info(node);
            let fresh = Mark::from_random(self.fresh());
            let (command, then) = match view.record(seat, info).0 {
                Opinion::Enrol(it) => {
                    (Command::Enrol(Enrolment { wall_ms: self.now_ms, ..it }), Reply::Enrolled)
                }
                Opinion::Update { mark, config } => {
                    (Command::Change { mark, config, fresh }, Reply::Changed)
                }
                opinion => return opinion,
            };
            assert_eq!(self.send(node, command), Some(then));
        }
    }

    fn call_all(&mut self, view: &mut View, nodes: &[usize]) -> Vec<Opinion> {
        // In the second round each node's opinion takes the reports of all into account. More
        // rounds show that the others have not changed since.
        for (seat, node) in nodes.iter().enumerate().cycle().take(6 * nodes.len()) {
            self.call(view, seat, *node);
        }
        nodes.iter().enumerate().map(|(seat, node)| self.call(view, seat, *node)).collect()
    }

    fn founded(nodes: usize) -> (Self, View) {
        let mut fixture = Self::new(nodes);
        let numbers: Vec<usize> = (0..nodes).collect();
        let mut view = Self::client(&numbers);
        fixture.call_all(&mut view, &numbers);
        fixture.now_ms += QUARANTINE;
        let opinions = fixture.call_all(&mut view, &numbers);
        assert!(opinions.iter().all(votes), "{opinions:?}");
        (fixture, view)
    }

    fn config(&mut self, change: u64, nodes: &[usize]) -> AgreedConfig {
        let known = self.info(nodes[0]).config.expect("it was founded");
        let of = |node: &usize| known.members.at(&format!("node{node}")).cloned();
        let fresh = NodeId::from_random(self.fresh());
        let new = |node: &usize| Member { id: fresh, label: format!("node{node}").into() };
        let members: Vec<_> =
            nodes.iter().map(|node| of(node).unwrap_or_else(|| new(node))).collect();
        let newcomer = members.iter().map(|it| it.id).find(|id| !known.members.has(*id));
        AgreedConfig { change, members: Members::new(members), newcomer, ..known }
    }

    fn change(&mut self, node: usize, config: &AgreedConfig) -> Option<Reply> {
        let mark = self.info(node).mark;
        let (config, fresh) = (config.clone(), Mark::from_random(self.fresh()));
        self.send(node, Command::Change { mark, config, fresh })
    }
}

const fn quarantine(reason: Reason) -> Quarantine {
    Quarantine { reason, left_ms: QUARANTINE }
}

fn votes(opinion: &Opinion) -> bool {
    matches!(opinion, Opinion::Votes(_))
}

fn waits(opinion: &Opinion, reason: Reason) -> bool {
    matches!(opinion, Opinion::Quarantined(it) if it.reason == reason)
}

#[test]
fn new_nodes_form_a_set_when_all_have_reported_and_vote_after_the_quarantine() {
    let mut fixture = Fixture::new(3);
    let mut view = Fixture::client(&[0, 1, 2]);
    for node in [0, 1, 0, 1] {
        assert!(waits(&fixture.call(&mut view, node, node), Reason::Unknown));
        assert_eq!(view.config(), None, "one is missing");
    }
    for node in [2, 0, 1, 2, 0, 1, 2] {
        assert!(waits(&fixture.call(&mut view, node, node), Reason::Unknown));
    }
    assert_eq!(view.config().map(|config| config.members.len()), Some(3));
    fixture.call_all(&mut view, &[0, 1, 2]);
    fixture.now_ms += QUARANTINE - 1;
    let opinion = fixture.call(&mut view, 0, 0);
    assert_eq!(opinion, Opinion::Quarantined(Quarantine { reason: Reason::Unknown, left_ms: 1 }));
    fixture.now_ms += 1;
    assert!(fixture.call_all(&mut view, &[0, 1, 2]).iter().all(votes));
}

#[test]
fn two_clients_found_the_same_set_in_any_order() {
    let mut fixture = Fixture::new(3);
    let (mut one, mut two) = (Fixture::client(&[0, 1, 2]), Fixture::client(&[2, 0, 1]));
    for seat in 0..3 {
        fixture.call(&mut one, seat, seat);
        fixture.call(&mut two, seat, [2, 0, 1][seat]);
    }
    fixture.call_all(&mut one, &[0, 1, 2]);
    fixture.call_all(&mut two, &[2, 0, 1]);
    fixture.now_ms += QUARANTINE;
    assert!(fixture.call_all(&mut one, &[0, 1, 2]).iter().all(votes));
    assert!(fixture.call_all(&mut two, &[2, 0, 1]).iter().all(votes));
    assert_eq!(one.config(), two.config());
}

#[test]
fn a_node_that_forgot_votes_in_its_place_after_the_quarantine() {
    let (mut fixture, mut view) = Fixture::founded(3);
    let id = fixture.info(1).id;
    fixture.stores[1].clear();
    assert!(waits(&fixture.call(&mut view, 1, 1), Reason::Unknown));
    assert!(!fixture.info(1).is_enrolled, "the other reports may be from before it forgot");
    assert!(waits(&fixture.call_all(&mut view, &[0, 1, 2])[1], Reason::Unknown));
    fixture.now_ms += QUARANTINE;
    assert!(votes(&fixture.call(&mut view, 1, 1)));
    assert_eq!(fixture.info(1).id, id);
}

#[test]
fn a_node_with_the_data_of_another_gets_its_own_place_back() {
    let (mut fixture, mut view) = Fixture::founded(3);
    let id = fixture.info(1).id;
    let other = fixture.stores[0].clone();
    fixture.stores[0].membership.set_run(7);
    fixture.stores[1].copy(&other);
    fixture.stores[1].membership.set_run(8);
    assert!(waits(&fixture.call_all(&mut view, &[0, 1, 2])[1], Reason::OtherRun));
    fixture.now_ms += QUARANTINE;
    assert!(votes(&fixture.call(&mut view, 1, 1)));
    assert_eq!(fixture.info(1).id, id);
}

#[test]
fn a_server_at_another_address_has_no_place() {
    let (mut fixture, _) = Fixture::founded(3);
    let copy = fixture.stores[2].clone();
    fixture.stores.push(Store::new());
    let mut stranger = Fixture::client(&[0, 1, 3]);
    for round in 0..2 {
        let opinions = fixture.call_all(&mut stranger, &[0, 1, 3]);
        assert!(votes(&opinions[0]) && votes(&opinions[1]), "{opinions:?}");
        let is_refused = matches!(&opinions[2], Opinion::Differs(Disagreement::NotMember(_)));
        assert!(is_refused, "{round}: {opinions:?}");
        // A copy of a node's data at another address is not a node either.
        fixture.stores[3].copy(&copy);
        fixture.stores[3].membership.set_run(9);
        fixture.now_ms += QUARANTINE;
    }
}

#[test]
fn one_node_alone_cannot_confirm_the_place_of_another() {
    let (mut fixture, _) = Fixture::founded(5);
    fixture.stores[1].clear();
    let mut view = Fixture::client(&[0, 1, 2, 3, 4]);
    fixture.call(&mut view, 0, 0);
    fixture.now_ms += 1;
    fixture.call(&mut view, 1, 1);
    fixture.now_ms += QUARANTINE;
    assert!(waits(&fixture.call(&mut view, 1, 1), Reason::Unknown), "three are needed");
    for (node, is_enrolled) in [(2, false), (3, true)] {
        for seat in [node, 0, 2, node, 1] {
            fixture.call(&mut view, seat, seat);
        }
        assert_eq!(fixture.info(1).is_enrolled, is_enrolled, "{node}");
    }
    fixture.now_ms += QUARANTINE;
    assert!(votes(&fixture.call(&mut view, 1, 1)));
}

#[test]
fn clients_with_other_settings_get_the_disagreement() {
    let (mut fixture, _) = Fixture::founded(3);
    let mut fewer = Fixture::client(&[0]);
    let opinion = fixture.call(&mut fewer, 0, 0);
    let Opinion::Differs(differs) = opinion else { panic!("{opinion:?}") };
    assert_eq!(
        differs.to_string(),
        "the nodes have agreed to be 3 (node0, node1, node2), this client has 1"
    );
    let mut longer = View::new(["node0", "node1", "node2"].map(Into::into), TTL * 2, QUARANTINE);
    let opinion = fixture.call(&mut longer, 0, 0);
    let Opinion::Differs(differs) = opinion else { panic!("{opinion:?}") };
    assert_eq!(
        differs.to_string(),
        "the nodes have agreed on a max_ttl of 500 ms, this client has 1 s"
    );
    let mut twice = Fixture::client(&[0, 1, 2]);
    assert!(votes(&fixture.call(&mut twice, 0, 0)));
    let opinion = fixture.call(&mut twice, 1, 0);
    assert!(matches!(&opinion, Opinion::Differs(Disagreement::SameNode(_))), "{opinion:?}");
}

/// One node was made a copy of another before they formed a set.
#[test]
fn no_set_is_founded_with_two_nodes_of_one_name() {
    let mut fixture = Fixture::new(3);
    let mut view = Fixture::client(&[0, 1, 2]);
    fixture.info(1);
    fixture.stores[2] = fixture.stores[1].clone();
    for seat in [0, 1, 2, 0, 1, 2] {
        let opinion = fixture.call(&mut view, seat, seat);
        assert!(!matches!(opinion, Opinion::Enrol(_)), "{opinion:?}");
    }
    let opinion = fixture.call(&mut view, 2, 2);
    let twin = Disagreement::SameNode("node1".into());
    assert_eq!((opinion, view.config()), (Opinion::Differs(twin), None));
    fixture.stores[2].clear();
    let opinions = fixture.call_all(&mut view, &[0, 1, 2]);
    assert!(opinions.iter().all(|it| waits(it, Reason::Unknown)), "{opinions:?}");
    assert!(view.config().is_some());
}

/// A node was a replica of another for a while, after all had forgotten their set.
#[test]
fn a_copy_of_a_node_without_a_set_gets_a_name_of_its_own() {
    let mut fixture = Fixture::new(3);
    (0..3).for_each(|node| fixture.stores[node].membership.set_run(node as u64 + 1));
    let mut view = Fixture::client(&[0, 1, 2]);
    fixture.info(1);
    let other = fixture.stores[1].clone();
    fixture.stores[2].copy(&other);
    fixture.call_all(&mut view, &[0, 1, 2]);
    let config = view.config().expect("they are a set");
    assert_eq!(config.members.len(), 3, "{config:?}");
    fixture.now_ms += QUARANTINE;
    let opinions = fixture.call_all(&mut view, &[0, 1, 2]);
    assert!(opinions.iter().all(votes), "{opinions:?}");
}

#[test]
fn a_node_of_another_set_is_rejected() {
    let (mut fixture, mut view) = Fixture::founded(3);
    let (other, _) = Fixture::founded(3);
    fixture.next += 1_000;
    fixture.stores[2] = other.stores[2].clone();
    let mut store = Store::new();
    std::mem::swap(&mut store, &mut fixture.stores[2]);
    // The same run and another origin, as if another server had the address.
    fixture.stores[2] = store;
    let info = fixture.info(2);
    let foreign =
        AgreedConfig { origin: NodeId::from_random(9), ..info.config.clone().expect("founded") };
    let (opinion, is_changed) = view.record(2, NodeInfo { config: Some(foreign), ..info });
    assert_eq!((opinion, is_changed), (Opinion::Differs(Disagreement::OtherSet), false));
}

#[test]
fn a_node_that_missed_a_change_receives_it_and_the_replaced_node_is_rejected() {
    let (mut fixture, mut view) = Fixture::founded(3);
    fixture.stores.push(Store::new());
    let config = fixture.config(2, &[0, 1, 3]);
    assert_eq!(fixture.change(0, &config), Some(Reply::Changed));
    assert!(votes(&fixture.call(&mut view, 2, 2)), "the change is not known yet");
    let info = fixture.info(0);
    assert!(view.record(0, info).1, "the others need another handshake");
    assert!(votes(&fixture.call(&mut view, 0, 0)));
    assert!(votes(&fixture.call(&mut view, 1, 1)), "this client has sent it the change");
    let opinion = fixture.call(&mut view, 2, 2);
    assert!(matches!(&opinion, Opinion::Differs(Disagreement::NotMember(_))), "{opinion:?}");
    assert_eq!(fixture.info(1).config, Some(config.clone()));
    // The new node gets its place when a majority of the earlier nodes has the list, and votes one
    // quarantine time later.
    let mut new = Fixture::client(&[0, 1, 3]);
    let opinions = fixture.call_all(&mut new, &[0, 1, 3]);
    assert!(votes(&opinions[0]) && waits(&opinions[2], Reason::Unknown), "{opinions:?}");
    fixture.now_ms += 1;
    let left_ms = fixture.info(0).changes_in_ms;
    assert_eq!(left_ms, QUARANTINE - 1, "the report shows it before the change is sent");
    assert_eq!(fixture.change(0, &next_change(&config)), Some(Reply::TooSoon { left_ms }));
    fixture.now_ms += QUARANTINE;
    assert_eq!(fixture.info(0).changes_in_ms, 0);
    assert!(fixture.call_all(&mut new, &[0, 1, 3]).iter().all(votes));
    assert_eq!(fixture.change(0, &next_change(&config)), Some(Reply::Changed));
}

fn next_change(config: &AgreedConfig) -> AgreedConfig {
    AgreedConfig { change: config.change + 1, ..config.clone() }
}

#[test]
fn clients_with_either_list_are_accepted_during_a_change() {
    let (mut fixture, mut old) = Fixture::founded(3);
    fixture.stores.push(Store::new());
    let before = fixture.info(0).config.expect("founded").members;
    let config = AgreedConfig { before: Some(before), ..fixture.config(2, &[0, 1, 2, 3]) };
    for node in 0..3 {
        assert_eq!(fixture.change(node, &config), Some(Reply::Changed));
    }
    let mut new = Fixture::client(&[0, 1, 2, 3]);
    assert!(fixture.call_all(&mut new, &[0, 1, 2, 3])[..3].iter().all(votes));
    assert!(fixture.call_all(&mut old, &[0, 1, 2]).iter().all(votes));
    fixture.now_ms += QUARANTINE;
    assert!(fixture.call_all(&mut new, &[0, 1, 2, 3]).iter().all(votes));
    let closed = AgreedConfig { change: 3, before: None, ..config };
    assert_eq!(fixture.change(0, &closed), Some(Reply::Changed));
    let opinion = fixture.call(&mut old, 0, 0);
    assert!(matches!(&opinion, Opinion::Differs(Disagreement::Count { .. })), "{opinion:?}");
}

mod changes;
mod durable;
mod read_only;

/// Two clients with different settings may found a set at the same time.
#[test]
fn a_node_with_another_max_ttl_is_rejected() {
    let (mut fixture, mut view) = Fixture::founded(3);
    let info = fixture.info(2);
    let other = AgreedConfig { max_ttl_ms: 2 * TTL, ..info.config.clone().expect("founded") };
    view.ask(2);
    let (opinion, _) = view.record(2, NodeInfo { config: Some(other), ..info });
    let expected = Disagreement::MaxTtl { agreed_ms: 2 * TTL, ours_ms: TTL };
    assert_eq!(opinion, Opinion::Differs(expected.clone()));
    assert_eq!(view.check_terms(), Err(expected));
    fixture.call(&mut view, 2, 2);
    assert_eq!(view.check_terms(), Ok(()));
}

/// All sessions expire with such a step, but a session that begins just after it would hide the
/// step.
#[test]
fn a_step_of_the_clock_after_the_handshake_prevents_the_session() {
    let (mut fixture, _) = Fixture::founded(3);
    let handshake = fixture.handshake();
    let info = fixture.handshake_with(0, handshake);
    assert_eq!(info.quarantine, None);
    let client = ClientId::from_random([7; 20]);
    let sender = Sender { client, session: Session::from_random(7) };
    let (mark, wall_ms) = (Some(info.mark), fixture.now_ms);
    let terms = SessionTerms { lifetime_ms: 100, mark, slack_us: 1, wall_ms };
    let attach = command::Command::Attach { sender, terms };
    fixture.now_ms += 101;
    assert_eq!(fixture.apply(0, &attach), command::Reply::Stale);
    fixture.now_ms -= 1;
    assert!(matches!(fixture.apply(0, &attach), command::Reply::Attached { .. }));
}

/// The clock of the client that began the quarantine was an hour ahead.
#[test]
fn a_clients_clock_that_was_ahead_does_not_extend_a_quarantine() {
    let (mut fixture, mut view) = Fixture::founded(3);
    fixture.stores[1].clear();
    let now_ms = fixture.now_ms;
    let hour_ms = 3_600_000;
    let handshake = Handshake { wall_ms: now_ms + hour_ms, ..fixture.handshake() };
    fixture.handshake_with(1, handshake);
    fixture.call_all(&mut view, &[0, 1, 2]);
    fixture.now_ms += QUARANTINE;
    assert!(votes(&fixture.call(&mut view, 1, 1)));
}
