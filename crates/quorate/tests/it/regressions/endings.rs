//! Clients that ended while something was under way.

use std::{
    sync::{Arc, Barrier},
    thread,
    time::Duration,
};

use quorate::{
    Client,
    error::LockError,
    memory::{Behaviour, MemoryNodes},
};
use quorate_testkit::{Fault, Proxy, Server, eventually};

use crate::{
    faults::cluster::PATIENCE,
    links::executor::block_on,
    mode::Mode,
    watchdog::fixture::{NAME, PausedFixture, pass},
};

in_both_modes! {
    a_lock_that_is_won_during_a_shutdown_is_given_back,
}

fn a_lock_that_is_won_during_a_shutdown_is_given_back(mode: Mode) {
    // The answer came after the shutdown had begun, and made a guard that nobody released.
    let server = Server::start();
    let proxy = Proxy::start(&server.address());
    let settings =
        mode.of(Client::builder().quarantine(false)).nodes([proxy.url()]).vote_timeout(PATIENCE);
    let client = block_on(settings.connect()).unwrap();
    proxy.set(Fault::Delay { up: Duration::ZERO, down: Duration::from_millis(200) });
    let mutex = client.mutex(NAME);
    let call = thread::spawn(move || block_on(mutex.lock()));
    eventually("the lock is won there", PATIENCE, || server.get(NAME).is_some());

    assert!(block_on(client.shutdown(Duration::from_secs(5))).is_clean);
    assert_eq!(server.lock_keys(), Vec::<Vec<u8>>::new());
    let called = call.join().unwrap();
    assert!(matches!(called, Err(LockError::ShutDown)), "{called:?}");
}

#[test]
fn a_guard_that_is_made_while_the_client_is_shut_down_is_not_forgotten() {
    // Between the outcome and its guard a shutdown found nothing to end: the key stayed.
    for round in 0..ROUNDS {
        let nodes = MemoryNodes::new(1);
        let client = Client::builder().memory(&nodes).build().unwrap();
        let mutex = client.mutex(NAME);
        let start = Arc::new(Barrier::new(2));
        let call = thread::spawn({
            let start = start.clone();
            move || {
                start.wait();
                block_on(mutex.lock())
            }
        });
        start.wait();
        assert!(block_on(client.shutdown(PATIENCE)).is_clean);
        let called = call.join().unwrap();
        assert_eq!(nodes.names(0), Vec::<String>::new(), "round {round}: {called:?}");
        assert!(called.is_err() || called.unwrap().check().is_err(), "round {round}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_when_a_hanging_node_in_memory_answers_again() {
    // Nobody told it, so it waited for its whole grace and was not clean.
    let fixture = PausedFixture::new(3);
    let guard = fixture.hold().await;
    fixture.nodes.set(1, Behaviour::Hang);
    drop(guard);
    let ending = tokio::spawn(fixture.client.clone().shutdown(PATIENCE));
    pass(PATIENCE / 2).await;
    assert!(!ending.is_finished(), "a node has not confirmed");
    fixture.nodes.set(1, Behaviour::Answer);
    let ended = tokio::time::timeout(PATIENCE / 4, ending).await.unwrap().unwrap();
    assert!(ended.is_clean);
    assert_eq!(fixture.holding(), 0);
}

const ROUNDS: usize = 2_000;
