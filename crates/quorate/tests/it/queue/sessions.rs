//! Waiters, and servers or clients that end or lose data.

use std::time::Instant;

use quorate::{
    Client, ClientBuilder,
    error::{ExtendError, LostReason, NodeAnswer},
};
use quorate_testkit::{Fault, Proxy, Server, eventually, redis::cmd};

use super::fixture::{NAME, Queue, line};
use crate::{
    conformance::fixture::{Fixture, LONG, PATIENCE, on_servers, take},
    faults::fixture::connect_to_all,
    links::executor::block_on,
    watchdog::journal::Journal,
};

#[test]
fn waiter_without_connections_is_skipped_at_once() {
    on_servers(&[1, 3], async |fixture| {
        let fixture = &fixture.unprotected();
        let queue = Queue::new(fixture);
        let proxies: Vec<_> =
            fixture.servers().iter().map(|it| Proxy::start(&it.address())).collect();
        let (alice, bob) = (queue.client("alice").await, queue.client("bob").await);
        let gone = fixture.connect(through(&proxies)).await;
        let guard = take(alice.mutex(NAME)).await;
        let mutex = gone.mutex(NAME);
        let first = tokio::spawn(async move { mutex.lock().await });
        let is_queued = || fixture.servers().iter().all(|server| line(server).len() == 1);
        eventually("it waits in the queue", PATIENCE, is_queued);
        let mutex = bob.mutex(NAME);
        let second = tokio::spawn(async move { mutex.lock().await });
        let are_queued = || fixture.servers().iter().all(|server| line(server).len() == 2);
        eventually("both wait in the queue", PATIENCE, are_queued);

        proxies.iter().for_each(|proxy| proxy.set(Fault::Refuse));
        let is_alone = || fixture.servers().iter().all(|it| listeners(it) == 2);
        eventually("the servers have noticed", PATIENCE, is_alone);
        guard.release().await.expect("it is held");
        // The ttl is 30 seconds: no client waits for the client that has ended.
        let had = tokio::time::timeout(PATIENCE, second).await.expect("it is skipped");
        let had = had.expect("no panic").expect("the next one is granted");

        // It is queued again as soon as it is back.
        proxies.iter().for_each(|proxy| proxy.set(Fault::Pass));
        eventually("it waits in the queue again", PATIENCE, is_queued);
        had.release().await.expect("it is held");
        let had = tokio::time::timeout(PATIENCE, first).await.expect("its turn comes");
        had.expect("no panic").expect("its turn comes").verify().await.expect("it is held");
    });
}

#[test]
fn waiters_queue_again_on_a_minority_that_lost_its_data() {
    on_servers(&[3, 5], async |fixture| {
        let queue = Queue::new(fixture);
        let (alice, bob) = (queue.client("alice").await, queue.client("bob").await);
        let guard = take(alice.mutex(NAME)).await;
        let waiters: Vec<_> = (0..4).map(|number| queue.join(&bob, number)).collect();
        (0..fixture.tolerated()).for_each(|node| fixture.forget(node));
        // Its sessions are gone, too: the links reconnect, and all clients queue again. One of
        // them is granted it there, or alice is granted it again.
        for server in &fixture.servers()[..fixture.tolerated()] {
            eventually("they are back", PATIENCE, || line(server).len() >= 3);
        }
        guard.check().expect("a majority has it");
        guard.release().await.expect("it is held");
        for waiter in waiters {
            waiter.await.expect("no panic");
        }
        assert_eq!(queue.turns(), [0, 1, 2, 3], "of one client, in their order");
        fixture.wait_until_empty(fixture.all());
    });
}

#[test]
fn waiters_continue_after_all_servers_lost_their_data() {
    on_servers(&[1, 3], async |fixture| {
        let queue = Queue::new(fixture);
        let (alice, bob) = (queue.client("alice").await, queue.client("bob").await);
        let robbed = take(alice.mutex(NAME).no_renew()).await;
        let waiting = queue.join_to_keep(&bob);
        fixture.all().for_each(|node| fixture.forget(node));
        // No key is left that could keep the waiter out, which it finds when its session is gone.
        let had = tokio::time::timeout(PATIENCE, waiting).await.expect("it comes back");
        // Its fence is not guaranteed to grow: earlier fences are lost, and it is drawn by a
        // client whose clock need not agree with the other's to the millisecond.
        let had = had.expect("no panic").expect("it is free");
        // The former waiter is notified as soon as a session begins in which it can ask.
        let started = Instant::now();
        let lost = loop {
            match robbed.extend(LONG).await {
                Err(ExtendError::Lost(lost)) => break lost,
                other => assert!(started.elapsed() < PATIENCE, "it is not told: {other:?}"),
            }
        };
        assert_eq!(lost.reason, LostReason::Gone);
        had.verify().await.expect("it is held");
    });
}

