//! Waiters are notified, whatever happens to the folder meanwhile.

use std::time::{Duration, Instant};

use quorate::Client;
use quorate_testkit::eventually;

use super::{PATIENCE, outside::Folder};

/// With a ttl of ten minutes a heartbeat comes after more than three.
#[tokio::test]
async fn release_is_pushed_at_once() {
    let folder = Folder::new();
    let long = Duration::from_secs(600);
    let client = || folder.builder().max_ttl(long).ttl(long).build().unwrap();
    let (alice, bob) = (client(), client());
    let guard = alice.mutex("a").lock().await.unwrap();
    let waiting = tokio::spawn(async move { bob.mutex("a").lock().await });
    wait_for_queue(&folder, 1).await;
    let started = Instant::now();
    guard.release().await.unwrap();
    let next = tokio::time::timeout(PATIENCE, waiting).await.expect("it was notified").unwrap();
    assert!(next.unwrap().remaining() > Duration::from_secs(500));
    assert!(started.elapsed() < PATIENCE);
}

/// The address of a socket has 108 bytes at the most.
#[tokio::test]
async fn release_is_pushed_in_a_folder_with_a_long_path() {
    let above = tempfile::tempdir().unwrap();
    let path = above.path().join("long-name-".repeat(20)).join("longer");
    let client = || Client::builder().local(&path).ttl(Duration::from_secs(60)).build().unwrap();
    let (alice, bob) = (client(), client());
    let guard = alice.mutex("a").lock().await.unwrap();
    let waiting = tokio::spawn(async move { bob.mutex("a").lock().await.map(drop) });
    while guard.verify().await.is_ok()
        && std::fs::read_dir(path.join("sockets")).unwrap().count() < 2
    {}
    guard.release().await.unwrap();
    let next = tokio::time::timeout(Duration::from_secs(10), waiting).await;
    next.expect("long before a heartbeat").unwrap().unwrap();
}

#[tokio::test]
async fn waiters_are_served_in_order() {
    let folder = Folder::new();
    let clients: Vec<Client> = (0..4).map(|_| folder.builder().build().unwrap()).collect();
    let guard = clients[0].mutex("a").lock().await.unwrap();
    let (order, mut served) = tokio::sync::mpsc::unbounded_channel();
    for number in 0..12 {
        let (mutex, order) = (clients[number % 4].mutex("a"), order.clone());
        tokio::spawn(async move {
            let guard = mutex.lock().await.unwrap();
            order.send((number, guard.fence())).unwrap();
            guard.release().await.unwrap();
        });
        wait_for_queue(&folder, number + 1).await;
    }
    guard.release().await.unwrap();
    let mut last = None;
    for expected in 0..12 {
        let (number, fence) = served.recv().await.unwrap();
        assert_eq!(number, expected);
        assert!(fence > last, "fences grow: {fence:?} after {last:?}");
        last = fence;
    }
}

/// With a ttl of ten minutes it would not ask by itself for long. But whatever its client asks
/// shows that it is not known any more, and all who wait begin anew.
#[tokio::test]
async fn waiter_that_the_node_lost_gets_the_lock() {
    let folder = Folder::new();
    let long = Duration::from_secs(600);
    let client = || folder.builder().max_ttl(long).ttl(long).build().unwrap();
    let (alice, bob) = (client(), client());
    let guard = alice.mutex("a").lock().await.unwrap();
    let mutex = bob.mutex("a");
    let waiting = tokio::spawn(async move { mutex.lock().await.map(drop) });
    wait_for_queue(&folder, 1).await;
    folder.forget();
    assert!(bob.mutex("b").try_lock().await.unwrap().is_some());
    let next = tokio::time::timeout(PATIENCE, waiting).await;
    next.expect("it is queued again").unwrap().unwrap();
    drop(guard);
}

async fn wait_for_queue(folder: &Folder, expected: usize) {
    let sql = "SELECT count(*) FROM waiting";
    let len = || folder.open().query_row(sql, [], |row| row.get::<_, usize>(0)).unwrap();
    // The runtime has one thread, which other tasks need too.
    while len() < expected {
        tokio::task::yield_now().await;
    }
    eventually("the queue has this length", PATIENCE, || len() == expected);
}
