//! Late messages to the former owner of a lease, and its late commands, after the hand-over.

use std::time::Duration;

use quorate::{
    Client, Guard,
    error::{LeaseError, LostReason, NodeAnswer},
};
use quorate_testkit::{Fault, Proxy, Server, eventually, redis::cmd};

use crate::{
    cancellation::fixture::poll,
    conformance::fixture::LONG,
    faults::fixture::{PATIENCE, ProxyFixture, connect_to_all},
    links::executor::block_on,
    watchdog::{fixture::NAME, journal::Journal},
};

/// Alice holds the lock on two nodes, and waits in the queue of the third.
#[test]
fn former_owner_waits_in_no_queue() {
    let fixture = Fixture::start();
    let lease = block_on(fixture.alices.detach()).expect("two nodes have it");
    block_on(fixture.bobs.release()).expect("it is held");
    assert_eq!(fixture.servers[2].get(NAME), None, "it has no waiters");
    block_on(fixture.carol.renew_lease(&lease)).expect("two nodes have it");
    let adopted = block_on(fixture.carol.adopt(&lease)).expect("two nodes have it");
    assert_eq!(adopted.fence(), lease.fence());
    block_on(adopted.release()).expect("it is held");
    let left = || fixture.servers.iter().any(|server| server.get(NAME).is_some());
    eventually("no key is left", PATIENCE, || !left());
}

/// The third node learns of the hand-over too late, and grants her the lock as its next waiter.
#[test]
fn late_grant_does_not_count_and_is_released() {
    let fixture = Fixture::start();
    fixture.to_third.set(Fault::BlackHole);
    let lease = block_on(fixture.alices.detach()).expect("the other two have it");
    block_on(fixture.bobs.release()).expect("it is held");
    assert!(fixture.servers[2].get(NAME).is_some(), "she waited in the queue");
    block_on(fixture.carol.renew_lease(&lease)).expect("two nodes have it");
    fixture.servers[0].kill();
    let renewed = block_on(fixture.carol.renew_lease(&lease));
    assert!(matches!(renewed, Err(LeaseError::NoQuorum { .. })), "{renewed:?}");
    // The requests in flight are lost.
    cut_off(&fixture.alice, &fixture.to_third);
    fixture.to_third.set(Fault::Pass);
    eventually("it is released", PATIENCE, || fixture.servers[2].get(NAME).is_none());
}

/// Alice holds the lock on two nodes, and her request to the third is still in flight.
#[test]
fn request_that_arrives_after_the_hand_over_revives_nothing() {
    let servers = Server::start_many(3);
    let to_third = Proxy::start(&servers[2].address());
    let settings = || Client::builder().quarantine(false).ttl(LONG);
    let carol = connect_to_all(settings().nodes(servers.iter().map(Server::url)));
    let urls = [servers[0].url(), servers[1].url(), to_third.url()];
    let alice = connect_to_all(settings().nodes(urls));
    to_third.set(Fault::BlackHole);
    let guard = block_on(alice.mutex(NAME).lock()).expect("two nodes are free");
    let lease = block_on(guard.detach()).expect("two nodes have it");
    block_on(carol.release_lease(&lease)).expect("two nodes have it");
    let before = servers[2].command_calls("time");
    to_third.set(Fault::Pass);
    eventually("it has arrived", PATIENCE, || servers[2].command_calls("time") > before);
    assert!(block_on(carol.renew_lease(&lease)).is_err(), "it has ended");
    let _guard = block_on(carol.mutex(NAME).lock()).expect("a majority is free");
}

/// No client would use that position, and the node would grant her the lock for nothing.
#[test]
fn position_is_given_up_later_if_its_node_is_down() {
    let fixture = Fixture::start();
    cut_off(&fixture.alice, &fixture.to_third);
    let lease = block_on(fixture.alices.detach()).expect("the other two have it");
    fixture.to_third.set(Fault::Pass);
    let standing = || -> usize {
        let mut count = cmd("ZCARD");
        count.arg(format!("quorate:q:{{{NAME}}}"));
        count.query(&mut fixture.servers[2].connection()).expect("a number")
    };
    eventually("the queues are empty", PATIENCE, || standing() == 0);
    block_on(fixture.carol.release_lease(&lease)).expect("two nodes have it");
    block_on(fixture.bobs.release()).expect("it is held");
}

