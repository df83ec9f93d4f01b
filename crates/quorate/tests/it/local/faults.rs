//! What goes wrong while a folder is in use: it is told, nothing is half done, and it goes on when
//! the reason is gone.

use std::{
    fs,
    time::{Duration, Instant},
};

use quorate::{
    Client,
    error::{LockError, NodeAnswer, Trouble},
};
use quorate_testkit::eventually;

use super::{PATIENCE, outside::Folder};

#[tokio::test]
async fn a_folder_that_is_removed_is_made_anew_and_its_holder_heals() {
    for gone in ["locks.db", "lock", ""] {
        let folder = Folder::new();
        let alice = folder.builder().ttl(TTL).build().unwrap();
        let guard = alice.mutex("a").lock().await.unwrap();
        let aside = folder.path().with_file_name("old");
        fs::rename(folder.path().join(gone), aside).unwrap();
        let started = Instant::now();
        // Only who asks finds out, and the first who does is told of trouble.
        while folder.names() != ["a"] {
            assert!(started.elapsed() < PATIENCE, "without {gone:?} it is not made anew");
            guard.extend(TTL).await.expect("the lease lives on");
        }
        let bob = folder.builder().build().unwrap();
        assert!(bob.mutex("a").try_lock().await.unwrap().is_none(), "it is held");
        drop(guard);
    }
}

#[tokio::test]
async fn content_that_is_of_another_boot_stops_everything_until_it_is_ours_again() {
    let folder = Folder::new();
    let client = folder.builder().build().unwrap();
    let guard = client.mutex("a").lock().await.unwrap();
    let ours: String = folder.open().query_row("SELECT boot FROM era", [], |it| it.get(0)).unwrap();
    folder.open().execute("UPDATE era SET boot = 'another'", []).unwrap();
    let error = client.mutex("b").try_lock().await.unwrap_err();
    let LockError::NoQuorum { nodes } = &error else { panic!("{error}") };
    let NodeAnswer::Trouble(Trouble::Storage(text)) = &nodes[0].answer else { panic!("{error}") };
    assert!(text.contains("another machine uses it"), "{text}");
    assert!(text.contains(folder.db().to_str().unwrap()), "{text}");
    assert_eq!(nodes[0].node, format!("local:{}", folder.path().display()));
    // A new client cannot know that the other machine is none: it takes the folder over.
    folder.open().execute("UPDATE era SET boot = ?1", [ours]).unwrap();
    wait_until_attached(&client);
    assert!(client.mutex("b").lock().await.is_ok());
    guard.verify().await.expect("nobody had it meanwhile");
}

#[tokio::test]
async fn a_table_that_is_missing_is_told_and_nothing_is_half_done() {
    let folder = Folder::new();
    let client = folder.builder().build().unwrap();
    let guard = client.mutex("a").lock().await.unwrap();
    folder.open().execute_batch("ALTER TABLE waiting RENAME TO elsewhere").unwrap();
    // To leave the line of one's own lock touches that table.
    let other = folder.builder().build().unwrap();
    let tried = other.mutex("a").lock_timeout(Duration::from_millis(200)).await;
    assert!(tried.unwrap_err().to_string().contains("no such table"), "nobody can wait");
    folder.open().execute_batch("ALTER TABLE elsewhere RENAME TO waiting").unwrap();
    wait_until_attached(&other);
    guard.release().await.unwrap();
    drop(other.mutex("a").lock().await.expect("it is free"));
}

fn wait_until_attached(client: &Client) {
    eventually("it is attached again", PATIENCE, || {
        client.nodes()[0].answer == NodeAnswer::Attached
    });
}

const TTL: Duration = Duration::from_secs(20);
