//! Links that go down, and reconnect by themselves.

use std::{
    task::{Context, Waker},
    time::{Duration, Instant},
};

use quorate::{
    Client, Guard, Mutex,
    error::{LockError, NodeAnswer, NodeError},
};
use quorate_testkit::{Fault, Proxy, Server, eventually, redis};

use super::{attach::kill_connections, executor::block_on};
use crate::mode::Mode;

in_both_modes! {
    call_fails_at_once_while_the_server_is_known_to_be_down,
    silent_link_reconnects,
    link_reconnects_after_its_connection_is_killed,
    pending_release_is_sent_first_on_a_new_connection,
}

fn call_fails_at_once_while_the_server_is_known_to_be_down(mode: Mode) {
    let server = Server::start();
    let client =
        mode.of(Client::builder().quarantine(false)).nodes([server.url()]).vote_timeout(PATIENCE);
    let client = block_on(client.ttl(5 * PATIENCE).max_ttl(5 * PATIENCE).connect()).unwrap();
    server.kill();
    eventually("the link has noticed", PATIENCE, || {
        client.node_status()[0].answer == NodeAnswer::NodeError(NodeError::ConnectionRefused)
    });
    let called_at = Instant::now();
    for _ in 0..10 {
        let called = block_on(client.mutex(NAME).try_lock());
        let Err(LockError::NoQuorum { nodes, .. }) = called else {
            panic!("the server is down, but the call returned {called:?}");
        };
        assert_eq!(nodes[0].answer, NodeAnswer::NodeError(NodeError::ConnectionRefused));
    }
    assert!(called_at.elapsed() < PATIENCE, "no vote timeout was waited for");

    server.restart();
    drop(block_on(client.mutex(NAME).lock_timeout(PATIENCE)).unwrap());
}

fn silent_link_reconnects(mode: Mode) {
    let server = Server::start();
    let proxy = Proxy::start(&server.address());
    let client =
        block_on(mode.of(Client::builder().quarantine(false)).nodes([proxy.url()]).connect())
            .unwrap();
    let connections = proxy.connections();
    proxy.set(Fault::DropReplies);
    assert!(block_on(client.mutex(NAME).try_lock()).is_err());
    eventually("the link has reconnected", PATIENCE, || proxy.connections() > connections);
    let node_error = NodeAnswer::NodeError(NodeError::TimedOut);
    assert_eq!(client.node_status()[0].answer, node_error, "and reports the reason");

    proxy.close_all();
    proxy.set(Fault::Pass);
    drop(block_on(client.mutex(NAME).lock_timeout(PATIENCE)).unwrap());
}

#[test]
fn idle_link_stays_open() {
    let server = Server::start();
    let proxy = Proxy::start(&server.address());
    let client = block_on(Client::connect([proxy.url()])).unwrap();
    drop(block_on(client.mutex(NAME).lock()).unwrap());
    eventually("the key is gone", PATIENCE, || server.lock_keys().is_empty());
    // A second client whose link is silent shows when the time of silence has passed.
    let other = Proxy::start(&server.address());
    let silent = block_on(Client::connect([other.url()])).unwrap();
    other.set(Fault::BlackHole);
    assert!(block_on(silent.mutex("other").try_lock()).is_err());
    eventually("the other link has reconnected", PATIENCE, || other.connections() > 1);
    assert_eq!(proxy.connections(), 1);
    assert_eq!(client.node_status()[0].answer, NodeAnswer::Attached);
}

#[test]
fn lost_scripts_are_sent_again() {
    let server = Server::start();
    let client = block_on(Client::connect([server.url()])).unwrap();
    let mutex = client.mutex(NAME);
    let flush = || {
        let flush = redis::cmd("SCRIPT").arg("FLUSH").exec(&mut server.connection());
        flush.expect("the server answers");
    };
    let lock = |mutex: &Mutex| -> Guard { block_on(mutex.lock()).expect("it is free") };
    for _ in 0..3 {
        let guard = lock(&mutex);
        flush();
        block_on(guard.extend(Duration::from_secs(20))).unwrap();
        assert!(server.pttl(NAME) > 15_000, "it was really extended");
        flush();
        block_on(guard.verify()).unwrap();
        flush();
        block_on(guard.release()).unwrap();
        assert!(server.lock_keys().is_empty(), "it was really released");

        let guard = lock(&mutex);
        flush();
        drop(guard);
        eventually("it was really released", PATIENCE, || server.lock_keys().is_empty());
    }
    assert!(server.command_calls("eval") >= 12, "the scripts were sent as text");

    // Many at a time: only some of them discover that the scripts are gone.
    let guards: Vec<Guard> =
        (0..100).map(|number| lock(&client.mutex(format!("lock:{number}")))).collect();
    flush();
    drop(guards);
    eventually("all were released", PATIENCE, || server.lock_keys().is_empty());
}

fn link_reconnects_after_its_connection_is_killed(mode: Mode) {
    let server = Server::start();
    let client =
        block_on(mode.of(Client::builder().quarantine(false)).nodes([server.url()]).connect())
            .unwrap();
    let guard = block_on(client.mutex(NAME).lock()).unwrap();
    for _ in 0..3 {
        let killed = kill_connections(&mut server.connection());
        assert!(killed >= 1, "the client's own connection");
        eventually("it is attached again", PATIENCE, || block_on(guard.verify()).is_ok());
    }
    block_on(guard.release()).unwrap();
    assert!(server.lock_keys().is_empty());
}

fn pending_release_is_sent_first_on_a_new_connection(mode: Mode) {
    let server = Server::start();
    let proxy = Proxy::start(&server.address());
    let client =
        block_on(mode.of(Client::builder().quarantine(false)).nodes([proxy.url()]).connect())
            .unwrap();
    let mutex = client.mutex(NAME);
    let guard = block_on(mutex.lock()).unwrap();
    proxy.set(Fault::Refuse);
    eventually("the link has noticed", PATIENCE, || {
        client.node_status()[0].answer == NodeAnswer::NodeError(NodeError::ConnectionRefused)
    });
    drop(guard);
    proxy.set(Fault::Pass);
    eventually("it is attached again", PATIENCE, || {
        client.node_status()[0].answer == NodeAnswer::Attached
    });
    assert!(block_on(mutex.try_lock()).unwrap().is_some(), "our own old key does not block it");
}

#[test]
fn dropped_connect_leaves_no_connection() {
    let server = Server::start();
    for polls in 0..3 {
        let mut connecting = Box::pin(Client::connect([server.url()]));
        for _ in 0..polls {
            drop(connecting.as_mut().poll(&mut Context::from_waker(Waker::noop())));
        }
        drop(connecting);
    }
    eventually("no connection is left", PATIENCE, || {
        let mut list = redis::cmd("CLIENT");
        let clients: String = list.arg("LIST").query(&mut server.connection()).unwrap();
        !clients.contains("name=quorate-")
    });
    assert!(server.lock_keys().is_empty());
}

const NAME: &str = "orders:42";
const PATIENCE: Duration = Duration::from_secs(20);
