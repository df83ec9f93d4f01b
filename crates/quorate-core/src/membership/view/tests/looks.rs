//! What is only looked at, and what an operator decides by that.

use super::*;

impl Hall {
    /// Looks at a node, which must stay as it is. Returns the mark that it was offered, too.
    fn look(&mut self, node: usize) -> (NodeInfo, Mark) {
        let handshake = Handshake { is_read_only: true, ..self.handshake() };
        // What is over by now goes with every command.
        self.apply(node, &command::Command::Who { client: ClientId::from_random([0; 20]) });
        let before = self.stores[node].clone();
        let info = self.shake(node, handshake);
        assert_eq!(self.stores[node], before);
        (info, handshake.mark)
    }

    /// Looks at each of these nodes once.
    fn look_at(&mut self, view: &mut View, nodes: &[usize]) {
        for node in nodes {
            view.ask(*node);
            let info = self.look(*node).0;
            view.hear(*node, info);
        }
    }
}

#[test]
fn a_look_leaves_every_kind_of_node_as_it_was() {
    let mut hall = Hall::new(1);
    let (info, _) = hall.look(0);
    assert_eq!(info.quarantine, Some(quarantine(Reason::Unknown)), "a new one");
    let (mut hall, mut view) = Hall::founded(3);
    hall.now_ms += 50;
    let (info, offered) = hall.look(0);
    assert!(info.quarantine.is_none() && info.mark != offered, "one that votes");
    hall.stores[1].membership.set_run(7);
    assert_eq!(
        hall.look(1).0.quarantine,
        Some(quarantine(Reason::OtherRun)),
        "one that was restarted"
    );
    hall.call_all(&mut view, &[0, 1, 2]);
    hall.now_ms += QUARANTINE - 1;
    assert_eq!(
        hall.look(1).0.quarantine,
        Some(Quarantine { reason: Reason::OtherRun, left_ms: 1 }),
        "one in quarantine"
    );
}

/// Whoever looks can tell, by the mark that the node would take.
#[test]
fn a_quarantine_that_is_over_is_seen_by_one_who_looks() {
    let (mut hall, mut view) = Hall::founded(3);
    hall.stores[1].membership.set_run(7);
    hall.call_all(&mut view, &[0, 1, 2]);
    hall.now_ms += QUARANTINE;
    for _ in 0..2 {
        let (info, offered) = hall.look(1);
        assert!(info.quarantine.is_none() && info.mark == offered, "it waits for another client");
    }
    assert!(votes(&hall.call(&mut view, 1, 1)));
    let (info, offered) = hall.look(1);
    assert!(info.quarantine.is_none() && info.mark != offered, "one has come");
}

#[test]
fn one_look_at_each_node_tells_what_would_become_of_all() {
    let mut hall = Hall::new(3);
    let mut view = Hall::client(&[0, 1, 2]);
    hall.look_at(&mut view, &[0, 1]);
    let outlook = view.outlook(false);
    assert!(outlook[..2].iter().flatten().all(|it| waits(it, Reason::Unknown)), "{outlook:?}");
    assert_eq!(outlook[2], None, "nobody has heard of it");
    hall.look_at(&mut view, &[2]);
    let outlook = view.outlook(false);
    let is_enrolled = |it: &Option<Opinion>| matches!(it, Some(Opinion::Enrol(_)));
    assert!(outlook.iter().all(is_enrolled), "{outlook:?}");
    // Whoever acts goes by nothing of it: the names that were told are kept nowhere.
    view.start_over();
    assert_eq!((view.config(), view.outlook(false)), (None, vec![None; 3]));
    let opinions = hall.call_all(&mut view, &[0, 1, 2]);
    assert!(opinions.iter().all(|it| waits(it, Reason::Unknown)), "{opinions:?}");
    let members = view.config().map(|config| config.members.clone()).expect("they are a set");
    (0..3).for_each(|node| assert!(members.has(hall.info(node).id), "{members}"));
}

#[test]
fn a_word_for_the_list_is_weighed_before_it_is_given() {
    let (mut hall, _) = Hall::founded(3);
    hall.stores[2].clear();
    let mut view = Hall::client(&[0, 1, 2]);
    hall.look_at(&mut view, &[1, 2]);
    let [ours, vouched] = [false, true].map(|is_vouched| view.outlook(is_vouched));
    assert!(votes(ours[1].as_ref().expect("it was met")));
    assert!(waits(ours[2].as_ref().expect("it was met"), Reason::Unknown), "one alone cannot say");
    assert!(matches!(vouched[2], Some(Opinion::Enrol(_))), "{vouched:?}");
    // Where nobody remembers a set there is nothing to vouch for.
    hall.stores[1].clear();
    let mut view = Hall::client(&[0, 1, 2]);
    hall.look_at(&mut view, &[1, 2]);
    let vouched = view.outlook(true);
    assert!(vouched.iter().flatten().all(|it| waits(it, Reason::Unknown)), "{vouched:?}");
}

/// A server whose address is not in the list of the others was looked at before these.
#[test]
fn a_list_that_the_nodes_do_not_know_is_seen_by_one_look() {
    let mut hall = Hall::new(4);
    let mut others = Hall::client(&[0, 1, 2]);
    hall.call_all(&mut others, &[0, 1, 2]);
    let mut view = View::new(["node3", "node0", "node1"].map(Into::into), TTL, QUARANTINE);
    for (seat, node) in [3, 0, 1].into_iter().enumerate() {
        view.ask(seat);
        let info = hall.look(node).0;
        view.hear(seat, info);
    }
    let outlook = view.outlook(false);
    let is_out = matches!(outlook[0], Some(Opinion::Differs(Disagreement::NotMember(_))));
    assert!(is_out, "{outlook:?}");
}
