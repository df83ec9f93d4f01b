//! Many waiters cost a server no more than one.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use quorate_testkit::{
    Server, eventually,
    redis::{cmd, pipe},
};
use tokio::task::JoinSet;

use super::fixture::{NAME, Queue};
use crate::conformance::fixture::{Fixture, PATIENCE, on_servers, take};

in_default_mode! {
    [1, 3] => lock_is_granted_to_each_of_many_waiters;
}

async fn lock_is_granted_to_each_of_many_waiters(fixture: &Fixture) {
    let queue = Queue::new(fixture);
    let client = queue.client("alice").await;
    let guard = take(client.mutex(NAME)).await;
    let (turns, is_held) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let mut waiters = JoinSet::new();
    for _ in 0..CROWD {
        let (mutex, turns, is_held) = (client.mutex(NAME), turns.clone(), is_held.clone());
        waiters.spawn(async move {
            let guard = mutex.lock().await.expect("its turn comes");
            assert!(!is_held.swap(true, Ordering::SeqCst), "it has two holders");
            turns.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            is_held.store(false, Ordering::SeqCst);
            guard.release().await.expect("it is held");
        });
    }
    queue.wait_until_queued(CROWD);
    guard.release().await.expect("it is held");
    while let Some(ended) = waiters.join_next().await {
        ended.expect("no waiter fails");
    }
    assert_eq!(turns.load(Ordering::SeqCst), CROWD);
    fixture.wait_until_empty(fixture.all());
}

#[test]
fn many_waiters_share_one_connection_and_one_channel() {
    on_servers(&[1, 3], async |fixture| {
        let queue = Queue::new(fixture);
        let client = queue.client("alice").await;
        let guard = take(client.mutex(NAME)).await;
        let mut waiters = JoinSet::new();
        for _ in 0..CROWD {
            let mutex = client.mutex(NAME);
            waiters.spawn(async move { mutex.lock().await.map(drop) });
        }
        queue.wait_until_queued(CROWD);
        for server in fixture.servers() {
            assert_eq!(connections(server), 1);
            assert_eq!(channels(server).len(), 1, "{:?}", channels(server));
        }
        waiters.shutdown().await;
        queue.wait_until_queued(0);
        fixture.wait_until_only(NAME, fixture.all());
        guard.release().await.expect("it is held");
        fixture.wait_until_empty(fixture.all());
    });
}

/// All waiters ask together when they reconnect to a server that has lost them.
#[test]
fn lock_without_notifications_does_not_delay_other_locks() {
    on_servers(&[1], async |fixture| {
        let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
        let names: Vec<String> = (0..10).map(|number| format!("a:{number}")).collect();
        let (mut robbed, mut waiters) = (Vec::new(), JoinSet::new());
        for name in &names {
            robbed.push(take(alice.mutex(name).no_renew()).await);
            let (mutex, name) = (bob.mutex(name), name.clone());
            waiters.spawn(async move { mutex.lock().await.map(|_| name) });
        }
        let mut server = fixture.servers()[0].connection();
        let mut is_awaited = |name: &String| {
            let waiting = cmd("ZCARD").arg(line_of(name)).query(&mut server);
            waiting.is_ok_and(|count: usize| count == 1)
        };
        eventually("all wait in the queue", PATIENCE, || names.iter().all(&mut is_awaited));

        let spoilt = &names[4];
        let mut forget = pipe();
        forget.atomic().cmd("FLUSHALL").set(spoilt, "another's").set(line_of(spoilt), "no line");
        forget.exec(&mut server).expect("it forgets");
        for _ in 1..names.len() {
            let ended = tokio::time::timeout(PATIENCE, waiters.join_next()).await;
            let name = ended.expect("it is free").expect("one of them").expect("no panic");
            assert_ne!(name.expect("it is free"), *spoilt, "another owner holds it");
        }
        waiters.shutdown().await;
    });
}

fn line_of(name: &str) -> String {
    format!("quorate:q:{{{name}}}")
}

fn connections(server: &Server) -> usize {
    let mut list = cmd("CLIENT");
    let list: String = list.arg("LIST").query(&mut server.connection()).expect("a list");
    list.lines().filter(|line| line.contains("name=quorate-")).count()
}

fn channels(server: &Server) -> Vec<String> {
    let mut list = cmd("PUBSUB");
    list.arg("CHANNELS").query(&mut server.connection()).expect("a list")
}

const CROWD: usize = 200;
