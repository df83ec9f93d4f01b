//! Giving way, withdrawing, trying once, and endings.

use super::*;

#[test]
fn who_has_no_majority_gives_way_to_an_earlier_ticket() {
    let mut attempt = started(3, WAIT);
    attempt.grant(0, 7, 0, 1);
    attempt.push(0, PushKind::Inquired, 7, 2);
    assert_eq!(attempt.call(), [(0, NodeAction::Yield(fence(7)))]);
    attempt.push(0, PushKind::Inquired, 7, 2);
    assert_eq!(attempt.call(), [], "once");

    let earlier = Reply::Granted { fence: fence(5), is_earlier: true };
    attempt.hear(1, ASK_AGAIN, 0, &earlier, 3);
    assert_eq!(attempt.call(), [(1, NodeAction::Yield(fence(5)))], "a grant says so, too");
    attempt.push(2, PushKind::Inquired, 4, 3);
    assert_eq!(attempt.call(), [(2, NodeAction::Yield(fence(4)))], "before the grant is heard of");
    assert_eq!(attempt.granted(), NodeSet::EMPTY);
}

#[test]
fn who_has_a_majority_gives_nothing_back() {
    let mut attempt = started(3, WAIT);
    attempt.grant(0, 7, 0, 1);
    attempt.grant(1, 8, 0, 1);
    assert_eq!(attempt.call(), [(0, NodeAction::Confirm(fence(8)))]);
    attempt.push(1, PushKind::Inquired, 8, 2);
    assert_eq!((attempt.call(), attempt.granted().len()), (vec![], 2));

    attempt.push(1, PushKind::Inquired, 8, 97);
    assert_eq!(attempt.call(), [(1, NodeAction::Yield(fence(8)))], "a run-out majority is none");
}

#[test]
fn a_member_of_a_set_gives_back_what_the_node_was_asked_to_store() {
    let mut attempt = started(3, WAIT).member();
    attempt.grant(0, 7, 0, 1);
    attempt.grant(1, 8, 0, 1);
    assert_eq!(attempt.call(), [(0, NodeAction::Confirm(fence(8)))]);
    attempt.push(0, PushKind::Inquired, 7, 2);
    attempt.push(1, PushKind::Inquired, 8, 2);
    let given_back = [(0, NodeAction::Yield(fence(8))), (1, NodeAction::Yield(fence(8)))];
    assert_eq!(attempt.call(), given_back, "by then its fence is the new one");
}

#[test]
fn one_who_only_tries_gives_nothing_back_before_it_leaves() {
    let mut attempt = started(3, Wait::Never);
    attempt.grant(0, 7, 0, 1);
    attempt.push(0, PushKind::Inquired, 7, 2);
    assert_eq!((attempt.call(), attempt.granted().len()), (vec![], 1));
}

#[test]
fn what_was_given_back_never_counts_again() {
    let mut attempt = started(1, WAIT);
    attempt.push(0, PushKind::Inquired, 7, 1);
    attempt.call();
    for number in [7, 6] {
        attempt.push(0, PushKind::Granted, number, 2);
        attempt.grant(0, number, 0, 2);
        assert_eq!((attempt.outcome(), attempt.granted().len()), (None, 0));
        let doubt = (0, NodeAction::Reject(fence(number)));
        assert_eq!(attempt.call(), [doubt, doubt], "it is call again");
    }
    attempt.push(0, PushKind::Granted, 8, 3);
    assert_eq!(attempt.outcome(), held(97, 8), "a new grant is another");
}

#[test]
fn a_node_that_forgot_what_it_granted_is_believed_again() {
    let mut attempt = started(1, WAIT);
    attempt.refuse(0, 900, 0, 1);
    attempt.push(0, PushKind::Granted, 5, 10);
    assert_eq!(attempt.call(), [(0, NodeAction::Reject(fence(5)))]);
    let released = |is_ours| Reply::Released { is_ours };
    attempt.hear(0, NodeAction::Reject(fence(5)), 10, &released(false), 11);
    attempt.push(0, PushKind::Granted, 6, 12);
    assert_eq!(attempt.call(), [(0, NodeAction::Reject(fence(6)))], "it was only an old message");
    attempt.hear(0, NodeAction::Reject(fence(6)), 12, &released(true), 13);
    attempt.push(0, PushKind::Granted, 7, 20);
    assert_eq!(attempt.outcome(), held(109, 7), "the grant of 6 was really there");
}

