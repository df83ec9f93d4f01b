//! Waiting, holding, renewing, losing.

use quorate::memory::Behaviour::{Answer, Hang};
use tokio::task::JoinSet;

use crate::keeper::bench::{Bench, NAME, TTL, loss, pass};

#[tokio::test(start_paused = true)]
async fn a_wait_is_told_however_it_ends() {
    let bench = Bench::new(3);
    let waits = |bench: &Bench| {
        ["started", "ended"].map(|what| bench.journal.count(&format!("wait orders:42 {what}")))
    };
    let guard = bench.other().mutex(NAME).lock().await.unwrap();
    assert!(bench.mutex().try_lock().await.unwrap().is_none());
    assert_eq!(waits(&bench), [0, 0], "a try does not wait");

    assert!(bench.mutex().lock_timeout(TTL).await.is_err());
    assert_eq!(waits(&bench), [1, 1], "it gave up");

    let mutex = bench.mutex();
    let cut = tokio::time::timeout(TTL, mutex.lock()).await;
    assert!(cut.is_err());
    assert_eq!(waits(&bench), [2, 2], "it was dropped");

    let waiting = tokio::spawn(async move { mutex.lock().await });
    pass(TTL).await;
    assert_eq!(waits(&bench), [3, 2], "it waits");
    drop(guard);
    let guard = waiting.await.unwrap().unwrap();
    assert_eq!(waits(&bench), [3, 3], "it got the lock");
    drop(guard);

    drop(bench.mutex().lock().await.unwrap());
    assert_eq!(waits(&bench), [3, 3], "nobody had the lock");
}

#[tokio::test(start_paused = true)]
async fn every_guard_that_was_handed_out_is_told_to_be_gone() {
    let bench = Bench::new(3);
    let balance = |bench: &Bench| [bench.journal.count("held"), bench.journal.count("let go")];
    bench.hold().await.release().await.unwrap();
    drop(bench.hold().await);
    let lease = bench.hold().await.hand_over().await.unwrap();
    assert_eq!(balance(&bench), [3, 3]);
    let adopted = bench.client.adopt(&lease).await.unwrap();
    assert_eq!(balance(&bench), [4, 3]);
    bench.behave(&[Hang; 3]);
    loss(&adopted).await;
    assert_eq!(balance(&bench), [4, 3], "it is lost, and still there");
    drop(adopted);
    bench.behave(&[Answer; 3]);
    assert_eq!(balance(&bench), [4, 4]);

    let mut tasks = JoinSet::new();
    for number in 0..20 {
        let mutex = bench.client.mutex(format!("order:{number}"));
        tasks.spawn(async move {
            let _guard = mutex.lock().await;
            assert!(number % 3 != 0, "some of them go wrong");
            pass(TTL * number).await;
        });
    }
    pass(5 * TTL).await;
    tasks.abort_all();
    while tasks.join_next().await.is_some() {}
    assert_eq!(balance(&bench), [24, 24]);
}

#[tokio::test(start_paused = true)]
async fn the_way_to_a_loss_is_told_step_by_step() {
    let bench = Bench::new(3);
    let guard = bench.hold().await;
    pass(TTL).await;
    bench.behave(&[Hang; 3]);
    loss(&guard).await;
    let mut lines = bench.journal.lines();
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
