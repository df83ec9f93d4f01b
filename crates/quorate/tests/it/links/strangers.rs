//! Peers that are no Redis, or an odd one: clear errors, no panics, no waiting forever.

pub(crate) mod peer;

use std::{
    io::{Read, Write},
    time::{Duration, Instant},
};

use quorate::{
    Client,
    error::{ConnectError, LockError, NodeAnswer, NodeError},
};
use quorate_testkit::eventually;

use self::peer::{Peer, fake_redis, is_attempt, plain_reply};
use super::executor::block_on;
use crate::{faults::fixture::wait_until_attached, mode::Mode, watchdog::fixture::NAME};

in_both_modes! {
    server_that_loads_its_data_is_waited_for,
    unknown_pushes_between_replies_are_ignored,
    unsolicited_reply_ends_the_connection,
    reply_of_the_wrong_kind_is_never_a_grant,
    reply_of_the_wrong_kind_ends_the_connection_and_the_link_recovers,
}

#[test]
fn web_server_is_refused() {
    let peer = Peer::start(|mut stream| {
        let _ = stream.read(&mut [0; 64]);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
    });
    let client = Client::builder().quarantine(false).nodes([peer.url()]).build().unwrap();
    let node_error = wait_for_error(&client);
    assert!(matches!(&node_error, NodeError::Protocol(_)), "{node_error:?}");
    is_refused_at_its_deadline(&peer);
}

#[test]
fn link_survives_garbage_of_every_kind() {
    let long = b"+".repeat(3 << 20);
    let nested = b"*1\r\n".repeat(100_000);
    let garbage: [&[u8]; 18] = [
        b"\0\0\0\0\0\0\0\0",
        b"\r\n\r\n\r\n",
        b"\xff\xfe\xfd\r\n",
        b"*-1\r\n",
        b"*-7\r\n",
        b"$-7\r\n",
        b"*x\r\n",
        b":x\r\n",
        b"#x\r\n",
        b",x\r\n",
        b"(x\r\n",
        b"_\r\n_\r\n_\r\n_\r\n_\r\n_\r\n_\r\n",
        b"+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n",
        b"$3\r\nabcdefgh\r\n",
        b"%1\r\n+a\r\n+b\r\n$5\r\nrole:\r\n",
        b"*?\r\n:1\r\n.\r\n",
        &long,
        &nested,
    ];
    for bytes in garbage {
        let sent = bytes.to_vec();
        let peer = Peer::start(move |mut stream| {
            let _ = stream.read(&mut [0; 64]);
            let _ = stream.write_all(&sent);
            peer::read_to_end(&stream);
        });
        let client = Client::builder().quarantine(false).nodes([peer.url()]).build().unwrap();
        let node_error = wait_for_error(&client);
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(20)]);
        assert!(!matches!(node_error, NodeError::ShutDown), "{shown:?}: the link has ended");
        eventually("it is tried again", PATIENCE, || peer.accepted() > 1);
    }
}

#[test]
fn lengths_beyond_any_memory_end_only_the_link() {
    let garbage: [&[u8]; 6] = [
        b"*2147483647\r\n",
        b"*9223372036854775807\r\n",
        b"%4294967295\r\n",
        b"~1099511627776\r\n",
        b"$18446744073709551615\r\n",
        b"$2147483647\r\n",
    ];
    for bytes in garbage {
        let peer = Peer::start(move |mut stream| {
            let _ = stream.read(&mut [0; 64]);
            let _ = stream.write_all(bytes);
        });
        let client = Client::builder().quarantine(false).nodes([peer.url()]).build().unwrap();
        let node_error = wait_for_error(&client);
        assert!(!matches!(node_error, NodeError::ShutDown), "the link has ended");
        eventually("it is tried again", PATIENCE, || peer.accepted() > 1);
    }
}

#[test]
fn peer_that_closes_at_once_is_reported() {
    let peer = Peer::start(drop);
    let client = Client::builder().quarantine(false).nodes([peer.url()]).build().unwrap();
    let node_error = wait_for_error(&client);
    assert!(matches!(&node_error, NodeError::ConnectionLost(_)), "{node_error:?}");
    is_refused_at_its_deadline(&peer);
}

#[test]
fn silent_peer_is_reported() {
    let peer = Peer::start(|stream| peer::read_to_end(&stream));
    is_refused_at_its_deadline(&peer);
    let client = Client::builder().quarantine(false).nodes([peer.url()]).build().unwrap();
    assert_eq!(wait_for_error(&client), NodeError::TimedOut);
}

#[test]
fn too_old_server_is_reported_at_once() {
    let peer = Peer::start(fake_redis(|words, _| match words[0].as_str() {
        "HELLO" => Some("-ERR unknown command `HELLO`, with args beginning with: `3`\r\n".into()),
        _ => None,
    }));
    let error = connect(Mode::Queue, &peer, PATIENCE).unwrap_err();
    assert!(error.to_string().contains("Redis 6.0 is needed"), "{error}");
}

