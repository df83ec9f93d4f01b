//! A client that ends leaves neither locks nor a socket behind.

use std::time::Duration;

use quorate::blocking;
use quorate_testkit::eventually;

use super::{PATIENCE, outside::Folder};

#[test]
fn dropped_client_leaves_no_lock_and_no_socket() {
    let folder = Folder::new();
    let client = blocking::Client::try_from(folder.builder().build().unwrap()).unwrap();
    assert_eq!(folder.events().len(), 1);
    let guard = client.mutex("a").lock().unwrap();
    drop(client);
    assert_eq!(folder.names(), ["a"], "the guard keeps the client");
    drop(guard);
    eventually("all of it is gone", PATIENCE, || {
        folder.names().is_empty() && folder.events().is_empty()
    });
}

#[test]
fn shutdown_waits_for_releases() {
    let folder = Folder::new();
    let client = blocking::Client::try_from(folder.builder().build().unwrap()).unwrap();
    let guards: Vec<_> =
        (0..300).map(|number| client.mutex(format!("lock-{number}")).lock().unwrap()).collect();
    assert_eq!(folder.names().len(), 300);
    assert!(client.shutdown(Duration::from_secs(20)).is_clean);
    assert!(folder.names().is_empty() && folder.events().is_empty());
    assert!(guards.iter().all(|guard| guard.check().is_err()));
}

#[test]
fn client_in_classic_mode_has_no_socket() {
    let folder = Folder::new();
    let client = folder.builder().classic().build().unwrap();
    let client = blocking::Client::try_from(client).unwrap();
    let guard = client.mutex("a").lock().unwrap();
    assert_eq!((guard.fence(), folder.events().len()), (None, 0));
}

/// The socket of a client shows whether the client runs. The socket of a killed client stays.
#[test]
fn only_sockets_of_ended_clients_are_removed() {
    let folder = Folder::new();
    let living = folder.builder().build().unwrap();
    let dead = folder.path().join("sockets").join("d".repeat(40));
    drop(std::os::unix::net::UnixDatagram::bind(&dead).unwrap());
    assert_eq!(folder.events().len(), 2);
    folder.open().execute("UPDATE era SET swept_us = 0", []).unwrap();
    let next = folder.builder().build().unwrap();
    assert!(!dead.exists(), "the next caller removes it");
    assert_eq!(folder.events().len(), 2);
    drop((living, next));
}
