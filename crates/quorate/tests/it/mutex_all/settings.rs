//! The names of a set, and the settings of its locks.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use quorate::{
    Client, GuardAll, MutexAll, blocking,
    error::{ExtendError, LockError, LostReason, NameError, WithError},
};

use super::{pair, take_all, wait_until_only};
use crate::conformance::fixture::{Fixture, LONG};

on_every_engine! {
    [1, 3, 5] => set_of_the_most_names_is_held_as_a_whole,
        locks_of_a_set_have_its_settings;
}

async fn set_of_the_most_names_is_held_as_a_whole(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let names: Vec<String> = (0..MutexAll::MAX_NAMES).map(|it| format!("n{it:02}")).collect();
    let set = take_all(alice.mutex_all(&names)).await;
    set.verify().await.expect("all are held");
    for name in names.iter().step_by(7) {
        assert!(bob.mutex(name).try_lock().await.expect("every node answers").is_none());
    }
    let backwards = bob.mutex_all(names.iter().rev());
    let waiting = tokio::spawn(async move { backwards.lock().await });
    set.release().await.expect("all were held");
    let set = tokio::time::timeout(LONG / 3, waiting).await.expect("it is notified");
    let set = set.expect("no panic").expect("all are free");
    wait_until_only(fixture, &names.iter().map(String::as_str).collect::<Vec<_>>());
    drop(set);
    wait_until_only(fixture, &[]);
}

async fn locks_of_a_set_have_its_settings(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    let short = Duration::from_secs(5);
    let set = take_all(pair(&client).ttl(short).who("transfer 42")).await;
    assert!(set.remaining() < short && !set.is_at_risk());
    for name in ["a", "b"] {
        let holder = client.inspect(name).await.expect("every node answers").holder;
        assert_eq!(holder.expect("it is held").who, "transfer 42");
    }
    drop(set);
    let sum = pair(&client).with(async |set| set.check().map(|()| 2)).await;
    assert_eq!(sum.expect("both are free"), Ok(2));
    wait_until_only(fixture, &[]);
}

#[tokio::test]
async fn sets_without_names_or_with_too_many_are_refused() {
    let client = Client::memory();
    let names = |count: usize| (0..count).map(|it| it.to_string()).collect::<Vec<_>>();
    refused(&client.mutex_all([""; 0]), &LockError::NoNames).await;
    for count in [MutexAll::MAX_NAMES + 1, 1_000] {
        let error = LockError::TooManyNames { names: count, max: MutexAll::MAX_NAMES };
        refused(&client.mutex_all(names(count)), &error).await;
        let text = error.to_string();
        assert!(
            text.starts_with(&format!("invalid set of {count} locks: use at most 32")),
            "{text}"
        );
    }
    let twice = names(MutexAll::MAX_NAMES).into_iter().chain(names(MutexAll::MAX_NAMES));
    let set = client.mutex_all(twice).lock().await.expect("a name counts once");
    assert_eq!(set.guards().len(), MutexAll::MAX_NAMES);
}

#[tokio::test]
async fn bad_name_or_ttl_refuses_the_whole_set() {
    let client = Client::memory();
    for (name, wrong) in [
        (String::new(), NameError::Empty),
        ("x".repeat(1_025), NameError::TooLong { len: 1_025 }),
        ("a\nb".into(), NameError::Control { at: 1, found: '\n' }),
        ("quorate:a".into(), NameError::Reserved { prefix: "quorate:".into() }),
    ] {
        refused(&client.mutex_all(["a", &name, "b"]), &LockError::InvalidName(wrong)).await;
    }
    for ttl in [Duration::ZERO, Duration::from_secs(61)] {
        let refused = pair(&client).ttl(ttl).lock().await;
        assert!(matches!(refused, Err(LockError::InvalidTtl(_))), "{refused:?}");
    }
    assert!(
        client.locks("").all().await.expect("it answers").locks.is_empty(),
        "no node was asked"
    );
    let set = pair(&client).lock().await.expect("both are free");
    let extended = set.extend(Duration::ZERO).await;
    assert!(matches!(extended, Err(ExtendError::InvalidTtl(_))), "{extended:?}");
    set.check().expect("both are held as before");
}

