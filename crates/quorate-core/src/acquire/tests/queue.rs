//! Yields, withdrawals, single tries, and outcomes.

use super::*;

#[test]
fn waiter_without_a_majority_yields_to_an_earlier_ticket() {
    let mut attempt = started(3, WAIT);
    attempt.grant(0, 7, 0, 1);
    attempt.push(0, PushKind::Inquired, 7, 2);
    assert_eq!(attempt.call(), [(0, NodeAction::Yield(fence(7)))]);
    attempt.push(0, PushKind::Inquired, 7, 2);
    assert_eq!(attempt.call(), [], "only once");

    let earlier = Reply::Granted { fence: fence(5), is_earlier: true };
    attempt.reply(1, ASK_AGAIN, 0, &earlier, 3);
    assert_eq!(attempt.call(), [(1, NodeAction::Yield(fence(5)))], "so does a grant");
    attempt.push(2, PushKind::Inquired, 4, 3);
    assert_eq!(attempt.call(), [(2, NodeAction::Yield(fence(4)))], "before the grant arrives");
    assert_eq!(attempt.granted(), NodeSet::EMPTY);
}

#[test]
fn waiter_with_a_majority_yields_nothing() {
    let mut attempt = started(3, WAIT);
    attempt.grant(0, 7, 0, 1);
    attempt.grant(1, 8, 0, 1);
    assert_eq!(attempt.call(), [(0, NodeAction::Confirm(fence(8)))]);
    attempt.push(1, PushKind::Inquired, 8, 2);
    assert_eq!((attempt.call(), attempt.granted().len()), (vec![], 2));

    attempt.push(1, PushKind::Inquired, 8, 97);
    assert_eq!(
        attempt.call(),
        [(1, NodeAction::Yield(fence(8)))],
        "an expired majority does not count"
    );
}

#[test]
fn member_of_a_set_yields_the_fence_that_the_node_was_asked_to_store() {
    let mut attempt = started(3, WAIT).member();
    attempt.grant(0, 7, 0, 1);
    attempt.grant(1, 8, 0, 1);
    assert_eq!(attempt.call(), [(0, NodeAction::Confirm(fence(8)))]);
    attempt.push(0, PushKind::Inquired, 7, 2);
    attempt.push(1, PushKind::Inquired, 8, 2);
    let yields = [(0, NodeAction::Yield(fence(8))), (1, NodeAction::Yield(fence(8)))];
    assert_eq!(attempt.call(), yields, "the node will have the new fence by then");
}

#[test]
fn single_try_yields_nothing() {
    let mut attempt = started(3, Wait::Never);
    attempt.grant(0, 7, 0, 1);
    attempt.push(0, PushKind::Inquired, 7, 2);
    assert_eq!((attempt.call(), attempt.granted().len()), (vec![], 1));
}

#[test]
fn yielded_grant_never_counts_again() {
    let mut attempt = started(1, WAIT);
    attempt.push(0, PushKind::Inquired, 7, 1);
    attempt.call();
    for number in [7, 6] {
        attempt.push(0, PushKind::Granted, number, 2);
        attempt.grant(0, number, 0, 2);
        assert_eq!((attempt.outcome(), attempt.granted().len()), (None, 0));
        let reject = (0, NodeAction::Reject(fence(number)));
        assert_eq!(attempt.call(), [reject, reject], "rejected again");
    }
    attempt.push(0, PushKind::Granted, 8, 3);
    assert_eq!(attempt.outcome(), held(97, 8), "a new grant counts");
}

#[test]
fn grants_of_a_node_that_lost_its_data_count_again() {
    let mut attempt = started(1, WAIT);
    attempt.refuse(0, 900, 0, 1);
    attempt.push(0, PushKind::Granted, 5, 10);
    assert_eq!(attempt.call(), [(0, NodeAction::Reject(fence(5)))]);
    let released = |is_ours| Reply::Released { is_ours };
    attempt.reply(0, NodeAction::Reject(fence(5)), 10, &released(false), 11);
    attempt.push(0, PushKind::Granted, 6, 12);
    assert_eq!(
        attempt.call(),
        [(0, NodeAction::Reject(fence(6)))],
        "the first push was only delayed"
    );
    attempt.reply(0, NodeAction::Reject(fence(6)), 12, &released(true), 13);
    attempt.push(0, PushKind::Granted, 7, 20);
    assert_eq!(attempt.outcome(), held(109, 7), "the node really had the grant of 6");
}

