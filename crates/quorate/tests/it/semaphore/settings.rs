//! The name of a semaphore, its number of permits, and their settings.

use std::{collections::BTreeSet, time::Duration};

use quorate::{
    Client, Semaphore,
    error::{LockError, LostReason, NameError},
};

use super::{jobs, names, take, wait_until_only};
use crate::{
    conformance::fixture::{Fixture, LONG, on_servers},
    watchdog::journal::Journal,
};

on_every_engine! {
    [1, 3] => semaphore_has_all_its_permits,
        free_permit_costs_one_request_to_each_node,
        permits_have_the_settings_of_locks;
}

/// On one server only: this number of locks keeps a machine busy.
#[test]
fn semaphore_can_have_the_maximum_number_of_permits() {
    on_servers(&[1], async |fixture: &Fixture| all_are_had(fixture, Semaphore::MAX_PERMITS).await);
}

async fn semaphore_has_all_its_permits(fixture: &Fixture) {
    all_are_had(fixture, 40).await;
}

async fn all_are_had(fixture: &Fixture, most: u32) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let all = jobs(&alice, most).acquire_many(most).await.expect("all are free");
    let mut guards = all.into_permits();
    assert_eq!(names(&guards).iter().collect::<BTreeSet<_>>().len(), most as usize);
    assert!(jobs(&bob, most).try_acquire().await.expect("all answer").is_none());
    let semaphore = jobs(&bob, most);
    let waiting = tokio::spawn(async move { semaphore.acquire().await });
    let wait = Duration::from_millis(20);
    let waited = jobs(&alice, most).acquire_timeout(wait).await;
    assert!(matches!(waited, Err(LockError::Timeout { .. })), "{waited:?}");
    guards.pop();
    let got = tokio::time::timeout(LONG / 3, waiting).await.expect("it is notified");
    guards.push(got.expect("no panic").expect("one is free"));
    wait_until_only(fixture, &guards);
    // As many are waited for, and are granted one by one.
    let semaphore = jobs(&bob, most);
    let waiting = tokio::spawn(async move { semaphore.acquire_many(most).await });
    guards.drain(..most as usize / 2).for_each(drop);
    drop(guards);
    let all = tokio::time::timeout(LONG, waiting).await.expect("it is notified");
    let all = all.expect("no panic").expect("all are free");
    all.check().expect("all are held");
    drop(all);
    wait_until_only(fixture, &[]);
}

async fn free_permit_costs_one_request_to_each_node(fixture: &Fixture) {
    let journal = Journal::default();
    let client = fixture.connect(fixture.builder().observer(journal.clone())).await;
    let guards = take(&jobs(&client, 8), 1).await;
    wait_until_only(fixture, &guards);
    let attempt = format!("acquire {} started", guards[0].name());
    assert_eq!(journal.count(&attempt), 1);
    drop(guards);
    wait_until_only(fixture, &[]);
    let lines = journal.lines();
    let is_attempt =
        |line: &&String| line.starts_with("acquire jobs#") && line.ends_with("started");
    assert_eq!(lines.iter().filter(is_attempt).count(), 1, "{lines:?}");
    assert_eq!(journal.count("wait "), 0);
}

async fn permits_have_the_settings_of_locks(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    let short = Duration::from_secs(5);
    let guard = jobs(&client, 2).ttl(short).acquire().await.expect("free");
    assert!(guard.remaining() < short);
    let brief = jobs(&client, 2).max_hold(Duration::from_millis(30)).acquire().await.expect("free");
    assert_eq!(brief.lost().await.reason, LostReason::MaxHold);
    drop((guard, brief));
    let fixed = jobs(&client, 1).ttl(Duration::from_millis(100)).no_renew();
    let fixed = fixed.acquire().await.expect("free");
    assert_eq!(fixed.lost().await.reason, LostReason::Expired);
    drop(fixed);
    let sum = jobs(&client, 1).with(async |permit| permit.check().map(|()| 2)).await;
    assert_eq!(sum.expect("free"), Ok(2));
    wait_until_only(fixture, &[]);
}

#[tokio::test]
async fn invalid_number_of_permits_is_an_error() {
    let client = Client::memory();
    for permits in [0, 1_025, u32::MAX] {
        let error = jobs(&client, permits).try_acquire().await.expect_err("invalid number");
        assert_eq!(error, LockError::InvalidPermits { lock: "jobs".into(), permits, max: 1_024 });
        assert_eq!(
            error.to_string(),
            format!(
                "invalid number of permits {permits} for the semaphore \"jobs\": use 1 to 1024"
            )
        );
        assert_eq!(jobs(&client, permits).acquire().await.expect_err("invalid number"), error);
        let waited = jobs(&client, permits).acquire_timeout(LONG).await;
        assert_eq!(waited.expect_err("invalid number"), error);
        let many = jobs(&client, permits).acquire_many(1).await;
        assert_eq!(many.expect_err("invalid number"), error);
    }
}

#[tokio::test]
async fn name_must_leave_room_for_the_names_of_the_permits() {
    let client = Client::memory();
    let with_name = |name: &str| client.semaphore(name, 1);
    let longest = "x".repeat(1_024 - "#queue".len());
    let guard = with_name(&longest).acquire().await.expect("it is not too long");
    assert_eq!(guard.name(), format!("{longest}#1"));
    for (name, wrong) in [
        (format!("{longest}x"), NameError::TooLong { len: 1_025 }),
        (String::new(), NameError::Empty),
        ("a\nb".into(), NameError::Control { at: 1, found: '\n' }),
        ("quorate:a".into(), NameError::Reserved { prefix: "quorate:".into() }),
    ] {
        let error = with_name(&name).acquire().await.expect_err("no name");
        assert_eq!(error, LockError::InvalidName(wrong.clone()));
        let error = with_name(&name).try_acquire().await.expect_err("no name");
        assert_eq!(error, LockError::InvalidName(wrong));
    }
}

#[test]
fn threads_without_a_runtime_share_permits() {
    let client = quorate::blocking::Client::memory();
    let semaphore = client.semaphore("jobs", 2);
    let held = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                for _ in 0..10 {
                    let seen = semaphore.with(|permit| {
                        let now = held.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1;
                        std::thread::yield_now();
                        held.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                        permit.check().map(|()| now)
                    });
                    assert!(seen.expect("its turn comes").expect("held") <= 2);
                }
            });
        }
    });
    let guards = [semaphore.acquire().expect("free"), semaphore.acquire().expect("free")];
    assert!(semaphore.try_acquire().expect("all answer").is_none());
    let wait = semaphore.acquire_timeout(Duration::from_millis(10));
    assert!(matches!(wait, Err(LockError::Timeout { holder: Some(_), .. })), "{wait:?}");
    drop(guards);
}
