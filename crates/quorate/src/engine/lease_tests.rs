//! What the watchdog does when a clock jumps, and when an extension by hand fails.

use std::{
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Waker},
    time::Duration,
};

use tokio::time::{Instant, sleep};

use quorate_core::client::watchdog::LeaseId;

use super::Engine;
use crate::{
    Client, ClientBuilder,
    clock::altered,
    error::LostReason,
    memory::{Behaviour, MemoryNodes},
    observe::{Event, Observer},
};

/// The timers of the runtime stand still while the machine is suspended, and leases do not.
#[tokio::test(start_paused = true)]
async fn the_loss_of_a_lease_is_told_within_a_second_after_a_suspend() {
    let client = settings(&MemoryNodes::new(3)).build().expect("valid");
    let guard = client.mutex("a").ttl(LONG).no_renew().lock().await.expect("it is free");
    pass(LONG / 10).await;
    altered::suspend(2 * LONG);
    let woken_at = Instant::now();
    assert_eq!(guard.lost().await.reason, LostReason::Expired);
    let late = woken_at.elapsed();
    assert!(late <= Duration::from_secs(1), "told {late:?} after the machine woke up");
}

#[tokio::test(start_paused = true)]
async fn every_lease_is_renewed_soon_after_the_wall_clock_was_set() {
    for step_ms in [-HOUR_MS, HOUR_MS, -600, 600] {
        let renewed = renewals_after_step(step_ms).await;
        assert_eq!(renewed, ["at risk a", "renewed a"], "a step of {step_ms} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wall_clock_that_is_slewed_renews_nothing() {
    for step_ms in [-400, 0, 400] {
        assert!(renewals_after_step(step_ms).await.is_empty(), "a step of {step_ms} ms");
    }
}

/// The renewal that is confirmed was sent with the ttl of before.
#[tokio::test(start_paused = true)]
async fn an_extension_that_is_lost_does_not_delay_the_next_renewal() {
    let nodes = MemoryNodes::new(3);
    let behave = |behaviour| (0..nodes.len()).for_each(|node| nodes.set(node, behaviour));
    let client = settings(&nodes).ttl(SHORT).build().expect("valid");
    let guard = client.mutex("a").lock().await.expect("it is free");
    let engine = &client.inner.engine;
    let held = held(engine);

    behave(Behaviour::Hang);
    engine.renew(&held);
    behave(Behaviour::Mute);
    let extending = pin!(guard.extend(10 * SHORT)).poll(&mut Context::from_waker(Waker::noop()));
    assert!(extending.is_pending(), "no node answers");
    // The answers to the extension are lost, and those to the renewal come.
    behave(Behaviour::Answer);
    pass(30 * SHORT).await;
    guard.check().expect("it is renewed in time");
}

/// Those who extend by hand again and again may never wait for an answer.
#[tokio::test(start_paused = true)]
async fn extensions_that_are_sent_and_not_confirmed_delay_no_renewal() {
    let nodes = MemoryNodes::new(3);
    let behave = |behaviour| (0..nodes.len()).for_each(|node| nodes.set(node, behaviour));
    let client = settings(&nodes).ttl(SHORT).build().expect("valid");
    let guard = client.mutex("a").lock().await.expect("it is free");
    for _ in 0..200 {
        behave(Behaviour::Mute);
        let extending = pin!(guard.extend(SHORT)).poll(&mut Context::from_waker(Waker::noop()));
        assert!(extending.is_pending(), "no node answers");
        behave(Behaviour::Answer);
        pass(SHORT / 100).await;
        let left = guard.remaining();
        assert!(left > SHORT / 2, "it is renewed after a third, and yet {left:?} are left");
    }
}

fn held(engine: &Engine) -> Vec<LeaseId> {
    engine.lock().held.keys().copied().collect()
}

/// What happens to a lease that is renewed rarely, within the next renewals of another one.
async fn renewals_after_step(step_ms: i64) -> Vec<String> {
    let journal = Journal::default();
    let client = settings(&MemoryNodes::new(3)).observer(journal.clone()).build().expect("valid");
    let rare = client.mutex("a").ttl(LONG).lock().await.expect("it is free");
    let often = client.mutex("b").ttl(SHORT).lock().await.expect("it is free");
    pass(SHORT).await;
    journal.take();
    altered::step_wall(step_ms);
    pass(SHORT).await;
    rare.check().expect("the wall clock ends no lease");
    often.check().expect("the wall clock ends no lease");
    journal.take().into_iter().filter(|line| line.ends_with(" a")).collect()
}

fn settings(nodes: &MemoryNodes) -> ClientBuilder {
    Client::builder().memory(nodes).danger_engine_on_this_runtime()
}

async fn pass(time: Duration) {
    sleep(time).await; // tidy: paused clock
}

#[derive(Clone, Default)]
struct Journal(Arc<Mutex<Vec<String>>>);

impl Journal {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Observer for Journal {
    fn observe(&self, event: &Event<'_>) {
        let line = match event {
            Event::Renewed { name, .. } => format!("renewed {name}"),
            Event::AtRisk { name, .. } => format!("at risk {name}"),
            _ => return,
        };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }
}

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_secs(3);
const HOUR_MS: i64 = 3_600_000;
