//! When leases are renewed, and for which ttl, on a paused clock.

use quorate::{
    error::{Lost, LostReason},
    memory::Behaviour::{self, Answer, Fail, Hang, Mute},
};
use tokio::time::Instant;

use super::fixture::{NAME, PausedFixture, TICK, TTL, is_taken, loss, pass, promised_until, take};
use crate::mode::Mode;

in_both_modes! {
    paused:
    held_lock_outlives_its_ttl_many_times,
    fixed_lease_ends_with_its_ttl,
    lease_is_renewed_at_about_a_third_of_its_ttl,
    failed_minority_does_not_end_a_lease,
    majority_that_comes_back_in_time_keeps_the_lock,
    key_lost_on_a_majority_is_restored_or_reported_at_the_next_renewal,
    key_of_another_owner_on_a_majority_is_noticed_at_the_next_renewal,
    key_granted_to_another_owner_is_not_restored,
    renewal_recreates_a_key_only_in_the_default_mode,
    lock_is_held_for_max_hold_and_no_longer,
    extending_by_hand_cannot_exceed_max_hold,
    extension_by_hand_sets_the_ttl_of_later_renewals,
    fixed_lease_that_is_extended_by_hand_is_still_fixed,
    majority_that_comes_and_goes_keeps_the_lock,
}

async fn held_lock_outlives_its_ttl_many_times(mode: Mode) {
    let fixture = PausedFixture::new_in(mode, 3);
    let guard = fixture.hold().await;
    let wanted = fixture.other().mutex(NAME);
    for _ in 0..700 {
        pass(TTL / 7).await;
        guard.check().unwrap();
        assert!(is_taken(&wanted).await);
    }
    assert_eq!(fixture.journal.count("lost"), 0);
    guard.release().await.unwrap();
    assert!(!is_taken(&wanted).await);
}

async fn fixed_lease_ends_with_its_ttl(mode: Mode) {
    let fixture = PausedFixture::new_in(mode, 3);
    let asked = Instant::now();
    let guard = take(&fixture.mutex().no_renew()).await;
    let (lost, lost_at) = loss(&guard).await;
    assert_eq!(lost.reason, LostReason::Expired);
    assert!(lost_at - promised_until(asked, TTL) <= TICK);
    assert_eq!(fixture.journal.count("renewed"), 0);
    pass(TTL / 50).await;
    assert!(!is_taken(&fixture.other().mutex(NAME)).await);
}

async fn lease_is_renewed_at_about_a_third_of_its_ttl(mode: Mode) {
    let fixture = PausedFixture::new_in(mode, 3);
    let guard = fixture.hold().await;
    pass(10 * TTL).await;
    guard.check().unwrap();
    let renewals = fixture.journal.count("renewed");
    assert!((20..45).contains(&renewals), "{renewals} renewals in 10 ttls");
    assert_eq!(fixture.journal.count("renewed orders:42 done"), renewals);
}

async fn failed_minority_does_not_end_a_lease(mode: Mode) {
    for behaviour in [Fail, Hang, Mute] {
        let fixture = PausedFixture::new_in(mode, 5);
        let guard = fixture.hold().await;
        fixture.behave(&[behaviour, Answer, Answer, behaviour, Answer]);
        pass(10 * TTL).await;
        guard.check().unwrap();
        assert!(!guard.is_at_risk(), "{behaviour:?}");
        assert_eq!(fixture.journal.count("at risk"), 0, "{behaviour:?}");
    }
}

async fn majority_that_comes_back_in_time_keeps_the_lock(mode: Mode) {
    for behaviour in [Fail, Hang, Mute] {
        let fixture = PausedFixture::new_in(mode, 3);
        let guard = fixture.hold().await;
        fixture.behave(&[behaviour, behaviour, Answer]);
        pass(TTL / 2).await;
        guard.check().unwrap();
        assert!(guard.is_at_risk(), "{behaviour:?}: no renewal was confirmed");
        assert_eq!(fixture.journal.count("at risk"), 1, "{behaviour:?}: it is reported once");

        fixture.behave(&[Answer; 3]);
        pass(TTL / 10).await;
        assert!(!guard.is_at_risk(), "{behaviour:?}: the next renewal was confirmed");
        pass(10 * TTL).await;
        guard.check().unwrap();
        assert_eq!(fixture.journal.count("at risk"), 1, "{behaviour:?}");
    }
}

async fn key_lost_on_a_majority_is_restored_or_reported_at_the_next_renewal(mode: Mode) {
    let fixture = PausedFixture::new_in(mode, 3);
    let guard = fixture.hold().await;
    pass(5 * TTL).await;
    fixture.nodes.forget(0);
    fixture.nodes.forget(2);
    let forgotten = Instant::now();
    match mode {
        Mode::Queue => {
            pass(TTL / 3 + TICK).await;
            assert_eq!(fixture.holding(), 3, "no other client has held it since");
            pass(5 * TTL).await;
            guard.check().unwrap();
            assert_eq!(fixture.journal.count("at risk"), 0);
        }
        Mode::Classic => {
            let (lost, lost_at) = loss(&guard).await;
            assert_eq!(lost.reason, LostReason::Gone);
            assert!(lost_at - forgotten <= TTL / 3 + TICK, "{:?}", lost_at - forgotten);
        }
    }
}

