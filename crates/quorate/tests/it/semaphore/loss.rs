//! One of several permits is lost: while others are missing, and when all are held.

use std::time::Duration;

use quorate::{
    Permits,
    error::{LostReason, ReleaseError},
};
use quorate_core::quorum::majority;
use quorate_testkit::eventually;
use tokio::time::Instant;

use super::{
    all_names, jobs, take, wait_for_queue, wait_until_held_are, wait_until_held_by, wait_until_only,
};
use crate::{
    conformance::fixture::{Fixture, PATIENCE},
    mode::Mode,
    watchdog::{
        fixture::{PausedFixture, TTL, pass},
        journal::Journal,
    },
};

on_every_engine! {
    [1, 3] => loss_of_one_permit_is_a_loss_of_all,
        permit_lost_during_the_wait_is_acquired_again,
        former_first_waiter_releases_its_permit;
}

async fn loss_of_one_permit_is_a_loss_of_all(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    let held = jobs(&client, 3).ttl(BRIEF).acquire_many(2).await.expect("free");
    let (token, lost) = (held.loss_token(), held.lost());
    let robbed = held.guards()[1].name().to_owned();
    rob(fixture, &robbed);
    let lost = tokio::time::timeout(PATIENCE, lost).await.expect("it is notified");
    assert_eq!(lost.reason, LostReason::Gone);
    assert!(token.is_lost() && held.remaining().is_zero() && held.check().is_err());
    held.guards()[0].verify().await.expect("the other one is held until then");
    let released = held.release().await.expect_err("one was lost");
    assert!(matches!(released, ReleaseError::Lost(_)), "{released:?}");
    fixture.all().for_each(|node| fixture.forget(node));
    wait_until_only(fixture, &[]);
}

async fn permit_lost_during_the_wait_is_acquired_again(fixture: &Fixture) {
    let alice = fixture.client("alice").await;
    let journal = Journal::default();
    let bob = fixture.connect(fixture.builder().who("bob").observer(journal.clone())).await;
    let mut guards = take(&jobs(&alice, 2), 2).await;
    let semaphore = jobs(&bob, 2).ttl(BRIEF);
    let waiting = tokio::spawn(async move { semaphore.acquire_many(2).await });
    wait_for_queue(fixture, &alice, 2, 0).await;
    let freed = guards.remove(0);
    let name = freed.name().to_owned();
    freed.release().await.expect("it is held");
    wait_until_held_by(&alice, &name, "bob").await;
    rob(fixture, &name);
    eventually("bob knows", PATIENCE, || journal.count(&format!("lost {name}")) > 0);
    let second = guards.remove(0);
    if fixture.mode() == Mode::Queue {
        // Bob waits for it again. Until then the other one does not suffice.
        wait_for_waiter(&alice, &name).await;
        second.release().await.expect("it is held");
        assert!(!waiting.is_finished(), "another has one of the two");
        fixture.all().for_each(|node| fixture.forget(node));
    } else {
        // Nodes that lose permits do not get them back in this mode: bob has none yet.
        fixture.all().for_each(|node| fixture.forget(node));
        drop(second);
    }
    let both = in_time(waiting).await;
    both.check().expect("both are held");
    assert_eq!(both.guards().len(), 2);
    wait_until_held_are(fixture, &all_names(&both));
}

/// Two callers that keep permits while they wait for more could deadlock.
async fn former_first_waiter_releases_its_permit(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let kept = take(&jobs(&alice, 3), 2).await;
    // The position is renewed as the permits are.
    let semaphore = jobs(&bob, 3).ttl(BRIEF);
    let waiting = tokio::spawn(async move { semaphore.acquire_many(2).await });
    let free = (1..=3).map(|number| format!("jobs#{number}"));
    let free = free.into_iter().find(|name| kept.iter().all(|it| it.name() != name));
    let free = free.expect("two of three are taken");
    wait_until_held_by(&alice, &free, "bob").await;
    rob(fixture, "jobs#queue");
    let third = async {
        loop {
            if let Some(third) = jobs(&alice, 3).try_acquire().await.expect("all answer") {
                return third;
            }
            assert!(!waiting.is_finished(), "there are not enough");
            // Nodes in memory answer at once: no other task would run.
            tokio::task::yield_now().await;
        }
    };
    let third = tokio::time::timeout(PATIENCE, third).await.expect("bob releases it");
    assert_eq!(third.name(), free);
    drop(third);
    fixture.all().for_each(|node| fixture.forget(node));
    drop(kept);
    let both = in_time(waiting).await;
    both.check().expect("both are held");
    drop(both);
    wait_until_only(fixture, &[]);
}

/// Leases that are not renewed begin when all are held, regardless of the wait.
#[tokio::test(start_paused = true)]
async fn fixed_leases_and_limits_begin_when_all_permits_are_held() {
    for count in [2, 3] {
        let fixture = PausedFixture::new(3);
        let (alice, bob, carol) = (fixture.other(), fixture.other(), fixture.other());
        let held = jobs(&alice, count).acquire().await.unwrap();
        let fixed = jobs(&bob, count).no_renew();
        let first = tokio::spawn(async move { fixed.acquire_many(count).await });
        pass(5 * TTL).await;
        let limited = jobs(&carol, count).max_hold(3 * TTL);
        let second = tokio::spawn(async move { limited.acquire_many(count).await });
        pass(TTL).await;
        assert!(!first.is_finished() && !second.is_finished());
        let released_at = Instant::now();
        held.release().await.unwrap();
        let fixed = first.await.unwrap().unwrap();
        assert!(fixed.remaining() > TTL * 9 / 10, "{:?}", fixed.remaining());
        assert_eq!(loss(&fixed).await, LostReason::Expired);
        let lasted = released_at.elapsed();
        assert!(lasted > TTL * 9 / 10 && lasted <= TTL, "{lasted:?}: it is not renewed");
        drop(fixed);
        let limited = second.await.unwrap().unwrap();
        let acquired_at = Instant::now();
        assert_eq!(loss(&limited).await, LostReason::MaxHold);
        let lasted = acquired_at.elapsed();
        assert!(lasted > 2 * TTL && lasted <= 3 * TTL, "{lasted:?}");
        drop(limited);
        assert!(jobs(&alice, count).try_acquire_many(count).await.unwrap().is_some());
    }
}

/// The reason of the loss, on the paused clock.
async fn loss(held: &Permits) -> LostReason {
    let lost = tokio::time::timeout(10 * TTL, held.lost()).await;
    lost.expect("it is lost in the end").reason
}

/// From now on a majority of the nodes stores this lock for another program.
fn rob(fixture: &Fixture, name: &str) {
    (0..majority(fixture.len())).for_each(|node| fixture.plant(node, name, b"another"));
}

async fn wait_for_waiter(client: &quorate::Client, name: &str) {
    let waits = async || client.inspect(name).await.expect("they tell").waiting_total == 1;
    let seen = tokio::time::timeout(PATIENCE, async {
        while !waits().await {
            tokio::task::yield_now().await;
        }
    });
    seen.await.unwrap_or_else(|_| panic!("no client waits for {name}"));
}

async fn in_time(
    waiting: tokio::task::JoinHandle<Result<Permits, quorate::error::LockError>>,
) -> Permits {
    let ended = tokio::time::timeout(PATIENCE, waiting).await.expect("its turn comes");
    ended.expect("no panic").expect("its turn comes")
}

/// The watchdog checks every third of it. Long enough that a stall is not the reason.
const BRIEF: Duration = Duration::from_secs(6);
