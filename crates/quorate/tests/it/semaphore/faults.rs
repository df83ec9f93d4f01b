//! Nodes that are down.

use std::time::Duration;

use quorate::error::LockError;
use quorate_testkit::eventually;

use super::jobs;
use crate::{
    faults::fixture::{PATIENCE, ProxyFixture, connect_to_all},
    links::executor::block_on,
    mode::Mode,
};

in_both_modes! {
    one_of_three_nodes_is_not_needed,
    without_a_majority_there_are_no_permits,
    waiter_keeps_waiting_without_a_majority,
}

fn one_of_three_nodes_is_not_needed(mode: Mode) {
    let fixture = ProxyFixture::start_in(mode, 3);
    let client = fixture.connect();
    let first = block_on(jobs(&client, 2).acquire()).unwrap();
    fixture.servers[2].kill();
    let second = block_on(jobs(&client, 2).acquire()).unwrap();
    assert_ne!(first.name(), second.name());
    drop(first);
    let third = block_on(jobs(&client, 2).acquire()).unwrap();
    assert!(block_on(jobs(&client, 2).try_acquire()).unwrap().is_none(), "both are taken");
    let semaphore = jobs(&client, 2);
    let waiting = std::thread::spawn(move || block_on(semaphore.acquire_timeout(PATIENCE)));
    let waited = block_on(jobs(&client, 2).acquire_timeout(Duration::from_millis(50)));
    assert!(matches!(waited, Err(LockError::Timeout { .. })), "{waited:?}");
    // Not awaited: on a stalled machine the answer of another node may be late.
    drop(third);
    let fourth = waiting.join().unwrap().unwrap();
    assert_ne!(fourth.name(), second.name());
    drop((second, fourth));
    let rest = || fixture.servers[..2].iter().all(|server| server.lock_keys().is_empty());
    eventually("no key is left", PATIENCE, rest);
}

fn without_a_majority_there_are_no_permits(mode: Mode) {
    let fixture = ProxyFixture::start_in(mode, 3);
    let client = fixture.connect();
    fixture.servers[1].kill();
    fixture.servers[2].kill();
    let tried = block_on(jobs(&client, 2).try_acquire());
    assert!(matches!(tried, Err(LockError::NoQuorum { .. })), "{tried:?}");
    for wait in [0, 20].map(Duration::from_millis) {
        let waited = block_on(jobs(&client, 2).acquire_timeout(wait));
        assert!(matches!(waited, Err(LockError::NoQuorum { .. })), "{waited:?}");
    }
    let waited = block_on(jobs(&client, 2).ttl(Duration::from_millis(200)).acquire());
    assert!(matches!(waited, Err(LockError::NoQuorum { .. })), "{waited:?}");
    eventually("no key is left", PATIENCE, || fixture.servers[0].lock_keys().is_empty());
}

fn waiter_keeps_waiting_without_a_majority(mode: Mode) {
    let fixture = ProxyFixture::start_in(mode, 3);
    let client = fixture.connect();
    let holder = connect_to_all(fixture.direct());
    let guard = block_on(jobs(&holder, 1).acquire()).unwrap();
    let semaphore = jobs(&client, 1);
    let waiting = std::thread::spawn(move || block_on(semaphore.acquire_timeout(PATIENCE)));
    eventually("it is the first waiter", PATIENCE, || {
        fixture.servers.iter().all(|server| server.get("jobs#queue").is_some())
    });
    fixture.proxies.iter().for_each(quorate_testkit::Proxy::close_all);
    block_on(guard.release()).unwrap();
    let got = waiting.join().unwrap().unwrap();
    assert_eq!(got.name(), "jobs#1");
    drop(got);
    fixture.wait_until_empty("at the end");
}