#[test]
fn grants_that_have_run_out_count_for_nothing() {
    let mut attempt = started(3, WAIT);
    attempt.grant(0, 7, 0, 1);
    attempt.grant(1, 7, 10, 97);
    assert_eq!((attempt.outcome(), attempt.granted()), (None, NodeSet::one(1)));

    let mut attempt = started(3, WAIT);
    attempt.grant(0, 9, 0, 1);
    attempt.grant(1, 7, 90, 98);
    attempt.grant(2, 7, 90, 98);
    assert_eq!(attempt.outcome(), held(187, 7), "nor for the fence");
}

#[test]
fn too_little_validity_asks_only_those_whose_grants_are_old() {
    let mut attempt = started(3, WAIT);
    attempt.grant(0, 7, 0, 1);
    attempt.grant(1, 7, 60, 73);
    assert_eq!(attempt.outcome(), None, "24 ms are less than a quarter");
    assert_eq!(attempt.call(), [(0, ASK_AGAIN)]);
    attempt.grant(1, 7, 60, 74);
    assert_eq!(attempt.call(), [], "the question is on its way");
    attempt.grant(0, 7, 73, 75);
    assert_eq!(attempt.outcome(), held(157, 7));

    let mut attempt = started(3, Wait::Never);
    attempt.grant(0, 7, 0, 1);
    attempt.grant(1, 7, 0, 73);
    assert_eq!(attempt.outcome(), held(97, 7), "one who tries takes action is left");
}

#[test]
fn a_waiter_asks_every_third_of_its_ttl_and_when_the_key_should_have_gone() {
    let mut attempt = started(3, WAIT);
    assert_eq!(attempt.waits_until(), Some(heartbeat_due(at(0), Duration::from_millis(100))));
    attempt.handle_timeout(at(33));
    assert_eq!(attempt.call(), [], "not yet");
    attempt.grant(1, 7, 0, 1);
    attempt.handle_timeout(at(34));
    assert_eq!(attempt.call(), [(1, ASK_AGAIN)], "only where no question is open");

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
        let refused = Reply::Queued { fence: fence(1), expires_in_ms, rank, is_foreign };
        attempt.hear(0, ASK_AGAIN, 0, &refused, 0);
        let until = attempt.waits_until().expect("it waits");
        assert_eq!(until.saturating_since(at(0)).as_millis(), after, "{refused:?}");
    }
}

#[test]
fn who_is_cut_off_withdraws_and_comes_back_as_another() {
    let mut attempt = started(3, WAIT);
    attempt.grant(0, 7, 0, 1);
    attempt.refuse(1, 6, 0, 1);
    attempt.handle_down(0);
    attempt.handle_down(1);
    assert_eq!((attempt.incarnation(), attempt.granted().len()), (0, 1), "it may be short");
    attempt.handle_timeout(at(34));
    assert_eq!(attempt.said_by(), [], "they may be about to come back");
    attempt.handle_timeout(at(67));
    let left = |node| (node, NodeCall { incarnation: 0, action: NodeAction::Release });
    assert_eq!(attempt.said_by(), [left(0), left(1), left(2)], "also where no answer came");
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
        "that was another incarnation"
    );
    assert_eq!(attempt.said_by(), []);

    attempt.handle_up(0, at(70));
    let first = NodeAction::Acquire { is_waiting: true, is_known: false };
    let anew = |node| (node, NodeCall { incarnation: 1, action: first });
    assert_eq!(attempt.said_by(), [anew(0), anew(2)]);
    attempt.handle_up(1, at(71));
    assert_eq!(attempt.said_by(), [anew(1)]);
    attempt.grant(0, 9, 70, 72);
    attempt.grant(1, 9, 71, 72);
    assert_eq!(attempt.outcome(), held(167, 9));
}

