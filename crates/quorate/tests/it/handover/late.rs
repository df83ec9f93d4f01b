//! A node that comes to the owner of a lease when that was left already.

use quorate::{Client, Guard, LeaseHandover, error::AdoptError};
use quorate_testkit::{Server, eventually, redis::cmd};

use crate::{
    faults::cluster::{PATIENCE, connect_to_all},
    keeper::bench::NAME,
    links::executor::block_on,
};

/// Whoever left the lease and hears of it must not give it back: the lease may be renewed there by
/// then, and hold by it.
#[test]
fn it_is_kept_and_counts() {
    let mut scene = Scene::start();
    scene.hand_to_the_lease();
    // Two questions over the link on which it was told: the second one comes after whatever the
    // first one finds to say.
    for _ in 0..2 {
        block_on(scene.alice.inspect(NAME)).expect("every node answers");
    }
    assert!(scene.is_handed_on(), "it is not hers to give back");
    scene.servers[0].kill();
    block_on(scene.carol.renew_lease(&scene.lease)).expect("two nodes have it");
    let adopted = block_on(scene.carol.adopt(&scene.lease)).expect("two nodes have it");
    assert_eq!(adopted.fence(), scene.lease.fence());
    block_on(adopted.release()).expect("it is held");
}

/// The lease is older than what the node gave to others: who holds by that node would have a fence
/// that lies before theirs.
#[test]
fn it_does_not_count_if_others_had_it_in_between() {
    let mut scene = Scene::start();
    let fence = scene.lease.fence().expect("it has one").get();
    let later = format!("{:016}", fence + 5);
    let key = format!("quorate:f:{{{NAME}}}");
    let mut node = scene.servers[2].connection();
    cmd("SET").arg(key).arg(later).exec(&mut node).expect("the server is there");
    scene.hand_to_the_lease();
    block_on(scene.carol.renew_lease(&scene.lease)).expect("the other two have it");
    scene.servers[0].kill();
    let renewed = block_on(scene.carol.renew_lease(&scene.lease));
    assert!(matches!(renewed, Err(AdoptError::NoQuorum { .. })), "{renewed:?}");
    let adopted = block_on(scene.carol.adopt(&scene.lease));
    assert!(adopted.is_err(), "{adopted:?}");
}

/// Alice has left a lease that she has by two nodes. On the third she stands in line.
struct Scene {
    servers: Vec<Server>,
    alice: Client,
    carol: Client,
    lease: LeaseHandover,
    /// Has the third node and knows no other.
    third: Option<Guard>,
}

impl Scene {
    fn start() -> Self {
        let servers = Server::start_many(3);
        let settings = || Client::builder().restart_guard(false);
        let urls = || servers.iter().map(Server::url);
        let bob = connect_to_all(settings().nodes([servers[2].url()]));
        let third = block_on(bob.mutex(NAME).lock()).expect("nobody has it");
        let [alice, carol] = [(); 2].map(|()| connect_to_all(settings().nodes(urls())));
        let guard = block_on(alice.mutex(NAME).lock()).expect("two nodes are free");
        eventually("she stands in line", PATIENCE, || {
            block_on(bob.inspect(NAME)).is_ok_and(|report| report.waiting_total == 1)
        });
        Self { lease: guard.leave_to_expire(), servers, alice, carol, third: Some(third) }
    }

    fn hand_to_the_lease(&mut self) {
        let third = self.third.take().expect("once");
        block_on(third.release()).expect("it is held");
        assert!(self.is_handed_on(), "she stood in line");
    }

    fn is_handed_on(&self) -> bool {
        let owner = self.servers[2].get(NAME);
        owner.is_some() && owner == self.servers[1].get(NAME)
    }
}