/// Earlier waiters ask for the lock again and again, and the process that they ask no longer knows
/// it.
#[test]
fn former_owner_releases_nothing_after_the_hand_over() {
    let server = Server::start();
    let [alice, bob, dave] = [(); 3].map(|()| {
        let settings = Client::builder().quarantine(false).nodes([server.url()]);
        connect_to_all(settings.ttl(Duration::from_millis(300)))
    });
    let long = Duration::from_secs(60);
    let guard = block_on(alice.mutex(NAME).ttl(long).lock()).expect("it is free");
    let lease = block_on(guard.detach()).expect("it is held");
    let waiter = std::thread::spawn(move || block_on(dave.mutex(NAME).lock_timeout(PATIENCE)));
    eventually("it waits", PATIENCE, || {
        block_on(bob.inspect(NAME)).is_ok_and(|report| report.waiting_total == 1)
    });
    let lease = block_on(block_on(bob.adopt(&lease)).expect("it is there").detach());
    let (lease, owner) = (lease.expect("it is held"), server.get(NAME));
    let told = server.command_calls("publish");
    eventually("the waiter has asked for it", PATIENCE, || {
        server.command_calls("publish") > told + 3
    });
    block_on(bob.inspect(NAME)).expect("earlier commands have run by now");
    assert!(owner.is_some() && server.get(NAME) == owner, "it is held");
    block_on(alice.release_lease(&lease)).expect("it is held");
    drop(waiter.join().expect("no panic").expect("its turn"));
}

/// An extension of the holder, and a heartbeat of a former waiter, create a key again.
#[test]
fn pending_commands_reach_the_only_node_before_the_hand_over() {
    let server = Server::start();
    let proxy = Proxy::start(&server.address());
    let journal = Journal::default();
    let settings = Client::builder().quarantine(false).nodes([proxy.url()]);
    let settings = settings.ttl(Duration::from_secs(6)).vote_timeout(Duration::from_millis(100));
    let alice = connect_to_all(settings.observer(journal.clone()));
    let carol = connect_to_all(Client::builder().quarantine(false).nodes([server.url()]));
    let guard = block_on(alice.mutex(NAME).lock()).expect("it is free");
    proxy.set(Fault::BlackHole);
    eventually("a renewal is in flight", PATIENCE, || journal.count("renewed") > 0);
    let mut leaving = Box::pin(guard.detach());
    assert!(poll(leaving.as_mut()).is_pending(), "even a single node is asked");
    proxy.set(Fault::Pass);
    let lease = block_on(leaving).expect("it is held");
    block_on(carol.release_lease(&lease)).expect("it is held");
    // Earlier commands of Alice have arrived before this one.
    block_on(alice.inspect(NAME)).expect("the node answers");
    assert_eq!(server.get(NAME), None, "it stays free");
    assert!(block_on(carol.renew_lease(&lease)).is_err(), "it has ended");
}

/// The adopter may release the lease at once, and the third node is slow.
#[test]
fn slow_node_has_the_new_owner_before_it_is_reported() {
    let fixture = ProxyFixture::start(3);
    let patient = fixture.through_proxies().vote_timeout(Duration::from_secs(5));
    let (alice, carol) = (connect_to_all(patient), connect_to_all(fixture.direct()));
    let guard = block_on(alice.mutex(NAME).lock()).expect("it is free");
    block_on(guard.extend(LONG)).expect("it is held");
    let is_held = || fixture.servers.iter().all(|server| server.get(NAME).is_some());
    eventually("every node has it", PATIENCE, is_held);
    fixture.set(&[2], Fault::Delay { up: Duration::from_millis(300), down: Duration::ZERO });
    let lease = block_on(guard.detach()).expect("it is held");
    block_on(carol.release_lease(&lease)).expect("it is held");
    // Earlier commands of Alice have arrived before this one.
    block_on(alice.inspect(NAME)).expect("the nodes answer");
    assert_eq!(fixture.servers[2].get(NAME), None, "it stays free");
}

