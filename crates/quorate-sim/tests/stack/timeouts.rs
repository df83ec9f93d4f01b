//! Servers that accept and do not answer, or that answer too late, and links that must reconnect.

use std::time::Duration;

use quorate::{
    Client,
    error::{LockError, NodeAnswer, NodeError},
};
use tokio::{join, time::sleep};

use crate::{
    dice::{Dice, for_seeds},
    fixture::{self, Program, TICK},
    server::{Manner, Node},
    trace::now,
    waiting::{all_attached, eventually, polled},
};

#[test]
fn silent_server_delays_no_caller_and_is_asked_again() {
    for_seeds(20, |seed| {
        play(seed, async |program, _| {
            program.nodes[2].set(Manner::Hang);
            let client = program.client("").ttl(TTL).connect().await.expect("two of three answer");
            let asked_at = now();
            let guard = client.mutex("lock").try_lock().await.expect("two of three answer");
            assert!(now() - asked_at < VOTE_TIMEOUT, "the third is not waited for");
            assert!(guard.is_some(), "it is free");
            drop(guard);

            sleep(Duration::from_secs(10)).await;
            assert_eq!(answer(&client, 2), NodeAnswer::NodeError(NodeError::TimedOut));
            let asked = program.nodes[2].accepted();
            assert!((4..=11).contains(&asked), "asked anew after each second: {asked} times");
            program.nodes[2].set(Manner::Answer);
            all_attached(&client).await;
            let guard = client.mutex("lock").try_lock().await.expect("all answer");
            eventually(VOTE_TIMEOUT, "the third has the key, too", || {
                program.nodes[2].has("lock", now())
            })
            .await;
            drop(guard);
            no_key_within(&program, VOTE_TIMEOUT).await;
        });
    });
}

#[test]
fn late_grant_is_no_refusal_and_is_released() {
    for_seeds(20, |seed| {
        play(seed, async |program, mut dice| {
            let client = program.client("").ttl(TTL).build().expect("valid");
            all_attached(&client).await;
            let late = Manner::Late(dice.ms(100..=800));
            program.nodes[0].set(late);
            program.nodes[1].set(late);
            let asked_at = now();
            let nodes = match client.mutex("lock").try_lock().await {
                Err(LockError::NoQuorum { nodes, .. }) => nodes,
                other => panic!("silence is neither yes nor no: {other:?}"),
            };
            assert!(now() - asked_at <= 2 * VOTE_TIMEOUT, "after {:?}", now() - asked_at);
            for report in &nodes[..2] {
                assert_eq!(report.answer, NodeAnswer::NodeError(NodeError::TimedOut));
            }
            assert_eq!(nodes[2].answer, NodeAnswer::Granted);
            // The undo follows the request on the same connection.
            no_key_within(&program, Duration::from_secs(3)).await;
            assert_eq!(program.nodes[0].accepted(), 1, "a late answer breaks no link");
        });
    });
}

#[test]
fn link_that_is_silent_for_a_second_reconnects() {
    for_seeds(20, |seed| {
        play(seed, async |program, mut dice| {
            let client = program.client("").ttl(TTL).build().expect("valid");
            let rival = program.client(" rival").ttl(TTL).build().expect("valid");
            all_attached(&client).await;
            all_attached(&rival).await;
            let struck = dice.below(3);
            let accepted = program.nodes[struck].accepted();
            program.nodes[struck].set(Manner::Hang);
            let asked_at = now();
            let guard = client.mutex("lock").try_lock().await.expect("two of three answer");
            let guard = guard.expect("it is free");
            eventually(Duration::from_secs(2), "the link is given up", || {
                answer(&client, struck) == NodeAnswer::NodeError(NodeError::TimedOut)
            })
            .await;
            let silence = now() - asked_at;
            assert!((1_000..=1_002).contains(&silence.as_millis()), "after {silence:?}");
            assert_eq!(answer(&rival, struck), NodeAnswer::Attached, "it has asked nothing");
            guard.release().await.expect("two of three answer");

            sleep(dice.ms(0..=3_000)).await;
            program.nodes[struck].set(Manner::Answer);
            all_attached(&client).await;
            assert!(program.nodes[struck].accepted() > accepted, "a new connection");
            no_key_within(&program, VOTE_TIMEOUT).await;
            answers_are_right(&client, &rival).await;
        });
    });
}

#[test]
fn pending_release_is_sent_after_the_reconnect() {
    for_seeds(30, |seed| {
        play(seed, async |program, mut dice| {
            let client = program.client("").ttl(TTL).build().expect("valid");
            let rival = program.client(" rival").ttl(TTL).build().expect("valid");
            all_attached(&client).await;
            all_attached(&rival).await;
            let guard = client.mutex("lock").lock().await.expect("every server answers");
            let struck = dice.below(3);
            let node = &program.nodes[struck];
            eventually(VOTE_TIMEOUT, "the key is there", || node.has("lock", now())).await;
            let (me, host) = (program.host.clone(), Node::host(struck));
            turmoil::partition(me.as_str(), host.as_str());
            guard.release().await.expect("two of three are enough");
            sleep(dice.ms(0..=6_000)).await;
            assert!(node.has("lock", now()), "nothing reached it");
            if dice.chance(50) {
                // The release, or the answer to it, may be lost too.
                turmoil::repair(me.as_str(), host.as_str());
                all_attached(&client).await;
                turmoil::partition(me.as_str(), host.as_str());
                sleep(dice.ms(1_100..=3_000)).await;
            }
            turmoil::repair(me.as_str(), host.as_str());
            no_key_within(&program, Duration::from_secs(5)).await;
            all_attached(&client).await;
            answers_are_right(&client, &rival).await;
        });
    });
}

