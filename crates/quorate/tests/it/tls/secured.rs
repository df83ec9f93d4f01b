//! Locks over TLS.

use std::time::Duration;

use quorate::Guard;
use quorate_testkit::eventually;
use tokio::task::JoinSet;

use super::certificates::{Authority, SecureServer};
use crate::{
    faults::fixture::{PATIENCE, connect_to_all, wait_until_attached},
    links::executor::block_on,
    watchdog::journal::Journal,
};

#[test]
fn lock_can_be_taken_extended_and_released_over_tls() {
    let authority = Authority::new("ours");
    let identity = authority.server(&["localhost", "127.0.0.1"]);
    let servers = [(); 3].map(|()| SecureServer::start(&authority, &identity));
    let urls = servers.iter().map(|server| server.url("rediss", "127.0.0.1"));
    let settings = servers[0].client(authority.trusted()).nodes(urls);
    let client = connect_to_all(settings);
    assert!(
        client.node_status().iter().all(|report| report.node.starts_with("rediss://127.0.0.1:"))
    );

    let mutex = client.mutex(NAME);
    let guard = block_on(mutex.lock()).unwrap();
    assert!(block_on(mutex.try_lock()).unwrap().is_none());
    block_on(guard.extend(LONG)).unwrap();
    block_on(guard.verify()).unwrap();
    eventually("every node has it", PATIENCE, || {
        servers.iter().all(|server| server.plain.pttl(NAME) > 15_000)
    });
    block_on(guard.release()).unwrap();
    assert!(block_on(client.shutdown(PATIENCE)).is_clean);
    assert!(servers.iter().all(|server| server.plain.lock_keys().is_empty()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_locks_at_once_are_gathered_and_none_is_left_in_a_buffer() {
    let authority = Authority::new("ours");
    let server = SecureServer::start(&authority, &authority.server(&["localhost"]));
    let client = server.client(authority.trusted()).connect().await.unwrap();
    for round in 0..3 {
        let mut locks = JoinSet::new();
        for number in 0..LOCKS {
            // Long names, so that there is more than one record of TLS to write.
            let name = format!("{number}:{}", "x".repeat(100));
            let mutex = client.mutex(name);
            locks.spawn(async move { mutex.lock().await });
        }
        let guards: Result<Vec<Guard>, _> = locks.join_all().await.into_iter().collect();
        let guards = guards.unwrap();
        assert_eq!(server.plain.lock_keys().len(), LOCKS, "round {round}");
        let mut releases = JoinSet::new();
        guards.into_iter().for_each(|guard| {
            releases.spawn(guard.release());
        });
        assert!(releases.join_all().await.iter().all(Result::is_ok), "round {round}");
        assert!(server.plain.lock_keys().is_empty(), "round {round}");
    }
}

#[test]
fn lock_is_renewed_over_tls() {
    let authority = Authority::new("ours");
    let server = SecureServer::start(&authority, &authority.server(&["localhost"]));
    let journal = Journal::default();
    let settings = server.client(authority.trusted()).vote_timeout(SHORT / 4);
    let client = block_on(settings.ttl(SHORT).observer(journal.clone()).connect()).unwrap();
    let guard = block_on(client.mutex(NAME).lock()).unwrap();
    eventually("it is renewed for two ttls", PATIENCE, || {
        guard.check().unwrap();
        journal.count("renewed orders:42 done") > 8
    });
}

#[test]
fn client_shows_its_certificate_to_a_server_that_wants_one() {
    let authority = Authority::new("ours");
    let server = SecureServer::start_strict(&authority, &authority.server(&["localhost"]));
    let me = authority.client();
    let tls = authority.trusted().identity_pem(me.certificate, me.key);
    let client = block_on(server.client(tls).connect()).unwrap();
    block_on(block_on(client.mutex(NAME).lock()).unwrap().release()).unwrap();
}

#[test]
fn link_over_tls_reconnects_when_its_server_is_back() {
    let authority = Authority::new("ours");
    let server = SecureServer::start(&authority, &authority.server(&["localhost"]));
    let client = block_on(server.client(authority.trusted()).connect()).unwrap();
    block_on(block_on(client.mutex(NAME).lock()).unwrap().release()).unwrap();
    server.plain.restart();
    block_on(client.mutex(NAME).lock_timeout(PATIENCE)).unwrap().check().unwrap();
    wait_until_attached(&client);
    assert!(block_on(client.shutdown(PATIENCE)).is_clean);
}

const NAME: &str = "orders:42";
const LOCKS: usize = 1_000;
const SHORT: Duration = Duration::from_millis(500);
const LONG: Duration = Duration::from_secs(20);
