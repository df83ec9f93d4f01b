//! Ways to two holders that the guard does not close yet. Each test says what should be so.

use std::time::Duration;

use quorate::{Client, ClientBuilder};
use quorate_testkit::{Fault, Proxy, Server};

use super::stage::{MAX_TTL, Stage, attached, is_attached, wait_for_vote, wait_until};

/// In classic mode a lock is taken by a plain `SET`, which asks for no session. Connections stay
/// when a server is flushed, and the next ping is up to 1.25 s away.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a node that was flushed votes in classic mode until it is pinged"]
async fn a_flushed_node_does_not_vote_in_classic_mode() {
    let stage = Stage::of(Server::start_many(3), LONG).await;
    let holder = without_third(stage.settings_of(urls_without_third(&stage)).classic()).await;
    let other = attached(stage.settings().classic()).await;
    let held = holder.mutex("a").no_renew().lock().await.expect("two of them vote");
    stage.servers[1].flush_all();
    let second = other.mutex("a").try_lock().await;
    assert!(!second.is_ok_and(|it| it.is_some()) || held.check().is_err(), "two hold the lock");
}

/// The keys of locks go, the sessions stay, and the next ping is up to 1.25 s away; of a second or
/// less it will not take notice either.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a step by less than a session's life is noticed with the next ping only"]
async fn a_node_whose_clock_was_set_forward_by_a_little_does_not_vote() {
    for step in [900, 1_500, 3_500] {
        let servers = Server::builder().own_clock().start_many(3);
        let stage = Stage::of(servers, LONG).await;
        let holder = without_third(stage.settings_of(urls_without_third(&stage))).await;
        let other = stage.client("other").await;
        let mutex = holder.mutex("a").ttl(Duration::from_millis(step - 200)).no_renew();
        let held = mutex.lock().await.expect("two of them vote");
        stage.servers[1].clock().forward(Duration::from_millis(step));
        let second = other.mutex("a").try_lock().await;
        let is_held = second.is_ok_and(|it| it.is_some());
        assert!(!is_held || held.check().is_err(), "two hold the lock after {step} ms");
    }
}

/// The first server has its record still, and does not know what the other one granted in its
/// place. Who has not met the other one has no reason to doubt it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a server that was replaced, and is back, votes for whoever did not meet the other one"]
async fn a_node_that_was_replaced_and_is_back_does_not_vote() {
    let (servers, stranger) = (Server::start_many(3), Server::start());
    let proxy = Proxy::start(&servers[1].address());
    let urls = vec![servers[0].url(), proxy.url(), servers[2].url()];
    let stage = Stage::at(urls, servers, MAX_TTL).await;
    let client = stage.client("client").await;
    proxy.lead_to(&stranger.address());
    wait_until(&client, "the first one is left", |nodes| !is_attached(&nodes[1]));
    wait_for_vote(&client, 1);
    let third = Proxy::start(&stage.servers[2].address());
    third.set(Fault::Refuse);
    let urls = [stage.servers[0].url(), proxy.url(), third.url()];
    let holder = without_third(stage.settings_of(urls)).await;
    let mutex = holder.mutex("a").ttl(MAX_TTL).no_renew();
    let held = mutex.lock().await.expect("two of them vote");
    proxy.lead_to(&stage.servers[1].address());
    let other = stage.settings().build().expect("the settings are valid");
    let second = other.mutex("a").lock_timeout(MAX_TTL / 2).await;
    assert!(second.is_err() || held.check().is_err(), "two hold the lock");
}

/// One that leads nowhere in the place of the third.
fn urls_without_third(stage: &Stage) -> [String; 3] {
    // Dropped at once: nothing listens there.
    let nowhere = Proxy::start(&stage.servers[2].address()).url();
    [stage.servers[0].url(), stage.servers[1].url(), nowhere]
}

/// A client that is attached to the first and the second.
async fn without_third(settings: ClientBuilder) -> Client {
    let client = settings.connect().await.expect("two of them vote");
    wait_until(&client, "two are attached", |nodes| nodes[..2].iter().all(is_attached));
    client
}

const LONG: Duration = Duration::from_secs(4);
