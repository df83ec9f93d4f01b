//! How many timers a client sets.

use std::time::Duration;

use quorate::{Client, memory::MemoryNodes};
use quorate_testkit::eventually;

use super::{
    fixture::{PausedFixture, pass},
    journal::Journal,
};
use crate::faults::fixture::PATIENCE;

#[tokio::test(start_paused = true)]
async fn timers_of_released_locks_do_not_accumulate() {
    // A timer that has become useless must not set another one.
    let fixture = PausedFixture::new(1);
    for number in 0..LOCKS {
        // Many of these timers are due before all earlier ones.
        let ttl = MAX - Duration::from_millis(11 * number);
        drop(fixture.client.mutex(format!("order:{number}")).ttl(ttl).lock().await.unwrap());
    }
    let guard = fixture.hold().await;
    pass(2 * MAX).await;
    guard.check().unwrap();
    let waiting = timers(&fixture.client);
    assert!(waiting < 10, "{waiting} timers for one lock");
}

#[tokio::test(flavor = "multi_thread")]
async fn waiter_that_polls_a_foreign_lock_has_few_timers() {
    let (nodes, journal) = (MemoryNodes::new(1), Journal::default());
    nodes.plant(0, "a", b"another library's");
    let settings = Client::builder().memory(&nodes).ttl(Duration::from_secs(60));
    let client = settings.observer(journal.clone()).build().expect("valid");
    let mutex = client.mutex("a");
    let waiter = tokio::spawn(async move { mutex.lock().await });
    let polls = || journal.lines().iter().filter(|line| line.contains(" answered ")).count();
    eventually("the waiter has polled often", PATIENCE, || polls() >= 20);
    let timers = timers(&client);
    assert!(timers <= 3, "{timers} timers");
    waiter.abort();
}

/// How many timers are set, by the `Debug` output of the client.
fn timers(client: &Client) -> usize {
    let shown = format!("{client:?}");
    let (_, rest) = shown.split_once("Timers { waiting: ").expect("it shows its timers");
    rest.split_once(' ').expect("there is more").0.parse().expect("a number")
}

const LOCKS: u64 = 5_000;
const MAX: Duration = Duration::from_secs(60);
