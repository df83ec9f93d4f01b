//! The same server under two names: its vote must not count twice.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use quorate::{
    Client,
    error::{ConfigError, ConnectError, NodeAnswer, NodeError},
};
use quorate_testkit::{Proxy, Server, eventually};

use super::{
    executor::block_on,
    strangers::peer::{Peer, fake_redis, is_attempt},
};
use crate::{faults::fixture::wait_until_attached, mode::Mode, watchdog::fixture::NAME};

in_both_modes! {
    one_server_under_two_names_is_refused_at_once,
    server_under_two_names_has_one_vote_of_three,
    servers_that_swap_addresses_are_attached_again,
}

#[test]
fn same_address_twice_is_refused_before_anything_is_sent() {
    let port = 7_000;
    let twins = [
        [format!("redis://127.0.0.1:{port}"), format!("redis://127.0.0.1:{port}")],
        [format!("redis://127.0.0.1:{port}/0"), format!("redis://127.0.0.1:{port}/1")],
        [format!("redis://HOST:{port}"), format!("redis://host:{port}/")],
        [format!("redis://a:b@host:{port}"), format!("redis://c:d@host:{port}")],
        ["redis://host".into(), "valkey://host:6379".into()],
        ["unix:///run/redis.sock".into(), "unix:///run/redis.sock?db=1".into()],
    ];
    for [first, second] in twins {
        let nodes = [first, "redis://other".into(), second];
        let error = Client::builder().quarantine(false).nodes(&nodes).build().unwrap_err();
        let ConfigError::SameServer { first: 0, second: 2, .. } = error else {
            panic!("{nodes:?}: {error:?}");
        };
        assert!(error.to_string().starts_with("nodes 1 and 3 are the same server"), "{error}");
    }
}

fn one_server_under_two_names_is_refused_at_once(mode: Mode) {
    let server = Server::builder().unix_socket().start();
    let proxies = [Proxy::start(&server.address()), Proxy::start(&server.address())];
    let port = server.port();
    let twins = [
        [server.url(), format!("redis://localhost:{port}")],
        [server.url(), server.unix_url()],
        [proxies[0].url(), proxies[1].url()],
        [server.url(), format!("{}/1", proxies[0].url())],
    ];
    for nodes in twins {
        let called_at = Instant::now();
        let settings =
            mode.of(Client::builder().quarantine(false)).nodes(&nodes).connect_timeout(PATIENCE);
        let error = block_on(settings.connect()).unwrap_err();
        assert!(called_at.elapsed() < PATIENCE, "waiting would not have helped");
        let ConnectError::NoQuorum { nodes: reports } = &error else {
            panic!("{nodes:?}: {error:?}");
        };
        let is_twin = |answer: &NodeAnswer| {
            matches!(answer, NodeAnswer::NodeError(NodeError::SameServer(other))
                if reports.iter().any(|report| report.node == *other))
        };
        assert!(reports.iter().any(|report| is_twin(&report.answer)), "{error}");
        assert!(error.to_string().contains("is the same server as "), "{error}");
    }
    assert!(server.lock_keys().is_empty(), "nothing was written");
}

fn server_under_two_names_has_one_vote_of_three(mode: Mode) {
    let server = Server::start();
    let names = [Proxy::start(&server.address()), Proxy::start(&server.address())];
    let third = Server::start();
    third.kill();
    let nodes = [names[0].url(), names[1].url(), third.url()];
    let client = mode.of(Client::builder().quarantine(false)).nodes(nodes).build().unwrap();
    eventually("one name is attached, and the other is not", PATIENCE, || {
        let nodes = client.node_status();
        let twins = &nodes[..2];
        let is_twin =
            |answer: &NodeAnswer| matches!(answer, NodeAnswer::NodeError(NodeError::SameServer(_)));
        twins.iter().filter(|report| report.answer == NodeAnswer::Attached).count() == 1
            && twins.iter().filter(|report| is_twin(&report.answer)).count() == 1
    });
    assert!(block_on(client.mutex("orders:42").try_lock()).is_err(), "one vote of three");
    eventually("no key is left", PATIENCE, || server.lock_keys().is_empty());
    if mode == Mode::Classic {
        assert_eq!(server.command_calls("set"), 0, "too few votes to ask for any");
    }
}

#[test]
fn server_under_two_names_keeps_its_one_session() {
    let server = Server::start();
    let names = [Proxy::start(&server.address()), Proxy::start(&server.address())];
    let other = Server::start();
    let nodes = [names[0].url(), names[1].url(), other.url()];
    let client =
        Client::builder().quarantine(false).nodes(nodes).vote_timeout(PATIENCE).build().unwrap();
    // One of the names is rejected again and again. That must not end the other's session.
    let tries = || names.iter().map(Proxy::connections);
    eventually("one name is tried again and again", PATIENCE, || tries().max() > Some(4));
    for _ in 0..20 {
        let guard = block_on(client.mutex("orders:42").lock_timeout(PATIENCE)).unwrap();
        block_on(guard.release()).unwrap();
    }
    assert_eq!(tries().min(), Some(1), "the other one is still on its first connection");
}

#[test]
fn restarted_server_is_attached_again() {
    let servers = Server::start_many(3);
    let settings = Client::builder().quarantine(false).nodes(servers.iter().map(Server::url));
    let client = block_on(settings.connect()).unwrap();
    for server in &servers {
        server.restart();
    }
    eventually("all are attached again", PATIENCE, || {
        client.node_status().iter().all(|report| report.answer == NodeAnswer::Attached)
    });
    drop(block_on(client.mutex("orders:42").lock()).unwrap());
}

fn servers_that_swap_addresses_are_attached_again(mode: Mode) {
    // Each server now has the run id that the client knows from the other one.
    let is_swapped = Arc::new(AtomicBool::new(false));
    let peers = [0, 1].map(|number| {
        let is_swapped = is_swapped.clone();
        Peer::start(fake_redis(move |words, connection| match words[0].as_str() {
            "INFO" if words[1] == "server" => {
                let run = number ^ usize::from(is_swapped.load(Ordering::SeqCst));
                let text = format!("run_id:{run:0>40}\r\n");
                Some(format!("${}\r\n{text}\r\n", text.len()))
            }
            // A reply of the wrong kind ends the connection.
            _ if is_attempt(words) && connection == 0 => Some(":1\r\n".into()),
            _ => None,
        }))
    });
    let urls = peers.each_ref().map(Peer::url);
    let settings = mode.of(Client::builder().quarantine(false)).nodes(urls).vote_timeout(PATIENCE);
    let client = block_on(settings.connect()).unwrap();
    is_swapped.store(true, Ordering::SeqCst);
    assert!(block_on(client.mutex(NAME).try_lock()).is_err());
    eventually("both links have reconnected", PATIENCE, || {
        peers.iter().all(|peer| peer.accepted() > 1)
    });
    wait_until_attached(&client);
    block_on(client.mutex(NAME).lock()).unwrap().check().unwrap();
}

const PATIENCE: Duration = Duration::from_secs(20);