#[test]
fn servers_without_scripts_still_hand_off() {
    on_servers(&[1, 3], async |fixture| {
        let queue = Queue::new(fixture);
        let (alice, bob) = (queue.client("alice").await, queue.client("bob").await);
        for _ in 0..5 {
            flush_scripts(fixture);
            let guard = take(alice.mutex(NAME)).await;
            queue.wait_until_queued(0);
            flush_scripts(fixture);
            let waiting = queue.join_to_keep(&bob);
            flush_scripts(fixture);
            guard.release().await.expect("it is held");
            let had = tokio::time::timeout(PATIENCE, waiting).await.expect("its turn comes");
            let had = had.expect("no panic").expect("its turn comes");
            flush_scripts(fixture);
            had.extend(LONG).await.expect("it is held");
            flush_scripts(fixture);
            had.release().await.expect("it is held");
            fixture.wait_until_empty(fixture.all());
        }
    });
}

#[test]
fn waiters_queue_again_on_a_restarted_minority() {
    on_servers(&[3], async |fixture| {
        let fixture = &fixture.unprotected();
        let queue = Queue::new(fixture);
        let (alice, bob) = (queue.client("alice").await, queue.client("bob").await);
        let guard = take(alice.mutex(NAME)).await;
        let waiters: Vec<_> = (0..4).map(|number| queue.join(&bob, number)).collect();
        fixture.restart_empty(0);
        let restarted = &fixture.servers()[0];
        eventually("they are back", PATIENCE, || line(restarted).len() >= 3);
        guard.release().await.expect("it is held");
        for waiter in waiters {
            waiter.await.expect("no panic");
        }
        assert_eq!(queue.turns(), [0, 1, 2, 3], "of one client, in their order");
        fixture.wait_until_empty(fixture.all());
    });
}

/// The lock is granted to the next waiter there, so its grant would be counted twice.
#[test]
fn grant_without_its_session_does_not_count() {
    let servers = Server::start_many(3);
    let [forgetful, second, third] = &servers[..] else { panic!("three servers") };
    let settings = || Client::builder().quarantine(false).ttl(LONG);
    let hold = |server: &Server| {
        let holder = connect_to_all(settings().nodes([server.url()]));
        block_on(take(holder.mutex(NAME)))
    };
    let (first_held, last_held) = (hold(second), hold(third));
    let (urls, journal) = (servers.iter().map(Server::url), Journal::default());
    let client = connect_to_all(settings().nodes(urls).observer(journal.clone()));
    let mutex = client.mutex(NAME);
    let waiter = std::thread::spawn(move || block_on(mutex.lock_timeout(PATIENCE)));
    eventually("one server grants it", PATIENCE, || forgetful.get(NAME).is_some());
    for server in [second, third] {
        eventually("it waits in the queue", PATIENCE, || line(server).len() == 1);
    }

    forget_and_turn_away(forgetful);
    let is_lost = || client.node_status()[0].answer != NodeAnswer::Attached;
    eventually("the session is lost", PATIENCE, is_lost);
    block_on(first_held.release()).expect("it is held");
    eventually("it is handed off", PATIENCE, || line(second).is_empty());
    // Earlier pushes of the second server have arrived by then.
    block_on(block_on(take(client.mutex("b"))).release()).expect("it is held");
    assert_eq!(journal.count("acquire a ended"), 0, "one server of three has it");

    block_on(last_held.release()).expect("it is held");
    let had = waiter.join().expect("no panic").expect("two servers have it");
    block_on(had.verify()).expect("two servers have it");
}

/// Existing connections stay open, and no new one is accepted.
fn forget_and_turn_away(server: &Server) {
    let mut connection = server.connection();
    let set = cmd("CONFIG").arg(&["SET", "requirepass", "secret"]).exec(&mut connection);
    set.expect("it asks for a password from now on");
    cmd("FLUSHALL").exec(&mut connection).expect("it forgets");
}

fn through(proxies: &[Proxy]) -> ClientBuilder {
    Client::builder()
        .quarantine(false)
        .nodes(proxies.iter().map(Proxy::url))
        .ttl(LONG)
        .vote_timeout(PATIENCE)
}

fn flush_scripts(fixture: &Fixture) {
    for server in fixture.servers() {
        let flush = cmd("SCRIPT").arg("FLUSH").exec(&mut server.connection());
        flush.expect("the scripts are gone");
    }
}

/// How many clients listen.
fn listeners(server: &Server) -> usize {
    let mut list = cmd("PUBSUB");
    let channels: Vec<String> =
        list.arg("CHANNELS").query(&mut server.connection()).expect("a list");
    channels.len()
}
