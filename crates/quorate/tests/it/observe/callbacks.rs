//! Observers that panic, and wakers that call back into the client.

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
use quorate_testkit::{Server, eventually};

use crate::{
    cancellation::fixture::poll,
    faults::fixture::PATIENCE,
    links::executor::block_on,
    watchdog::{
        fixture::{NAME, TTL, build, is_taken, loss, pass, settings, take},
        journal::Journal,
    },
};

#[test]
fn waker_that_extends_a_lock_does_not_block_renewals() {
    // The engine must hold no mutex when it calls a waker.
    let nodes = MemoryNodes::new(1);
    let client = Client::builder().memory(&nodes).build().unwrap();
    let other = block_on(client.mutex("other").lock()).unwrap();
    let guard = block_on(client.mutex(NAME).ttl(SHORT).lock()).unwrap();
    let inline = Arc::new(Inline { other, is_done: AtomicBool::new(false) });
    let waker = Waker::from(inline.clone());
    let mut lost = pin!(guard.lost());
    assert!(lost.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    // The next renewal finds the key of another owner.
    nodes.plant(0, NAME, b"another's");
    eventually("the waker has run", PATIENCE, || inline.is_done.load(Ordering::SeqCst));
    assert_eq!(block_on(lost).reason, LostReason::Gone);
}

/// Extends another lock when it is woken.
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
async fn panicking_observer_does_not_stop_renewals() {
    // Renewals and reports of loss run on the engine, which calls the observer.
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

#[tokio::test(start_paused = true)]
async fn every_observer_receives_each_event() {
    let nodes = MemoryNodes::new(1);
    let journals = [Journal::default(), Journal::default()];
    let [first, second] = journals.clone();
    // A panic of one observer does not hide an event from the next one.
    let client = build(settings(&nodes).observer(first).observer(panicking).observer(second));
    take(&client.mutex(NAME)).await.release().await.unwrap();
    assert_eq!(journals[0].count("held "), 1);
    assert_eq!(journals[0].lines(), journals[1].lines());
}

#[test]
fn panicking_observer_does_not_end_a_link() {
    let server = Server::start();
    let settings = Client::builder().quarantine(false).nodes([server.url()]).observer(panicking);
    let client = block_on(settings.connect()).unwrap();
    block_on(block_on(client.mutex(NAME).lock()).unwrap().release()).unwrap();
    server.restart();
    drop(block_on(client.mutex(NAME).lock_timeout(PATIENCE)).unwrap());
    assert!(block_on(client.shutdown(PATIENCE)).is_clean);
}

fn panicking(event: &Event<'_>) {
    panic!("the observer panics on {event:?}");
}

const SHORT: Duration = Duration::from_millis(300);
