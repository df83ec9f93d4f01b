//! Every connect checks whether a node may vote: login, database, role.

use std::time::{Duration, Instant};

use quorate::{
    Client,
    error::{ConnectError, LockError, NodeAnswer, NodeError},
};
use quorate_testkit::{Server, eventually, redis};

use super::executor::block_on;
use crate::mode::Mode;

in_both_modes! {
    correct_login_works,
    changed_password_is_noticed_at_the_next_connect,
    lock_is_in_the_configured_database,
}

#[test]
fn wrong_login_is_reported_at_once() {
    let server = Server::builder().password(PASSWORD).start();
    let address = server.address();
    let logins = [
        ("a wrong password", server.url_with("default", "guess", 0)),
        ("no password", format!("redis://{address}")),
        ("an unknown user", server.url_with("nobody", PASSWORD, 0)),
    ];
    for (what, url) in logins {
        let called_at = Instant::now();
        let node_error = refused(&url, LONG);
        assert!(matches!(&node_error, NodeError::Auth(_)), "{what}: {node_error:?}");
        assert!(called_at.elapsed() < LONG, "{what}: waiting would not have helped");
        assert!(!node_error.to_string().contains(PASSWORD), "{what}: {node_error}");
    }
    assert!(server.lock_keys().is_empty());
}

fn correct_login_works(mode: Mode) {
    let server = Server::builder().password(PASSWORD).unix_socket().start();
    let acl = ["SETUSER", "app", "on", &format!(">{APP_PASSWORD}"), "~*", "&*", "+@all"];
    redis::cmd("ACL").arg(&acl).exec(&mut server.connection()).unwrap();
    let socket = server.unix_url();
    for url in [
        server.url(),
        server.url_with("default", PASSWORD, 0),
        server.url_with("app", APP_PASSWORD, 0),
        format!("{socket}?user=app&pass=p%40ss%3A%2Fword"),
    ] {
        let client = connect(mode, &url);
        let guard = block_on(client.mutex(NAME).lock()).unwrap();
        assert!(server.get(NAME).is_some(), "{url}");
        block_on(guard.release()).unwrap();
        assert!(server.lock_keys().is_empty(), "{url}");
    }
}

fn changed_password_is_noticed_at_the_next_connect(mode: Mode) {
    let server = Server::builder().password(PASSWORD).start();
    let client = connect(mode, &server.url());
    let mut connection = server.connection();
    redis::cmd("CONFIG").arg(&["SET", "requirepass", "other"]).exec(&mut connection).unwrap();
    drop(block_on(client.mutex(NAME).lock()).unwrap());

    kill_connections(&mut connection);
    let is_refused = || matches!(answer(&client), NodeAnswer::NodeError(NodeError::Auth(_)));
    eventually("the login is refused", LONG, is_refused);
    let called = block_on(client.mutex(NAME).try_lock());
    assert!(
        matches!(called, Err(LockError::Denied { .. })),
        "only the operator can correct the password: {called:?}"
    );

    redis::cmd("CONFIG").arg(&["SET", "requirepass", PASSWORD]).exec(&mut connection).unwrap();
    eventually("the login works again", LONG, || answer(&client) == NodeAnswer::Attached);
    drop(block_on(client.mutex(NAME).lock()).unwrap());
}

fn lock_is_in_the_configured_database(mode: Mode) {
    let server = Server::builder().unix_socket().start();
    for url in [format!("{}/3", server.url()), format!("{}?db=3", server.unix_url())] {
        let client = connect(mode, &url);
        let guard = block_on(client.mutex(NAME).lock()).unwrap();
        assert!(server.lock_keys().is_empty(), "nothing in database 0");
        let mut connection = server.connection();
        redis::cmd("SELECT").arg(3).exec(&mut connection).unwrap();
        let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut connection).unwrap();
        let (ours, aside): (Vec<_>, Vec<_>) = keys.into_iter().partition(|key| key == NAME);
        assert_eq!(ours, [NAME]);
        // In the default mode there are also the names of the clients, their sessions and the
        // fence.
        assert!(aside.iter().all(|key| key.starts_with("quorate:")), "{aside:?}");
        assert_eq!(!aside.is_empty(), mode == Mode::Queue, "{aside:?}");
        assert!(server.keys().is_empty(), "no key in database 0");
        block_on(guard.release()).unwrap();
    }
}

#[test]
fn missing_database_is_reported() {
    let server = Server::start();
    let node_error = node_error_of(&format!("{}/99", server.url()));
    assert!(
        matches!(&node_error, NodeError::Server(text) if text.contains("DB index")),
        "{node_error:?}"
    );
}

#[test]
fn unix_socket_works() {
    let server = Server::builder().unix_socket().start();
    let client = block_on(Client::connect([server.unix_url()])).unwrap();
    let guard = block_on(client.mutex(NAME).lock()).unwrap();
    assert!(server.get(NAME).is_some());
    block_on(guard.verify()).unwrap();
    block_on(guard.release()).unwrap();
    assert!(server.lock_keys().is_empty());

    server.kill();
    assert!(block_on(client.mutex(NAME).try_lock()).is_err());
    server.restart();
    drop(block_on(client.mutex(NAME).lock_timeout(LONG)).unwrap());
}

