//! The `Debug` output of clients, locks and guards.

use quorate::{
    Client,
    memory::{Behaviour::Hang, MemoryNodes},
};
use quorate_testkit::{Fault, Proxy, Server};

use crate::{
    cancellation::fixture::poll,
    faults::fixture::PATIENCE,
    links::executor::block_on,
    watchdog::fixture::{NAME, TTL, build, settings},
};

#[tokio::test(start_paused = true)]
async fn debug_output_stays_short_while_calls_are_pending() {
    // Calls, the engine and the nodes refer to each other: the output must not follow the cycle.
    let nodes = MemoryNodes::new(3);
    let client = build(settings(&nodes).vote_timeout(TTL));
    (0..nodes.len()).for_each(|node| nodes.set(node, Hang));
    let mutexes: Vec<_> = (0..4).map(|number| client.mutex(format!("order:{number}"))).collect();
    let mut calls: Vec<_> = mutexes.iter().map(|mutex| Box::pin(mutex.try_lock())).collect();
    assert!(calls.iter_mut().all(|call| poll(call.as_mut()).is_pending()));
    is_short(&client);
    is_short(&mutexes[0]);
}

#[test]
fn debug_output_hides_the_owner() {
    // Anyone who knows the owner of a lock can release it.
    let server = Server::start();
    let proxy = Proxy::start(&server.address());
    let settings = Client::builder().quarantine(false).nodes([proxy.url()]).vote_timeout(PATIENCE);
    let client = block_on(settings.connect()).unwrap();
    let guard = block_on(client.mutex(NAME).lock()).unwrap();
    let owner = String::from_utf8(server.get(NAME).unwrap()).unwrap();
    proxy.set(Fault::BlackHole);
    let mutex = client.mutex("another");
    let mut call = Box::pin(mutex.try_lock());
    assert!(poll(call.as_mut()).is_pending());

    let id = owner.split(':').find(|part| part.len() == 40).unwrap();
    let byte = |at: usize| u8::from_str_radix(&id[at..at + 2], 16).unwrap();
    let as_numbers = format!("{}, {}, {}", byte(0), byte(2), byte(4));
    for shown in [is_short(&client), is_short(&mutex), is_short(&guard)] {
        assert!(!shown.contains(id), "{shown}");
        assert!(!shown.contains(&as_numbers), "{shown}");
    }
    proxy.set(Fault::Pass);
    drop(block_on(call).unwrap().unwrap());
}

fn is_short(value: &impl std::fmt::Debug) -> String {
    let shown = format!("{value:?}");
    assert!(shown.len() < 2_000, "{} bytes: {shown:.4000}", shown.len());
    shown
}
