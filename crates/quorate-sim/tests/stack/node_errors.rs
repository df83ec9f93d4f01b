//! Errors report each node as it is when the error is made, and come as soon as they can.

use std::{fmt::Debug, time::Duration};

use quorate::error::{LockError, NodeAnswer, NodeError, NodeReport};
use tokio::{join, time::sleep};

use crate::{
    dice::for_seeds,
    fixture::{Program, play},
    server::Manner,
    trace::now,
    waiting::all_attached,
};

#[test]
fn first_try_of_a_new_client_waits_for_its_connections() {
    for_seeds(30, |seed| {
        play(seed, 3, async |program, _| {
            let client = program.client("").ttl(TTL).build().expect("valid");
            let guard = client.mutex("lock").try_lock().await.expect("all answer");
            assert!(guard.is_some(), "it is free");
        });
    });
}

#[test]
fn try_lock_fails_when_every_node_has_attached_or_failed_once() {
    for_seeds(30, |seed| {
        play(seed, 3, async |program, mut dice| {
            let healthy = dice.below(3);
            hang_all_but(&program, &[healthy]);
            let client = program.client("").ttl(TTL).build().expect("valid");
            let asked_at = now();
            let nodes = no_quorum(client.mutex("lock").try_lock().await);
            let took = now() - asked_at;
            assert!(took <= LINK_TIMEOUT + VOTE_TIMEOUT, "after {took:?}");
            check(&nodes, &[healthy]);
            // From now on it is known which nodes are up.
            let asked_at = now();
            check(&no_quorum(client.mutex("lock").try_lock().await), &[healthy]);
            assert!(now() - asked_at <= VOTE_TIMEOUT, "after {:?}", now() - asked_at);
        });
    });
}

#[test]
fn healthy_nodes_are_not_blamed_at_the_end_of_a_wait() {
    for_seeds(30, |seed| {
        play(seed, 5, async |program, mut dice| {
            let healthy = [dice.below(2), 2 + dice.below(3)];
            hang_all_but(&program, &healthy);
            let client = program.client("").ttl(TTL).build().expect("valid");
            let wait = dice.ms(1_200..=4_000);
            check(&no_quorum(client.mutex("lock").lock_timeout(wait).await), &healthy);
            let semaphore = client.semaphore("permits", 2);
            check(&no_quorum(semaphore.acquire_timeout(wait).await), &healthy);
        });
    });
}

/// Two of five vote at any time, and others at the end of the wait than at its start.
#[test]
fn nodes_that_change_during_a_wait_are_reported_as_they_are_at_its_end() {
    for_seeds(30, |seed| {
        play(seed, 5, async |program, mut dice| {
            hang_all_but(&program, &[0, 1]);
            let client = program.client("").ttl(TTL).build().expect("valid");
            let (mutex, wait) = (client.mutex("lock"), dice.ms(8_000..=9_000));
            let (ended, ()) = join!(mutex.lock_timeout(wait), async {
                sleep(dice.ms(0..=3_000)).await;
                program.nodes[1].set(Manner::Hang);
                // A silent node is noticed within a ping and a timeout.
                sleep(dice.ms(2_500..=3_000)).await;
                program.nodes[2].set(Manner::Answer);
            });
            check(&no_quorum(ended), &[0, 2]);
        });
    });
}

/// A waiter asks a node as soon as it comes up. If that is at the last moment, the node is not
/// late: no call has waited for it.
#[test]
fn node_that_comes_up_at_the_last_moment_is_not_late() {
    for_seeds(60, |seed| {
        play(seed, 3, async |program, mut dice| {
            hang_all_but(&program, &[0]);
            let client = program.client("").ttl(TTL).build().expect("valid");
            let asked_at = now();
            let (mutex, wait) = (client.mutex("lock"), dice.ms(3_000..=3_500));
            let (ended, ()) = join!(mutex.lock_timeout(wait), async {
                sleep(wait - dice.ms(0..=40)).await;
                program.nodes[1].set(Manner::Answer);
            });
            match ended {
                Ok(_) => assert!(now() - asked_at <= wait + VOTE_TIMEOUT, "two vote"),
                Err(LockError::NoQuorum { nodes, .. }) => {
                    assert!(is_well(&nodes[0]), "{nodes:?}");
                    let is_up = client.node_status()[1].answer == NodeAnswer::Attached;
                    assert!(!is_up || is_well(&nodes[1]), "{nodes:?}");
                }
                Err(other) => panic!("{other:?}"),
            }
        });
    });
}

