//! Entries of a reentrant lock: they yield no single grant, but withdraw and return.

use super::*;

fn entry(nodes: usize) -> Acquire {
    started(nodes, WAIT).reentrant()
}

fn grant_with_earlier_waiter(attempt: &mut Acquire, node: usize, number: u64, now: u64) {
    let granted = Reply::Granted { fence: fence(number), is_earlier: true };
    attempt.reply(node, ASK_AGAIN, now, &granted, now);
}

fn calls_in(incarnation: u32, action: NodeAction) -> Vec<(usize, NodeCall)> {
    (0..3).map(|node| (node, NodeCall { incarnation, action })).collect()
}

const FIRST: NodeAction = NodeAction::Acquire { is_waiting: true, is_known: false };

#[test]
fn inquired_entry_without_a_majority_withdraws_and_asks_again_immediately() {
    let mut attempt = entry(3);
    attempt.grant(0, 7, 0, 1);
    attempt.push(0, PushKind::Inquired, 7, 2);
    let anew = [calls_in(0, NodeAction::Release), calls_in(1, FIRST)].concat();
    assert_eq!(
        attempt.drain_calls(),
        anew,
        "no single grant is yielded, and it waits as a new owner"
    );
    assert_eq!((attempt.incarnation(), attempt.granted()), (1, NodeSet::EMPTY));
    // Replies and pushes for the old owner are ignored.
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
fn entry_that_is_inquired_without_a_grant_stays() {
    let mut attempt = entry(3);
    attempt.grant(0, 7, 0, 1);
    attempt.push(1, PushKind::Inquired, 7, 2);
    assert_eq!((attempt.call(), attempt.incarnation()), (vec![], 0));
    assert_eq!(attempt.granted(), NodeSet::one(0));

    let mut attempt = started(3, Wait::Never).reentrant();
    attempt.grant(0, 7, 0, 1);
    attempt.push(0, PushKind::Inquired, 7, 2);
    assert_eq!((attempt.call(), attempt.incarnation()), (vec![], 0), "a single try stays too");
}

#[test]
fn entry_with_a_majority_stays() {
    let mut attempt = entry(3);
    attempt.grant(0, 7, 0, 1);
    attempt.grant(1, 8, 0, 1);
    assert_eq!(attempt.call(), [(0, NodeAction::Confirm(fence(8)))]);
    attempt.push(1, PushKind::Inquired, 8, 2);
    grant_with_earlier_waiter(&mut attempt, 1, 8, 3);
    assert_eq!((attempt.call(), attempt.incarnation()), (vec![], 0));
    attempt.confirm(0, 8, Extended::Renewed(fence(8)), 2, 4);
    assert!(matches!(attempt.outcome(), Some(Outcome::Held { fence: it, .. }) if it == fence(8)));
}

#[test]
fn expired_majority_of_an_entry_does_not_count() {
    let mut attempt = entry(3);
    attempt.grant(0, 7, 0, 1);
    attempt.grant(1, 8, 0, 1);
    attempt.call();
    attempt.grant(1, 8, 60, 97);
    attempt.push(1, PushKind::Inquired, 8, 97);
    assert_eq!(attempt.incarnation(), 1);
}

#[test]
fn entry_with_an_earlier_waiter_backs_off_after_all_replies() {
    let mut attempt = entry(3);
    grant_with_earlier_waiter(&mut attempt, 0, 7, 1);
    assert_eq!((attempt.call(), attempt.incarnation()), (vec![], 0), "other nodes may still grant");
    attempt.refuse(1, 6, 1, 2);
    attempt.handle_timeout(at(34));
    // One node has not answered: it may have granted.
    assert_eq!(attempt.incarnation(), 0);
    attempt.call();
    grant_with_earlier_waiter(&mut attempt, 0, 7, 35);
    attempt.refuse(1, 6, 35, 35);
    attempt.refuse(2, 6, 35, 35);
    attempt.handle_timeout(at(90));
    assert_eq!(
        attempt.drain_calls(),
        calls_in(0, NodeAction::Release),
        "it withdraws and sends no request"
    );
    assert_eq!((attempt.incarnation(), attempt.granted()), (1, NodeSet::EMPTY));
    let next = attempt.waits_until().expect("it retries");
    assert!(next > at(90), "it backs off");
    attempt.handle_timeout(next);
    assert_eq!(attempt.drain_calls(), calls_in(1, FIRST));
}

#[test]
fn entry_with_an_earlier_waiter_stays_if_a_majority_grants_in_time() {
    let mut attempt = entry(3);
    grant_with_earlier_waiter(&mut attempt, 0, 7, 1);
    grant_with_earlier_waiter(&mut attempt, 1, 7, 2);
    assert_eq!(attempt.outcome(), held(98, 7), "its identity holds the lock");
    assert_eq!(attempt.call(), []);

    // The same if the earlier waiter has left.
    let mut attempt = entry(3);
    grant_with_earlier_waiter(&mut attempt, 0, 7, 1);
    (1..3).for_each(|node| attempt.refuse(node, 6, 1, 2));
    attempt.grant(0, 7, 3, 4);
    attempt.handle_timeout(at(60));
    assert_eq!(attempt.incarnation(), 0);
    assert_eq!(attempt.call(), [0, 1, 2].map(|node| (node, ASK_AGAIN)));
}

#[test]
fn single_try_ignores_earlier_waiters() {
    let mut attempt = started(3, Wait::Never).reentrant();
    let granted = Reply::Granted { fence: fence(7), is_earlier: true };
    attempt.reply(0, ASK_AGAIN, 0, &granted, 1);
    attempt.refuse(1, 6, 0, 1);
    assert_eq!((attempt.call(), attempt.incarnation()), (vec![], 0));
    attempt.reply(2, ASK_AGAIN, 0, &granted, 2);
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
    assert_eq!(attempt.drain_calls(), calls_in(0, FIRST));
    attempt
}

fn refuse_for_long(attempt: &mut Acquire, node: usize, now: u64) {
    let (fence, expires_in_ms) = (fence(6), Some(60_000));
    let refused = Reply::Queued { fence, expires_in_ms, rank: Some(0), is_foreign: false };
    attempt.reply(node, ASK_AGAIN, now, &refused, now);
}

/// A node sends several entries no inquiry. Without the poll no owner would hold the lock until the
/// next heartbeat.
#[test]
fn entry_with_a_minority_polls_for_earlier_waiters_less_and_less_often() {
    let mut attempt = long_entry();
    let mut now = 1;
    for after in [10, 20, 40, 80] {
        attempt.grant(0, 7, now, now);
        refuse_for_long(&mut attempt, 1, now);
        let heartbeat = attempt.waits_until().expect("it waits");
        assert!(heartbeat > at(now + after), "not before all nodes have answered");
        refuse_for_long(&mut attempt, 2, now);
        assert_eq!(attempt.waits_until(), Some(at(now + after)));
        now += after;
        attempt.handle_timeout(at(now));
        assert_eq!(attempt.call(), [0, 1, 2].map(|node| (node, ASK_AGAIN)));
    }
}

/// All nodes have answered by then, so no reply triggers the poll.
#[test]
fn entry_with_a_pushed_minority_polls_for_earlier_waiters() {
    let mut attempt = long_entry();
    (0..3).for_each(|node| refuse_for_long(&mut attempt, node, 1));
    attempt.push(1, PushKind::Granted, 7, 100);
    assert_eq!(attempt.waits_until(), Some(at(110)), "its heartbeat is 20 s away");
    attempt.handle_timeout(at(110));
    assert_eq!(attempt.call(), [0, 1, 2].map(|node| (node, ASK_AGAIN)));
}

#[test]
fn entry_without_grants_or_with_a_majority_does_not_poll() {
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

/// Otherwise entries of one identity that come and go in turn would join each other again and
/// again.
#[test]
fn backoff_of_an_entry_grows_up_to_a_heartbeat() {
    let mut attempt = long_entry();
    let mut now = 1;
    let mut last = Duration::ZERO;
    for _ in 0..12 {
        let incarnation = attempt.incarnation();
        grant_with_earlier_waiter(&mut attempt, 0, 7, now);
        (1..3).for_each(|node| refuse_for_long(&mut attempt, node, now));
        now += 50;
        attempt.handle_timeout(at(now));
        assert_eq!(attempt.drain_calls(), calls_in(incarnation, NodeAction::Release));
        let next = attempt.waits_until().expect("it retries");
        let back_off = next.saturating_since(at(now));
        assert!(back_off >= Duration::from_millis(200), "{back_off:?}");
        assert!(
            back_off > last || back_off > Duration::from_millis(19_000),
            "{last:?}, then {back_off:?}"
        );
        assert!(back_off <= Duration::from_millis(20_000), "{back_off:?}");
        (last, now) = (back_off, now + u64::try_from(back_off.as_millis()).expect("short") + 1);
        attempt.handle_timeout(at(now));
        assert_eq!(attempt.drain_calls(), calls_in(incarnation + 1, FIRST));
    }
}

#[test]
fn void_grant_makes_an_entry_a_new_owner() {
    let mut attempt = entry(3);
    attempt.refuse(0, 9, 0, 1);
    // Either a delayed message, or the node lost its data. A rejection could hit a later grant.
    attempt.push(0, PushKind::Granted, 9, 2);
    assert_eq!(attempt.incarnation(), 1);
    assert_eq!(
        attempt.drain_calls(),
        [calls_in(0, NodeAction::Release), calls_in(1, FIRST)].concat()
    );
    attempt.grant(0, 9, 3, 4);
    assert_eq!(attempt.granted(), NodeSet::one(0));
}

#[test]
fn entry_that_backs_off_sends_nothing() {
    let mut attempt = long_entry();
    grant_with_earlier_waiter(&mut attempt, 0, 7, 1);
    (1..3).for_each(|node| refuse_for_long(&mut attempt, node, 1));
    attempt.handle_timeout(at(51));
    attempt.call();
    attempt.push(0, PushKind::Inquired, 7, 52);
    attempt.handle_push(0, 0, PushKind::Granted, fence(9), at(52));
    assert_eq!((attempt.call(), attempt.granted()), (vec![], NodeSet::EMPTY));
    attempt.handle_abandon();
    assert_eq!((attempt.call(), attempt.outcome()), (vec![], Some(Outcome::Abandoned)));
}
