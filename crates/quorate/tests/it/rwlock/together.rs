//! Readers together, writers alone, and all in queue order.

use std::time::Duration;

use quorate::{Client, Guard, ReadGuard, RwLock, error::LockError, inspect::LockReport};
use quorate_testkit::eventually;
use tokio::task::JoinHandle;

use crate::conformance::fixture::{Fixture, PATIENCE, take};

in_line_on_every_engine! {
    [1, 2, 3, 5] => readers_share_the_lock_and_a_writer_holds_it_alone,
        work_runs_under_the_lock_and_releases_it,
        mutex_and_rwlock_of_one_name_exclude_each_other,
        writer_acquires_when_the_last_reader_releases,
        readers_behind_a_writer_wait_and_are_granted_together,
        waiting_readers_acquire_when_a_writer_gives_up,
        timeout_of_a_reader_names_the_writer,
        reports_list_all_holders;
}

async fn readers_share_the_lock_and_a_writer_holds_it_alone(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let readers = [read(&alice).await, read(&bob).await, read(&bob).await];
    for reader in &readers {
        reader.verify().await.expect("it has it");
    }
    assert!(lock(&bob).try_write().await.expect("every node answers").is_none());
    for reader in readers {
        reader.release().await.expect("it was held");
    }
    let writer = lock(&bob).write_timeout(PATIENCE).await.expect("it is free");
    assert!(writer.fence().is_some());
    assert!(lock(&alice).try_read().await.expect("every node answers").is_none());
    assert!(lock(&alice).try_write().await.expect("every node answers").is_none());
    writer.release().await.expect("it was held");
    fixture.wait_until_empty(fixture.all());
}

async fn work_runs_under_the_lock_and_releases_it(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let prices = lock(&alice);
    let read = prices.with_read(async |reader| {
        reader.verify().await.expect("it is held");
        let other = lock(&bob).try_read().await.expect("every node answers");
        other.expect("readers share the lock").release().await.expect("it was held");
        assert!(lock(&bob).try_write().await.expect("every node answers").is_none());
        reader.name().to_owned()
    });
    assert_eq!(read.await, Ok("a".to_owned()));
    let written = prices.with_write(async |writer| {
        assert!(lock(&bob).try_read().await.expect("every node answers").is_none());
        writer.fence().is_some()
    });
    assert_eq!(written.await, Ok(true));
    fixture.wait_until_empty(fixture.all());
}

#[test]
fn threads_run_work_under_the_lock() {
    let client = quorate::blocking::Client::memory();
    let prices = client.rwlock("prices");
    let read = prices.with_read(|_reader| prices.try_write().expect("the node answers").is_none());
    assert_eq!(read, Ok(true));
    let written = prices.with_write(|writer| writer.fence().is_some());
    assert_eq!(written, Ok(true));
    assert!(prices.try_write().expect("the node answers").is_some(), "the lock is free again");
}

async fn mutex_and_rwlock_of_one_name_exclude_each_other(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let reader = read(&alice).await;
    assert!(bob.mutex("a").try_lock().await.expect("every node answers").is_none());
    reader.release().await.expect("it was held");
    let guard = take(bob.mutex("a")).await;
    assert!(lock(&alice).try_read().await.expect("every node answers").is_none());
    guard.release().await.expect("it was held");
    let writer = lock(&alice).write().await.expect("it is free");
    let after = take(bob.mutex("b")).await;
    assert!(writer.fence().is_some() && after.fence().is_some());
}

async fn writer_acquires_when_the_last_reader_releases(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let (one, two) = (read(&alice).await, read(&alice).await);
    let writer = waiting(fixture, &bob, Wants::Write, 1).await;
    one.release().await.expect("it was held");
    two.verify().await.expect("it has it");
    assert!(!writer.is_finished(), "one of them still holds it");
    two.release().await.expect("it was held");
    won(writer).await.verify().await.expect("bob has it");
}

