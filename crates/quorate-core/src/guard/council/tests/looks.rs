//! What is only looked at, and what an operator decides by that.

use super::*;

impl Hall {
    /// Looks at a node, which must stay as it is. Returns the mark that it was offered, too.
    fn look(&mut self, node: usize) -> (Met, Mark) {
        let greeting = Greeting { is_looking: true, ..self.greeting() };
        // What is over by now goes with every command.
        self.apply(node, &Command::Who { client: ClientId::from_random([0; 20]) });
        let before = self.stores[node].clone();
        let Reply::Met(met) = self.apply(node, &Command::Meet { greeting }) else {
            panic!("it is met")
        };
        assert_eq!(self.stores[node], before);
        (*met, greeting.mark)
    }

    /// Looks at each of these nodes once.
    fn look_at(&mut self, council: &mut Council, nodes: &[usize]) {
        for node in nodes {
            council.ask(*node);
            let met = self.look(*node).0;
            council.hear(*node, met);
        }
    }
}

#[test]
fn a_look_leaves_every_kind_of_node_as_it_was() {
    let mut hall = Hall::new(1);
    let (met, _) = hall.look(0);
    assert_eq!(met.doubt, Some((Doubt::Unknown, GUARD)), "a new one");
    let (mut hall, mut council) = Hall::founded(3);
    hall.now_ms += 50;
    let (met, offered) = hall.look(0);
    assert!(met.doubt.is_none() && met.mark != offered, "one that votes");
    hall.stores[1].set_run(7);
    assert_eq!(hall.look(1).0.doubt, Some((Doubt::OtherRun, GUARD)), "one that was restarted");
    hall.call_all(&mut council, &[0, 1, 2]);
    hall.now_ms += GUARD - 1;
    assert_eq!(hall.look(1).0.doubt, Some((Doubt::OtherRun, 1)), "one in its guard");
}

/// Whoever looks can tell, by the mark that the node would take.
#[test]
fn a_guard_that_is_over_is_seen_by_one_who_looks() {
    let (mut hall, mut council) = Hall::founded(3);
    hall.stores[1].set_run(7);
    hall.call_all(&mut council, &[0, 1, 2]);
    hall.now_ms += GUARD;
    for _ in 0..2 {
        let (met, offered) = hall.look(1);
        assert!(met.doubt.is_none() && met.mark == offered, "it waits for another client");
    }
    assert!(votes(&hall.call(&mut council, 1, 1)));
    let (met, offered) = hall.look(1);
    assert!(met.doubt.is_none() && met.mark != offered, "one has come");
}

#[test]
fn one_look_at_each_node_tells_what_would_become_of_all() {
    let mut hall = Hall::new(3);
    let mut council = Hall::client(&[0, 1, 2]);
    hall.look_at(&mut council, &[0, 1]);
    let outlook = council.outlook(false);
    assert!(outlook[..2].iter().flatten().all(|it| waits(it, Doubt::Unknown)), "{outlook:?}");
    assert_eq!(outlook[2], None, "nobody has heard of it");
    hall.look_at(&mut council, &[2]);
    let outlook = council.outlook(false);
    let is_enrolled = |it: &Option<Opinion>| matches!(it, Some(Opinion::Enrol(_)));
    assert!(outlook.iter().all(is_enrolled), "{outlook:?}");
    // Whoever acts goes by nothing of it: the names that were told are kept nowhere.
    council.start_over();
    assert_eq!((council.pact(), council.outlook(false)), (None, vec![None; 3]));
    let opinions = hall.call_all(&mut council, &[0, 1, 2]);
    assert!(opinions.iter().all(|it| waits(it, Doubt::Unknown)), "{opinions:?}");
    let members = council.pact().map(|pact| pact.members.clone()).expect("they are a set");
    (0..3).for_each(|node| assert!(members.has(hall.met(node).id), "{members}"));
}

#[test]
fn a_word_for_the_list_is_weighed_before_it_is_given() {
    let (mut hall, _) = Hall::founded(3);
    hall.stores[2].clear();
    let mut council = Hall::client(&[0, 1, 2]);
    hall.look_at(&mut council, &[1, 2]);
    let [ours, vouched] = [false, true].map(|is_vouched| council.outlook(is_vouched));
    assert!(votes(ours[1].as_ref().expect("it was met")));
    assert!(waits(ours[2].as_ref().expect("it was met"), Doubt::Unknown), "one alone cannot say");
    assert!(matches!(vouched[2], Some(Opinion::Enrol(_))), "{vouched:?}");
    // Where nobody remembers a set there is nothing to vouch for.
    hall.stores[1].clear();
    let mut council = Hall::client(&[0, 1, 2]);
    hall.look_at(&mut council, &[1, 2]);
    let vouched = council.outlook(true);
    assert!(vouched.iter().flatten().all(|it| waits(it, Doubt::Unknown)), "{vouched:?}");
}

/// A server whose address is not in the list of the others was looked at before these.
#[test]
fn a_list_that_the_nodes_do_not_know_is_seen_by_one_look() {
    let mut hall = Hall::new(4);
    let mut others = Hall::client(&[0, 1, 2]);
    hall.call_all(&mut others, &[0, 1, 2]);
    let mut council = Council::new(["node3", "node0", "node1"].map(Into::into), TTL, GUARD);
    for (seat, node) in [3, 0, 1].into_iter().enumerate() {
        council.ask(seat);
        let met = hall.look(node).0;
        council.hear(seat, met);
    }
    let outlook = council.outlook(false);
    let is_out = matches!(outlook[0], Some(Opinion::Differs(Disagreement::NotMember { .. })));
    assert!(is_out, "{outlook:?}");
}
