//! Labels and tags of leases, and lists of locks in pages.

use std::collections::BTreeSet;

use quorate::{
    LeaseTag,
    error::{LeaseError, LockError},
    inspect::LockPage,
};

use super::fixture::{Fixture, take};
use crate::{
    mode::Mode,
    watchdog::fixture::{NAME, PausedFixture, build, settings},
};

on_every_engine! {
    [1, 3] => holder_is_shown_with_its_label,
        tagged_lease_is_found_renewed_and_released_by_others,
        pages_list_every_lock_that_is_held;
}

const TAG: LeaseTag = LeaseTag::new([0xa5; LeaseTag::LEN]);

async fn holder_is_shown_with_its_label(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let label = "worker 7: nightly @ 50 % ~ <b>";
    let _guard = take(alice.mutex("a").who(label)).await;
    let report = bob.inspect("a").await.expect("every node answers");
    assert_eq!(report.holder.expect("alice").who, label);
}

async fn tagged_lease_is_found_renewed_and_released_by_others(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    for is_shared in [false, true] {
        if fixture.mode() == Mode::Classic && is_shared {
            continue;
        }
        let guard = match is_shared {
            false => take(alice.mutex("a").who("label")).await,
            true => alice.rwlock("a").who("label").read().await.expect("it is free").into_guard(),
        };
        let lease = guard.detach().await.expect("every node answers");
        let tagged = alice.tag_lease(&lease, TAG).await;
        if fixture.mode() == Mode::Classic {
            assert_eq!(tagged.expect_err("owners have no tags"), LeaseError::OtherMode);
            alice.release_lease(&lease).await.expect("it was held");
            continue;
        }
        let tagged = tagged.expect("every node answers");
        let found = bob.tagged_leases(["a", "b"]).await.expect("every node answers");
        assert_eq!((found.len(), found[0].tag, &found[0].lease), (1, TAG, &tagged));
        assert_eq!(found[0].lease.fence(), lease.fence());
        // The untagged lease has ended, and releasing it has no effect.
        assert!(matches!(alice.release_lease(&lease).await, Err(LeaseError::Lost(_))));
        bob.renew_lease(&found[0].lease).await.expect("it is still held");
        let report = bob.inspect("a").await.expect("every node answers");
        assert_eq!(report.holder.expect("it is held").who, "label");
        bob.release_lease(&found[0].lease).await.expect("it was held");
        assert_eq!(bob.tagged_leases(["a"]).await.expect("every node answers"), []);
        assert!(matches!(alice.tag_lease(&tagged, TAG).await, Err(LeaseError::Lost(_))));
    }
}

async fn pages_list_every_lock_that_is_held(fixture: &Fixture) {
    // Locks of classic mode leave nothing by which they could be found.
    if fixture.mode() == Mode::Classic {
        return;
    }
    let client = fixture.client("alice").await;
    let mut guards = Vec::new();
    for number in 0..60 {
        guards.push(take(client.mutex(format!("orders:{number}"))).await);
    }
    let _other = take(client.mutex("videos:1")).await;
    for limit in [1, 7, 1_000] {
        let (mut seen, mut cursor, mut pages) = (BTreeSet::new(), None, 0);
        loop {
            let list = client.locks("orders:").page_size(limit);
            let page = list.starting_at(cursor.unwrap_or_default()).next_page().await;
            let LockPage { locks, next, is_complete, .. } =
                page.expect("every node answers").expect("a page");
            assert!(is_complete);
            seen.extend(locks.into_iter().map(|lock| lock.name));
            pages += 1;
            let Some(next) = next else { break };
            cursor = Some(next.to_string().parse().expect("it is a cursor"));
        }
        let all = guards.iter().map(|guard| guard.name().to_owned()).collect();
        assert_eq!(seen, all, "{pages} pages");
    }
}

#[tokio::test(start_paused = true)]
async fn label_of_the_holder_is_reported_unescaped() {
    let who = r#"it's "me" \o/"#;
    let fixture = PausedFixture::new(1);
    let holder = build(settings(&fixture.nodes).who(who));
    let guard = holder.mutex(NAME).lock().await.unwrap();
    let refused = fixture.mutex().lock_timeout(std::time::Duration::ZERO).await;
    let Err(LockError::Timeout { holder: Some(holder), .. }) = refused else {
        panic!("the lock is held, but lock_timeout returned {refused:?}");
    };
    assert_eq!(holder.who, who);
    drop(guard);
}
