//! Reactions of an acquire to replies and pushes, one input at a time.

use std::time::Duration;

use super::*;
use crate::terms::Drift;

/// A lease of 100 ms is valid for 97 ms. Its heartbeat is due every third of the ttl.
fn terms() -> Terms {
    let ms = Duration::from_millis;
    Terms::new(ms(100), ms(5), Drift::default()).expect("valid")
}

fn at(ms: u64) -> Moment {
    Moment::ZERO.saturating_add(Duration::from_millis(ms))
}

const fn fence(number: u64) -> Fence {
    Fence::new(number)
}

const WAIT: Wait = Wait::Patiently(Duration::from_millis(500));

/// An acquire that has sent a request to every node.
fn started(nodes: usize, wait: Wait) -> Acquire {
    let mut attempt = Acquire::start(terms(), nodes, NodeSet::all(nodes), wait, at(0));
    let first = NodeAction::Acquire { is_waiting: wait != Wait::Never, is_known: false };
    let asked: Vec<_> = (0..nodes).map(|node| (node, first)).collect();
    assert_eq!(attempt.call(), asked);
    attempt
}

const ASK_AGAIN: NodeAction = NodeAction::Acquire { is_waiting: true, is_known: true };

/// Shortcuts for the inputs of these tests.
impl Acquire {
    fn drain_calls(&mut self) -> Vec<(usize, NodeCall)> {
        std::iter::from_fn(|| match self.poll_output() {
            Output::Call { node, call } => Some((node, call)),
            Output::Wait { .. } | Output::Idle => None,
        })
        .collect()
    }

    fn call(&mut self) -> Vec<(usize, NodeAction)> {
        self.drain_calls().into_iter().map(|(node, call)| (node, call.action)).collect()
    }

    fn reply(&mut self, node: usize, action: NodeAction, sent_at: u64, reply: &Reply, now: u64) {
        let call = NodeCall { incarnation: self.incarnation, action };
        self.handle_reply(node, call, at(sent_at), Some(reply), at(now));
    }

    /// The request that was sent at `sent_at` was granted.
    fn grant(&mut self, node: usize, number: u64, sent_at: u64, now: u64) {
        let granted = Reply::Granted { fence: fence(number), is_earlier: false };
        self.reply(node, ASK_AGAIN, sent_at, &granted, now);
    }

    fn refuse(&mut self, node: usize, number: u64, sent_at: u64, now: u64) {
        let (fence, expires_in_ms) = (fence(number), Some(60));
        let queued = Reply::Queued { fence, expires_in_ms, rank: Some(0), is_foreign: false };
        self.reply(node, ASK_AGAIN, sent_at, &queued, now);
    }

    fn push(&mut self, node: usize, kind: PushKind, number: u64, now: u64) {
        self.handle_push(node, self.incarnation, kind, fence(number), at(now));
    }

    fn confirm(&mut self, node: usize, number: u64, result: Extended, sent_at: u64, now: u64) {
        let reply = Reply::ExtendedLeases([result].into());
        self.reply(node, NodeAction::Confirm(fence(number)), sent_at, &reply, now);
    }

    fn waits_until(&mut self) -> Option<Moment> {
        match self.poll_output() {
            Output::Wait { until } => Some(until),
            Output::Idle => None,
            Output::Call { node, call } => panic!("unexpected call to node {node}: {call:?}"),
        }
    }
}

fn held(valid_until: u64, number: u64) -> Option<Outcome> {
    Some(Outcome::Held { valid_until: at(valid_until), fence: fence(number) })
}

#[test]
fn first_majority_with_one_fence_wins_immediately() {
    for nodes in [1, 3, 5] {
        for wait in [WAIT, Wait::Never] {
            let mut attempt = started(nodes, wait);
            for node in (0..nodes).rev().take(nodes / 2) {
                attempt.grant(node, 7, 0, 1);
                assert_eq!(attempt.outcome(), None);
            }
            attempt.grant(0, 7, 0, 2);
            assert_eq!(attempt.outcome(), held(97, 7));
            assert_eq!(attempt.call(), [], "does not wait for slow nodes");
            assert_eq!(attempt.waits_until(), None);
        }
    }
}

