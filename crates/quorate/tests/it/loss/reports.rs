//! Losses that the nodes or the network cause: when the holder is notified, and why.

use std::time::Duration;

use quorate::{error::LostReason, memory::Behaviour::Hang};
use quorate_testkit::Fault;
use tokio::time::Instant;

use crate::{
    faults::fixture::{PATIENCE, ProxyFixture, connect_to_all},
    links::executor::block_on,
    mode::Mode,
    watchdog::fixture::{NAME, PausedFixture, TICK, TTL, loss, pass},
};

in_both_modes! {
    paused:
    holder_between_two_renewals_is_reported,
}

#[tokio::test(start_paused = true)]
async fn work_ends_before_another_client_can_hold_the_lock() {
    let fixture = PausedFixture::new(3);
    let guard = fixture.hold().await;
    fixture.behave(&[Hang; 3]);
    let started = Instant::now();
    let worked = guard.run(pass(5 * TTL)).await;
    assert_eq!(worked.unwrap_err().reason, LostReason::Expired);
    assert!(started.elapsed() < TTL, "another client could have held the lock from then on");
}

#[tokio::test(start_paused = true)]
async fn holder_that_cannot_renew_is_notified_before_its_keys_expire() {
    let fixture = PausedFixture::new(5);
    let asked = Instant::now();
    let guard = fixture.hold().await;
    fixture.behave(&[Hang; 3]);
    let (_, lost_at) = loss(&guard).await;
    assert!(lost_at < asked + TTL, "before another can be elected");
}

#[tokio::test(start_paused = true)]
async fn replaced_key_is_reported_to_the_holder() {
    let fixture = PausedFixture::new(1);
    let guard = fixture.hold().await;
    fixture.nodes.plant(0, NAME, b"another's");
    assert_eq!(loss(&guard).await.0.reason, LostReason::Gone);
}

#[tokio::test(start_paused = true)]
async fn deleted_key_is_reported_to_a_classic_holder() {
    let fixture = PausedFixture::new_in(Mode::Classic, 3);
    let guard = fixture.hold().await;
    (0..3).for_each(|node| fixture.nodes.forget(node));
    let deleted = Instant::now();
    let (lost, lost_at) = loss(&guard).await;
    assert_eq!(lost.reason, LostReason::Gone);
    assert!(lost_at - deleted < TTL / 2);
}

#[tokio::test(start_paused = true)]
async fn key_of_another_client_is_reported_to_the_holder() {
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

async fn holder_between_two_renewals_is_reported(mode: Mode) {
    let fixture = PausedFixture::new_in(mode, 3);
    let guard = fixture.hold().await;
    // Between two renewals the keys are deleted, and another owner holds the lock for a moment.
    (0..3).for_each(|node| fixture.nodes.forget(node));
    pass(TICK).await;
    drop(fixture.other().mutex(NAME).lock().await.unwrap());
    assert_eq!(loss(&guard).await.0.reason, LostReason::Gone);
    assert_eq!(fixture.holding(), 0);
}

#[test]
fn partitioned_holder_has_lost_the_lock_before_another_holds_it() {
    let fixture = ProxyFixture::start(3);
    let holder = connect_to_all(fixture.through_proxies().ttl(RENEWED).vote_timeout(RENEWED / 10));
    let other = connect_to_all(fixture.direct());
    let guard = block_on(holder.mutex(NAME).lock()).unwrap();
    fixture.set(&[0, 1, 2], Fault::BlackHole);
    let taken = block_on(other.mutex(NAME).lock_timeout(PATIENCE)).unwrap();
    assert!(guard.check().is_err(), "it has two holders");
    fixture.set(&[0, 1, 2], Fault::Pass);
    drop(guard);
    assert!(block_on(holder.shutdown(PATIENCE)).is_clean);
    block_on(taken.verify()).unwrap();
}

const RENEWED: Duration = Duration::from_millis(1_500);
