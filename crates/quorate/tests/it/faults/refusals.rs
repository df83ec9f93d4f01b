//! Servers that answer with an error: each reason has its own name.

use std::time::{Duration, Instant};

use quorate::{
    Client,
    error::{LeaseError, LockError, NodeError, NodeReport, ReleaseError, VerifyError},
};
use quorate_testkit::{Server, eventually, redis};

use super::fixture::{PATIENCE, ProxyFixture, connect_to_all, node_error, wait_until_attached};
use crate::{links::executor::block_on, mode::Mode};

in_both_modes! {
    full_server_is_reported_and_still_releases,
    vote_of_a_server_that_became_a_replica_does_not_count,
    release_that_a_replica_rejected_is_sent_again,
    user_without_permission_to_set_is_denied,
    user_without_permission_for_the_key_is_denied,
    script_without_permission_for_the_key_reports_nothing_about_the_lock,
}

fn full_server_is_reported_and_still_releases(mode: Mode) {
    let server = Server::start();
    let client =
        block_on(mode.of(Client::builder().quarantine(false)).nodes([server.url()]).connect())
            .unwrap();
    let guard = block_on(client.mutex("held").lock()).unwrap();
    tell(&server, &["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    tell(&server, &["CONFIG", "SET", "maxmemory", "1"]);

    assert_eq!(node_errors(&no_quorum(&client, NAME)), [Some(&NodeError::OutOfMemory)]);
    block_on(guard.extend(Duration::from_secs(20))).unwrap();
    block_on(guard.release()).unwrap();

    tell(&server, &["CONFIG", "SET", "maxmemory", "0"]);
    block_on(block_on(client.mutex(NAME).lock_timeout(PATIENCE)).unwrap().release()).unwrap();
    assert!(server.lock_keys().is_empty());
}

fn vote_of_a_server_that_became_a_replica_does_not_count(mode: Mode) {
    let fixture = ProxyFixture::start_in(mode, 3);
    let client = connect_to_all(fixture.direct());
    make_replica(&fixture.servers[0]);
    block_on(block_on(client.mutex(NAME).lock()).unwrap().release()).unwrap();

    make_replica(&fixture.servers[1]);
    let nodes = no_quorum(&client, NAME);
    // The third may or may not have answered by then: two without a vote settle it.
    assert_eq!(node_errors(&nodes)[..2], [Some(&NodeError::ReadOnly); 2], "{nodes:?}");
    fixture.wait_until_empty("the one grant is undone");

    fixture.servers[..2].iter().for_each(make_master);
    block_on(block_on(client.mutex(NAME).lock_timeout(PATIENCE)).unwrap().release()).unwrap();
}

fn release_that_a_replica_rejected_is_sent_again(mode: Mode) {
    let fixture = ProxyFixture::start_in(mode, 3);
    let client = connect_to_all(fixture.direct());
    let guard = block_on(client.mutex(NAME).lock()).unwrap();
    eventually("all have the key", PATIENCE, || {
        fixture.servers.iter().all(|server| server.get(NAME).is_some())
    });
    make_replica(&fixture.servers[2]);
    block_on(guard.release()).unwrap();
    assert!(fixture.servers[2].get(NAME).is_some(), "a replica deletes nothing");
    make_master(&fixture.servers[2]);
    fixture.wait_until_empty("the release is sent again");
}

#[test]
fn rejected_release_is_retried() {
    // Nothing but releases are scripts here.
    let fixture = ProxyFixture::start_in(Mode::Classic, 3);
    let client = connect_to_all(fixture.direct());
    let guard = block_on(client.mutex(NAME).lock()).unwrap();
    let replica = &fixture.servers[2];
    eventually("it has the key", PATIENCE, || replica.get(NAME).is_some());
    make_replica(replica);
    let before = replica.command_calls("evalsha");
    block_on(guard.release()).unwrap();
    eventually("it has refused the release twice", PATIENCE, || {
        replica.command_calls("evalsha") >= before + 2
    });
    make_master(replica);
    fixture.wait_until_empty("the release is sent once more");
}

#[test]
fn unknown_error_is_reported_in_the_words_of_the_server() {
    let server = Server::start();
    let client = block_on(Client::connect([server.url()])).unwrap();
    tell(&server, &["CONFIG", "SET", "min-replicas-to-write", "1"]);
    let nodes = no_quorum(&client, NAME);
    let [Some(NodeError::Server(text))] = node_errors(&nodes)[..] else {
        panic!("the server wants replicas, and yet: {nodes:?}");
    };
    assert!(text.starts_with("NOREPLICAS"), "{text}");
    tell(&server, &["CONFIG", "SET", "min-replicas-to-write", "0"]);
    drop(block_on(client.mutex(NAME).lock()).unwrap());
}

fn user_without_permission_to_set_is_denied(mode: Mode) {
    let fixture = ProxyFixture::start_in(mode, 3);
    for server in &fixture.servers {
        tell(server, &["ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all"]);
    }
    let urls = fixture.servers.iter().map(|server| server.url_with("app", "secret", 0));
    let client = connect_to_all(mode.of(Client::builder().quarantine(false)).nodes(urls));
    tell(&fixture.servers[0], &["ACL", "SETUSER", "app", "-set"]);
    drop(block_on(client.mutex(NAME).lock()).unwrap());

    tell(&fixture.servers[2], &["ACL", "SETUSER", "app", "-set"]);
    fixture.wait_until_empty("of the lock that was dropped");
    for called in [
        block_on(client.mutex(NAME).try_lock()).map(drop),
        block_on(client.mutex(NAME).lock()).map(drop),
        block_on(client.mutex(NAME).lock_timeout(PATIENCE)).map(drop),
    ] {
        let error = called.unwrap_err();
        assert!(matches!(error, LockError::Denied { .. }), "{error:?}");
        // By the command itself, or inside of a script.
        let reason = match mode {
            Mode::Queue => "can't run this command",
            Mode::Classic => "NOPERM",
        };
        assert_eq!(error.to_string().matches(reason).count(), 2, "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
    fixture.wait_until_empty("the one grant is undone");
}

fn user_without_permission_for_the_key_is_denied(mode: Mode) {
    let server = Server::start();
    tell(&server, &["ACL", "SETUSER", "app", "on", ">secret", "~app:*", "+@all"]);
    match mode {
        // For what the library keeps there itself, and for the channel on which it listens.
        Mode::Queue => tell(&server, &["ACL", "SETUSER", "app", "~quorate:*", "&quorate:*"]),
        // Only to read whether nodes are quarantined.
        Mode::Classic => tell(&server, &["ACL", "SETUSER", "app", "~quorate:node"]),
    }
    let url = server.url_with("app", "secret", 0);
    let client =
        block_on(mode.of(Client::builder().quarantine(false)).nodes([url]).connect()).unwrap();
    let error = block_on(client.mutex("other:1").lock()).unwrap_err();
    assert!(matches!(error, LockError::Denied { .. }), "{error:?}");
    assert!(error.to_string().contains("NOPERM"), "{error}");

    let guard = block_on(client.mutex("app:1").lock()).unwrap();
    block_on(guard.extend(Duration::from_secs(20))).unwrap();
    block_on(guard.verify()).unwrap();
    block_on(guard.release()).unwrap();
    assert!(server.lock_keys().is_empty());
}

fn script_without_permission_for_the_key_reports_nothing_about_the_lock(mode: Mode) {
    let server = Server::start();
    tell(&server, &["ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all"]);
    let settings = mode.of(Client::builder().quarantine(false)).ttl(LONG);
    let client = connect_to_all(settings.nodes([server.url_with("app", "secret", 0)]));
    let guard = block_on(client.mutex(NAME).no_renew().lock()).unwrap();
    let lease = block_on(block_on(client.mutex("left").lock()).unwrap().detach()).unwrap();

    tell(&server, &["ACL", "SETUSER", "app", "-get"]);
    let verified = block_on(guard.verify());
    assert!(matches!(verified, Err(VerifyError::NoQuorum { .. })), "{verified:?}");
    let adopted = block_on(client.adopt(&lease));
    assert!(matches!(adopted, Err(LeaseError::NoQuorum { .. })), "{adopted:?}");
    let released = block_on(guard.release());
    assert!(matches!(released, Err(ReleaseError::NoQuorum { .. })), "{released:?}");
    assert_eq!(server.lock_keys().len(), 2, "both are held");

    tell(&server, &["ACL", "SETUSER", "app", "+get"]);
    eventually("the release is sent again", PATIENCE, || server.get(NAME).is_none());
    wait_until_attached(&client);
    block_on(block_on(client.adopt(&lease)).unwrap().release()).unwrap();
    assert!(server.lock_keys().is_empty());
}

#[test]
fn missing_right_to_subscribe_is_reported_at_once() {
    let server = Server::start();
    tell(&server, &["ACL", "SETUSER", "app", "on", ">secret", "~*", "resetchannels", "+@all"]);
    let settings =
        || Client::builder().quarantine(false).nodes([server.url_with("app", "secret", 0)]);
    let called_at = Instant::now();
    let error = block_on(settings().connect_timeout(PATIENCE).connect()).unwrap_err();
    assert!(called_at.elapsed() < PATIENCE, "waiting would not have helped");
    let text = error.to_string();
    assert!(text.contains("NOPERM") && text.contains("channel"), "{text}");

    let client = settings().build().unwrap();
    eventually("it is turned away", PATIENCE, || {
        matches!(node_error(&client.node_status()[0]), Some(NodeError::NoPermission(_)))
    });
    let called_at = Instant::now();
    let error = block_on(client.mutex(NAME).lock_timeout(PATIENCE)).unwrap_err();
    assert!(called_at.elapsed() < PATIENCE, "nor does it here");
    assert!(matches!(error, LockError::Denied { .. }), "{error:?}");
    assert!(error.to_string().contains("channel"), "{error}");

    // Classic mode does not subscribe.
    drop(block_on(block_on(settings().classic().connect()).unwrap().mutex(NAME).lock()).unwrap());
    tell(&server, &["ACL", "SETUSER", "app", "&quorate:c:*"]);
    wait_until_attached(&client);
    drop(block_on(client.mutex(NAME).lock_timeout(PATIENCE)).unwrap());
}

#[test]
fn server_that_is_busy_with_a_script_is_a_passing_error() {
    let server = Server::builder().config("busy-reply-threshold", "20").start();
    let client = block_on(Client::connect([server.url()])).unwrap();
    let guard = block_on(client.mutex("held").lock()).unwrap();
    // Both before the script runs: afterwards even `HELLO` is refused.
    let (mut looping, mut killing) = (server.connection(), server.connection());
    let script = std::thread::spawn(move || {
        redis::cmd("EVAL").arg("while true do end").arg(0).exec(&mut looping)
    });
    eventually("the server is busy", PATIENCE, || {
        let pong = redis::cmd("PING").exec(&mut killing);
        pong.is_err_and(|error| error.code() == Some("BUSY"))
    });

    let nodes = no_quorum(&client, NAME);
    assert_eq!(node_errors(&nodes), [Some(&NodeError::Busy)]);
    drop(guard);
    redis::cmd("SCRIPT").arg("KILL").exec(&mut killing).unwrap();
    assert!(script.join().unwrap().is_err(), "the script was killed");

    wait_until_attached(&client);
    block_on(block_on(client.mutex(NAME).lock_timeout(PATIENCE)).unwrap().release()).unwrap();
    eventually("the release that met the script is sent again", PATIENCE, || {
        server.lock_keys().is_empty()
    });
}

#[test]
fn key_of_another_type_is_held_by_another_program() {
    let server = Server::start();
    let client = block_on(Client::connect([server.url()])).unwrap();
    tell(&server, &["HSET", NAME, "field", "value"]);
    assert!(block_on(client.mutex(NAME).try_lock()).unwrap().is_none());
    let error = block_on(client.mutex(NAME).lock_timeout(Duration::from_millis(1))).unwrap_err();
    let LockError::Timeout { holder: Some(holder), .. } = error else {
        panic!("expected a foreign holder, got {error:?}");
    };
    assert!(holder.who.contains("hash"), "{holder}");
    assert_eq!(holder.expires_in, None);

    // A key that replaced a held lock is not changed either.
    let guard = block_on(client.mutex("held").lock()).unwrap();
    tell(&server, &["DEL", "held"]);
    tell(&server, &["HSET", "held", "field", "value"]);
    assert!(block_on(guard.extend(Duration::from_secs(1))).is_err());
    assert!(block_on(guard.release()).is_err());
    assert_eq!(server.lock_keys(), [b"held".to_vec(), NAME.as_bytes().to_vec()]);
}

fn no_quorum(client: &Client, name: &str) -> Box<[NodeReport]> {
    match block_on(client.mutex(name).try_lock()) {
        Err(LockError::NoQuorum { nodes, .. }) => nodes,
        other => panic!("expected no majority, got {other:?}"),
    }
}

/// What is wrong, node by node.
fn node_errors(nodes: &[NodeReport]) -> Vec<Option<&NodeError>> {
    nodes.iter().map(node_error).collect()
}

/// A replica of a master that does not exist: it keeps its data and rejects writes.
fn make_replica(server: &Server) {
    tell(server, &["REPLICAOF", "127.0.0.1", "1"]);
}

fn make_master(server: &Server) {
    tell(server, &["REPLICAOF", "NO", "ONE"]);
}

pub(super) fn tell(server: &Server, words: &[&str]) {
    let mut command = redis::cmd(words[0]);
    words[1..].iter().for_each(|word| {
        command.arg(word);
    });
    command.exec(&mut server.connection()).expect("the server runs the command");
}

const NAME: &str = "orders:42";
const LONG: Duration = Duration::from_secs(60);