fn server_that_loads_its_data_is_waited_for(mode: Mode) {
    let peer = Peer::start(fake_redis(|words, connection| {
        let is_loading = words[0] == "SCRIPT" && connection < 2;
        is_loading.then(|| "-LOADING Redis is loading the dataset in memory\r\n".into())
    }));
    let client = mode.of(Client::builder().quarantine(false)).nodes([peer.url()]).build().unwrap();
    assert_eq!(wait_for_error(&client), NodeError::Loading);
    drop(block_on(client.mutex("orders:42").lock_timeout(PATIENCE)).unwrap());
}

fn unknown_pushes_between_replies_are_ignored(mode: Mode) {
    let push = ">2\r\n+message\r\n+kind\r\n";
    let peer = Peer::start(fake_redis(move |words, _| {
        let reply = plain_reply(words);
        Some(format!("{push}{push}{reply}{push}"))
    }));
    let client = connect(mode, &peer, PATIENCE).unwrap();
    for _ in 0..20 {
        let guard = block_on(client.mutex("orders:42").lock()).unwrap();
        block_on(guard.release()).unwrap();
    }
    assert_eq!(peer.accepted(), 1, "on one connection");
}

fn unsolicited_reply_ends_the_connection(mode: Mode) {
    let peer = Peer::start(fake_redis(|words, connection| {
        let is_odd = is_attempt(words) && connection == 0;
        is_odd.then(|| plain_reply(words).repeat(2))
    }));
    let client = connect(mode, &peer, PATIENCE).unwrap();
    drop(block_on(client.mutex("orders:42").lock()).map_err(|error| error.to_string()));
    eventually("a new connection is made", PATIENCE, || peer.accepted() > 1);
    drop(block_on(client.mutex("orders:42").lock_timeout(PATIENCE)).unwrap());
}

fn reply_of_the_wrong_kind_is_never_a_grant(mode: Mode) {
    let plain =
        [":1\r\n", "$2\r\nOK\r\n", "*0\r\n", "#t\r\n", "+QUEUED\r\n", "$0\r\n\r\n", "%0\r\n"];
    let grants_of_the_other_mode = match mode {
        Mode::Queue => ["+OK\r\n", "$16\r\n17000000x0000000\r\n"],
        Mode::Classic => ["$16\r\n1700000000000000\r\n", "*1\r\n$16\r\n1700000000000000\r\n"],
    };
    for odd in plain.into_iter().chain(grants_of_the_other_mode) {
        let peer = Peer::start(fake_redis(move |words, _| is_attempt(words).then(|| odd.into())));
        let client = connect(mode, &peer, PATIENCE).unwrap();
        let called = block_on(client.mutex("orders:42").try_lock());
        let Err(LockError::NoQuorum { nodes, .. }) = called else {
            panic!("{odd:?} is no grant, but the call returned {called:?}");
        };
        let answer = &nodes[0].answer;
        assert!(matches!(answer, NodeAnswer::NodeError(NodeError::Protocol(_))), "{answer:?}");
    }
}

/// Waits until the first connect has failed, and returns the reason.
fn wait_for_error(client: &Client) -> NodeError {
    let mut found = None;
    eventually("the connect fails", PATIENCE, || {
        found = match client.node_status()[0].answer.clone() {
            NodeAnswer::NodeError(NodeError::Connecting) => None,
            NodeAnswer::NodeError(node_error) => Some(node_error),
            answer => panic!("no such peer is a node: {answer:?}"),
        };
        found.is_some()
    });
    found.expect("just found")
}

/// Something else may come up at that address, so it is waited for; but not any longer.
fn is_refused_at_its_deadline(peer: &Peer) {
    let called_at = Instant::now();
    let refused = connect(Mode::Queue, peer, DEADLINE);
    assert!(matches!(refused, Err(ConnectError::NoQuorum { .. })), "{refused:?}");
    assert!((DEADLINE..PATIENCE).contains(&called_at.elapsed()));
}

fn connect(mode: Mode, peer: &Peer, patience: Duration) -> Result<Client, ConnectError> {
    block_on(
        mode.of(Client::builder().quarantine(false))
            .nodes([peer.url()])
            .connect_timeout(patience)
            .connect(),
    )
}

fn reply_of_the_wrong_kind_ends_the_connection_and_the_link_recovers(mode: Mode) {
    // After such a reply the client can no longer match replies with requests.
    let peer = Peer::start(fake_redis(|words, connection| {
        (is_attempt(words) && connection == 0).then(|| ":1\r\n".into())
    }));
    let settings =
        mode.of(Client::builder().quarantine(false)).nodes([peer.url()]).vote_timeout(PATIENCE);
    let client = block_on(settings.connect()).unwrap();
    let called = block_on(client.mutex(NAME).try_lock());
    assert!(matches!(called, Err(LockError::NoQuorum { .. })), "{called:?}");
    eventually("a new connection is made", PATIENCE, || peer.accepted() == 2);
    wait_until_attached(&client);
    block_on(block_on(client.mutex(NAME).lock()).unwrap().release()).unwrap();
    assert_eq!(peer.accepted(), 2);
}

const PATIENCE: Duration = Duration::from_secs(20);
const DEADLINE: Duration = Duration::from_millis(200);
