//! etcd, Consul, Kubernetes: defects that their users report and that could apply here.

use std::sync::{Arc, Mutex};

use quorate::{
    error::{LockError, LostReason},
    memory::{Behaviour::Hang, MemoryNodes},
    observe::{Action, Event},
};
use tokio::time::Instant;

use crate::{
    mode::Mode,
    watchdog::fixture::{NAME, PausedFixture, TICK, TTL, build, loss, pass, settings, take},
};

#[tokio::test(start_paused = true)]
async fn etcd_waiter_of_an_ended_client_stops_waiting() {
    let fixture = PausedFixture::new(3);
    let guard = fixture.hold().await;
    let client = fixture.other();
    let mutex = client.mutex(NAME);
    let waiting = tokio::spawn(async move { mutex.lock().await.map(drop) });
    pass(TTL).await;
    let _ = client.shutdown(TTL).await;
    assert_eq!(waiting.await.unwrap(), Err(LockError::ShutDown));
    guard.verify().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn etcd_no_lock_is_granted_to_a_client_that_has_ended() {
    let fixture = PausedFixture::new(3);
    let _ = fixture.client.clone().shutdown(TTL).await;
    assert_eq!(fixture.mutex().lock().await.map(drop), Err(LockError::ShutDown));
    assert_eq!(fixture.holding(), 0);
}

#[tokio::test(start_paused = true)]
async fn etcd_work_does_not_go_on_after_the_loss() {
    let fixture = PausedFixture::new(3);
    let guard = fixture.hold().await;
    fixture.behave(&[Hang; 3]);
    let started = Instant::now();
    let worked = guard.run(pass(5 * TTL)).await;
    assert_eq!(worked.unwrap_err().reason, LostReason::Expired);
    assert!(started.elapsed() < TTL, "another could have had the lock from then on");
}

#[tokio::test(start_paused = true)]
async fn consul_waiters_in_classic_mode_do_not_ask_in_step() {
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
async fn consul_queued_waiters_hardly_ask() {
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
async fn consul_deleted_key_is_reported_to_a_classic_holder() {
    let fixture = PausedFixture::new_in(Mode::Classic, 3);
    let guard = fixture.hold().await;
    (0..3).for_each(|node| fixture.nodes.forget(node));
    let deleted = Instant::now();
    let (lost, lost_at) = loss(&guard).await;
    assert_eq!(lost.reason, LostReason::Gone);
    assert!(lost_at - deleted < TTL / 2);
}

#[tokio::test(start_paused = true)]
async fn consul_deleted_and_taken_key_is_reported_to_the_holder() {
    let fixture = PausedFixture::new(3);
    let guard = fixture.hold().await;
    (0..3).for_each(|node| fixture.nodes.forget(node));
    let deleted = Instant::now();
    pass(TICK).await;
    let taken = fixture.other().mutex(NAME).lock().await.unwrap();
    let (lost, lost_at) = loss(&guard).await;
    assert_eq!(lost.reason, LostReason::Gone);
    assert!(lost_at - deleted < TTL / 2);
    taken.verify().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn kubernetes_leader_that_cannot_renew_steps_down_in_time() {
    let fixture = PausedFixture::new(5);
    let asked = Instant::now();
    let guard = fixture.hold().await;
    fixture.behave(&[Hang; 3]);
    let (_, lost_at) = loss(&guard).await;
    assert!(lost_at < asked + TTL, "before another can be elected");
}