/// A place that is given up may not be had again: a full node gives none.
#[test]
fn who_can_reach_no_node_keeps_its_place_until_they_come_back_one_by_one() {
    let mut attempt = started(3, WAIT);
    (0..3).for_each(|node| attempt.refuse(node, 6, 0, 1));
    // Each look may come when some of them are gone, or back, and others are not yet.
    attempt.handle_down(0);
    attempt.handle_down(1);
    attempt.handle_timeout(at(34));
    attempt.handle_down(2);
    for now in [67, 101, 135] {
        attempt.handle_timeout(at(now));
        assert_eq!((attempt.call(), attempt.incarnation()), (vec![], 0), "nobody would hear of it");
    }
    let again = |node| (node, NodeCall { incarnation: 0, action: ASK_AGAIN });
    attempt.handle_up(1, at(140));
    assert_eq!(attempt.said_by(), [again(1)]);
    attempt.handle_timeout(at(169));
    assert_eq!(attempt.said_by(), [], "another may be about to come back");
    attempt.handle_up(2, at(170));
    assert_eq!(attempt.said_by(), [again(2)]);
    attempt.grant(1, 7, 140, 171);
    attempt.grant(2, 7, 170, 171);
    assert_eq!(attempt.outcome(), held(237, 7));
}

/// With a long ttl the next heartbeat is far away, and whoever is cut off is in the way until then.
#[test]
fn who_is_cut_off_looks_again_soon() {
    let mut attempt = Acquire { terms: long_terms(), ..started(3, WAIT) };
    attempt.handle_down(0);
    attempt.handle_down(1);
    attempt.beat(at(10));
    assert_eq!(attempt.waits_until(), Some(at(10 + 500)), "patience comes first here");
    attempt.wait = Wait::Patiently(Duration::MAX);
    assert_eq!(attempt.waits_until(), Some(at(10 + 2_000)));
    attempt.handle_timeout(at(10 + 2_000));
    assert_eq!(attempt.incarnation(), 1);
}