#[test]
fn missing_socket_is_reported() {
    let server = Server::builder().unix_socket().start();
    let node_error = node_error_of(&format!("{}.missing", server.unix_url()));
    assert!(matches!(node_error, NodeError::Unreachable(_)), "{node_error:?}");
}

#[test]
fn replica_is_refused() {
    let server = Server::builder().config("replicaof", "127.0.0.1 1").start();
    assert_eq!(node_error_of(&server.url()), NodeError::ReadOnly);
    refused(&server.url(), SHORT);

    // Up to its deadline.
    let client = Client::builder().quarantine(false).nodes([server.url()]).build().unwrap();
    redis::cmd("REPLICAOF").arg(&["NO", "ONE"]).exec(&mut server.connection()).unwrap();
    drop(block_on(client.mutex(NAME).lock_timeout(LONG)).unwrap());
}

#[test]
fn missing_right_to_inspect_the_server_is_reported_at_once() {
    let server = Server::start();
    let acl = ["SETUSER", "app", "on", ">secret", "~*", "+@all", "-info"];
    redis::cmd("ACL").arg(&acl).exec(&mut server.connection()).unwrap();
    let node_error = refused(&server.url_with("app", "secret", 0), LONG);
    assert!(
        matches!(&node_error, NodeError::NoPermission(text) if text.contains("info")),
        "{node_error:?}"
    );
}

#[test]
fn closed_port_is_reported_at_the_deadline() {
    let server = Server::start();
    server.kill();
    assert_eq!(node_error_of(&server.url()), NodeError::ConnectionRefused);
    let called_at = Instant::now();
    refused(&server.url(), SHORT);
    assert!(called_at.elapsed() >= SHORT, "it may come up at any time");
}

#[test]
fn majority_is_enough_to_connect() {
    let settings = |servers: &[Server]| {
        Client::builder().quarantine(false).nodes(servers.iter().map(Server::url))
    };
    let servers = Server::start_many(3);
    servers[1].kill();
    let client = block_on(settings(&servers).connect()).unwrap();
    drop(block_on(client.mutex(NAME).lock()).unwrap());
    servers[2].kill();
    let error = block_on(settings(&servers).connect_timeout(ENOUGH).connect()).unwrap_err();
    let ConnectError::NoQuorum { nodes } = &error else {
        panic!("expected no majority, got {error:?}");
    };
    assert_eq!(nodes[0].answer, NodeAnswer::Attached);
    for node in [1, 2] {
        assert_eq!(nodes[node].answer, NodeAnswer::NodeError(NodeError::ConnectionRefused));
        assert!(error.to_string().contains(&servers[node].address()), "{error}");
    }
}

fn connect(mode: Mode, url: &str) -> Client {
    block_on(mode.of(Client::builder().quarantine(false)).nodes([url]).connect())
        .expect("the server accepts the login")
}

/// Closes the connections of all clients except this one. Waiters are subscribed, so their
/// connections are of another kind.
pub(super) fn kill_connections(connection: &mut redis::Connection) -> u64 {
    let mut kill = |kind: &str| -> u64 {
        let mut command = redis::cmd("CLIENT");
        command.arg(&["KILL", "TYPE", kind]).query(connection).expect("they are killed")
    };
    kill("normal") + kill("pubsub")
}

/// Fails to connect to one server, and returns the reason.
fn refused(url: &str, patience: Duration) -> NodeError {
    let settings = Client::builder().quarantine(false).nodes([url]).connect_timeout(patience);
    match block_on(settings.connect()) {
        Err(ConnectError::NoQuorum { nodes }) => match &nodes[..] {
            [report] => match &report.answer {
                NodeAnswer::NodeError(node_error) => node_error.clone(),
                answer => panic!("no node_error, and yet no quorum: {answer:?}"),
            },
            _ => panic!("one node was asked for: {nodes:?}"),
        },
        other => panic!("expected a refusal, got {other:?}"),
    }
}

/// What is wrong with one server, as soon as it is known.
fn node_error_of(url: &str) -> NodeError {
    let client = Client::builder()
        .quarantine(false)
        .nodes([url])
        .build()
        .expect("the address is well formed");
    let mut node_error = NodeError::Connecting;
    eventually("it is known what is wrong", LONG, || {
        if let NodeAnswer::NodeError(known) = answer(&client) {
            node_error = known;
        }
        node_error != NodeError::Connecting
    });
    node_error
}

fn answer(client: &Client) -> NodeAnswer {
    client.node_status()[0].answer.clone()
}

const NAME: &str = "orders:42";
const PASSWORD: &str = "hunter2";

/// With everything in it that must be encoded in an address.
const APP_PASSWORD: &str = "p@ss:/word";

/// Longer than any call waits.
const LONG: Duration = Duration::from_secs(20);

/// Enough for an attach, even on a busy machine.
const ENOUGH: Duration = Duration::from_secs(1);

/// For waits that time out.
const SHORT: Duration = Duration::from_millis(100);