async fn refused(set: &MutexAll, expected: &LockError) {
    let is_expected = |got: Result<Option<GuardAll>, LockError>| {
        assert_eq!(got.expect_err("it is invalid"), *expected);
    };
    is_expected(set.try_lock().await);
    is_expected(set.lock().await.map(Some));
    is_expected(set.lock_timeout(LONG).await.map(Some));
    let with = set.with(async |_| ()).await;
    assert!(matches!(with, Err(WithError::Lock(error)) if error == *expected));
}

#[tokio::test]
async fn names_that_are_listed_twice_count_once() {
    let client = Client::memory();
    let set = client.mutex_all(["b", "a", "b", "a"]).lock().await.expect("both are free");
    let names: Vec<&str> = set.guards().iter().map(quorate::Guard::name).collect();
    assert_eq!(names, ["a", "b"]);
    set.release().await.expect("both were held");
    let one = client.mutex_all(["a"]).lock().await.expect("it is free");
    assert!(client.mutex("a").try_lock().await.expect("it answers").is_none());
    drop(one);
}

#[test]
fn threads_without_a_runtime_share_sets() {
    let client = blocking::Client::memory();
    let inside = [const { AtomicUsize::new(0) }; 3];
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let (client, inside) = (client.clone(), &inside);
            scope.spawn(move || {
                let pair = [thread % 3, (thread + 1) % 3];
                let set = client.mutex_all(pair.map(|it| it.to_string()));
                for _ in 0..10 {
                    let worked = set.with(|guard| {
                        let seen = pair.map(|it| inside[it].fetch_add(1, Ordering::SeqCst));
                        std::thread::yield_now();
                        pair.iter().for_each(|it| _ = inside[*it].fetch_sub(1, Ordering::SeqCst));
                        guard.check().map(|()| seen)
                    });
                    assert_eq!(worked.expect("its turn comes"), Ok([0, 0]));
                }
            });
        }
    });
}

#[test]
fn every_call_of_a_set_works_without_a_runtime() {
    let client = blocking::Client::memory();
    let set = client.mutex_all(["b", "a"]).ttl(LONG).who("transfer 42");
    let guard = set.lock().expect("both are free");
    guard.check().expect("both are held");
    guard.verify().expect("both are held");
    guard.extend(2 * LONG).expect("both are held");
    assert!(guard.remaining() > LONG && !guard.is_at_risk());
    assert!(!guard.loss_token().is_lost());
    assert!(guard.fence("a").is_some() && guard.fence("c").is_none());
    assert!(set.try_lock().expect("it answers").is_none());
    let waited = client.mutex_all(["b", "c"]).lock_timeout(Duration::from_millis(10));
    assert!(matches!(waited, Err(LockError::Timeout { holder: Some(_), .. })), "{waited:?}");
    let mut guards = guard.into_guards();
    guards.pop().expect("there are two").release().expect("b was held");
    client.mutex("b").try_lock().expect("it answers").expect("b is free").release().expect("held");
    guards.pop().expect("there is one").release().expect("a was held");
    let brief = set.clone().max_hold(Duration::from_millis(20)).no_renew();
    let brief = brief.lock_timeout(LONG).expect("both are free");
    assert_eq!(brief.wait_until_lost().reason, LostReason::MaxHold);
    drop(brief);
    let late = set.clone().max_hold(Duration::from_millis(20)).with(|it| it.wait_until_lost());
    assert!(matches!(late, Err(WithError::Lost(_))), "work that outlives its locks does not count");
    set.try_lock().expect("it answers").expect("both are free").release().expect("both were held");
}