#[test]
fn expired_grants_do_not_count() {
    let mut attempt = started(3, WAIT);
    attempt.grant(0, 7, 0, 1);
    attempt.grant(1, 7, 10, 97);
    assert_eq!((attempt.outcome(), attempt.granted()), (None, NodeSet::one(1)));

    let mut attempt = started(3, WAIT);
    attempt.grant(0, 9, 0, 1);
    attempt.grant(1, 7, 90, 98);
    attempt.grant(2, 7, 90, 98);
    assert_eq!(attempt.outcome(), held(187, 7), "nor do their fences");
}

#[test]
fn short_validity_asks_only_nodes_with_old_grants() {
    let mut attempt = started(3, WAIT);
    attempt.grant(0, 7, 0, 1);
    attempt.grant(1, 7, 60, 73);
    assert_eq!(attempt.outcome(), None, "24 ms is less than a quarter");
    assert_eq!(attempt.call(), [(0, ASK_AGAIN)]);
    attempt.grant(1, 7, 60, 74);
    assert_eq!(attempt.call(), [], "the request is pending");
    attempt.grant(0, 7, 73, 75);
    assert_eq!(attempt.outcome(), held(157, 7));

    let mut attempt = started(3, Wait::Never);
    attempt.grant(0, 7, 0, 1);
    attempt.grant(1, 7, 0, 73);
    assert_eq!(attempt.outcome(), held(97, 7), "a single try accepts the remaining time");
}

#[test]
fn waiter_asks_every_third_of_its_ttl_and_when_the_key_should_have_expired() {
    let mut attempt = started(3, WAIT);
    assert_eq!(attempt.waits_until(), Some(heartbeat_due(at(0), Duration::from_millis(100))));
    attempt.handle_timeout(at(33));
    assert_eq!(attempt.call(), [], "not yet");
    attempt.grant(1, 7, 0, 1);
    attempt.handle_timeout(at(34));
    assert_eq!(attempt.call(), [(1, ASK_AGAIN)], "only where no request is pending");

    let mut attempt = started(1, WAIT);
    for (rank, is_foreign, expires_in_ms, after) in [
        (0, false, Some(10), 12),
        (2, false, Some(10), 18),
        (0, false, None, 33),
        (0, true, None, 20),
        (1, true, Some(5), 7),
        (9, true, Some(5), 33),
    ] {
        attempt.poll_at = None;
        let rank = Some(rank);
        let queued = Reply::Queued { fence: fence(1), expires_in_ms, rank, is_foreign };
        attempt.reply(0, ASK_AGAIN, 0, &queued, 0);
        let until = attempt.waits_until().expect("it waits");
        assert_eq!(until.saturating_since(at(0)).as_millis(), after, "{queued:?}");
    }
}

#[test]
fn cut_off_waiter_withdraws_and_returns_as_a_new_owner() {
    let mut attempt = started(3, WAIT);
    attempt.grant(0, 7, 0, 1);
    attempt.refuse(1, 6, 0, 1);
    attempt.handle_down(0);
    attempt.handle_down(1);
    assert_eq!(
        (attempt.incarnation(), attempt.granted().len()),
        (0, 1),
        "the interruption may be short"
    );
    attempt.handle_timeout(at(34));
    assert_eq!(attempt.drain_calls(), [], "the nodes may return");
    attempt.handle_timeout(at(67));
    let released = |node| (node, NodeCall { incarnation: 0, action: NodeAction::Release });
    assert_eq!(
        attempt.drain_calls(),
        [released(0), released(1), released(2)],
        "even without a reply"
    );
    assert_eq!((attempt.incarnation(), attempt.granted().len()), (1, 0));

    let granted = Reply::Granted { fence: fence(9), is_earlier: false };
    let old = NodeCall { incarnation: 0, action: ASK_AGAIN };
    for node in 0..3 {
        attempt.handle_reply(node, old, at(0), Some(&granted), at(68));
        attempt.handle_push(node, 0, PushKind::Granted, fence(9), at(68));
        attempt.handle_push(node, 0, PushKind::Inquired, fence(9), at(68));
    }
    assert_eq!(
        (attempt.outcome(), attempt.granted().len()),
        (None, 0),
        "that was an older incarnation"
    );
    assert_eq!(attempt.drain_calls(), []);

    attempt.handle_up(0, at(70));
    let first = NodeAction::Acquire { is_waiting: true, is_known: false };
    let anew = |node| (node, NodeCall { incarnation: 1, action: first });
    assert_eq!(attempt.drain_calls(), [anew(0), anew(2)]);
    attempt.handle_up(1, at(71));
    assert_eq!(attempt.drain_calls(), [anew(1)]);
    attempt.grant(0, 9, 70, 72);
    attempt.grant(1, 9, 71, 72);
    assert_eq!(attempt.outcome(), held(167, 9));
}

