//! What comes to the owner of a lease, or is told to it, when that was handed over already.

use std::time::Duration;

use quorate::{Client, Guard, error::AdoptError};
use quorate_testkit::{Fault, Proxy, Server, eventually};

use crate::{
    cancellation::bench::poll,
    faults::cluster::{PATIENCE, connect_to_all},
    keeper::{bench::NAME, journal::Journal},
    links::executor::block_on,
};

/// Alice has the lock by two nodes, and stands in line on the third.
#[test]
fn whoever_has_handed_over_stands_in_no_line() {
    let scene = Scene::start();
    let lease = block_on(scene.alices.hand_over()).expect("two nodes have it");
    block_on(scene.bobs.release()).expect("it is held");
    assert_eq!(scene.servers[2].get(NAME), None, "nobody waits for it");
    block_on(scene.carol.renew_lease(&lease)).expect("two nodes have it");
    let adopted = block_on(scene.carol.adopt(&lease)).expect("two nodes have it");
    assert_eq!(adopted.fence(), lease.fence());
    block_on(adopted.release()).expect("it is held");
    let left = || scene.servers.iter().any(|server| server.get(NAME).is_some());
    eventually("nothing is left", PATIENCE, || !left());
}

/// The third node does not hear of it in time, and hands itself to her as if she were the holder.
#[test]
fn a_node_that_comes_too_late_does_not_count_and_is_given_back() {
    let scene = Scene::start();
    scene.to_third.set(Fault::BlackHole);
    let lease = block_on(scene.alices.hand_over()).expect("the other two have it");
    block_on(scene.bobs.release()).expect("it is held");
    assert!(scene.servers[2].get(NAME).is_some(), "she stood in line");
    block_on(scene.carol.renew_lease(&lease)).expect("two nodes have it");
    scene.servers[0].kill();
    let renewed = block_on(scene.carol.renew_lease(&lease));
    assert!(matches!(renewed, Err(AdoptError::NoQuorum { .. })), "{renewed:?}");
    scene.to_third.set(Fault::Pass);
    eventually("it is given back", PATIENCE, || scene.servers[2].get(NAME).is_none());
}

/// Those who wait since before it was adopted ask for it all the time, and the process that they
/// ask does not know it any more.
#[test]
fn whoever_has_handed_over_gives_nothing_back_that_is_asked_for() {
    let server = Server::start();
    let [alice, bob, dave] = [(); 3].map(|()| {
        let settings = Client::builder().restart_guard(false).nodes([server.url()]);
        connect_to_all(settings.ttl(Duration::from_millis(300)))
    });
    let long = Duration::from_secs(60);
    let guard = block_on(alice.mutex(NAME).ttl(long).lock()).expect("nobody has it");
    let lease = block_on(guard.hand_over()).expect("it is held");
    let waiter = std::thread::spawn(move || block_on(dave.mutex(NAME).lock_timeout(PATIENCE)));
    eventually("it waits", PATIENCE, || {
        block_on(bob.inspect(NAME)).is_ok_and(|report| report.waiting_total == 1)
    });
    let lease = block_on(block_on(bob.adopt(&lease)).expect("it is there").hand_over());
    let (lease, owner) = (lease.expect("it is held"), server.get(NAME));
    let told = server.command_calls("publish");
    eventually("it was asked for", PATIENCE, || server.command_calls("publish") > told + 3);
    block_on(bob.inspect(NAME)).expect("whatever was told before is done by now");
    assert!(owner.is_some() && server.get(NAME) == owner, "it is held");
    block_on(alice.release_lease(&lease)).expect("it is held");
    drop(waiter.join().expect("no panic").expect("its turn"));
}

/// An extension of the holder, and a heartbeat of one who waited, make a key anew.
#[test]
fn what_was_under_way_to_the_only_node_comes_before() {
    let server = Server::start();
    let proxy = Proxy::start(&server.address());
    let journal = Journal::default();
    let settings = Client::builder().restart_guard(false).nodes([proxy.url()]);
    let settings = settings.ttl(Duration::from_secs(6)).vote_timeout(Duration::from_millis(100));
    let alice = connect_to_all(settings.observer(journal.clone()));
    let carol = connect_to_all(Client::builder().restart_guard(false).nodes([server.url()]));
    let guard = block_on(alice.mutex(NAME).lock()).expect("nobody has it");
    proxy.set(Fault::BlackHole);
    eventually("a renewal is on its way", PATIENCE, || journal.count("renewed") > 0);
    let mut leaving = Box::pin(guard.hand_over());
    assert!(poll(leaving.as_mut()).is_pending(), "also an only node is asked");
    proxy.set(Fault::Pass);
    let lease = block_on(leaving).expect("it is held");
    block_on(carol.release_lease(&lease)).expect("it is held");
    // Whatever Alice has sent before this was there before it.
    block_on(alice.inspect(NAME)).expect("the node answers");
    assert_eq!(server.get(NAME), None, "it stays free");
    assert!(block_on(carol.renew_lease(&lease)).is_err(), "it is over");
}

struct Scene {
    servers: Vec<Server>,
    /// Between Alice and the third.
    to_third: Proxy,
    carol: Client,
    alices: Guard,
    /// By the third node: Bob knows no other.
    bobs: Guard,
}

impl Scene {
    fn start() -> Self {
        let servers = Server::start_many(3);
        let to_third = Proxy::start(&servers[2].address());
        let settings = || Client::builder().restart_guard(false);
        let carol = connect_to_all(settings().nodes(servers.iter().map(Server::url)));
        let bob = connect_to_all(settings().nodes([servers[2].url()]));
        let bobs = block_on(bob.mutex(NAME).lock()).expect("nobody has it");
        let urls = [servers[0].url(), servers[1].url(), to_third.url()];
        let alice = connect_to_all(settings().nodes(urls));
        let alices = block_on(alice.mutex(NAME).lock()).expect("two nodes are free");
        eventually("she stands in line", PATIENCE, || {
            block_on(bob.inspect(NAME)).is_ok_and(|report| report.waiting_total == 1)
        });
        Self { servers, to_third, carol, alices, bobs }
    }
}
