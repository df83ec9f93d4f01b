//! node-redlock, RedLock.net and redlock-rb.

use quorate::{
    error::{ExtendError, LockError, LostReason, NodeAnswer, NodeError},
    memory::{
        Behaviour::{Answer, Fail, Hang, Mute},
        MemoryNodes,
    },
};
use tokio::time::Instant;

use crate::{
    mode::Mode,
    watchdog::fixture::{FAR, NAME, PausedFixture, TTL, build, loss, pass, settings, take},
};

in_both_modes! {
    paused:
    node_redlock_retry_does_not_vote_against_itself,
}

#[tokio::test(start_paused = true)]
async fn node_redlock_even_n_does_not_hang() {
    for nodes in [2, 4] {
        let fixture = PausedFixture::new(nodes);
        (0..nodes / 2).for_each(|node| fixture.nodes.plant(node, NAME, b"another's"));
        let mutex = fixture.mutex();
        let tried = tokio::time::timeout(FAR, mutex.try_lock()).await.expect("it ends");
        assert!(tried.unwrap().is_none(), "no owner wins a tie");
    }
}

#[tokio::test(start_paused = true)]
async fn node_redlock_expired_lock_is_never_returned() {
    let nodes = MemoryNodes::new(3);
    let client = build(settings(&nodes).vote_timeout(5 * TTL));
    (0..3).for_each(|node| nodes.set(node, Hang));
    let mutex = client.mutex(NAME);
    let call = tokio::spawn(async move { mutex.try_lock().await });
    pass(2 * TTL).await;
    // Every node grants, but the lease has expired by then.
    (0..3).for_each(|node| nodes.set(node, Answer));
    let called = call.await.unwrap();
    assert!(matches!(called, Err(LockError::NoQuorum { .. })), "{called:?}");
    assert!((0..3).all(|node| nodes.names(node).is_empty()));
}

#[tokio::test(start_paused = true)]
async fn node_redlock_late_extension_does_not_revive_a_lock() {
    let nodes = MemoryNodes::new(3);
    let client = build(settings(&nodes).vote_timeout(5 * TTL));
    let guard = take(&client.mutex(NAME).no_renew()).await;
    (0..3).for_each(|node| nodes.set(node, Hang));
    let extended = tokio::join!(guard.extend(4 * TTL), async {
        pass(TTL).await;
        (0..3).for_each(|node| nodes.set(node, Answer));
    });
    let Err(ExtendError::Lost(lost)) = extended.0 else {
        panic!("it was too late: {extended:?}");
    };
    assert_eq!(lost.reason, LostReason::Expired);
    assert!(guard.check().is_err());
}

#[tokio::test(start_paused = true)]
async fn node_redlock_extending_an_expired_lock_is_an_error() {
    let fixture = PausedFixture::new(3);
    let guard = take(&fixture.mutex().no_renew()).await;
    pass(2 * TTL).await;
    assert!(matches!(guard.extend(TTL).await, Err(ExtendError::Lost(_))));
}

async fn node_redlock_retry_does_not_vote_against_itself(mode: Mode) {
    let fixture = PausedFixture::new_in(mode, 3);
    fixture.nodes.plant(1, NAME, b"another's");
    fixture.nodes.plant(2, NAME, b"another's");
    let mutex = fixture.mutex();
    let waiting = tokio::spawn(async move { mutex.lock().await });
    pass(TTL / 10).await;
    let tries = fixture.journal.count("acquire memory:0 answered granted");
    assert!(tries > 1, "it has tried several times");
    fixture.nodes.forget(1);
    // Now it depends on the node that granted every time.
    let guard = tokio::time::timeout(TTL / 10, waiting).await.unwrap().unwrap().unwrap();
    assert_eq!(fixture.nodes.names(0), [NAME]);
    guard.release().await.unwrap();
    assert_eq!(fixture.nodes.names(0), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn node_redlock_hung_majority_does_not_hang_a_lock() {
    let fixture = PausedFixture::new(3);
    fixture.behave(&[Hang; 3]);
    let mutex = fixture.mutex();
    let tried = tokio::time::timeout(TTL / 10, mutex.try_lock()).await.expect("it ends");
    assert!(matches!(tried, Err(LockError::NoQuorum { .. })), "{tried:?}");
    let waited = tokio::time::timeout(2 * TTL, mutex.lock()).await.expect("it ends");
    assert!(matches!(waited, Err(LockError::NoQuorum { .. })), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn node_redlock_business_error_is_not_masked_by_release() {
    let fixture = PausedFixture::new(3);
    let mutex = fixture.mutex();
    let worked = mutex.with(async |_| {
        fixture.behave(&[Fail; 3]);
        Err::<(), _>("no such order")
    });
    assert_eq!(worked.await.unwrap(), Err("no such order"), "no node received the release");
}

#[tokio::test(start_paused = true)]
async fn node_redlock_error_gives_the_reason() {
    let fixture = PausedFixture::new(3);
    fixture.nodes.plant(0, NAME, b"an app's own data");
    fixture.nodes.plant(1, NAME, b"an app's own data");
    let Err(error) = fixture.mutex().lock_timeout(TTL).await else { panic!("it is held") };
    let text = error.to_string();
    assert!(text.contains("held by an app") && text.contains("app\\'s own data"), "{text}");
    assert!(text.contains("never expires"), "{text}");

    fixture.behave(&[Fail, Hang, Answer]);
    let Err(error) = fixture.mutex().lock_timeout(TTL).await else { panic!("no majority") };
    let text = error.to_string();
    for part in ["no quorum", "memory:0: connection refused", "memory:1: timed out"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn redlock_rb_connection_error_is_not_contention() {
    let fixture = PausedFixture::new(3);
    for behaviour in [Fail, Hang, Mute] {
        fixture.behave(&[behaviour; 3]);
        let tried = fixture.mutex().try_lock().await;
        assert!(matches!(tried, Err(LockError::NoQuorum { .. })), "{behaviour:?}: {tried:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn redlock_rb_timeout_after_the_write_leaves_no_lock() {
    let fixture = PausedFixture::new(3);
    fixture.behave(&[Mute; 3]);
    let Err(LockError::NoQuorum { nodes, .. }) = fixture.mutex().try_lock().await else {
        panic!("nobody answers");
    };
    let timed_out = NodeAnswer::NodeError(NodeError::TimedOut);
    assert!(nodes.iter().all(|report| report.answer == timed_out), "{nodes:?}");
    assert_eq!(fixture.holding(), 0, "what was written was removed");
}

#[tokio::test(start_paused = true)]
async fn redlock_net_stalled_extension_does_not_prolong_a_lock() {
    let fixture = PausedFixture::new(3);
    let guard = take(&fixture.mutex().no_renew()).await;
    fixture.behave(&[Hang; 3]);
    let started = Instant::now();
    let extended = guard.extend(TTL).await;
    assert!(matches!(extended, Err(ExtendError::Lost(_))), "{extended:?}");
    assert!(started.elapsed() < TTL, "it is known before the key expires");
    assert!(guard.check().is_err());
}

#[tokio::test(start_paused = true)]
async fn redlock_net_lock_can_have_a_longest_time() {
    let fixture = PausedFixture::new(3);
    let guard = take(&fixture.mutex().max_hold(2 * TTL)).await;
    assert_eq!(loss(&guard).await.0.reason, LostReason::MaxHold);
}
