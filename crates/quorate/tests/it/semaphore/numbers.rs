//! The numbers of permits, and the guards that show them.

use quorate::{Client, blocking};

#[tokio::test]
async fn holders_have_different_numbers_which_name_their_locks() {
    let jobs = Client::memory().semaphore("jobs#7", 3);
    let mut numbers = Vec::new();
    let mut permits = Vec::new();
    for _ in 0..3 {
        let permit = jobs.acquire().await.expect("a permit is free");
        assert_eq!(permit.name(), format!("jobs#7#{}", permit.number()));
        numbers.push(permit.number());
        permits.push(permit);
    }
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2, 3]);
    let released = permits.remove(1);
    let number = released.number();
    released.release().await.expect("it is held");
    let again = jobs.try_acquire().await.expect("the node answers").expect("it is free");
    assert_eq!(again.number(), number);
}

#[tokio::test]
async fn permits_keep_their_numbers_when_they_are_separated() {
    let jobs = Client::memory().semaphore("jobs", 3);
    let permits = jobs.acquire_many(3).await.expect("all are free");
    assert_eq!(permits.numbers().collect::<Vec<_>>(), [1, 2, 3]);
    let separate = permits.into_permits();
    assert!(separate.iter().map(|permit| permit.number()).eq(1..=3));
    let number = jobs.with(async |permit| permit.number());
    drop(separate);
    assert!((1..=3).contains(&number.await.expect("all are free")));
    let guard = jobs.acquire_many(2).await.expect("all are free").into_guard();
    assert_eq!(guard.guards().len(), 2);
}

#[test]
fn blocking_permits_have_numbers() {
    let jobs = blocking::Client::memory().semaphore("jobs", 2);
    let (one, other) = (jobs.acquire().expect("free"), jobs.acquire().expect("free"));
    assert_eq!(one.number() + other.number(), 3);
    assert_eq!(one.name(), format!("jobs#{}", one.number()));
    one.release().expect("it is held");
    other.release().expect("it is held");
    let permits = jobs.acquire_many(2).expect("both are free");
    assert_eq!(permits.numbers().collect::<Vec<_>>(), [1, 2]);
    assert!(permits.into_permits().iter().map(|permit| permit.number()).eq([1, 2]));
    assert_eq!(jobs.with_many(2, |permits| permits.numbers().count()), Ok(2));
}

#[test]
fn blocking_readers_and_writers_have_guards_of_their_own() {
    let lock = blocking::Client::memory().rwlock("prices");
    let writer = lock.write().expect("it is free");
    assert!(writer.fence().is_some());
    let reader: blocking::ReadGuard = writer.downgrade().expect("it is held");
    let other = lock.try_read().expect("the node answers").expect("readers share it");
    assert_ne!(reader.owner_id(), other.owner_id());
    reader.verify().expect("it is held");
    reader.release().expect("it is held");
    assert_eq!(other.into_guard().fence(), None);
    assert_eq!(lock.with_read(|reader| reader.check()), Ok(Ok(())));
}