/// The node stored the new owner, but it is unknown when: another owner may have held the key
/// between the end of the lease and that.
#[test]
fn lease_that_expires_before_the_answer_is_not_handed_over() {
    let server = Server::start();
    let proxy = Proxy::start(&server.address());
    let settings = Client::builder().quarantine(false).nodes([proxy.url()]);
    let alice = connect_to_all(settings.vote_timeout(PATIENCE));
    let ttl = Duration::from_millis(900);
    let guard = block_on(alice.mutex(NAME).ttl(ttl).no_renew().lock()).expect("it is free");
    block_on(guard.extend(ttl)).expect("it is held");
    // The answer to the first request arrives in time, and that to the second one does not. Links
    // wait for longer than for one of them.
    proxy.set(Fault::Delay { up: Duration::ZERO, down: ttl * 5 / 9 });
    let left = block_on(guard.detach());
    assert!(
        matches!(&left, Err(LeaseError::Lost(lost)) if lost.reason == LostReason::Expired),
        "{left:?}"
    );
}

struct Fixture {
    servers: Vec<Server>,
    /// Between Alice and the third.
    to_third: Proxy,
    carol: Client,
    alice: Client,
    alices: Guard,
    /// By the third node: Bob knows no other.
    bobs: Guard,
}

impl Fixture {
    fn start() -> Self {
        let servers = Server::start_many(3);
        let to_third = Proxy::start(&servers[2].address());
        let settings = || Client::builder().quarantine(false).ttl(LONG);
        let carol = connect_to_all(settings().nodes(servers.iter().map(Server::url)));
        let bob = connect_to_all(settings().nodes([servers[2].url()]));
        let bobs = block_on(bob.mutex(NAME).lock()).expect("it is free");
        let urls = [servers[0].url(), servers[1].url(), to_third.url()];
        let alice = connect_to_all(settings().nodes(urls));
        let alices = block_on(alice.mutex(NAME).lock()).expect("two nodes are free");
        eventually("she waits in the queue", PATIENCE, || {
            block_on(bob.inspect(NAME)).is_ok_and(|report| report.waiting_total == 1)
        });
        Self { servers, to_third, carol, alice, alices, bobs }
    }
}

/// Nothing that Alice has sent, or sends from now on, reaches the third node.
fn cut_off(alice: &Client, to_third: &Proxy) {
    to_third.set(Fault::Refuse);
    eventually("the link has noticed", PATIENCE, || {
        alice.node_status()[2].answer != NodeAnswer::Attached
    });
}

#[test]
fn late_renewal_by_the_former_holder_does_not_shorten_an_adopted_lease() {
    // The renewal and the adopter must have different owners, or the renewal cuts 30 s to 3 s.
    let servers = Server::start_many(3);
    let proxy = Proxy::start(&servers[2].address());
    let journal = Journal::default();
    let urls = [servers[0].url(), servers[1].url(), proxy.url()];
    let settings = Client::builder().quarantine(false).nodes(urls).vote_timeout(SHORT);
    let leaver = connect_to_all(settings.observer(journal.clone()));
    let settings = Client::builder().quarantine(false);
    let adopter = connect_to_all(settings.nodes(servers.iter().map(Server::url)));
    let guard = block_on(leaver.mutex(NAME).ttl(30 * SHORT).lock()).unwrap();
    proxy.set(Fault::BlackHole);
    eventually("a renewal is sent", PATIENCE, || journal.count("renewed") > 0);

    let lease = block_on(guard.detach()).unwrap();
    let guard = block_on(adopter.adopt(&lease)).unwrap();
    block_on(guard.extend(Duration::from_secs(30))).unwrap();
    let calls = servers[2].command_calls("evalsha");
    proxy.set(Fault::Pass);
    eventually("the renewal has arrived", PATIENCE, || servers[2].command_calls("evalsha") > calls);
    // Read first, so it can only be larger than when the lease is read.
    let left = Duration::from_millis(servers[0].pttl(NAME).try_into().unwrap());
    assert!(guard.remaining() <= left, "promised {:?}, kept {left:?}", guard.remaining());
    block_on(guard.verify()).unwrap();
}

const SHORT: Duration = Duration::from_millis(100);