async fn key_of_another_owner_on_a_majority_is_noticed_at_the_next_renewal(mode: Mode) {
    let fixture = PausedFixture::new_in(mode, 3);
    let guard = fixture.hold().await;
    pass(5 * TTL).await;
    fixture.nodes.plant(0, NAME, b"another's");
    fixture.nodes.plant(2, NAME, b"another's");
    let planted = Instant::now();
    let (lost, lost_at) = loss(&guard).await;
    assert_eq!(lost.reason, LostReason::Gone);
    assert!(lost_at - planted <= TTL / 3 + TICK, "{:?}", lost_at - planted);
}

async fn key_granted_to_another_owner_is_not_restored(mode: Mode) {
    let fixture = PausedFixture::new_in(mode, 3);
    let guard = fixture.hold().await;
    fixture.nodes.forget(1);
    pass(TICK).await;
    // Node 1 is free and grants it, which is no majority.
    assert!(is_taken(&fixture.other().mutex(NAME)).await);
    pass(5 * TTL).await;
    guard.check().unwrap();
    assert_eq!(fixture.holding(), 2);
}

async fn renewal_recreates_a_key_only_in_the_default_mode(mode: Mode) {
    let fixture = PausedFixture::new_in(mode, 3);
    let guard = fixture.hold().await;
    fixture.nodes.forget(1);
    pass(5 * TTL).await;
    guard.check().unwrap();
    let expected = match mode {
        Mode::Queue => 3,
        Mode::Classic => 2,
    };
    assert_eq!(fixture.holding(), expected, "of the node that forgot it and the others");
}

async fn lock_is_held_for_max_hold_and_no_longer(mode: Mode) {
    let fixture = PausedFixture::new_in(mode, 3);
    let asked = Instant::now();
    let longest = 3 * TTL + TTL / 2;
    let guard = take(&fixture.mutex().max_hold(longest)).await;
    let (lost, lost_at) = loss(&guard).await;
    assert_eq!(lost.reason, LostReason::MaxHold);
    assert!(lost_at - (asked + longest) <= TICK, "{:?}", lost_at - asked);

    let renewals = fixture.journal.count("renewed");
    assert!(renewals >= 6, "{renewals} renewals before that");
    // The last renewal is at most a third of the ttl after the lease could last grow.
    pass(TTL * 2 / 5).await;
    assert!(!is_taken(&fixture.other().mutex(NAME)).await, "although the guard is still there");
    pass(5 * TTL).await;
    assert_eq!(fixture.journal.count("renewed"), renewals, "and none after it");
    assert_eq!(guard.check(), Err(lost));
}

async fn extending_by_hand_cannot_exceed_max_hold(mode: Mode) {
    let fixture = PausedFixture::new_in(mode, 3);
    let guard = take(&fixture.mutex().max_hold(2 * TTL)).await;
    guard.extend(5 * TTL).await.unwrap();
    assert!(guard.remaining() <= 2 * TTL);
    pass(2 * TTL).await;
    assert_eq!(guard.check().unwrap_err().reason, LostReason::MaxHold);
}

async fn extension_by_hand_sets_the_ttl_of_later_renewals(mode: Mode) {
    for (ttl, expected) in [(4 * TTL, 20..45), (TTL / 4, 320..720)] {
        let fixture = PausedFixture::new_in(mode, 3);
        let guard = fixture.hold().await;
        guard.extend(ttl).await.unwrap();
        pass(40 * TTL).await;
        guard.check().unwrap();
        assert!(guard.remaining() <= ttl);
        let renewals = fixture.journal.count("renewed");
        assert!(expected.contains(&renewals), "{renewals} renewals in 40 ttls with {ttl:?}");

        let stopped = Instant::now();
        fixture.behave(&[Hang; 3]);
        let (lost, lost_at) = loss(&guard).await;
        assert_eq!(lost.reason, LostReason::Expired);
        let lasted = lost_at - stopped;
        assert!((ttl / 2..ttl).contains(&lasted), "it lasted for {lasted:?} with {ttl:?}");
    }
}

async fn fixed_lease_that_is_extended_by_hand_is_still_fixed(mode: Mode) {
    let fixture = PausedFixture::new_in(mode, 3);
    let guard = take(&fixture.mutex().no_renew()).await;
    let asked = Instant::now();
    guard.extend(2 * TTL).await.unwrap();
    let (lost, lost_at) = loss(&guard).await;
    assert_eq!(lost, Lost::clone(&guard.check().unwrap_err()));
    assert!(lost_at - promised_until(asked, 2 * TTL) <= TICK);
    assert_eq!(fixture.journal.count("renewed"), 0);
}

async fn majority_that_comes_and_goes_keeps_the_lock(mode: Mode) {
    let fixture = PausedFixture::new_in(mode, 3);
    let guard = fixture.hold().await;
    let ways: [[Behaviour; 3]; 4] =
        [[Hang, Hang, Answer], [Answer, Fail, Fail], [Mute, Mute, Mute], [Fail, Hang, Mute]];
    for way in ways.iter().cycle().take(40) {
        fixture.behave(way);
        pass(TTL / 2).await;
        fixture.behave(&[Answer; 3]);
        pass(TTL / 2).await;
        guard.check().unwrap();
    }
}
