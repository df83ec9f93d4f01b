//! Entries of a reentrant lock: they give nothing back one by one, but go and come again.

use super::*;

fn entry(nodes: usize) -> Acquire {
    started(nodes, WAIT).reentrant()
}

fn passed(attempt: &mut Acquire, node: usize, number: u64, now: u64) {
    let granted = Reply::Granted { fence: fence(number), is_earlier: true };
    attempt.hear(node, ASK_AGAIN, now, &granted, now);
}

fn said_in(incarnation: u32, action: NodeAction) -> Vec<(usize, NodeCall)> {
    (0..3).map(|node| (node, NodeCall { incarnation, action })).collect()
}

const FIRST: NodeAction = NodeAction::Acquire { is_waiting: true, is_known: false };

#[test]
fn one_that_is_asked_without_a_majority_goes_and_comes_again_at_once() {
    let mut attempt = entry(3);
    attempt.grant(0, 7, 0, 1);
    attempt.push(0, PushKind::Inquired, 7, 2);
    let anew = [said_in(0, NodeAction::Release), said_in(1, FIRST)].concat();
    assert_eq!(attempt.said_by(), anew, "no grant goes back alone, and it waits as another");
    assert_eq!((attempt.incarnation(), attempt.granted()), (1, NodeSet::EMPTY));
    // What was for the old owner is for nobody.
    let old = NodeCall { incarnation: 0, action: ASK_AGAIN };
    let granted = Reply::Granted { fence: fence(7), is_earlier: false };
    for node in 0..3 {
        attempt.handle_reply(node, old, at(0), Some(&granted), at(3));
        attempt.handle_push(node, 0, PushKind::Granted, fence(7), at(3));
    }
    assert_eq!((attempt.outcome(), attempt.granted()), (None, NodeSet::EMPTY));
    attempt.grant(1, 7, 3, 4);
    attempt.grant(2, 7, 3, 4);
    assert_eq!(attempt.outcome(), held(100, 7), "the same fence counts for the new owner");
}

#[test]
fn one_that_is_asked_where_it_has_nothing_stays() {
    let mut attempt = entry(3);
    attempt.grant(0, 7, 0, 1);
    attempt.push(1, PushKind::Inquired, 7, 2);
    assert_eq!((attempt.call(), attempt.incarnation()), (vec![], 0));
    assert_eq!(attempt.granted(), NodeSet::one(0));

    let mut attempt = started(3, Wait::Never).reentrant();
    attempt.grant(0, 7, 0, 1);
    attempt.push(0, PushKind::Inquired, 7, 2);
    assert_eq!(
        (attempt.call(), attempt.incarnation()),
        (vec![], 0),
        "nor does one that only tries"
    );
}

#[test]
fn one_with_a_majority_gives_nothing_back() {
    let mut attempt = entry(3);
    attempt.grant(0, 7, 0, 1);
    attempt.grant(1, 8, 0, 1);
    assert_eq!(attempt.call(), [(0, NodeAction::Confirm(fence(8)))]);
    attempt.push(1, PushKind::Inquired, 8, 2);
    passed(&mut attempt, 1, 8, 3);
    assert_eq!((attempt.call(), attempt.incarnation()), (vec![], 0));
    attempt.confirm(0, 8, Extended::Renewed(fence(8)), 2, 4);
    assert!(matches!(attempt.outcome(), Some(Outcome::Held { fence: it, .. }) if it == fence(8)));
}

#[test]
fn a_majority_that_has_run_out_is_none() {
    let mut attempt = entry(3);
    attempt.grant(0, 7, 0, 1);
    attempt.grant(1, 8, 0, 1);
    attempt.call();
    attempt.grant(1, 8, 60, 97);
    attempt.push(1, PushKind::Inquired, 8, 97);
    assert_eq!(attempt.incarnation(), 1);
}