/// A lost queue position may not be available again: a full node accepts no new waiters.
#[test]
fn waiter_without_nodes_keeps_its_position_until_they_return_one_by_one() {
    let mut attempt = started(3, WAIT);
    (0..3).for_each(|node| attempt.refuse(node, 6, 0, 1));
    // Some nodes may be down at a check and others not.
    attempt.handle_down(0);
    attempt.handle_down(1);
    attempt.handle_timeout(at(34));
    attempt.handle_down(2);
    for now in [67, 101, 135] {
        attempt.handle_timeout(at(now));
        assert_eq!(
            (attempt.call(), attempt.incarnation()),
            (vec![], 0),
            "no node would get a release"
        );
    }
    let again = |node| (node, NodeCall { incarnation: 0, action: ASK_AGAIN });
    attempt.handle_up(1, at(140));
    assert_eq!(attempt.drain_calls(), [again(1)]);
    attempt.handle_timeout(at(169));
    assert_eq!(attempt.drain_calls(), [], "another node may return");
    attempt.handle_up(2, at(170));
    assert_eq!(attempt.drain_calls(), [again(2)]);
    attempt.grant(1, 7, 140, 171);
    attempt.grant(2, 7, 170, 171);
    assert_eq!(attempt.outcome(), held(237, 7));
}

/// With a long ttl the next heartbeat is far away, and a cut-off waiter blocks others until then.
#[test]
fn cut_off_waiter_checks_again_soon() {
    let mut attempt = Acquire { terms: long_terms(), ..started(3, WAIT) };
    attempt.handle_down(0);
    attempt.handle_down(1);
    attempt.heartbeat(at(10));
    assert_eq!(attempt.waits_until(), Some(at(10 + 500)), "its patience ends first");
    attempt.wait = Wait::Patiently(Duration::MAX);
    assert_eq!(attempt.waits_until(), Some(at(10 + 2_000)));
    attempt.handle_timeout(at(10 + 2_000));
    assert_eq!(attempt.incarnation(), 1);
}

#[test]
fn waiter_that_regains_its_majority_in_time_is_not_cut_off() {
    let mut attempt = started(3, WAIT);
    (0..3).for_each(|node| attempt.refuse(node, 6, 0, 1));
    for round in [0, 100] {
        attempt.handle_down(0);
        attempt.handle_down(1);
        attempt.handle_timeout(at(round + 34));
        assert_eq!(attempt.call(), [], "it checks again first");
        attempt.handle_up(0, at(round + 35));
        attempt.handle_up(1, at(round + 35));
        attempt.call();
        (0..3).for_each(|node| attempt.refuse(node, 6, round + 35, round + 36));
        attempt.handle_timeout(at(round + 96));
        (0..3).for_each(|node| attempt.refuse(node, 6, round + 96, round + 97));
        assert_eq!(attempt.incarnation(), 0);
        attempt.call();
    }
}