#[test]
fn who_gets_its_majority_back_in_time_is_not_cut_off_at_the_next_look() {
    let mut attempt = started(3, WAIT);
    (0..3).for_each(|node| attempt.refuse(node, 6, 0, 1));
    for round in [0, 100] {
        attempt.handle_down(0);
        attempt.handle_down(1);
        attempt.handle_timeout(at(round + 34));
        assert_eq!(attempt.call(), [], "it looks again first");
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
fn a_node_that_answers_with_errors_is_asked_again_less_and_less_often() {
    let mut attempt = started(1, Wait::Patiently(Duration::from_millis(500)));
    let silence = |attempt: &mut Acquire, now| {
        let call = NodeCall { incarnation: 0, action: ASK_AGAIN };
        attempt.handle_reply(0, call, at(now), None, at(now));
    };
    let mut long = Acquire { terms: long_terms(), ..attempt.clone() };
    long.beat(at(0));
    for (now, next) in [(0, 50), (50, 150), (150, 350)] {
        silence(&mut long, now);
        assert_eq!(long.waits_until(), Some(at(next)));
        long.handle_timeout(at(next));
        assert_eq!(long.call(), [(0, ASK_AGAIN)]);
    }
    silence(&mut long, 350);
    assert!(long.is_short());
    long.handle_timeout(at(499));
    assert_eq!(long.outcome(), None);
    long.handle_timeout(at(500));
    assert_eq!(long.outcome(), Some(Outcome::NoQuorum), "errors are no answers");
    assert_eq!(long.call(), [(0, NodeAction::Release)], "it may have run for all that");

    silence(&mut attempt, 1);
    attempt.refuse(0, 1, 2, 3);
    assert!(!attempt.is_short(), "one answer is enough");
}

fn long_terms() -> Terms {
    let ms = Duration::from_millis;
    Terms::new(ms(10_000), ms(5), Drift::default()).expect("valid")
}

#[test]
fn it_gives_up_when_too_few_nodes_could_be_reached_for_too_long() {
    let patience = Duration::from_millis(50);
    let one = NodeSet::one(0);
    let mut attempt = Acquire::start(terms(), 3, one, Wait::Patiently(patience), at(0));
    assert_eq!(attempt.call(), [], "a minority is not even asked");
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
    assert_eq!(attempt.outcome(), None, "it counts anew after a majority was there");
    attempt.handle_timeout(at(140));
    assert_eq!(attempt.outcome(), Some(Outcome::NoQuorum));
    assert_eq!(attempt.waits_until(), None);
}

/// A heartbeat every third of a long ttl would keep the caller for much longer than it agreed to.
#[test]
fn patience_ends_when_it_says_and_not_with_the_next_heartbeat() {
    let patience = Duration::from_millis(10);
    let mut attempt = Acquire::start(terms(), 3, NodeSet::EMPTY, Wait::Patiently(patience), at(0));
    assert_eq!(attempt.waits_until(), Some(at(10)));
    attempt.handle_timeout(at(9));
    assert_eq!(attempt.outcome(), None);
    attempt.handle_timeout(at(10));
    assert_eq!(attempt.outcome(), Some(Outcome::NoQuorum));
}

/// Every mix of answers to one try, against a one-line oracle.
#[test]
fn one_try_is_held_contended_or_without_a_quorum() {
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
        let left = attempt.call();
        let is_lost = outcome != held(97, 7);
        for (node, answer) in answers.into_iter().enumerate().take(nodes) {
            let is_told = left.contains(&(node, NodeAction::Release));
            // A refusal that comes after the end is not known by then.
            assert!(answer == 1 || is_told == is_lost, "node {node}: {answers:?}");
        }
        assert!(is_lost || left.is_empty(), "{answers:?}");
    }
}

#[test]
fn one_try_waits_for_the_vote_timeout_and_no_longer() {
    let mut attempt = started(3, Wait::Never);
    attempt.refuse(0, 6, 0, 1);
    assert_eq!(attempt.waits_until(), Some(at(5)));
    attempt.handle_timeout(at(4));
    assert_eq!(attempt.outcome(), None);
    attempt.handle_timeout(at(5));
    assert_eq!(attempt.outcome(), Some(Outcome::NoQuorum), "one answer is no majority");
    assert_eq!(
        attempt.call(),
        [(1, NodeAction::Release), (2, NodeAction::Release)],
        "not where it was refused"
    );

    let mut attempt = started(3, Wait::Never);
    attempt.grant(0, 7, 0, 1);
    attempt.grant(1, 8, 0, 1);
    attempt.refuse(2, 9, 0, 1);
    assert_eq!(attempt.outcome(), None, "a confirmation is on its way");
    attempt.handle_timeout(at(5));
    assert_eq!(attempt.outcome(), Some(Outcome::Contended));

    let mut attempt = started(3, Wait::Never);
    (0..3).for_each(|node| attempt.grant(node, [7, 8, 9][node], 0, 1));
    attempt.handle_timeout(at(5));
    assert_eq!(attempt.outcome(), Some(Outcome::NoQuorum), "nobody else was seen");
}

#[test]
fn a_confirmation_that_failed_is_asked_for_again_soon() {
    let mut attempt = started(3, WAIT);
    attempt.refuse(0, 6, 0, 1);
    attempt.grant(1, 8, 0, 1);
    attempt.grant(2, 9, 0, 1);
    assert_eq!(attempt.call(), [(1, NodeAction::Confirm(fence(9)))]);
    attempt.confirm(1, 9, Extended::Failed, 1, 2);
    let next = attempt.waits_until().expect("it waits");
    assert!(next <= at(52), "{next:?}");
    attempt.handle_timeout(at(60));
    assert!(attempt.call().contains(&(1, ASK_AGAIN)), "action it has is confirmed with the answer");
}

#[test]
fn who_is_abandoned_leaves_whatever_is_known() {
    for wait in [WAIT, Wait::Never] {
        for answers in 0..3 {
            let mut attempt = started(3, wait);
            (0..answers).for_each(|node| attempt.grant(node, 7, 0, 1));
            attempt.handle_abandon();
            assert_eq!(attempt.outcome(), Some(Outcome::Abandoned), "not held, even if won");
            let left: Vec<_> = (0..3).map(|node| (node, NodeAction::Release)).collect();
            assert_eq!(attempt.call(), left, "also where the answer is not known");
        }
    }
}

#[test]
fn what_comes_after_the_outcome_changes_nothing() {
    let mut won = started(3, WAIT);
    won.grant(0, 7, 0, 1);
    won.grant(1, 7, 0, 1);
    let mut left = started(3, WAIT);
    left.handle_abandon();
    left.call();
    for mut attempt in [won, left] {
        let outcome = attempt.outcome();
        attempt.grant(2, 9, 0, 2);
        attempt.refuse(0, 9, 0, 2);
        attempt.push(0, PushKind::Inquired, 7, 2);
        attempt.push(0, PushKind::Granted, 9, 2);
        attempt.confirm(1, 9, Extended::Refused(fence(9)), 0, 2);
        attempt.handle_down(0);
        attempt.handle_up(0, at(3));
        attempt.handle_timeout(at(1_000));
        assert_eq!((attempt.outcome(), attempt.said_by()), (outcome, vec![]));
        assert_eq!(attempt.waits_until(), None);
    }
}
