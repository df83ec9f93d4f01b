//! Bounds of the ttl.

use std::time::Duration;

use quorate::error::{ConfigError, LockError, TermsError, TtlError};

use super::fixture::{Fixture, take};

on_every_engine! {
    [1, 2, 3, 4, 5] => too_short_ttl_is_refused,
        ttl_above_the_maximum_is_refused,
        bad_defaults_are_refused_when_the_client_is_built;
}

async fn too_short_ttl_is_refused(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    for millis in [0, 1, 2] {
        let ttl = Duration::from_millis(millis);
        let mutex = client.mutex("a").ttl(ttl);
        for error in [
            mutex.try_lock().await.expect_err("too short"),
            mutex.lock().await.expect_err("too short"),
            mutex.lock_timeout(ttl).await.expect_err("too short"),
        ] {
            let is_told = matches!(
                &error,
                LockError::InvalidTtl(TtlError::Terms(TermsError::TooShort { ttl: told, .. }))
                    if *told == ttl
            );
            assert!(is_told, "{error:?}");
            let text = format!("invalid ttl {ttl:?}: use more than");
            assert!(error.to_string().contains(&text), "{error}");
        }
    }
    assert!(fixture.is_empty(), "nothing was written");
}

async fn ttl_above_the_maximum_is_refused(fixture: &Fixture) {
    let fixture = &fixture.unprotected();
    let max = Duration::from_secs(40);
    let client = fixture.builder().max_ttl(max).connect().await.expect("the nodes are there");
    for ttl in [max + Duration::from_nanos(1), 2 * max, Duration::MAX] {
        let mutex = client.mutex("a").ttl(ttl);
        for error in [
            mutex.try_lock().await.expect_err("too long"),
            mutex.lock().await.expect_err("too long"),
        ] {
            assert_eq!(error, LockError::InvalidTtl(TtlError::AboveMax { ttl, max }));
            assert!(error.to_string().contains("max_ttl is 40 s"), "{error}");
        }
    }
    assert!(fixture.is_empty(), "nothing was written");
    take(client.mutex("a").ttl(max)).await.release().await.expect("the maximum itself is fine");
}

async fn bad_defaults_are_refused_when_the_client_is_built(fixture: &Fixture) {
    let (ttl, max) = (Duration::from_secs(61), Duration::from_secs(60));
    let refused = fixture.builder().ttl(ttl).build().expect_err("above the maximum");
    assert_eq!(refused, ConfigError::InvalidTtl(TtlError::AboveMax { ttl, max }));
    for millis in [0, 1] {
        let refused = fixture.builder().ttl(Duration::from_millis(millis)).build();
        let refused = refused.expect_err("nothing would be left");
        let is_told = matches!(
            refused,
            ConfigError::InvalidTtl(TtlError::Terms(TermsError::TooShort { .. }))
        );
        assert!(is_told, "{refused:?}");
    }
}
