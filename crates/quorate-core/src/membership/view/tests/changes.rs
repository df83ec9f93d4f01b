//! Clients and nodes while the set changes.

use super::*;

/// Nodes 0, 1 and 2, of which 2 is replaced by 3, and 4, which is new as well.
fn swapped(changed: &[usize]) -> (Fixture, AgreedConfig) {
    let (mut fixture, _) = Fixture::founded(3);
    fixture.stores.extend([Store::new(), Store::new()]);
    let config = fixture.config(2, &[0, 1, 3]);
    for node in changed {
        assert_eq!(fixture.change(*node, &config), Some(Reply::Changed));
    }
    (fixture, config)
}

#[test]
fn a_node_that_forgot_a_change_does_not_return_with_the_replaced_one() {
    for is_kept in [false, true] {
        let (mut fixture, _) = swapped(&[]);
        let before = fixture.stores[0].clone();
        let mut old = Fixture::client(&[0, 1, 2]);
        fixture.call_all(&mut old, &[0, 1, 2]);
        let config = fixture.config(2, &[0, 1, 3]);
        for node in [0, 1] {
            assert_eq!(fixture.change(node, &config), Some(Reply::Changed));
        }
        let mut new = Fixture::client(&[0, 1, 3]);
        fixture.call_all(&mut new, &[0, 1, 3]);
        assert!(fixture.info(3).is_enrolled);
        fixture.stores[0] = if is_kept { before } else { Store::new() };
        fixture.stores[0].membership.set_run(7);
        // Two clients see two of the nodes: one that knew all three, and a new one.
        for mut old in [old, Fixture::client(&[0, 1, 2])] {
            for seat in [0, 2, 0, 2, 0, 2, 0] {
                fixture.call(&mut old, seat, seat);
            }
            assert!(!fixture.info(0).is_enrolled, "{is_kept}");
            fixture.call(&mut old, 1, 1);
            assert_eq!(old.config(), Some(&config), "the third node has the later change");
        }
        fixture.call_all(&mut new, &[0, 1, 3]);
        assert_eq!(fixture.info(0).config, Some(config));
    }
}

#[test]
fn a_node_that_forgot_during_a_change_needs_an_operator_to_vouch() {
    let (mut fixture, config) = swapped(&[0, 1]);
    fixture.stores[0].clear();
    let mut new = Fixture::client(&[0, 1, 3]);
    fixture.call_all(&mut new, &[0, 1, 3]);
    assert!(
        !fixture.info(0).is_enrolled,
        "it may have agreed on another list together with node 2"
    );
    new.set_vouched(true);
    fixture.call(&mut new, 2, 3);
    assert!(!fixture.info(3).is_enrolled, "the newcomer needs no vouching, but a majority");
    fixture.call(&mut new, 0, 0);
    assert!(fixture.info(0).is_enrolled);
    new.set_vouched(false);
    fixture.call_all(&mut new, &[0, 1, 3]);
    assert_eq!(fixture.info(0).config.as_ref(), Some(&config));
    assert!(fixture.info(3).is_enrolled);
}

#[test]
fn a_node_that_forgot_needs_confirmations_for_the_larger_of_two_lists() {
    let (mut fixture, _) = Fixture::founded(3);
    let before = fixture.info(0).config.expect("founded").members;
    let smaller = AgreedConfig { before: Some(before), ..fixture.config(2, &[1, 2]) };
    assert_eq!(fixture.change(1, &smaller), Some(Reply::Changed));
    // It may have agreed on another list with the number 2, together with node 0.
    fixture.stores[2].clear();
    for nodes in [&[1, 2][..], &[0, 1, 2]] {
        let mut view = Fixture::client(nodes);
        for _ in 0..6 {
            for (seat, node) in nodes.iter().enumerate().skip(nodes.len() - 2) {
                fixture.call(&mut view, seat, *node);
            }
        }
        assert!(!fixture.info(2).is_enrolled, "{nodes:?}");
    }
}

#[test]
fn reports_from_before_a_node_forgot_do_not_count() {
    let (mut fixture, _) = Fixture::founded(3);
    let mut view = Fixture::client(&[0, 1, 2]);
    fixture.call_all(&mut view, &[0, 1, 2]);
    fixture.stores[0].clear();
    for _ in 0..3 {
        fixture.call(&mut view, 0, 0);
        assert!(!fixture.info(0).is_enrolled);
    }
    // A ping from before the node forgot does not count, a ping from now does.
    view.record_ping(1);
    view.record_ping(2);
    fixture.call(&mut view, 0, 0);
    assert!(!fixture.info(0).is_enrolled);
    for node in [1, 2] {
        view.ask(node);
        view.record_ping(node);
    }
    fixture.call(&mut view, 0, 0);
    assert!(fixture.info(0).is_enrolled);
}

#[test]
fn nodes_with_rival_lists_do_not_count_together() {
    let (mut fixture, _) = swapped(&[0]);
    let other = fixture.info(1).config.expect("founded");
    let id = fixture.info(4).id;
    let member = |label: &str| other.members.at(label).cloned();
    let third = Member { id, label: "node4".into() };
    let members = [member("node0"), member("node1"), Some(third)].into_iter().flatten();
    let rival =
        AgreedConfig { change: 2, members: Members::new(members), newcomer: Some(id), ..other };
    assert_eq!(fixture.change(1, &rival), Some(Reply::Changed));
    for nodes in [[0, 1, 3], [0, 1, 4]] {
        let mut view = Fixture::client(&nodes);
        fixture.call_all(&mut view, &nodes);
        assert!(!fixture.info(nodes[2]).is_enrolled, "{nodes:?}");
    }
}

#[test]
fn a_smaller_set_votes_when_a_majority_of_the_larger_one_has_the_change() {
    let (mut fixture, _) = Fixture::founded(2);
    let before = fixture.info(0).config.expect("founded");
    for node in [0, 1] {
        let config = fixture.config(2, &[node]);
        let config = AgreedConfig { before: Some(before.members.clone()), ..config };
        assert_eq!(fixture.change(node, &config), Some(Reply::Changed));
        let mut alone = Fixture::client(&[node]);
        let opinion = fixture.call_all(&mut alone, &[node]).remove(0);
        let unsettled = Disagreement::Unsettled { received: 1, needed: 2 };
        assert_eq!(opinion, Opinion::Differs(unsettled), "each would be a majority");
    }
}

#[test]
fn a_node_without_a_place_receives_a_change() {
    let (mut fixture, config) = swapped(&[0]);
    fixture.stores[1].membership.set_run(7);
    let mut new = Fixture::client(&[0, 1, 3]);
    fixture.call(&mut new, 0, 0);
    fixture.call(&mut new, 1, 1);
    let info = fixture.info(1);
    assert_eq!((info.config, info.is_enrolled), (Some(config), false));
}

/// The locks of the node that it replaces must have expired, even if the new server answered long
/// before.
#[test]
fn quarantine_time_begins_when_the_node_gets_its_place() {
    let (mut fixture, _) = swapped(&[]);
    fixture.info(3);
    fixture.now_ms += 2 * QUARANTINE;
    let config = fixture.config(2, &[0, 1, 3]);
    for node in [0, 1] {
        assert_eq!(fixture.change(node, &config), Some(Reply::Changed));
    }
    let mut new = Fixture::client(&[0, 1, 3]);
    let opinion = fixture.call_all(&mut new, &[0, 1, 3]).remove(2);
    assert_eq!(opinion, Opinion::Quarantined(quarantine(Reason::Unknown)));
    fixture.now_ms += QUARANTINE;
    assert!(votes(&fixture.call(&mut new, 2, 3)));
}