#[test]
fn repeated_grant_counts_once() {
    let mut attempt = started(3, WAIT);
    attempt.grant(0, 7, 0, 1);
    attempt.push(0, PushKind::Granted, 7, 1);
    attempt.grant(0, 7, 0, 1);
    assert_eq!((attempt.outcome(), attempt.granted()), (None, NodeSet::one(0)));
}

#[test]
fn different_fences_are_confirmed_before_the_lock_is_held() {
    let mut attempt = started(5, WAIT);
    for (node, number) in [(0, 7), (1, 9), (2, 8)] {
        attempt.grant(node, number, 0, 1);
    }
    assert_eq!(attempt.outcome(), None);
    let confirm = NodeAction::Confirm(fence(9));
    assert_eq!(attempt.call(), [(0, confirm), (2, confirm)]);
    attempt.confirm(0, 9, Extended::Renewed(fence(9)), 1, 2);
    assert_eq!((attempt.outcome(), attempt.call()), (None, vec![]), "each node is asked once");
    attempt.confirm(2, 9, Extended::Renewed(fence(9)), 1, 3);
    assert_eq!(attempt.outcome(), held(97, 9));
}

#[test]
fn fence_that_a_majority_stores_needs_no_confirmation() {
    let mut attempt = started(5, WAIT);
    for (node, number) in [(0, 7), (1, 9), (2, 7)] {
        attempt.grant(node, number, 0, 1);
    }
    assert_eq!(attempt.call().len(), 2);
    attempt.grant(3, 7, 0, 2);
    assert_eq!(attempt.outcome(), held(97, 7), "although it is not the largest");
}

#[test]
fn confirmation_that_finds_a_larger_fence_restarts_with_it() {
    let mut attempt = started(3, WAIT);
    attempt.grant(0, 7, 0, 1);
    attempt.grant(1, 8, 0, 1);
    assert_eq!(attempt.call(), [(0, NodeAction::Confirm(fence(8)))]);
    attempt.confirm(0, 8, Extended::Renewed(fence(11)), 1, 2);
    assert_eq!(attempt.outcome(), None);
    assert_eq!(attempt.call(), [(1, NodeAction::Confirm(fence(11)))]);
    attempt.confirm(1, 11, Extended::Renewed(fence(11)), 2, 3);
    assert_eq!(attempt.outcome(), held(98, 11), "counts from the older grant");
}

#[test]
fn refused_confirmation_drops_the_grant_and_asks_again() {
    let mut attempt = started(3, WAIT);
    attempt.grant(0, 7, 0, 1);
    attempt.grant(1, 8, 0, 1);
    attempt.call();
    attempt.confirm(0, 8, Extended::Refused(fence(7)), 1, 2);
    assert_eq!((attempt.outcome(), attempt.granted()), (None, NodeSet::one(1)));
    assert_eq!(attempt.call(), [(0, ASK_AGAIN)]);
    attempt.grant(0, 8, 2, 3);
    assert_eq!(attempt.outcome(), held(97, 8));
}

/// The key was gone. The new grant may have a fence that is still smaller than the others.
#[test]
fn refused_confirmation_is_repeated_if_the_next_grant_has_a_smaller_fence() {
    let mut attempt = started(2, WAIT);
    attempt.grant(0, 1, 0, 1);
    attempt.grant(1, 3, 0, 1);
    assert_eq!(attempt.call(), [(0, NodeAction::Confirm(fence(3)))]);
    attempt.confirm(0, 3, Extended::Refused(fence(1)), 1, 2);
    assert_eq!(attempt.call(), [(0, ASK_AGAIN)]);
    attempt.grant(0, 2, 2, 3);
    assert_eq!(attempt.call(), [(0, NodeAction::Confirm(fence(3)))]);
    attempt.confirm(0, 3, Extended::Renewed(fence(3)), 3, 4);
    assert_eq!(attempt.outcome(), held(97, 3));
}

