//! Locks on real servers that are held for much longer than their ttl.

use std::time::Duration;

use quorate::{Client, ClientBuilder};
use quorate_testkit::{Server, eventually};

use super::{fixture::NAME, journal::Journal};
use crate::{
    faults::fixture::{PATIENCE, connect_to_all},
    links::executor::block_on,
};

#[test]
fn server_keeps_a_held_lock_for_many_ttls() {
    let server = Server::start();
    let [holder, other] = [(); 2].map(|()| connect_to_all(settings(&[&server])));
    let guard = block_on(holder.mutex(NAME).lock()).unwrap();
    let value = server.get(NAME).unwrap();
    let end = server.time_us() + 6 * TTL.as_micros() as u64;
    let mut seen = Vec::new();
    eventually("six ttls have passed", PATIENCE, || {
        let left = server.pttl(NAME);
        assert!(left > 0, "it has {left} ms left");
        seen.push(left);
        assert!(block_on(other.mutex(NAME).try_lock()).unwrap().is_none());
        guard.check().unwrap();
        server.time_us() > end
    });
    assert_eq!(server.get(NAME).unwrap(), value);
    let growths = seen.windows(2).filter(|pair| pair[1] > pair[0]).count();
    assert!(growths >= 12, "it was extended {growths} times");
}

#[test]
fn killed_server_of_three_does_not_end_a_held_lock() {
    let servers = Server::start_many(3);
    let journal = Journal::default();
    let settings = settings(&servers.iter().collect::<Vec<_>>());
    let client = connect_to_all(settings.observer(journal.clone()));
    let guard = block_on(client.mutex(NAME).lock()).unwrap();
    servers[1].kill();
    let renewed = journal.count("renewed orders:42 done");
    eventually("three ttls have passed", PATIENCE, || {
        guard.check().unwrap();
        journal.count("renewed orders:42 done") > renewed + 12
    });
    servers[1].restart();
    assert!(servers[1].lock_keys().is_empty(), "it has no key");
    block_on(guard.release()).unwrap();
    assert!(servers.iter().all(|server| server.lock_keys().is_empty()));
}

#[tokio::test]
async fn task_that_blocks_its_runtime_keeps_its_lock() {
    let server = Server::start();
    let client = settings(&[&server]).connect().await.unwrap();
    let guard = client.mutex(NAME).lock().await.unwrap();
    let end = server.time_us() + 3 * TTL.as_micros() as u64;
    // This blocks the only thread of the runtime: no task and no timer of it runs meanwhile.
    eventually("three ttls have passed", PATIENCE, || server.time_us() > end);
    guard.check().unwrap();
    assert!(server.pttl(NAME) > 0);
    guard.release().await.unwrap();
}

/// With long timeouts for a busy machine, but shorter than the lease.
fn settings(servers: &[&Server]) -> ClientBuilder {
    let urls = servers.iter().map(|server| server.url());
    Client::builder().quarantine(false).nodes(urls).ttl(TTL).vote_timeout(TTL / 4)
}

/// Renewed after a quarter of it, so a busy machine may stall for three quarters.
const TTL: Duration = Duration::from_millis(500);
