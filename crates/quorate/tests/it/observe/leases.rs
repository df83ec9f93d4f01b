//! Events of waits, holds, renewals and losses.

use quorate::memory::Behaviour::{Answer, Hang};
use tokio::task::JoinSet;

use crate::watchdog::fixture::{NAME, PausedFixture, TTL, loss, pass};

#[tokio::test(start_paused = true)]
async fn every_end_of_a_wait_is_reported() {
    let fixture = PausedFixture::new(3);
    let waits = |fixture: &PausedFixture| {
        ["started", "ended"].map(|what| fixture.journal.count(&format!("wait orders:42 {what}")))
    };
    let guard = fixture.other().mutex(NAME).lock().await.unwrap();
    assert!(fixture.mutex().try_lock().await.unwrap().is_none());
    assert_eq!(waits(&fixture), [0, 0], "a try does not wait");

    assert!(fixture.mutex().lock_timeout(TTL).await.is_err());
    assert_eq!(waits(&fixture), [1, 1], "it timed out");

    let mutex = fixture.mutex();
    let cut = tokio::time::timeout(TTL, mutex.lock()).await;
    assert!(cut.is_err());
    assert_eq!(waits(&fixture), [2, 2], "it was dropped");

    let waiting = tokio::spawn(async move { mutex.lock().await });
    pass(TTL).await;
    assert_eq!(waits(&fixture), [3, 2], "it waits");
    drop(guard);
    let guard = waiting.await.unwrap().unwrap();
    assert_eq!(waits(&fixture), [3, 3], "it got the lock");
    drop(guard);

    drop(fixture.mutex().lock().await.unwrap());
    assert_eq!(waits(&fixture), [3, 3], "it was free");
}

#[tokio::test(start_paused = true)]
async fn every_end_of_a_guard_is_reported() {
    let fixture = PausedFixture::new(3);
    let balance =
        |fixture: &PausedFixture| [fixture.journal.count("held"), fixture.journal.count("let go")];
    fixture.hold().await.release().await.unwrap();
    drop(fixture.hold().await);
    let lease = fixture.hold().await.detach().await.unwrap();
    assert_eq!(balance(&fixture), [3, 3]);
    let adopted = fixture.client.adopt(&lease).await.unwrap();
    assert_eq!(balance(&fixture), [4, 3]);
    fixture.behave(&[Hang; 3]);
    loss(&adopted).await;
    assert_eq!(balance(&fixture), [4, 3], "it is lost, and still there");
    drop(adopted);
    fixture.behave(&[Answer; 3]);
    assert_eq!(balance(&fixture), [4, 4]);

    let mut tasks = JoinSet::new();
    for number in 0..20 {
        let mutex = fixture.client.mutex(format!("order:{number}"));
        tasks.spawn(async move {
            let _guard = mutex.lock().await;
            assert!(number % 3 != 0, "some of them fail");
            pass(TTL * number).await;
        });
    }
    pass(5 * TTL).await;
    tasks.abort_all();
    while tasks.join_next().await.is_some() {}
    assert_eq!(balance(&fixture), [24, 24]);
}

#[tokio::test(start_paused = true)]
async fn every_step_to_a_loss_is_reported() {
    let fixture = PausedFixture::new(3);
    let guard = fixture.hold().await;
    pass(TTL).await;
    fixture.behave(&[Hang; 3]);
    loss(&guard).await;
    let mut lines = fixture.journal.lines();
    lines.retain(|line| !line.contains("acquire"));
    lines.dedup();
    let expected = [
        "held orders:42",
        "renewed orders:42 done",
        "renewed orders:42 no_quorum",
        "at risk orders:42",
        "renewed orders:42 no_quorum",
        "lost orders:42 expired",
    ];
    assert_eq!(lines, expected);
}
