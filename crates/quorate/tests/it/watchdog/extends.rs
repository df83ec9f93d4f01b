//! Calls of `extend`: what they keep, what they store again, and what they never revive.

use quorate::{
    error::{ExtendError, LostReason},
    memory::{
        Behaviour::{Answer, Fail, Hang},
        MemoryNodes,
    },
};
use tokio::time::Instant;

use super::fixture::{NAME, PausedFixture, TICK, TTL, build, pass, settings, take};
use crate::mode::Mode;

in_both_modes! {
    paused:
    extension_subtracts_the_time_that_it_took,
}

#[tokio::test(start_paused = true)]
async fn late_extension_does_not_revive_a_lease() {
    let nodes = MemoryNodes::new(3);
    let client = build(settings(&nodes).vote_timeout(5 * TTL));
    let guard = take(&client.mutex(NAME).no_renew()).await;
    (0..3).for_each(|node| nodes.set(node, Hang));
    let extended = tokio::join!(guard.extend(4 * TTL), async {
        pass(TTL).await;
        (0..3).for_each(|node| nodes.set(node, Answer));
    });
    let Err(ExtendError::Lost(lost)) = extended.0 else {
        panic!("it was too late: {extended:?}");
    };
    assert_eq!(lost.reason, LostReason::Expired);
    assert!(guard.check().is_err());
}

#[tokio::test(start_paused = true)]
async fn extending_an_expired_lease_is_an_error() {
    let fixture = PausedFixture::new(3);
    let guard = take(&fixture.mutex().no_renew()).await;
    pass(2 * TTL).await;
    assert!(matches!(guard.extend(TTL).await, Err(ExtendError::Lost(_))));
}

#[tokio::test(start_paused = true)]
async fn extension_without_an_answer_does_not_keep_a_lease() {
    let fixture = PausedFixture::new(3);
    let guard = take(&fixture.mutex().no_renew()).await;
    fixture.behave(&[Hang; 3]);
    let started = Instant::now();
    let extended = guard.extend(TTL).await;
    assert!(matches!(extended, Err(ExtendError::Lost(_))), "{extended:?}");
    assert!(started.elapsed() < TTL, "it is known before the key expires");
    assert!(guard.check().is_err());
}

#[tokio::test(start_paused = true)]
async fn failed_extension_does_not_release() {
    let fixture = PausedFixture::new(3);
    let guard = take(&fixture.mutex().no_renew()).await;
    fixture.behave(&[Fail, Fail, Answer]);
    let cut = tokio::time::timeout(TTL / 4, guard.extend(TTL)).await;
    assert!(cut.is_err(), "it tries until the lease ends");
    assert_eq!(fixture.holding(), 3, "every node still has it");
    fixture.behave(&[Answer; 3]);
    guard.verify().await.unwrap();
    guard.extend(TTL).await.unwrap();
}

async fn extension_subtracts_the_time_that_it_took(mode: Mode) {
    let fixture = PausedFixture::new_in(mode, 3);
    let settings = mode.of(settings(&fixture.nodes)).vote_timeout(TTL);
    let client = build(settings);
    let guard = take(&client.mutex(NAME).no_renew()).await;
    fixture.behave(&[Hang; 3]);
    let (extended, ()) = tokio::join!(guard.extend(2 * TTL), async {
        // Short enough that the nodes are not given up and asked again.
        pass(TTL / 20).await;
        fixture.behave(&[Answer; 3]);
    });
    extended.unwrap();
    assert!(guard.remaining() < 2 * TTL - TTL / 20, "{:?}", guard.remaining());
}

#[tokio::test(start_paused = true)]
async fn extend_in_classic_mode_never_recreates_a_key() {
    let fixture = PausedFixture::new_in(Mode::Classic, 3);
    let guard = take(&fixture.mutex().no_renew()).await;
    (0..3).for_each(|node| fixture.nodes.forget(node));
    let Err(ExtendError::Lost(lost)) = guard.extend(TTL).await else { panic!("no node has it") };
    assert_eq!(lost.reason, LostReason::Gone);
    assert_eq!(fixture.holding(), 0);
}

#[tokio::test(start_paused = true)]
async fn extend_recreates_a_key_only_without_another_holder_since() {
    let fixture = PausedFixture::new(3);
    let guard = take(&fixture.mutex().no_renew()).await;
    (0..3).for_each(|node| fixture.nodes.forget(node));
    guard.extend(TTL).await.unwrap();
    assert_eq!(fixture.holding(), 3);

    (0..3).for_each(|node| fixture.nodes.forget(node));
    pass(TICK).await;
    drop(fixture.other().mutex(NAME).lock().await.unwrap());
    let Err(ExtendError::Lost(lost)) = guard.extend(TTL).await else {
        panic!("another client held it")
    };
    assert_eq!(lost.reason, LostReason::Gone);
    assert_eq!(fixture.holding(), 0);
}

#[tokio::test(start_paused = true)]
async fn extend_of_an_adopted_lease_never_recreates_a_key() {
    let fixture = PausedFixture::new(3);
    let left = take(&fixture.mutex().no_renew()).await.detach().await.unwrap();
    let guard = fixture.other().adopt(&left).await.unwrap();
    (0..3).for_each(|node| fixture.nodes.forget(node));
    let Err(ExtendError::Lost(lost)) = guard.extend(TTL).await else { panic!("no node has it") };
    assert_eq!(lost.reason, LostReason::Gone);
    assert_eq!(fixture.holding(), 0);
}