/// Otherwise it would keep its majority with every heartbeat, but never hold the lock.
#[test]
fn failed_confirmation_is_repeated_with_the_next_grant() {
    for reply in [None, Some(Reply::ExtendedLeases([Extended::Failed].into())), Some(Reply::Stale)]
    {
        let mut attempt = started(3, WAIT);
        attempt.grant(0, 7, 0, 1);
        attempt.grant(1, 8, 0, 1);
        let confirm = NodeAction::Confirm(fence(8));
        assert_eq!(attempt.call(), [(0, confirm)]);
        attempt.handle_reply(
            0,
            NodeCall { incarnation: 0, action: confirm },
            at(1),
            reply.as_ref(),
            at(2),
        );
        assert_eq!(attempt.call(), [], "not immediately: the node has an error");
        attempt.handle_timeout(at(34));
        assert_eq!(attempt.call(), [(0, ASK_AGAIN), (1, ASK_AGAIN)]);
        attempt.grant(0, 7, 34, 35);
        assert_eq!(attempt.call(), [(0, confirm)], "{reply:?}");
    }
}

#[test]
fn validity_is_that_of_the_oldest_grant_that_is_needed() {
    let mut attempt = started(5, WAIT);
    attempt.grant(0, 7, 0, 1);
    attempt.grant(1, 8, 3, 4);
    attempt.grant(2, 9, 10, 11);
    attempt.grant(3, 9, 20, 21);
    assert_eq!(attempt.outcome(), None);
    attempt.grant(4, 9, 15, 22);
    assert_eq!(attempt.outcome(), held(107, 9), "the grants of 10, 15 and 20 ms count");
}

#[test]
fn pushed_grant_counts_from_the_last_proof_that_the_key_was_not_ours() {
    let mut attempt = started(1, WAIT);
    attempt.push(0, PushKind::Granted, 7, 40);
    assert_eq!(attempt.outcome(), held(97, 7), "from the first request");

    let mut attempt = started(1, WAIT);
    attempt.refuse(0, 6, 30, 31);
    attempt.push(0, PushKind::Granted, 7, 60);
    assert_eq!(attempt.outcome(), held(127, 7), "from the refused request");

    let mut attempt = started(3, WAIT);
    attempt.refuse(0, 6, 0, 1);
    attempt.refuse(1, 6, 0, 1);
    attempt.push(0, PushKind::Granted, 7, 20);
    attempt.push(0, PushKind::Inquired, 7, 30);
    assert_eq!(attempt.call(), [(0, NodeAction::Yield(fence(7)))]);
    let yielded = Reply::Released { is_ours: true };
    attempt.reply(0, NodeAction::Yield(fence(7)), 30, &yielded, 31);
    attempt.push(0, PushKind::Granted, 9, 40);
    let pushed = attempt.nodes[0].grant.expect("counted");
    assert_eq!(pushed.since, at(30), "from the yield");
    attempt.push(1, PushKind::Granted, 9, 40);
    assert_eq!(attempt.outcome(), held(97, 9));
}

#[test]
fn refusal_drops_only_older_grants() {
    let mut attempt = started(3, WAIT);
    attempt.grant(0, 7, 0, 1);
    attempt.handle_timeout(at(34));
    attempt.call();
    attempt.refuse(0, 8, 34, 35);
    assert_eq!(attempt.granted(), NodeSet::EMPTY, "another owner was granted it since");

    attempt.push(1, PushKind::Granted, 9, 36);
    attempt.refuse(1, 8, 34, 37);
    assert_eq!(attempt.granted(), NodeSet::one(1), "the push has overtaken the reply");
}

mod classic;
mod queue;
mod reentrant;
mod simulation;
