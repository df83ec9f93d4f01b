//! Several clients adopt the same lease at the same time.

use std::thread;

use quorate::{Client, DetachedLease, error::LeaseError};
use quorate_testkit::{Fault, Proxy, Server, eventually};

use crate::{
    faults::fixture::{PATIENCE, ProxyFixture, connect_to_all, settings},
    links::executor::block_on,
    watchdog::fixture::NAME,
};

#[test]
fn no_two_of_several_adopters_succeed() {
    let fixture = ProxyFixture::start(3);
    let clients = [(); 3].map(|()| connect_to_all(fixture.direct()));
    race(&clients, &fixture.servers);
}

/// Each of two adopters may have one of two nodes: then none of them succeeds.
#[test]
fn no_two_of_several_adopters_succeed_while_a_node_is_down() {
    let fixture = ProxyFixture::start(3);
    let clients = [(); 3].map(|()| connect_to_all(fixture.direct()));
    fixture.servers[2].kill();
    race(&clients, &fixture.servers[..2]);
}

/// All clients adopt at once, again and again.
fn race(clients: &[Client; 3], servers: &[Server]) {
    for round in 0..ROUNDS {
        let lease = leave(&clients[0]);
        let adopted: Vec<_> = thread::scope(|scope| {
            let calls = clients.each_ref().map(|client| {
                let lease = &lease;
                scope.spawn(move || block_on(client.adopt(lease)))
            });
            calls.into_iter().filter_map(|call| call.join().unwrap().ok()).collect()
        });
        assert!(adopted.len() <= 1, "round {round}: {adopted:?}");
        drop(adopted);
        servers.iter().for_each(Server::flush_all);
    }
}

#[test]
fn second_adopter_fails_and_changes_nothing_while_a_node_is_down() {
    let fixture = Fixture::start();
    let lease = leave(&fixture.alice);
    // Carol's requests are under way, and arrive after Bob's.
    fixture.carols.iter().for_each(|proxy| proxy.set(Fault::BlackHole));
    let adopted = thread::scope(|scope| {
        let late = scope.spawn(|| block_on(fixture.carol.adopt(&lease)));
        let adopted = block_on(fixture.bob.adopt(&lease)).expect("two nodes have it");
        fixture.carols.iter().for_each(|proxy| proxy.set(Fault::Pass));
        let late = late.join().expect("no panic");
        assert!(late.is_err(), "{late:?}");
        adopted
    });
    block_on(adopted.verify()).expect("it is Bob's");
    let third = block_on(fixture.alice.adopt(&lease));
    assert!(matches!(third, Err(LeaseError::Lost(_))), "{third:?}");
    assert!(block_on(fixture.alice.mutex(NAME).try_lock()).expect("two answer").is_none());
    block_on(adopted.release()).expect("it is held");
}

/// Of the two nodes that have the lease, one receives Bob's request first, the other one Carol's.
#[test]
fn adopters_that_split_the_nodes_both_fail_and_leave_nothing() {
    let fixture = Fixture::start();
    let lease = leave(&fixture.alice);
    let left = fixture.servers[0].get(NAME);
    fixture.bobs[1].set(Fault::BlackHole);
    fixture.carols[0].set(Fault::BlackHole);
    thread::scope(|scope| {
        let calls = [&fixture.bob, &fixture.carol].map(|client| {
            let lease = &lease;
            scope.spawn(move || block_on(client.adopt(lease)))
        });
        eventually("each has one node", PATIENCE, || {
            fixture.servers[..2].iter().all(|server| server.get(NAME) != left)
        });
        for proxy in [&fixture.bobs[1], &fixture.carols[0]] {
            proxy.set(Fault::Pass);
        }
        for call in calls {
            let adopted = call.join().expect("no panic");
            assert!(adopted.is_err(), "{adopted:?}");
        }
    });
    drop(block_on(fixture.alice.mutex(NAME).lock_timeout(PATIENCE)).expect("both released it"));
}

/// Three clients and three nodes, one of which is down. Bob and Carol connect through proxies.
struct Fixture {
    servers: Vec<Server>,
    bobs: [Proxy; 2],
    carols: [Proxy; 2],
    alice: Client,
    bob: Client,
    carol: Client,
}

impl Fixture {
    fn start() -> Self {
        let servers = Server::start_many(3);
        let proxies = || [0, 1].map(|node: usize| Proxy::start(&servers[node].address()));
        let connect = |urls: [String; 2]| {
            let urls = urls.into_iter().chain([servers[2].url()]);
            connect_to_all(settings(urls).vote_timeout(PATIENCE))
        };
        let (bobs, carols) = (proxies(), proxies());
        let [bob, carol] =
            [&bobs, &carols].map(|proxies| connect(proxies.each_ref().map(Proxy::url)));
        let alice = connect([0, 1].map(|node: usize| servers[node].url()));
        servers[2].kill();
        Self { servers, bobs, carols, alice, bob, carol }
    }
}

fn leave(client: &Client) -> DetachedLease {
    let guard = block_on(client.mutex(NAME).lock_timeout(PATIENCE)).expect("it is free");
    block_on(guard.detach()).expect("it is held")
}

const ROUNDS: usize = 30;