/// All by one client: two clients' estimates of the nodes' time may differ by a round trip.
async fn readers_behind_a_writer_wait_and_are_granted_together(fixture: &Fixture) {
    let alice = fixture.client("alice").await;
    let first = read(&alice).await;
    let writer = waiting(fixture, &alice, Wants::Write, 1).await;
    let readers = [
        waiting(fixture, &alice, Wants::Read, 2).await,
        waiting(fixture, &alice, Wants::Read, 3).await,
        waiting(fixture, &alice, Wants::Read, 4).await,
    ];
    assert!(lock(&alice).try_read().await.expect("every node answers").is_none(), "nor this one");
    let last = waiting(fixture, &alice, Wants::Write, 5).await;
    first.release().await.expect("it was held");
    let writer = won(writer).await;
    assert!(readers.iter().all(|reader| !reader.is_finished()), "the writer has it alone");
    writer.release().await.expect("it was held");
    let mut together = Vec::new();
    for reader in readers {
        together.push(won(reader).await);
    }
    for reader in &together {
        reader.verify().await.expect("all of them have it");
    }
    assert!(!last.is_finished(), "they have it");
    for reader in together {
        reader.release().await.expect("it was held");
    }
    drop(won(last).await);
}

async fn waiting_readers_acquire_when_a_writer_gives_up(fixture: &Fixture) {
    let alice = fixture.client("alice").await;
    let _first = read(&alice).await;
    let writer = waiting(fixture, &alice, Wants::Write, 1).await;
    let reader = waiting(fixture, &alice, Wants::Read, 2).await;
    writer.abort();
    won(reader).await.verify().await.expect("it is the first waiter");
}

async fn timeout_of_a_reader_names_the_writer(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("billing/db1/4711").await, fixture.client("bob").await);
    let _writer = lock(&alice).write().await.expect("it is free");
    let error = lock(&bob).read_timeout(Duration::from_millis(30)).await.expect_err("alice has it");
    let LockError::Timeout { holder: Some(holder), .. } = error else { panic!("{error}") };
    assert_eq!(holder.who, "billing/db1/4711");
}

async fn reports_list_all_holders(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let _readers = [read(&alice).await, read(&bob).await, read(&bob).await];
    let report = reported(fixture, &alice, |report| report.shared_with.len() == 2).await;
    let holder = report.holder.clone().expect("a holder");
    let mut whos: Vec<&str> = report.shared_with.iter().map(|it| &*it.who).collect();
    whos.push(&holder.who);
    whos.sort_unstable();
    assert_eq!(whos, ["alice", "bob", "bob"]);
    assert!(report.is_held() && holder.is_shared && holder.fence.is_none(), "{report:?}");
    assert!(holder.held_for.is_some() && holder.expires_in.is_some(), "{report:?}");
    assert!(report.to_string().contains(", shared with 2 others"), "{report}");
    let list = alice.locks("").all().await.expect("every node answers");
    assert_eq!(list.locks.len(), 1);
    assert_eq!(list.locks[0].shared_with.len(), 2);
    let error = bob.mutex("a").lock_timeout(Duration::ZERO).await.expect_err("it is held");
    let LockError::Timeout { holder: Some(_), .. } = error else { panic!("{error}") };
}

pub(super) enum Wants {
    Read,
    Write,
}

pub(super) fn lock(client: &Client) -> RwLock {
    client.rwlock("a")
}

pub(super) async fn read(client: &Client) -> ReadGuard {
    lock(client).read_timeout(PATIENCE).await.expect("nobody writes")
}

/// A waiter, as soon as this many owners wait on every node.
pub(super) async fn waiting(
    fixture: &Fixture,
    client: &Client,
    wants: Wants,
    total: u64,
) -> JoinHandle<Result<Guard, LockError>> {
    let lock = lock(client);
    let waiter = tokio::spawn(async move {
        match wants {
            Wants::Read => lock.read().await.map(Guard::from),
            Wants::Write => lock.write().await.map(Guard::from),
        }
    });
    reported(fixture, client, |report| report.waiting_total == total).await;
    waiter
}

pub(super) async fn won(waiter: JoinHandle<Result<Guard, LockError>>) -> Guard {
    let won = tokio::time::timeout(PATIENCE, waiter).await.expect("its turn comes");
    won.expect("no panic").expect("the lock is free")
}

/// The report about the lock, as soon as it is as expected.
pub(super) async fn reported(
    fixture: &Fixture,
    client: &Client,
    is_so: impl Fn(&LockReport) -> bool,
) -> LockReport {
    let started = std::time::Instant::now();
    loop {
        let report = client.inspect("a").await.expect("every node answers");
        if is_so(&report) {
            return report;
        }
        assert!(started.elapsed() < PATIENCE, "with {} nodes: {report:?}", fixture.len());
        tokio::task::yield_now().await;
    }
}

/// Waits until no node has any key.
pub(super) fn wait_until_gone(fixture: &Fixture) {
    eventually("no key is left", PATIENCE, || fixture.is_empty());
}
