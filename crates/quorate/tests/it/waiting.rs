//! Calls that wait for a lock: how often they ask, and when they end.

use std::sync::{Arc, Mutex};

use quorate::{
    memory::MemoryNodes,
    observe::{Action, Event},
};
use tokio::time::Instant;

use crate::{
    mode::Mode,
    watchdog::fixture::{NAME, PausedFixture, TTL, build, pass, settings, take},
};

in_both_modes! {
    paused:
    retry_does_not_compete_with_an_earlier_try,
}

#[tokio::test(start_paused = true)]
async fn classic_waiters_do_not_try_at_the_same_times() {
    let nodes = MemoryNodes::new(3);
    let settings = || Mode::Classic.of(settings(&nodes));
    let holder = build(settings());
    let guard = take(&holder.mutex(NAME)).await;
    let tries: [Arc<Mutex<Vec<Instant>>>; 2] = Default::default();
    for times in &tries {
        let times = times.clone();
        let observer = move |event: &Event<'_>| {
            if matches!(event, Event::Answered { action: Action::Acquire, node: "memory:0", .. }) {
                times.lock().expect("no test panics inside").push(Instant::now());
            }
        };
        let client = build(settings().observer(observer));
        assert!(client.mutex(NAME).lock_timeout(TTL).await.is_err());
    }
    let [first, second] = tries.map(|times| {
        let times = times.lock().expect("no test panics inside");
        times.iter().map(|time| *time - times[0]).collect::<Vec<_>>()
    });
    assert!(first.len() > 50 && second.len() > 50);
    let together = first.iter().filter(|time| second.contains(time)).count();
    assert!(together < first.len() / 2, "{together} of {} tries", first.len());
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn queued_waiters_send_few_requests() {
    let fixture = PausedFixture::new(3);
    let other = fixture.other();
    let guard = take(&other.mutex(NAME)).await;
    assert!(fixture.mutex().lock_timeout(10 * TTL).await.is_err());
    let lines = fixture.journal.lines();
    let answers = lines.iter().filter(|line| line.contains(" answered ")).count();
    // Three nodes, about four times in a ttl.
    assert!((3..=3 * 50).contains(&answers), "{answers} answers in ten ttls");
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn waiter_does_not_sleep_until_the_lease_would_expire() {
    let fixture = PausedFixture::new(3);
    let long = fixture.client.mutex(NAME).ttl(6 * TTL);
    let guard = long.lock().await.unwrap();
    let waiting = tokio::spawn(async move { long.lock().await });
    pass(TTL).await;
    drop(guard);
    let soon = tokio::time::timeout(TTL / 10, waiting).await.unwrap();
    soon.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn waiting_does_not_block_the_runtime() {
    let fixture = PausedFixture::new(1);
    let guard = fixture.hold().await;
    let mutex = fixture.mutex();
    let waiting = tokio::spawn(async move { mutex.lock().await });
    // This would never run on the only thread.
    pass(TTL).await;
    assert!(!waiting.is_finished());
    drop(guard);
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

async fn retry_does_not_compete_with_an_earlier_try(mode: Mode) {
    let fixture = PausedFixture::new_in(mode, 3);
    fixture.nodes.plant(1, NAME, b"another's");
    fixture.nodes.plant(2, NAME, b"another's");
    let mutex = fixture.mutex();
    let waiting = tokio::spawn(async move { mutex.lock().await });
    pass(TTL / 10).await;
    let tries = fixture.journal.count("acquire memory:0 answered granted");
    assert!(tries > 1, "it has tried several times");
    fixture.nodes.forget(1);
    // Now it depends on the node that granted every time.
    let guard = tokio::time::timeout(TTL / 10, waiting).await.unwrap().unwrap().unwrap();
    assert_eq!(fixture.nodes.names(0), [NAME]);
    guard.release().await.unwrap();
    assert_eq!(fixture.nodes.names(0), Vec::<String>::new());
}