#[test]
fn one_that_is_passed_over_waits_for_every_answer_and_then_rests() {
    let mut attempt = entry(3);
    passed(&mut attempt, 0, 7, 1);
    assert_eq!((attempt.call(), attempt.incarnation()), (vec![], 0), "others may still grant it");
    attempt.refuse(1, 6, 1, 2);
    attempt.handle_timeout(at(34));
    // One node has not answered: nobody knows what it has.
    assert_eq!(attempt.incarnation(), 0);
    attempt.call();
    passed(&mut attempt, 0, 7, 35);
    attempt.refuse(1, 6, 35, 35);
    attempt.refuse(2, 6, 35, 35);
    attempt.handle_timeout(at(90));
    assert_eq!(attempt.said_by(), said_in(0, NodeAction::Release), "it goes, and asks nobody");
    assert_eq!((attempt.incarnation(), attempt.granted()), (1, NodeSet::EMPTY));
    let next = attempt.waits_until().expect("it comes again");
    assert!(next > at(90), "it rests");
    attempt.handle_timeout(next);
    assert_eq!(attempt.said_by(), said_in(1, FIRST));
}

#[test]
fn one_that_is_passed_over_stays_if_a_majority_grants_it_in_time() {
    let mut attempt = entry(3);
    passed(&mut attempt, 0, 7, 1);
    passed(&mut attempt, 1, 7, 2);
    assert_eq!(attempt.outcome(), held(98, 7), "its identity has the lock");
    assert_eq!(attempt.call(), []);

    // Or if nobody waits any more.
    let mut attempt = entry(3);
    passed(&mut attempt, 0, 7, 1);
    (1..3).for_each(|node| attempt.refuse(node, 6, 1, 2));
    attempt.grant(0, 7, 3, 4);
    attempt.handle_timeout(at(60));
    assert_eq!(attempt.incarnation(), 0);
    assert_eq!(attempt.call(), [0, 1, 2].map(|node| (node, ASK_AGAIN)));
}

#[test]
fn one_that_only_tries_is_not_passed_over() {
    let mut attempt = started(3, Wait::Never).reentrant();
    let granted = Reply::Granted { fence: fence(7), is_earlier: true };
    attempt.hear(0, ASK_AGAIN, 0, &granted, 1);
    attempt.refuse(1, 6, 0, 1);
    assert_eq!((attempt.call(), attempt.incarnation()), (vec![], 0));
    attempt.hear(2, ASK_AGAIN, 0, &granted, 2);
    assert_eq!(attempt.outcome(), held(97, 7));
}

fn long_terms() -> Terms {
    let ms = Duration::from_millis;
    Terms::new(ms(60_000), ms(5), Drift::default()).expect("valid")
}

/// An entry with a long ttl, whose heartbeat is far away.
fn long_entry() -> Acquire {
    let wait = Wait::Patiently(Duration::MAX);
    let mut attempt = Acquire::start(long_terms(), 3, NodeSet::all(3), wait, at(0)).reentrant();
    assert_eq!(attempt.said_by(), said_in(0, FIRST));
    attempt
}

fn refuse_for_long(attempt: &mut Acquire, node: usize, now: u64) {
    let (fence, expires_in_ms) = (fence(6), Some(60_000));
    let refused = Reply::Queued { fence, expires_in_ms, rank: Some(0), is_foreign: false };
    attempt.hear(node, ASK_AGAIN, now, &refused, now);
}

/// A node tells several entries nothing, and until the next heartbeat nobody would have the lock.
#[test]
fn one_with_a_minority_asks_soon_whether_it_is_passed_over_and_then_less_often() {
    let mut attempt = long_entry();
    let mut now = 1;
    for after in [50, 100, 200, 400] {
        attempt.grant(0, 7, now, now);
        refuse_for_long(&mut attempt, 1, now);
        let heartbeat = attempt.waits_until().expect("it waits");
        assert!(heartbeat > at(now + after), "not before all have answered");
        refuse_for_long(&mut attempt, 2, now);
        assert_eq!(attempt.waits_until(), Some(at(now + after)));
        now += after;
        attempt.handle_timeout(at(now));
        assert_eq!(attempt.call(), [0, 1, 2].map(|node| (node, ASK_AGAIN)));
    }
}

