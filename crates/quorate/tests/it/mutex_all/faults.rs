//! Nodes that are down.

use std::time::Duration;

use quorate::{
    Client,
    error::LockError,
    memory::{Behaviour, MemoryNodes},
};
use quorate_testkit::eventually;

use super::pair;
use crate::{
    faults::fixture::{PATIENCE, ProxyFixture, connect_to_all},
    links::executor::block_on,
    mode::Mode,
};

in_both_modes! {
    minority_of_nodes_that_fail_or_hang_is_not_needed,
    killed_minority_is_not_needed,
    without_a_majority_no_set_is_held,
    set_waits_on_while_its_connections_break,
}

fn minority_of_nodes_that_fail_or_hang_is_not_needed(mode: Mode) {
    use Behaviour::{Fail, Hang, Mute};
    for count in [3, 5] {
        for away in [Fail, Hang, Mute] {
            let nodes = MemoryNodes::new(count);
            (count / 2 + 1..count).for_each(|node| nodes.set(node, away));
            // A single try waits for silent nodes for this time.
            let vote_timeout = Duration::from_millis(200);
            let settings = || {
                let builder = Client::builder().memory(&nodes).vote_timeout(vote_timeout);
                mode.of(builder).build().expect("the settings are valid")
            };
            let (alice, bob) = (settings(), settings());
            let set = block_on(pair(&alice).lock_timeout(PATIENCE)).expect("a majority answers");
            block_on(set.verify()).expect("a majority has both");
            assert!(block_on(pair(&bob).try_lock()).expect("a majority answers").is_none());
            let other = bob.mutex_all(["b", "c"]);
            let waiting = std::thread::spawn(move || block_on(other.lock_timeout(PATIENCE)));
            drop(set);
            let other = waiting.join().expect("no panic").expect("b is free");
            let rest = block_on(alice.mutex("a").try_lock()).expect("a majority answers");
            assert!(rest.is_some(), "{away:?}: a is free");
            drop((other, rest));
            (0..count).for_each(|node| nodes.set(node, Behaviour::Answer));
            let is_empty = || (0..count).all(|node| nodes.names(node).is_empty());
            eventually("no key is left", PATIENCE, is_empty);
        }
    }
}

fn killed_minority_is_not_needed(mode: Mode) {
    let fixture = ProxyFixture::start_in(mode, 3);
    let client = fixture.connect();
    let first = block_on(pair(&client).lock()).expect("all are free");
    let other = client.mutex_all(["b", "c"]);
    let waiting = std::thread::spawn(move || block_on(other.lock_timeout(PATIENCE)));
    fixture.servers[2].kill();
    block_on(first.verify()).expect("a majority has both");
    assert!(block_on(pair(&client).try_lock()).expect("a majority answers").is_none());
    drop(first);
    let second = waiting.join().expect("no panic").expect("b is free");
    block_on(second.verify()).expect("a majority has both");
    drop(second);
    drop(block_on(pair(&client).lock_timeout(PATIENCE)).expect("all are free"));
    let rest = || fixture.servers[..2].iter().all(|server| server.lock_keys().is_empty());
    eventually("no key is left", PATIENCE, rest);
}

fn without_a_majority_no_set_is_held(mode: Mode) {
    let fixture = ProxyFixture::start_in(mode, 3);
    let client = fixture.connect();
    fixture.servers[1].kill();
    fixture.servers[2].kill();
    let tried = block_on(pair(&client).try_lock());
    assert!(matches!(tried, Err(LockError::NoQuorum { .. })), "{tried:?}");
    for wait in [0, 20].map(Duration::from_millis) {
        let waited = block_on(pair(&client).lock_timeout(wait));
        assert!(matches!(waited, Err(LockError::NoQuorum { .. })), "{waited:?}");
    }
    let waited = block_on(pair(&client).ttl(Duration::from_millis(200)).lock());
    assert!(matches!(waited, Err(LockError::NoQuorum { .. })), "{waited:?}");
    eventually("no key is left", PATIENCE, || fixture.servers[0].lock_keys().is_empty());
}

fn set_waits_on_while_its_connections_break(mode: Mode) {
    let fixture = ProxyFixture::start_in(mode, 3);
    let client = fixture.connect();
    let holder = connect_to_all(fixture.direct());
    let guard = block_on(holder.mutex("b").lock()).expect("it is free");
    let set = pair(&client);
    let waiting = std::thread::spawn(move || block_on(set.lock_timeout(PATIENCE)));
    if mode == Mode::Queue {
        eventually("a is reserved", PATIENCE, || {
            fixture.servers.iter().all(|server| server.get("a").is_some())
        });
    }
    fixture.proxies.iter().for_each(quorate_testkit::Proxy::close_all);
    block_on(guard.release()).expect("it was held");
    let set = waiting.join().expect("no panic").expect("both are free");
    block_on(set.verify()).expect("both are held");
    drop(set);
    fixture.wait_until_empty("at the end");
}