#[test]
fn reconnects_to_a_server_that_hangs_up_back_off() {
    for_seeds(10, |seed| {
        play(seed, async |program, mut dice| {
            let struck = dice.below(3);
            program.nodes[struck].set(Manner::HangUp);
            let client = program.client("").ttl(TTL).connect().await.expect("two of three answer");
            sleep(Duration::from_secs(10)).await;
            let asked = program.nodes[struck].accepted();
            assert!((10..=60).contains(&asked), "less and less often, up to a second: {asked}");
            program.nodes[struck].set(Manner::Answer);
            all_attached(&client).await;
        });
    });
}

#[test]
fn shutdown_waits_for_releases_for_its_grace_period() {
    for_seeds(20, |seed| {
        play(seed, async |program, mut dice| {
            let client = program.client("").ttl(TTL).build().expect("valid");
            all_attached(&client).await;
            let guard = client.mutex("lock").lock().await.expect("every server answers");
            let node = &program.nodes[dice.below(3)];
            eventually(VOTE_TIMEOUT, "the key is there", || node.has("lock", now())).await;
            node.set(Manner::Hang);
            drop(guard);
            let (asked_at, grace, silence) = (now(), dice.ms(100..=800), dice.ms(1..=900));
            let (ended, ()) = join!(client.shutdown(grace), async {
                sleep(silence).await;
                node.set(Manner::Answer);
            });
            // The answer takes its time, too.
            if silence + VOTE_TIMEOUT < grace {
                assert!(ended.is_clean, "{silence:?} of {grace:?}");
                assert!(!node.has("lock", now()), "it was answered");
            } else if silence > grace {
                assert!(!ended.is_clean, "{silence:?} of {grace:?}");
            }
            let latest = grace.max(silence) + 2 * TICK;
            assert!(now() - asked_at <= latest, "after {:?}", now() - asked_at);
        });
    });
}

#[test]
fn unsent_requests_are_not_sent_on_the_next_connection() {
    for_seeds(10, |seed| {
        play(seed, async |program, mut dice| {
            let client = program.client("").ttl(TTL).build().expect("valid");
            let rival = program.client(" rival").ttl(TTL).build().expect("valid");
            all_attached(&client).await;
            all_attached(&rival).await;
            let struck = dice.below(3);
            program.nodes[struck].set(Manner::Hang);
            // More messages than a connection of the simulation takes while the server does not
            // read.
            for number in 0..100 {
                polled(client.mutex(format!("lock-{number}")).try_lock(), 1).await;
                sleep(TICK).await;
            }
            eventually(Duration::from_secs(2), "the link is given up", || {
                answer(&client, struck) == NodeAnswer::NodeError(NodeError::TimedOut)
            })
            .await;
            program.nodes[struck].set(Manner::Answer);
            all_attached(&client).await;
            let accepted = program.nodes[struck].accepted();
            answers_are_right(&client, &rival).await;
            no_key_within(&program, Duration::from_secs(3)).await;
            sleep(Duration::from_secs(3)).await;
            assert_eq!(program.nodes[struck].accepted(), accepted, "the new link is sound");
        });
    });
}

#[test]
fn forgotten_scripts_are_sent_again() {
    for_seeds(20, |seed| {
        play(seed, async |program, mut dice| {
            let client = program.client("").ttl(TTL).build().expect("valid");
            let rival = program.client(" rival").ttl(TTL).build().expect("valid");
            all_attached(&client).await;
            all_attached(&rival).await;
            let forget = || program.nodes.iter().for_each(|node| node.forget_scripts());
            let guard = client.mutex("lock").lock().await.expect("every server answers");
            match dice.below(3) {
                0 => {
                    forget();
                    guard.verify().await.expect("an inspection is sent again");
                }
                1 => {
                    forget();
                    guard.extend(2 * TTL).await.expect("an extension is tried again");
                }
                _ => {}
            }
            forget();
            guard.release().await.expect("a release is sent again");
            no_key_within(&program, VOTE_TIMEOUT).await;
            answers_are_right(&client, &rival).await;
        });
    });
}

/// With three servers.
fn play<F>(seed: u64, story: impl Fn(Program, Dice) -> F + 'static)
where
    F: Future<Output = ()> + 'static,
{
    fixture::play(seed, 3, story);
}

/// Each reply belongs to its request, whatever is still in flight on earlier connections.
async fn answers_are_right(client: &Client, rival: &Client) {
    for number in 0..3 {
        let mutex = client.mutex(format!("fresh-{number}"));
        let guard = mutex.try_lock().await.expect("all answer").expect("it is free");
        guard.verify().await.expect("it is ours");
        let name = guard.name().to_owned();
        let other = rival.mutex(name).try_lock().await.expect("all answer");
        assert!(other.is_none(), "it is not theirs");
        guard.extend(2 * TTL).await.expect("it is ours");
        guard.release().await.expect("it was ours");
    }
    assert_eq!(
        client.node_status().iter().filter(|node| node.answer != NodeAnswer::Attached).count(),
        0
    );
}

async fn no_key_within(program: &Program, bound: Duration) {
    eventually(bound, "no key is left", || {
        program.nodes.iter().all(|node| node.names(now()).is_empty())
    })
    .await;
}

fn answer(client: &Client, node: usize) -> NodeAnswer {
    client.node_status()[node].answer.clone()
}

const TTL: Duration = Duration::from_secs(30);

/// What follows from the ttl on a fast network.
const VOTE_TIMEOUT: Duration = Duration::from_millis(50);