#[test]
fn failing_node_is_retried_less_and_less_often() {
    let mut attempt = started(1, Wait::Patiently(Duration::from_millis(500)));
    let failure = |attempt: &mut Acquire, now| {
        let call = NodeCall { incarnation: 0, action: ASK_AGAIN };
        attempt.handle_reply(0, call, at(now), None, at(now));
    };
    let mut long = Acquire { terms: long_terms(), ..attempt.clone() };
    long.heartbeat(at(0));
    for (now, next) in [(0, 50), (50, 150), (150, 350)] {
        failure(&mut long, now);
        assert_eq!(long.waits_until(), Some(at(next)));
        long.handle_timeout(at(next));
        assert_eq!(long.call(), [(0, ASK_AGAIN)]);
    }
    failure(&mut long, 350);
    assert!(long.lacks_quorum());
    long.handle_timeout(at(499));
    assert_eq!(long.outcome(), None);
    long.handle_timeout(at(500));
    assert_eq!(long.outcome(), Some(Outcome::NoQuorum), "errors do not count as replies");
    assert_eq!(long.call(), [(0, NodeAction::Release)], "a failed request may have run");

    failure(&mut attempt, 1);
    attempt.refuse(0, 1, 2, 3);
    assert!(!attempt.lacks_quorum(), "one reply is enough");
}

fn long_terms() -> Terms {
    let ms = Duration::from_millis;
    Terms::new(ms(10_000), ms(5), Drift::default()).expect("valid")
}

#[test]
fn waiter_gives_up_when_too_few_nodes_are_reachable_for_too_long() {
    let patience = Duration::from_millis(50);
    let one = NodeSet::one(0);
    let mut attempt = Acquire::start(terms(), 3, one, Wait::Patiently(patience), at(0));
    assert_eq!(attempt.call(), [], "a minority is not asked");
    for now in [34, 49] {
        attempt.handle_timeout(at(now));
        assert_eq!(attempt.outcome(), None);
    }
    attempt.handle_up(1, at(49));
    assert_eq!(attempt.call().len(), 2);
    attempt.handle_down(0);
    attempt.handle_timeout(at(90));
    assert_eq!(attempt.call(), []);
    attempt.handle_timeout(at(124));
    assert_eq!(attempt.call(), [(0, NodeAction::Release), (1, NodeAction::Release)]);
    attempt.handle_timeout(at(130));
    assert_eq!(attempt.outcome(), None, "the time restarts after a majority was reachable");
    attempt.handle_timeout(at(140));
    assert_eq!(attempt.outcome(), Some(Outcome::NoQuorum));
    assert_eq!(attempt.waits_until(), None);
}

/// A heartbeat every third of a long ttl would exceed the caller's patience by far.
#[test]
fn patience_ends_on_time_and_not_with_the_next_heartbeat() {
    let patience = Duration::from_millis(10);
    let mut attempt = Acquire::start(terms(), 3, NodeSet::EMPTY, Wait::Patiently(patience), at(0));
    assert_eq!(attempt.waits_until(), Some(at(10)));
    attempt.handle_timeout(at(9));
    assert_eq!(attempt.outcome(), None);
    attempt.handle_timeout(at(10));
    assert_eq!(attempt.outcome(), Some(Outcome::NoQuorum));
}

/// Every combination of replies to a single try, against a one-line oracle.
#[test]
fn single_try_is_held_contended_or_without_a_quorum() {
    for code in 0..81_usize {
        let answers = [0, 1, 2, 3].map(|power| code / 3_usize.pow(power) % 3);
        let nodes = 3 + code % 2;
        let mut attempt = started(nodes, Wait::Never);
        let asked = NodeCall { incarnation: 0, action: ASK_AGAIN };
        for (node, answer) in answers.into_iter().enumerate().take(nodes) {
            match answer {
                0 => attempt.grant(node, 7, 0, 1),
                1 => attempt.refuse(node, 6, 0, 1),
                _ => attempt.handle_reply(node, asked, at(0), None, at(1)),
            }
        }
        let count = |wanted| answers[..nodes].iter().filter(|answer| **answer == wanted).count();
        let outcome = match nodes / 2 + 1 {
            quorum if count(0) >= quorum => held(97, 7),
            quorum if count(0) + count(1) >= quorum => Some(Outcome::Contended),
            _ => Some(Outcome::NoQuorum),
        };
        assert_eq!(attempt.outcome(), outcome, "{answers:?}");
        let released = attempt.call();
        let is_lost = outcome != held(97, 7);
        for (node, answer) in answers.into_iter().enumerate().take(nodes) {
            let is_released = released.contains(&(node, NodeAction::Release));
            // A refusal that arrives after the end is not known by then.
            assert!(answer == 1 || is_released == is_lost, "node {node}: {answers:?}");
        }
        assert!(is_lost || released.is_empty(), "{answers:?}");
    }
}