/// All have answered by then, so no answer makes it look.
#[test]
fn one_that_is_handed_a_minority_asks_soon_whether_it_is_passed_over() {
    let mut attempt = long_entry();
    (0..3).for_each(|node| refuse_for_long(&mut attempt, node, 1));
    attempt.push(1, PushKind::Granted, 7, 100);
    assert_eq!(attempt.waits_until(), Some(at(150)), "its heartbeat is 20 s away");
    attempt.handle_timeout(at(150));
    assert_eq!(attempt.call(), [0, 1, 2].map(|node| (node, ASK_AGAIN)));
}

#[test]
fn one_that_has_nothing_or_a_majority_leaves_it_to_the_heartbeat() {
    let mut attempt = long_entry();
    (0..3).for_each(|node| refuse_for_long(&mut attempt, node, 1));
    assert!(attempt.waits_until().expect("it waits") > at(10_000));

    let mut attempt = long_entry();
    refuse_for_long(&mut attempt, 2, 1);
    attempt.grant(0, 7, 1, 1);
    attempt.grant(1, 8, 1, 1);
    assert_eq!(attempt.call(), [(0, NodeAction::Confirm(fence(8)))]);
    assert!(attempt.waits_until().expect("it waits") > at(10_000));
}

/// Where others of its identity come and go by turns, they would find each other again and again.
#[test]
fn each_rest_is_longer_than_the_one_before_up_to_a_heartbeat() {
    let mut attempt = long_entry();
    let mut now = 1;
    let mut last = Duration::ZERO;
    for _ in 0..12 {
        let incarnation = attempt.incarnation();
        passed(&mut attempt, 0, 7, now);
        (1..3).for_each(|node| refuse_for_long(&mut attempt, node, now));
        now += 50;
        attempt.handle_timeout(at(now));
        assert_eq!(attempt.said_by(), said_in(incarnation, NodeAction::Release));
        let next = attempt.waits_until().expect("it comes again");
        let rest = next.saturating_since(at(now));
        assert!(rest >= Duration::from_millis(200), "{rest:?}");
        assert!(rest > last || rest > Duration::from_millis(19_000), "{last:?}, then {rest:?}");
        assert!(rest <= Duration::from_millis(20_000), "{rest:?}");
        (last, now) = (rest, now + u64::try_from(rest.as_millis()).expect("short") + 1);
        attempt.handle_timeout(at(now));
        assert_eq!(attempt.said_by(), said_in(incarnation + 1, FIRST));
    }
}

#[test]
fn a_grant_that_was_seen_as_anothers_makes_it_another_owner() {
    let mut attempt = entry(3);
    attempt.refuse(0, 9, 0, 1);
    // An old message, or the node has forgotten everything: a doubt could hit a later grant.
    attempt.push(0, PushKind::Granted, 9, 2);
    assert_eq!(attempt.incarnation(), 1);
    assert_eq!(attempt.said_by(), [said_in(0, NodeAction::Release), said_in(1, FIRST)].concat());
    attempt.grant(0, 9, 3, 4);
    assert_eq!(attempt.granted(), NodeSet::one(0));
}

#[test]
fn one_that_rests_is_not_asked_for_anything_and_leaves_nothing() {
    let mut attempt = long_entry();
    passed(&mut attempt, 0, 7, 1);
    (1..3).for_each(|node| refuse_for_long(&mut attempt, node, 1));
    attempt.handle_timeout(at(51));
    attempt.call();
    attempt.push(0, PushKind::Inquired, 7, 52);
    attempt.handle_push(0, 0, PushKind::Granted, fence(9), at(52));
    assert_eq!((attempt.call(), attempt.granted()), (vec![], NodeSet::EMPTY));
    attempt.handle_abandon();
    assert_eq!((attempt.call(), attempt.outcome()), (vec![], Some(Outcome::Abandoned)));
}
