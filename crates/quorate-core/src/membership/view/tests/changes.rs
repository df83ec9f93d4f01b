//! Clients and nodes while the set changes.

use super::*;

/// Nodes 0, 1 and 2, of which 2 is replaced by 3, and 4, which is new as well.
fn swapped(told: &[usize]) -> (Hall, AgreedConfig) {
    let (mut hall, _) = Hall::founded(3);
    hall.stores.extend([Store::new(), Store::new()]);
    let config = hall.config(2, &[0, 1, 3]);
    for node in told {
        assert_eq!(hall.change(*node, &config), Some(Reply::Changed));
    }
    (hall, config)
}

#[test]
fn a_node_that_forgot_a_change_does_not_go_back_with_the_replaced_one() {
    for is_kept in [false, true] {
        let (mut hall, _) = swapped(&[]);
        let before = hall.stores[0].clone();
        let mut old = Hall::client(&[0, 1, 2]);
        hall.call_all(&mut old, &[0, 1, 2]);
        let config = hall.config(2, &[0, 1, 3]);
        for node in [0, 1] {
            assert_eq!(hall.change(node, &config), Some(Reply::Changed));
        }
        let mut new = Hall::client(&[0, 1, 3]);
        hall.call_all(&mut new, &[0, 1, 3]);
        assert!(hall.info(3).is_enrolled);
        hall.stores[0] = if is_kept { before } else { Store::new() };
        hall.stores[0].membership.set_run(7);
        // One who has known all of them, and one who knows nobody, see the two and not the third.
        for mut old in [old, Hall::client(&[0, 1, 2])] {
            for seat in [0, 2, 0, 2, 0, 2, 0] {
                hall.call(&mut old, seat, seat);
            }
            assert!(!hall.info(0).is_enrolled, "{is_kept}");
            hall.call(&mut old, 1, 1);
            assert_eq!(old.config(), Some(&config), "the third knows better");
        }
        hall.call_all(&mut new, &[0, 1, 3]);
        assert_eq!(hall.info(0).config, Some(config));
    }
}

#[test]
fn a_node_that_forgot_in_the_middle_of_a_change_needs_an_operator_s_word() {
    let (mut hall, config) = swapped(&[0, 1]);
    hall.stores[0].clear();
    let mut new = Hall::client(&[0, 1, 3]);
    hall.call_all(&mut new, &[0, 1, 3]);
    assert!(!hall.info(0).is_enrolled, "it may have gone by yet another list, with node 2");
    new.set_vouched(true);
    hall.call(&mut new, 2, 3);
    assert!(!hall.info(3).is_enrolled, "the newcomer comes by itself");
    hall.call(&mut new, 0, 0);
    assert!(hall.info(0).is_enrolled);
    new.set_vouched(false);
    hall.call_all(&mut new, &[0, 1, 3]);
    assert_eq!(hall.info(0).config.as_ref(), Some(&config));
    assert!(hall.info(3).is_enrolled);
}

#[test]
fn a_node_that_forgot_is_counted_by_the_larger_of_two_lists() {
    let (mut hall, _) = Hall::founded(3);
    let before = hall.info(0).config.expect("founded").members;
    let smaller = AgreedConfig { before: Some(before), ..hall.config(2, &[1, 2]) };
    assert_eq!(hall.change(1, &smaller), Some(Reply::Changed));
    // It may have gone by another list of number 2, with node 0.
    hall.stores[2].clear();
    for nodes in [&[1, 2][..], &[0, 1, 2]] {
        let mut view = Hall::client(nodes);
        for _ in 0..6 {
            for (seat, node) in nodes.iter().enumerate().skip(nodes.len() - 2) {
                hall.call(&mut view, seat, *node);
            }
        }
        assert!(!hall.info(2).is_enrolled, "{nodes:?}");
    }
}

#[test]
fn what_others_told_before_a_node_forgot_does_not_count() {
    let (mut hall, _) = Hall::founded(3);
    let mut view = Hall::client(&[0, 1, 2]);
    hall.call_all(&mut view, &[0, 1, 2]);
    hall.stores[0].clear();
    for _ in 0..3 {
        hall.call(&mut view, 0, 0);
        assert!(!hall.info(0).is_enrolled);
    }
    // A session that was asked for before says nothing, one that is asked for now does.
    view.hear_again(1);
    view.hear_again(2);
    hall.call(&mut view, 0, 0);
    assert!(!hall.info(0).is_enrolled);
    for node in [1, 2] {
        view.ask(node);
        view.hear_again(node);
    }
    hall.call(&mut view, 0, 0);
    assert!(hall.info(0).is_enrolled);
}

#[test]
fn two_lists_with_one_number_do_not_add_up() {
    let (mut hall, _) = swapped(&[0]);
    let other = hall.info(1).config.expect("founded");
    let id = hall.info(4).id;
    let member = |label: &str| other.members.at(label).cloned();
    let third = Member { id, label: "node4".into() };
    let members = [member("node0"), member("node1"), Some(third)].into_iter().flatten();
    let rival =
        AgreedConfig { change: 2, members: Members::new(members), newcomer: Some(id), ..other };
    assert_eq!(hall.change(1, &rival), Some(Reply::Changed));
    for nodes in [[0, 1, 3], [0, 1, 4]] {
        let mut view = Hall::client(&nodes);
        hall.call_all(&mut view, &nodes);
        assert!(!hall.info(nodes[2]).is_enrolled, "{nodes:?}");
    }
}

#[test]
fn a_smaller_set_votes_when_most_of_the_larger_one_have_heard_of_it() {
    let (mut hall, _) = Hall::founded(2);
    let before = hall.info(0).config.expect("founded");
    for node in [0, 1] {
        let config = hall.config(2, &[node]);
        let config = AgreedConfig { before: Some(before.members.clone()), ..config };
        assert_eq!(hall.change(node, &config), Some(Reply::Changed));
        let mut alone = Hall::client(&[node]);
        let opinion = hall.call_all(&mut alone, &[node]).remove(0);
        let unsettled = Disagreement::Unsettled { heard: 1, needed: 2 };
        assert_eq!(opinion, Opinion::Differs(unsettled), "each would be a majority");
    }
}

#[test]
fn a_quarantined_node_is_told_of_a_change_although_it_has_no_place_yet() {
    let (mut hall, config) = swapped(&[0]);
    hall.stores[1].membership.set_run(7);
    let mut new = Hall::client(&[0, 1, 3]);
    hall.call(&mut new, 0, 0);
    hall.call(&mut new, 1, 1);
    let info = hall.info(1);
    assert_eq!((info.config, info.is_enrolled), (Some(config), false));
}

/// Locks of the node that it replaces must be over, whenever the server was first info.
#[test]
fn guard_counts_from_when_the_node_got_its_place() {
    let (mut hall, _) = swapped(&[]);
    hall.info(3);
    hall.now_ms += 2 * QUARANTINE;
    let config = hall.config(2, &[0, 1, 3]);
    for node in [0, 1] {
        assert_eq!(hall.change(node, &config), Some(Reply::Changed));
    }
    let mut new = Hall::client(&[0, 1, 3]);
    let opinion = hall.call_all(&mut new, &[0, 1, 3]).remove(2);
    assert_eq!(opinion, Opinion::Quarantined(quarantine(Reason::Unknown)));
    hall.now_ms += QUARANTINE;
    assert!(votes(&hall.call(&mut new, 2, 3)));
}