#[test]
fn single_try_waits_until_the_vote_timeout() {
    let mut attempt = started(3, Wait::Never);
    attempt.refuse(0, 6, 0, 1);
    assert_eq!(attempt.waits_until(), Some(at(5)));
    attempt.handle_timeout(at(4));
    assert_eq!(attempt.outcome(), None);
    attempt.handle_timeout(at(5));
    assert_eq!(attempt.outcome(), Some(Outcome::NoQuorum), "one reply is no majority");
    assert_eq!(
        attempt.call(),
        [(1, NodeAction::Release), (2, NodeAction::Release)],
        "not on the node that refused"
    );

    let mut attempt = started(3, Wait::Never);
    attempt.grant(0, 7, 0, 1);
    attempt.grant(1, 8, 0, 1);
    attempt.refuse(2, 9, 0, 1);
    assert_eq!(attempt.outcome(), None, "a confirmation is pending");
    attempt.handle_timeout(at(5));
    assert_eq!(attempt.outcome(), Some(Outcome::Contended));

    let mut attempt = started(3, Wait::Never);
    (0..3).for_each(|node| attempt.grant(node, [7, 8, 9][node], 0, 1));
    attempt.handle_timeout(at(5));
    assert_eq!(attempt.outcome(), Some(Outcome::NoQuorum), "no other owner was seen");
}

#[test]
fn failed_confirmation_is_retried_soon() {
    let mut attempt = started(3, WAIT);
    attempt.refuse(0, 6, 0, 1);
    attempt.grant(1, 8, 0, 1);
    attempt.grant(2, 9, 0, 1);
    assert_eq!(attempt.call(), [(1, NodeAction::Confirm(fence(9)))]);
    attempt.confirm(1, 9, Extended::Failed, 1, 2);
    let next = attempt.waits_until().expect("it waits");
    assert!(next <= at(52), "{next:?}");
    attempt.handle_timeout(at(60));
    assert!(attempt.call().contains(&(1, ASK_AGAIN)), "the reply will confirm the grant");
}

#[test]
fn abandoned_acquire_releases_all_nodes() {
    for wait in [WAIT, Wait::Never] {
        for answers in 0..3 {
            let mut attempt = started(3, wait);
            (0..answers).for_each(|node| attempt.grant(node, 7, 0, 1));
            attempt.handle_abandon();
            assert_eq!(attempt.outcome(), Some(Outcome::Abandoned), "not held, even if granted");
            let released: Vec<_> = (0..3).map(|node| (node, NodeAction::Release)).collect();
            assert_eq!(attempt.call(), released, "even without a reply");
        }
    }
}

#[test]
fn inputs_after_the_outcome_are_ignored() {
    let mut won = started(3, WAIT);
    won.grant(0, 7, 0, 1);
    won.grant(1, 7, 0, 1);
    let mut abandoned = started(3, WAIT);
    abandoned.handle_abandon();
    abandoned.call();
    for mut attempt in [won, abandoned] {
        let outcome = attempt.outcome();
        attempt.grant(2, 9, 0, 2);
        attempt.refuse(0, 9, 0, 2);
        attempt.push(0, PushKind::Inquired, 7, 2);
        attempt.push(0, PushKind::Granted, 9, 2);
        attempt.confirm(1, 9, Extended::Refused(fence(9)), 0, 2);
        attempt.handle_down(0);
        attempt.handle_up(0, at(3));
        attempt.handle_timeout(at(1_000));
        assert_eq!((attempt.outcome(), attempt.drain_calls()), (outcome, vec![]));
        assert_eq!(attempt.waits_until(), None);
    }
}
