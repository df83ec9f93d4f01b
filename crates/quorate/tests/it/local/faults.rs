//! Faults while a folder is in use: they are reported, no command runs partly, and the node works
//! again when the cause is gone.

use std::{
    fs,
    time::{Duration, Instant},
};

use quorate::{
    Client,
    error::{LockError, NodeAnswer, NodeError},
};
use quorate_testkit::eventually;

use super::{PATIENCE, outside::Folder};
use crate::watchdog::journal::Journal;

#[tokio::test]
async fn removed_folder_is_recreated_and_the_holder_restores_its_lock() {
    for gone in ["locks.db", "lock", "sockets", ""] {
        let folder = Folder::new();
        let alice = folder.builder().ttl(TTL).build().unwrap();
        let guard = alice.mutex("a").lock().await.unwrap();
        let aside = folder.path().with_file_name("old");
        fs::rename(folder.path().join(gone), aside).unwrap();
        let started = Instant::now();
        // Only a caller notices it, and the first caller gets an error.
        while folder.names() != ["a"] {
            assert!(started.elapsed() < PATIENCE, "without {gone:?} it is not created again");
            guard.extend(TTL).await.expect("the lease is still held");
        }
        let bob = folder.builder().build().unwrap();
        assert!(bob.mutex("a").try_lock().await.unwrap().is_none(), "it is held");
        drop(guard);
    }
}

/// All clients of a process share the index of the log, so all of them must close it. An idle
/// client does so when another client notifies it.
#[tokio::test]
async fn removed_log_does_not_leave_two_holders() {
    let folder = Folder::new();
    let alice = folder.builder().ttl(TTL).build().unwrap();
    let guard = alice.mutex("a").lock().await.unwrap();
    let bob = folder.builder().build().unwrap();
    for file in ["locks.db-wal", "locks.db-shm"] {
        fs::remove_file(folder.path().join(file)).unwrap();
    }
    let error = bob.mutex("a").try_lock().await.unwrap_err();
    assert!(error.to_string().contains("it was removed or replaced"), "{error}");
    wait_until_attached(&bob);
    wait_until_attached(&alice);
    let next = bob.mutex("a").try_lock().await.unwrap().expect("the log knew that it is held");
    let started = Instant::now();
    while guard.check().is_ok() {
        assert!(started.elapsed() < PATIENCE, "it does not know of the loss");
        guard.extend(TTL).await.expect_err("it is another's");
    }
    next.extend(TTL).await.unwrap();
    assert_eq!(folder.names(), ["a"]);
    assert!(alice.mutex("a").try_lock().await.unwrap().is_none(), "one world");
}

/// A process that is stopped while it holds the file lock keeps it. Other calls fail meanwhile, and
/// what they asked for is released afterwards.
#[tokio::test]
async fn others_wait_behind_a_stopped_holder_of_the_file_lock() {
    let folder = Folder::new();
    let client = folder.builder().ttl(Duration::from_millis(400)).build().unwrap();
    client.mutex("a").lock().await.unwrap().release().await.unwrap();
    let lock_file = fs::File::open(folder.path().join("lock")).unwrap();
    lock_file.lock().unwrap();
    let error = client.mutex("a").try_lock().await.unwrap_err();
    assert!(error.to_string().contains("timed out"), "{error}");
    let held_up = folder.builder();
    let late = tokio::task::spawn_blocking(move || held_up.build().unwrap()).await.unwrap();
    assert_eq!(late.node_status()[0].answer, NodeAnswer::NodeError(NodeError::Connecting));
    lock_file.unlock().unwrap();
    wait_until_attached(&late);
    assert!(late.mutex("a").lock().await.is_ok(), "the call that timed out has released its grant");
}

/// A request of a client that has ended is not executed, even if the file lock comes much later.
#[tokio::test]
async fn waiter_for_the_file_lock_that_leaves_leaves_nothing() {
    let folder = Folder::new();
    let client = folder.builder().build().unwrap();
    let lock_file = fs::File::open(folder.path().join("lock")).unwrap();
    lock_file.lock().unwrap();
    let mutex = client.mutex("a");
    let trying = tokio::spawn(async move { mutex.try_lock().await.map(drop) });
    tokio::task::yield_now().await;
    eventually("its worker waits for the file lock", PATIENCE, || folder.is_waited_for());
    let end = client.shutdown(Duration::from_millis(1)).await;
    assert!(!end.is_clean, "it has not been answered");
    lock_file.unlock().unwrap();
    assert!(trying.await.unwrap().is_err());
    eventually("its socket is removed", PATIENCE, || folder.events().is_empty());
    assert!(folder.names().is_empty(), "no client would release it");
}

#[tokio::test]
async fn content_of_another_boot_stops_the_node_until_it_is_restored() {
    let folder = Folder::new();
    let journal = Journal::default();
    let client = folder.builder().observer(journal.clone()).build().unwrap();
    let guard = client.mutex("a").lock().await.unwrap();
    let ours: String = folder.open().query_row("SELECT boot FROM era", [], |it| it.get(0)).unwrap();
    folder.open().execute("UPDATE era SET boot = 'another'", []).unwrap();
    let error = client.mutex("b").try_lock().await.unwrap_err();
    let LockError::NoQuorum { nodes, .. } = &error else { panic!("{error}") };
    let NodeAnswer::NodeError(NodeError::Storage(text)) = &nodes[0].answer else {
        panic!("{error}")
    };
    assert!(text.contains("another machine uses it"), "{text}");
    assert!(text.contains(folder.db().to_str().unwrap()), "{text}");
    assert_eq!(nodes[0].node, format!("local:{}", folder.path().display()));
    // A new client would take the folder over. A former user of it knows that another machine uses
    // it.
    eventually("it has tried again", PATIENCE, || journal.count("down") > 3);
    let boot: String = folder.open().query_row("SELECT boot FROM era", [], |it| it.get(0)).unwrap();
    assert_eq!(boot, "another", "it is not taken back");
    folder.open().execute("UPDATE era SET boot = ?1", [ours]).unwrap();
    wait_until_attached(&client);
    assert!(client.mutex("b").lock().await.is_ok());
    guard.verify().await.expect("no other client has held it");
}

#[tokio::test]
async fn missing_table_is_reported_and_nothing_is_half_done() {
    let folder = Folder::new();
    let client = folder.builder().build().unwrap();
    let guard = client.mutex("a").lock().await.unwrap();
    folder.open().execute_batch("ALTER TABLE waiting RENAME TO elsewhere").unwrap();
    // A waiter that leaves the queue touches that table.
    let other = folder.builder().build().unwrap();
    let tried = other.mutex("a").lock_timeout(Duration::from_millis(200)).await;
    assert!(tried.unwrap_err().to_string().contains("no such table"), "no client can wait");
    folder.open().execute_batch("ALTER TABLE elsewhere RENAME TO waiting").unwrap();
    wait_until_attached(&other);
    guard.release().await.unwrap();
    drop(other.mutex("a").lock().await.expect("it is free"));
}

fn wait_until_attached(client: &Client) {
    eventually("it is attached again", PATIENCE, || {
        client.node_status()[0].answer == NodeAnswer::Attached
    });
}

const TTL: Duration = Duration::from_secs(20);
