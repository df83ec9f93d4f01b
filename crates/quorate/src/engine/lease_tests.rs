//! The watchdog when a clock jumps, and when a manual extension fails.

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

/// The timers of the runtime stop while the machine is suspended. Leases continue to run.
#[tokio::test(start_paused = true)]
async fn loss_of_a_lease_is_reported_within_a_second_after_a_suspend() {
    let client = settings(&MemoryNodes::new(3)).build().expect("valid");
    let guard = client.mutex("a").ttl(LONG).no_renew().lock().await.expect("it is free");
    pass(LONG / 10).await;
    altered::suspend(2 * LONG);
    let woken_at = Instant::now();
    assert_eq!(guard.lost().await.reason, LostReason::Expired);
    let late = woken_at.elapsed();
    assert!(late <= Duration::from_secs(1), "reported {late:?} after the machine woke up");
}

#[tokio::test(start_paused = true)]
async fn every_lease_is_renewed_soon_after_a_step_of_the_wall_clock() {
    for step_ms in [-HOUR_MS, HOUR_MS, -600, 600] {
        let renewed = renewals_after_step(step_ms).await;
        assert_eq!(renewed, ["at risk a", "renewed a"], "a step of {step_ms} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn slewing_the_wall_clock_renews_no_lease() {
    for step_ms in [-400, 0, 400] {
        assert!(renewals_after_step(step_ms).await.is_empty(), "a step of {step_ms} ms");
    }
}

/// The renewal that is confirmed was sent with the earlier ttl.
#[tokio::test(start_paused = true)]
async fn lost_extension_does_not_delay_the_next_renewal() {
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
    // The replies to the extension are lost. Those to the renewal arrive.
    behave(Behaviour::Answer);
    pass(30 * SHORT).await;
    guard.check().expect("it is renewed in time");
}

/// A caller that extends repeatedly may never wait for a reply.
#[tokio::test(start_paused = true)]
async fn unconfirmed_extensions_delay_no_renewal() {
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
        assert!(left > SHORT / 2, "a lease that is renewed after a third has {left:?} left");
    }
}

fn held(engine: &Engine) -> Vec<LeaseId> {
    engine.lock().held.keys().copied().collect()
}

/// The events of a lease that is rarely renewed, until another lease is renewed again.
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