#[test]
fn lost_connection_is_no_old_error_once_the_node_is_back() {
    for_seeds(30, |seed| {
        play(seed, 3, async |program, mut dice| {
            let client = program.client("").ttl(TTL).vote_timeout(LATE).build().expect("valid");
            all_attached(&client).await;
            let guard = client.mutex("lock").lock().await.expect("all answer");
            // Its answer is lost with the connection, and the node is back before the others have
            // failed to answer.
            program.nodes[1].set(Manner::HangUp);
            program.nodes[2].set(Manner::Hang);
            program.nodes[0].set(Manner::Hang);
            let (verified, ()) = join!(guard.verify(), async {
                sleep(dice.ms(50..=100)).await;
                program.nodes[1].set(Manner::Answer);
            });
            let Err(quorate::error::VerifyError::NoQuorum { nodes, .. }) = verified else {
                panic!("{verified:?}")
            };
            check(&nodes, &[1]);
            hang_all_but(&program, &[0, 1, 2]);
        });
    });
}

/// A waiter was refused by all nodes first, and then got errors from two.
#[test]
fn last_answer_to_a_waiter_is_the_one_that_is_reported() {
    for_seeds(30, |seed| {
        play(seed, 3, async |program, mut dice| {
            let holder = program.client(" holder").ttl(TTL).build().expect("valid");
            all_attached(&holder).await;
            let guard = holder.mutex("lock").lock().await.expect("all answer");
            let client = program.client("").ttl(SHORT_TTL).build().expect("valid");
            let (mutex, wait) = (client.mutex("lock"), dice.ms(4_000..=4_500));
            let (ended, ()) = join!(mutex.lock_timeout(wait), async {
                sleep(dice.ms(500..=1_000)).await;
                program.nodes[1].set(Manner::Busy);
                program.nodes[2].set(Manner::Busy);
            });
            let nodes = no_quorum(ended);
            // In classic mode two errors settle each try.
            let is_plain = matches!(nodes[0].answer, NodeAnswer::Refused | NodeAnswer::NotAwaited);
            assert!(is_plain, "{nodes:?}");
            for report in &nodes[1..] {
                assert_eq!(report.answer, NodeAnswer::NodeError(NodeError::Busy), "{nodes:?}");
            }
            // A node that is gone is not busy any more.
            program.nodes[2].set(Manner::HangUp);
            let nodes = no_quorum(mutex.lock_timeout(dice.ms(2_000..=3_000)).await);
            let shown = |node: usize| match &nodes[node].answer {
                NodeAnswer::NodeError(node_error) => node_error.kind(),
                _ => "none",
            };
            assert_eq!((shown(1), shown(2)), ("busy", "connection_lost"), "{nodes:?}");
            program.nodes[1].set(Manner::Answer);
            program.nodes[2].set(Manner::Answer);
            drop(guard);
        });
    });
}

fn hang_all_but(program: &Program, healthy: &[usize]) {
    for node in &program.nodes {
        let is_healthy = healthy.contains(&node.number);
        node.set(if is_healthy { Manner::Answer } else { Manner::Hang });
    }
}

#[track_caller]
fn check(nodes: &[NodeReport], healthy: &[usize]) {
    for (node, report) in nodes.iter().enumerate() {
        match healthy.contains(&node) {
            true => assert!(is_well(report), "node {node} of {nodes:?}"),
            false => {
                assert_eq!(report.answer, NodeAnswer::NodeError(NodeError::TimedOut), "{nodes:?}");
            }
        }
    }
}

fn is_well(report: &NodeReport) -> bool {
    matches!(report.answer, NodeAnswer::Attached | NodeAnswer::Granted | NodeAnswer::NotAwaited)
}

fn no_quorum<T: Debug>(result: Result<T, LockError>) -> Box<[NodeReport]> {
    match result {
        Err(LockError::NoQuorum { nodes, .. }) => nodes,
        other => panic!("expected no majority, got {other:?}"),
    }
}

const TTL: Duration = Duration::from_secs(30);

/// The ttl of a waiter that asks again every second.
const SHORT_TTL: Duration = Duration::from_secs(3);

/// A link that receives nothing for this time is down.
const LINK_TIMEOUT: Duration = Duration::from_secs(1);

/// What follows from the ttl on a fast network, and a few messages.
const VOTE_TIMEOUT: Duration = Duration::from_millis(60);

/// The vote timeout of a patient client: a link that is silent for this time is closed.
const LATE: Duration = Duration::from_millis(1_500);
