//! redsync, redlock-py, aioredlock, pottery, ShedLock and others.

use quorate::{
    error::{ExtendError, LockError, LostReason, ReleaseError},
    memory::Behaviour::{Answer, Fail, Hang},
};
use tokio::time::Instant;

use crate::{
    mode::Mode,
    watchdog::fixture::{
        NAME, PausedFixture, TICK, TTL, build, is_taken, loss, pass, settings, take,
    },
};

in_both_modes! {
    paused:
    redis_semaphore_gap_between_renewals_is_reported,
    pottery_extend_subtracts_the_time_that_it_took,
}

#[tokio::test(start_paused = true)]
async fn redsync_cancelled_caller_still_cleans_up() {
    let fixture = PausedFixture::new(3);
    fixture.behave(&[Answer, Hang, Hang]);
    let mutex = fixture.mutex();
    let cut = tokio::time::timeout(TTL / 1_000, mutex.lock()).await;
    assert!(cut.is_err());
    assert_eq!(fixture.holding(), 0, "it is deleted where it was stored");
    fixture.behave(&[Answer; 3]);
    assert_eq!(fixture.holding(), 0, "it is not stored where it was in flight");
}

#[tokio::test(start_paused = true)]
async fn redsync_release_does_not_wait_for_a_hung_node() {
    let fixture = PausedFixture::new(3);
    let guard = fixture.hold().await;
    fixture.nodes.set(0, Hang);
    let started = Instant::now();
    guard.release().await.unwrap();
    assert!(started.elapsed().is_zero());

    let guard = fixture.hold().await;
    fixture.behave(&[Hang, Hang, Answer]);
    let released = tokio::time::timeout(TTL / 10, guard.release()).await.expect("it ends");
    assert!(matches!(released, Err(ReleaseError::NoQuorum { .. })), "{released:?}");
}

#[tokio::test(start_paused = true)]
async fn redsync_taken_key_at_release_is_reported_as_a_loss() {
    let fixture = PausedFixture::new(3);
    let guard = fixture.hold().await;
    for node in 0..3 {
        fixture.nodes.forget(node);
        fixture.nodes.plant(node, NAME, b"an app's own data");
    }
    let Err(ReleaseError::Lost(lost)) = guard.release().await else { panic!("it is another's") };
    assert_eq!(lost.reason, LostReason::Gone);
    assert_eq!(fixture.holding(), 3, "the key of another program stays");
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
    let Err(ExtendError::Lost(lost)) = guard.extend(TTL).await else { panic!("another had it") };
    assert_eq!(lost.reason, LostReason::Gone);
    assert_eq!(fixture.holding(), 0);
}

#[tokio::test(start_paused = true)]
async fn extend_of_a_lease_that_was_handed_over_never_recreates_a_key() {
    let fixture = PausedFixture::new(3);
    let left = take(&fixture.mutex().no_renew()).await.detach().await.unwrap();
    let guard = fixture.other().adopt(&left).await.unwrap();
    (0..3).for_each(|node| fixture.nodes.forget(node));
    let Err(ExtendError::Lost(lost)) = guard.extend(TTL).await else { panic!("no node has it") };
    assert_eq!(lost.reason, LostReason::Gone);
    assert_eq!(fixture.holding(), 0);
}

async fn redis_semaphore_gap_between_renewals_is_reported(mode: Mode) {
    let fixture = PausedFixture::new_in(mode, 3);
    let guard = fixture.hold().await;
    // Between two renewals the keys are deleted, and another owner holds the lock for a moment.
    (0..3).for_each(|node| fixture.nodes.forget(node));
    pass(TICK).await;
    drop(fixture.other().mutex(NAME).lock().await.unwrap());
    assert_eq!(loss(&guard).await.0.reason, LostReason::Gone);
    assert_eq!(fixture.holding(), 0);
}

#[tokio::test(start_paused = true)]
async fn redlock_py_quorum_counts_configured_nodes() {
    let fixture = PausedFixture::new(3);
    for up in 0..3 {
        (0..3).for_each(|node| fixture.nodes.set(node, if node == up { Answer } else { Fail }));
        let tried = fixture.mutex().try_lock().await;
        assert!(matches!(tried, Err(LockError::NoQuorum { .. })), "one of three: {tried:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn aioredlock_failed_renewal_is_not_swallowed() {
    let fixture = PausedFixture::new(3);
    let guard = fixture.hold().await;
    fixture.behave(&[Fail; 3]);
    pass(TTL / 2).await;
    assert!(guard.is_at_risk());
    assert_eq!(fixture.holding(), 3, "and it does not release");
    loss(&guard).await;
}

async fn pottery_extend_subtracts_the_time_that_it_took(mode: Mode) {
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
async fn pottery_renewals_are_not_counted() {
    let fixture = PausedFixture::new(3);
    let guard = fixture.hold().await;
    pass(50 * TTL).await;
    guard.check().unwrap();
    assert!(fixture.journal.count("renewed") > 100);
}

#[tokio::test(start_paused = true)]
async fn shedlock_late_unlock_leaves_the_next_owner() {
    let fixture = PausedFixture::new(3);
    let late = take(&fixture.mutex().no_renew()).await;
    pass(2 * TTL).await;
    let next = fixture.other().mutex(NAME).lock().await.unwrap();
    assert!(matches!(late.release().await, Err(ReleaseError::Lost(_))));
    next.verify().await.unwrap();
    assert!(is_taken(&fixture.mutex()).await);
}
