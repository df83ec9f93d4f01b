//! How long a lock can be relied on, and how that changes.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
    time::Duration,
};

use quorate::error::{ExtendError, TermsError, TtlError};

use super::fixture::{Fixture, LONG, holder, take};

on_every_engine! {
    [1, 2, 3, 4, 5] => remaining_time_subtracts_the_clock_drift,
        extension_moves_the_deadline,
        shorter_extension_counts_as_soon_as_it_is_sent,
        bad_ttl_is_refused_and_leaves_the_lease_as_it_was;
}

async fn remaining_time_subtracts_the_clock_drift(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    for ttl in [Duration::from_secs(1), LONG, Duration::from_secs(60)] {
        let guard = take(client.mutex("a").ttl(ttl).no_renew()).await;
        let remaining = guard.remaining();
        assert!(remaining <= usable(ttl), "{remaining:?} of {ttl:?}");
        assert!(!remaining.is_zero(), "{ttl:?}");
        guard.check().expect("a new lock can be relied on");
        guard.release().await.expect("it was held");
    }
}

async fn extension_moves_the_deadline(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    let guard = take(client.mutex("a").ttl(LONG).no_renew()).await;
    guard.extend(2 * LONG).await.expect("it is held");
    let extended = guard.remaining();
    assert!(extended > usable(LONG), "{extended:?}");
    assert!(extended <= usable(2 * LONG), "{extended:?}");
    let seen = holder(&client, "a").await;
    assert!(seen.expires_in.is_some_and(|left| left > LONG && left <= 2 * LONG), "{seen:?}");
    guard.release().await.expect("it was held");
}

async fn shorter_extension_counts_as_soon_as_it_is_sent(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    let guard = take(client.mutex("a").ttl(2 * LONG).no_renew()).await;
    guard.extend(LONG).await.expect("it is held");
    assert!(guard.remaining() <= usable(LONG), "{:?}", guard.remaining());
    assert!(!guard.remaining().is_zero());

    // No caller waits for the answer, and it counts nevertheless: the nodes may execute it.
    {
        let mut extension = pin!(guard.extend(LONG / 2));
        let _ = poll_fn(|cx| Poll::Ready(extension.as_mut().poll(cx))).await;
    }
    assert!(guard.remaining() <= usable(LONG / 2), "{:?}", guard.remaining());
    guard.verify().await.expect("it is still held");
    guard.extend(LONG).await.expect("and can be extended again");
    assert!(guard.remaining() > usable(LONG / 2), "{:?}", guard.remaining());
    guard.release().await.expect("it was held");
}

async fn bad_ttl_is_refused_and_leaves_the_lease_as_it_was(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    let guard = take(client.mutex("a")).await;
    for ttl in [Duration::ZERO, Duration::from_nanos(1), Duration::from_millis(1)] {
        let refused = guard.extend(ttl).await.expect_err("nothing would be left");
        let too_short = ExtendError::InvalidTtl(TtlError::Terms(TermsError::TooShort {
            ttl,
            allowance: per_cent(ttl) + Duration::from_millis(2),
        }));
        assert_eq!(refused, too_short);
    }
    let max = Duration::from_secs(60);
    for ttl in [max + Duration::from_millis(1), Duration::MAX] {
        let refused = guard.extend(ttl).await.expect_err("it is above max_ttl");
        assert_eq!(refused, ExtendError::InvalidTtl(TtlError::AboveMax { ttl, max }));
    }
    assert!(guard.remaining() > usable(LONG) / 2, "{:?}", guard.remaining());
    let seen = holder(&client, "a").await;
    assert!(seen.expires_in.is_some_and(|left| left > LONG / 2 && left <= LONG), "{seen:?}");
    guard.verify().await.expect("it is held");
    guard.release().await.expect("it was held");
}

/// The longest promised part of a ttl: one per cent and two milliseconds are for the clocks.
fn usable(ttl: Duration) -> Duration {
    ttl - per_cent(ttl) - Duration::from_millis(2)
}

/// One per cent, rounded up.
fn per_cent(ttl: Duration) -> Duration {
    let nanos = ttl.as_nanos().div_ceil(100);
    Duration::from_nanos(u64::try_from(nanos).expect("a ttl of a test"))
}
