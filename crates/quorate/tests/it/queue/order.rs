//! The first waiter is first, and is notified without asking.

use std::{collections::HashSet, time::Duration};

use quorate::Client;
use quorate_testkit::{Fault, Proxy, Server, eventually, redis::cmd};

use super::fixture::{NAME, Queue, line};
use crate::conformance::fixture::{Fixture, PATIENCE, on_memory, on_servers, take};

in_default_mode! {
    [1, 3, 5] => waiters_of_one_client_are_served_in_order,
        release_hands_the_lock_off_without_a_request,
        dropped_guard_hands_the_lock_off,
        expired_lock_is_granted_to_a_waiter;
}

async fn waiters_of_one_client_are_served_in_order(fixture: &Fixture) {
    let queue = Queue::new(fixture);
    let client = queue.client("alice").await;
    let guard = take(client.mutex(NAME)).await;
    let waiters: Vec<_> = (0..10).map(|number| queue.join(&client, number)).collect();
    guard.release().await.expect("it is held");
    for waiter in waiters {
        waiter.await.expect("no panic");
    }
    assert_eq!(queue.turns(), (0..10).collect::<Vec<_>>());
    fixture.wait_until_empty(fixture.all());
}

/// Nodes in memory have the clock of their clients, so that the order is exact.
#[test]
fn waiters_of_several_clients_are_served_in_order() {
    on_memory(&[1, 3, 5], async |fixture| {
        let queue = Queue::new(fixture);
        let clients = [queue.client("a").await, queue.client("b").await, queue.client("c").await];
        let guard = take(clients[1].mutex(NAME)).await;
        let waiters: Vec<_> =
            (0..12).map(|number| queue.join(&clients[number * 2 % 3], number)).collect();
        drop(guard);
        for waiter in waiters {
            waiter.await.expect("no panic");
        }
        assert_eq!(queue.turns(), (0..12).collect::<Vec<_>>());
    });
}

/// With clocks of their own, clients know the time of the servers as well as their round trips
/// allow. The queue on a server decides which waiter is next.
#[test]
fn lock_is_handed_off_in_the_order_of_the_servers() {
    on_servers(&[1, 3], async |fixture| {
        let queue = Queue::new(fixture);
        let clients = [queue.client("a").await, queue.client("b").await, queue.client("c").await];
        let guard = take(clients[1].mutex(NAME)).await;
        let mut seen = HashSet::new();
        let mut numbers = Vec::new();
        let mut waiters = Vec::new();
        for number in 0..12 {
            waiters.push(queue.join(&clients[number * 2 % 3], number));
            let new =
                line(&fixture.servers()[0]).into_iter().find(|owner| seen.insert(owner.clone()));
            numbers.push((new.expect("it is queued there"), number));
        }
        let lines: Vec<_> = fixture.servers().iter().map(line).collect();
        assert!(lines.iter().all(|it| *it == lines[0]), "the same on every server: {lines:?}");
        let number = |owner: &String| numbers.iter().find(|it| it.0 == *owner).map(|it| it.1);
        let expected: Vec<_> = lines[0].iter().filter_map(number).collect();
        guard.release().await.expect("it is held");
        for waiter in waiters {
            waiter.await.expect("no panic");
        }
        assert_eq!(queue.turns(), expected);
        fixture.wait_until_empty(fixture.all());
    });
}

/// A release deletes first, which makes room for its writes.
#[test]
fn full_servers_hand_the_lock_off() {
    on_servers(&[1, 3], async |fixture| {
        let queue = Queue::new(fixture);
        let client = queue.client("a").await;
        let guard = take(client.mutex(NAME)).await;
        let waiters = [queue.join(&client, 0), queue.join(&client, 1)];
        let limit = |bytes: u32| {
            let mut set = cmd("CONFIG");
            set.arg("SET").arg("maxmemory").arg(bytes);
            let told = |server: &Server| set.exec(&mut server.connection());
            fixture.servers().iter().map(told).for_each(|it| it.expect("the server takes it"));
        };
        limit(1);
        guard.release().await.expect("it is held");
        for waiter in waiters {
            waiter.await.expect("no panic");
        }
        assert_eq!(queue.turns(), [0, 1]);
        limit(0);
        fixture.wait_until_empty(fixture.all());
    });
}

/// The request of a late waiter runs after the commands in flight, and is not lost.
#[test]
fn waiter_that_joins_during_a_hand_off_is_queued() {
    let server = Server::start();
    let proxy = Proxy::start(&server.address());
    let runtime = tokio::runtime::Runtime::new().expect("the system gives a runtime");
    runtime.block_on(async {
        let client = Client::connect([proxy.url()]).await.expect("the server is up");
        let guard = take(client.mutex(NAME)).await;
        let waiter = || {
            let mutex = client.mutex(NAME);
            tokio::spawn(async move { mutex.lock().await.expect("its turn comes") })
        };
        let first = waiter();
        eventually("one waits in the queue", PATIENCE, || line(&server).len() == 1);
        let delay = Duration::from_millis(50);
        proxy.set(Fault::Delay { up: Duration::ZERO, down: delay });
        drop(guard);
        let second = waiter();
        let first = first.await.expect("no panic");
        eventually("the other waits in the queue", PATIENCE, || line(&server).len() == 1);
        assert!(!second.is_finished());
        proxy.set(Fault::Pass);
        first.release().await.expect("it is held");
        second.await.expect("no panic").release().await.expect("it is held");
    });
}

async fn release_hands_the_lock_off_without_a_request(fixture: &Fixture) {
    let queue = Queue::new(fixture);
    let (holder, waiter) = (fixture.client("alice").await, queue.client("bob").await);
    let guard = take(holder.mutex(NAME).ttl(TTL)).await;
    let mutex = waiter.mutex(NAME).ttl(TTL);
    let waiting = tokio::spawn(async move { mutex.lock().await });
    queue.wait_until_queued(1);
    guard.release().await.expect("it is held");
    // A waiter asks again after twenty seconds at the earliest.
    let had = tokio::time::timeout(TTL / 5, waiting).await.expect("it is notified");
    had.expect("no panic").expect("it is granted").verify().await.expect("it is held");
    let asked = queue.answers();
    assert_eq!(asked, fixture.len(), "each node once");
}

async fn dropped_guard_hands_the_lock_off(fixture: &Fixture) {
    let queue = Queue::new(fixture);
    let (holder, waiter) = (fixture.client("alice").await, queue.client("bob").await);
    let guard = take(holder.mutex(NAME).ttl(TTL)).await;
    let waiting = queue.join_to_keep(&waiter);
    drop(guard);
    let had = tokio::time::timeout(PATIENCE, waiting).await.expect("it is notified");
    had.expect("no panic").expect("it is granted").verify().await.expect("it is held");
}

async fn expired_lock_is_granted_to_a_waiter(fixture: &Fixture) {
    let queue = Queue::new(fixture);
    let (holder, waiter) = (fixture.client("alice").await, queue.client("bob").await);
    let guard = take(holder.mutex(NAME).ttl(Duration::from_secs(1)).no_renew()).await;
    let waiting = queue.join_to_keep(&waiter);
    // With a ttl of 30 s it would ask again after 10: it knows when the lock expires.
    let had = tokio::time::timeout(Duration::from_secs(9), waiting).await.expect("it looks");
    let had = had.expect("no panic").expect("it is free");
    assert!(guard.check().is_err(), "its holder knew before");
    had.verify().await.expect("it is held");
}

/// Waiters ask again after a third of it.
const TTL: Duration = Duration::from_secs(60);
