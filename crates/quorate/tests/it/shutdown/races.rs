//! Locks that are won while the client shuts down.

use std::{
    pin::Pin,
    sync::{Arc, Barrier},
    task::Poll,
    thread,
    time::Duration,
};

use quorate::{
    Client, Guard, Mutex,
    error::LockError,
    memory::{
        Behaviour::{Answer, Hang},
        MemoryNodes,
    },
};
use quorate_testkit::{Fault, Proxy, Server, eventually};

use crate::{
    cancellation::fixture::poll,
    faults::fixture::PATIENCE,
    links::executor::block_on,
    mode::Mode,
    watchdog::fixture::{NAME, PausedFixture, TICK, is_taken},
};

in_both_modes! {
    lock_granted_during_a_shutdown_is_released,
}

#[tokio::test(start_paused = true)]
async fn lock_won_during_a_shutdown_is_never_returned() {
    // The majority has granted, the caller has not run yet, and the shutdown undoes the grants.
    for start in [try_lock, lock] {
        for comes_back in [Back::BeforeThePoll, Back::AfterThePoll] {
            let fixture = PausedFixture::new(3);
            let mutex = fixture.mutex();
            fixture.behave(&[Answer, Hang, Hang]);
            let mut call = start(&mutex);
            assert!(poll(call.as_mut()).is_pending());
            fixture.nodes.set(1, Answer);
            let mut ending = Box::pin(fixture.client.clone().shutdown(PATIENCE));
            assert!(poll(ending.as_mut()).is_pending());
            if matches!(comes_back, Back::BeforeThePoll) {
                fixture.nodes.set(2, Answer);
            }
            let called = poll(call.as_mut());
            assert!(matches!(called, Poll::Ready(Err(LockError::ShutDown))), "{called:?}");
            fixture.nodes.set(2, Answer);
            assert!(ending.await.is_clean);
            assert_eq!(fixture.holding(), 0);
            assert!(!is_taken(&fixture.other().mutex(NAME)).await);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn lock_won_before_a_shutdown_is_not_returned_after_it() {
    // Without an engine nothing would report the loss of the guard.
    for start in [try_lock, lock] {
        let fixture = PausedFixture::new(1);
        let mutex = fixture.mutex();
        fixture.nodes.set(0, Hang);
        let mut call = start(&mutex);
        assert!(poll(call.as_mut()).is_pending());
        fixture.nodes.set(0, Answer);
        let _ = fixture.client.clone().shutdown(20 * TICK).await;
        let called = poll(call.as_mut());
        assert!(matches!(called, Poll::Ready(Err(LockError::ShutDown))), "{called:?}");
        assert_eq!(fixture.holding(), 0);
        assert!(!is_taken(&fixture.other().mutex(NAME)).await);
    }
}

fn lock_granted_during_a_shutdown_is_released(mode: Mode) {
    // The grant arrives after the shutdown has begun.
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
fn guard_created_during_a_shutdown_is_released() {
    // The shutdown can begin between the outcome of the call and the creation of its guard.
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

type Calling<'a> = Pin<Box<dyn Future<Output = Result<Option<Guard>, LockError>> + 'a>>;

fn try_lock(mutex: &Mutex) -> Calling<'_> {
    Box::pin(mutex.try_lock())
}

fn lock(mutex: &Mutex) -> Calling<'_> {
    Box::pin(async { mutex.lock().await.map(Some) })
}

/// When the last node answers.
enum Back {
    BeforeThePoll,
    AfterThePoll,
}

const ROUNDS: usize = 2_000;
