//! Read-only handshakes, and the outlook that operator commands derive from them.

use super::*;

impl Fixture {
    /// Makes a read-only handshake with a node, which must not change. Also returns the mark that
    /// was offered.
    fn read_only_handshake(&mut self, node: usize) -> (NodeInfo, Mark) {
        let handshake = Handshake { is_read_only: true, ..self.handshake() };
        // Any command removes what has expired.
        self.apply(node, &command::Command::Who { client: ClientId::from_random([0; 20]) });
        let before = self.stores[node].clone();
        let info = self.handshake_with(node, handshake);
        assert_eq!(self.stores[node], before);
        (info, handshake.mark)
    }

    /// Makes a read-only handshake with each of these nodes.
    fn read_all(&mut self, view: &mut View, nodes: &[usize]) {
        for node in nodes {
            view.ask(*node);
            let info = self.read_only_handshake(*node).0;
            view.record(*node, info);
        }
    }
}

#[test]
fn a_read_only_handshake_changes_no_node() {
    let mut fixture = Fixture::new(1);
    let (info, _) = fixture.read_only_handshake(0);
    assert_eq!(info.quarantine, Some(quarantine(Reason::Unknown)), "a new one");
    let (mut fixture, mut view) = Fixture::founded(3);
    fixture.now_ms += 50;
    let (info, offered) = fixture.read_only_handshake(0);
    assert!(info.quarantine.is_none() && info.mark != offered, "one that votes");
    fixture.stores[1].membership.set_run(7);
    assert_eq!(
        fixture.read_only_handshake(1).0.quarantine,
        Some(quarantine(Reason::OtherRun)),
        "one that was restarted"
    );
    fixture.call_all(&mut view, &[0, 1, 2]);
    fixture.now_ms += QUARANTINE - 1;
    assert_eq!(
        fixture.read_only_handshake(1).0.quarantine,
        Some(Quarantine { reason: Reason::OtherRun, left_ms: 1 }),
        "one in quarantine"
    );
}

/// The client sees it by the mark that the node would take.
#[test]
fn a_read_only_handshake_shows_that_a_quarantine_has_ended() {
    let (mut fixture, mut view) = Fixture::founded(3);
    fixture.stores[1].membership.set_run(7);
    fixture.call_all(&mut view, &[0, 1, 2]);
    fixture.now_ms += QUARANTINE;
    for _ in 0..2 {
        let (info, offered) = fixture.read_only_handshake(1);
        assert!(
            info.quarantine.is_none() && info.mark == offered,
            "it waits for a read-write client"
        );
    }
    assert!(votes(&fixture.call(&mut view, 1, 1)));
    let (info, offered) = fixture.read_only_handshake(1);
    assert!(info.quarantine.is_none() && info.mark != offered, "a read-write client has come");
}

#[test]
fn one_read_only_handshake_with_each_node_shows_the_outlook() {
    let mut fixture = Fixture::new(3);
    let mut view = Fixture::client(&[0, 1, 2]);
    fixture.read_all(&mut view, &[0, 1]);
    let outlook = view.outlook(false);
    assert!(outlook[..2].iter().flatten().all(|it| waits(it, Reason::Unknown)), "{outlook:?}");
    assert_eq!(outlook[2], None, "it has not reported");
    fixture.read_all(&mut view, &[2]);
    let outlook = view.outlook(false);
    let is_enrolled = |it: &Option<Opinion>| matches!(it, Some(Opinion::Enrol(_)));
    assert!(outlook.iter().all(is_enrolled), "{outlook:?}");
    // A client that writes must start over: no node has stored the names that were reported.
    view.start_over();
    assert_eq!((view.config(), view.outlook(false)), (None, vec![None; 3]));
    let opinions = fixture.call_all(&mut view, &[0, 1, 2]);
    assert!(opinions.iter().all(|it| waits(it, Reason::Unknown)), "{opinions:?}");
    let members = view.config().map(|config| config.members.clone()).expect("they are a set");
    (0..3).for_each(|node| assert!(members.has(fixture.info(node).id), "{members}"));
}

#[test]
fn the_outlook_shows_what_vouching_would_change() {
    let (mut fixture, _) = Fixture::founded(3);
    fixture.stores[2].clear();
    let mut view = Fixture::client(&[0, 1, 2]);
    fixture.read_all(&mut view, &[1, 2]);
    let [ours, vouched] = [false, true].map(|is_vouched| view.outlook(is_vouched));
    assert!(votes(ours[1].as_ref().expect("it answered")));
    assert!(
        waits(ours[2].as_ref().expect("it answered"), Reason::Unknown),
        "one node alone cannot confirm"
    );
    assert!(matches!(vouched[2], Some(Opinion::Enrol(_))), "{vouched:?}");
    // Without a node that belongs to a set there is nothing to vouch for.
    fixture.stores[1].clear();
    let mut view = Fixture::client(&[0, 1, 2]);
    fixture.read_all(&mut view, &[1, 2]);
    let vouched = view.outlook(true);
    assert!(vouched.iter().flatten().all(|it| waits(it, Reason::Unknown)), "{vouched:?}");
}

/// The first handshake is with a server that is not in the list of the others.
#[test]
fn the_outlook_shows_a_list_that_the_nodes_do_not_know() {
    let mut fixture = Fixture::new(4);
    let mut others = Fixture::client(&[0, 1, 2]);
    fixture.call_all(&mut others, &[0, 1, 2]);
    let mut view = View::new(["node3", "node0", "node1"].map(Into::into), TTL, QUARANTINE);
    for (seat, node) in [3, 0, 1].into_iter().enumerate() {
        view.ask(seat);
        let info = fixture.read_only_handshake(node).0;
        view.record(seat, info);
    }
    let outlook = view.outlook(false);
    let is_out = matches!(outlook[0], Some(Opinion::Differs(Disagreement::NotMember(_))));
    assert!(is_out, "{outlook:?}");
}
