//! What a program brings along: observers that panic, wakers that poll, and a look with `Debug`.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Wake, Waker},
    time::Duration,
};

use quorate::{
    Client, Guard,
    error::LostReason,
    memory::{Behaviour::Hang, MemoryNodes},
    observe::Event,
};
use quorate_testkit::{Fault, Proxy, Server, eventually};

use crate::{
    cancellation::fixture::poll,
    faults::cluster::PATIENCE,
    links::executor::block_on,
    watchdog::fixture::{NAME, TTL, build, is_taken, loss, pass, settings, take},
};

#[test]
fn a_waker_that_polls_at_once_does_not_stop_the_keeper() {
    // It was woken under a lock that every extension takes.
    let nodes = MemoryNodes::new(1);
    let client = Client::builder().memory(&nodes).build().unwrap();
    let other = block_on(client.mutex("other").lock()).unwrap();
    let guard = block_on(client.mutex(NAME).ttl(SHORT).lock()).unwrap();
    let inline = Arc::new(Inline { other, is_done: AtomicBool::new(false) });
    let waker = Waker::from(inline.clone());
    let mut lost = pin!(guard.lost());
    assert!(lost.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    // The next renewal finds another's key.
    nodes.plant(0, NAME, b"another's");
    eventually("the waker has run", PATIENCE, || inline.is_done.load(Ordering::SeqCst));
    assert_eq!(block_on(lost).reason, LostReason::Gone);
}

/// Extends another lock wherever it is woken.
struct Inline {
    other: Guard,
    is_done: AtomicBool,
}

impl Wake for Inline {
    fn wake(self: Arc<Self>) {
        let _ = poll(pin!(self.other.extend(TTL)));
        self.is_done.store(true, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_panics_does_not_stop_the_keeper() {
    // It took the engine with it: nothing was renewed, and no loss was told.
    let nodes = MemoryNodes::new(1);
    let client = build(settings(&nodes).observer(panicking));
    let guard = take(&client.mutex(NAME)).await;
    assert!(is_taken(&client.mutex(NAME)).await);
    pass(5 * TTL).await;
    guard.check().unwrap();
    guard.verify().await.unwrap();
    guard.extend(TTL).await.unwrap();
    nodes.set(0, Hang);
    assert_eq!(loss(&guard).await.0.reason, LostReason::Expired);
    assert!(client.mutex("another").try_lock().await.is_err(), "the engine still has a clock");
}

#[test]
fn an_observer_that_panics_does_not_end_a_link() {
    // As above, where links come and go.
    let server = Server::start();
    let settings = Client::builder().quarantine(false).nodes([server.url()]).observer(panicking);
    let client = block_on(settings.connect()).unwrap();
    block_on(block_on(client.mutex(NAME).lock()).unwrap().release()).unwrap();
    server.restart();
    drop(block_on(client.mutex(NAME).lock_timeout(PATIENCE)).unwrap());
    assert!(block_on(client.shutdown(PATIENCE)).is_clean);
}

fn panicking(event: &Event<'_>) {
    panic!("an observer that does not like {event:?}");
}

#[tokio::test(start_paused = true)]
async fn a_client_with_pending_calls_is_shown_in_a_few_words() {
    // Each call showed the engine, which showed the nodes, which showed the calls.
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
fn a_client_with_pending_calls_does_not_show_who_it_is() {
    // Whoever reads the owners in a log can release the locks.
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

const SHORT: Duration = Duration::from_millis(300);
