//! A node that has become a copy of another, while its connections stay: it hands off nothing.

use std::time::Duration;

use quorate::{Client, error::LockError};
use quorate_testkit::{Fault, Proxy, eventually, redis::cmd};

use super::{
    fixture::{Fixture, is_attached, wait_for_vote, wait_until},
    forgetting::{copied_at_once, copy_by_replication},
};
use crate::conformance::fixture::PATIENCE;

#[tokio::test(flavor = "multi_thread")]
async fn copy_of_another_node_hands_off_no_lock() {
    let fixture = Fixture::of(copied_at_once().start_many(3), MAX_TTL);
    for round in 0..ROUNDS {
        hand_off_round(&fixture, round).await;
    }
}

async fn hand_off_round(fixture: &Fixture, round: usize) {
    let [first, second, third] = &fixture.servers[..] else { panic!("three") };
    let client = fixture.client("early").await;
    // The holder holds the lock on the second and the third only.
    let proxy = Proxy::start(&first.address());
    proxy.set(Fault::Refuse);
    let urls = [proxy.url(), second.url(), third.url()];
    let holder = fixture.settings_of(urls).who("holder").connect().await.expect("two of them vote");
    let name = format!("lock-{round}");
    wait_until(&holder, "two are attached", |nodes| nodes[1..].iter().all(is_attached));
    let held = holder.mutex(&name).lock().await.expect("two of them vote");

    let mut early = Box::pin(waiting(client.clone(), name.clone()));
    let _ = tokio::time::timeout(Duration::ZERO, &mut early).await;
    eventually("it has a vote of the first", PATIENCE, || first.get(&name).is_some());
    let late = fixture.client("late").await;
    let next = tokio::spawn(waiting(late.clone(), name.clone()));
    let line = format!("quorate:q:{{{name}}}");
    eventually("the next one waits", PATIENCE, || {
        let count = cmd("ZCARD").arg(&line).query::<u64>(&mut first.connection());
        count.expect("the server answers") == 1
    });
    copy_by_replication(second, first);
    drop(early);
    eventually("the lock is acquired or lost", PATIENCE, || {
        next.is_finished() || held.check().is_err()
    });
    assert!(held.check().is_err(), "the lock has two holders: {:?}", late.node_status());
    drop(held);
    next.await.expect("no panic").expect("its turn comes");
    wait_for_vote(&late, 1);
}

async fn waiting(client: Client, name: String) -> Result<(), LockError> {
    let guard = client.mutex(&name).lock_timeout(PATIENCE).await?;
    // It may have been lost in between.
    let _ = guard.release().await;
    Ok(())
}

const ROUNDS: usize = 2;
const MAX_TTL: Duration = Duration::from_secs(3);
