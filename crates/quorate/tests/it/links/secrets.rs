//! No printed value shows a password.

use std::{
    fmt::{Debug, Display},
    io::{BufReader, Write as _},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use quorate::{
    Client,
    error::{ConfigError, NodeAnswer, NodeError},
    observe::Event,
};
use quorate_testkit::{Server, eventually};

use super::{
    executor::block_on,
    strangers::peer::{Peer, read_command},
};

#[test]
fn no_value_of_the_library_shows_the_password() {
    let server = Server::builder().password(PASSWORD).unix_socket().start();
    let socket = format!("{}?pass={PASSWORD}", server.unix_url());
    for url in [server.url(), server.url_with("default", PASSWORD, 1), socket] {
        let settings = Client::builder().quarantine(false).nodes([&url]);
        is_secret_in_debug(&settings);
        let client = block_on(settings.connect()).unwrap();
        let mutex = client.mutex("orders:42");
        is_secret_in_debug(&client);
        is_secret_in_debug(&mutex);
        let guard = block_on(mutex.lock()).unwrap();
        is_secret_in_debug(&guard);
        is_secret(&block_on(mutex.lock_timeout(Duration::ZERO)).unwrap_err());
        block_on(guard.release()).unwrap();

        server.kill();
        eventually("the client has noticed the loss", PATIENCE, || {
            block_on(mutex.try_lock()).is_err()
        });
        is_secret(&block_on(mutex.try_lock()).unwrap_err());
        client.node_status().iter().for_each(is_secret);
        // While the link is down, and requests are pending.
        is_secret_in_debug(&client);
        server.restart();
    }
}

#[test]
fn refused_login_does_not_show_the_password() {
    let server = Server::builder().password("another").start();
    let url = server.url_with("default", PASSWORD, 0);
    let error = block_on(Client::connect([&url, "redis://127.0.0.1:1"])).unwrap_err();
    is_secret(&error);
    assert!(error.to_string().contains(&server.address()), "the address is no secret: {error}");
}

#[test]
fn duplicate_nodes_are_named_without_their_passwords() {
    let nodes = [format!("redis://a:{PASSWORD}@host"), format!("redis://b:{PASSWORD}@host")];
    is_secret(&Client::builder().quarantine(false).nodes(nodes).build().unwrap_err());
}

#[test]
fn invalid_address_does_not_show_its_password() {
    for url in [
        "redis://app:hunter2@",
        "redis://app:hunter2@host:port",
        "redis://app:hunter2@host:99999",
        "redis://app:hunter2@host:0",
        "redis://app:hunter2@ho st",
        "redis://app:hunter2@host/database",
        "redis://app:hunter2@host?timeout=1",
        "redis://app:hunter2@host/0?password=hunter2",
        "redis://app:hunter2@host#part",
        "redis://app:hunter2%ff@host",
        "redis://app:pass#hunter2@host",
        "redis://host?pass=hunter2",
        "redis://hunter2@host",
        "rediss://app:hunter2@host/x",
        "redis://app:123/hunter2@host:6379",
        "redis://app:123?hunter2@host:6379",
        "redis://app:hunter2",
        "redis://:hunter2",
        "unix:///socket?pass=pre&hunter2",
        "http://app:hunter2@host",
        "app:hunter2@host:port",
        "hunter2@host",
        "redis:app:hunter2@host",
        "redis:/app:hunter2@host",
        "redis//app:hunter2@host",
        "unix://app:hunter2@host/socket",
        "unix:///socket?pass=hunter2&db=x",
        "unix:///socket?user=app&pass=hunter2&timeout=1",
        "unix:///socket?user=hunter2",
        "unix://?pass=hunter2",
    ] {
        let settings = Client::builder().quarantine(false).nodes([url]);
        is_secret_in_debug(&settings);
        let error = settings.build().map(drop).unwrap_err();
        assert!(matches!(error, ConfigError::InvalidUrl { .. }), "{error:?}");
        // Only the secret is hidden: the text still shows which address is meant.
        assert!(!error.to_string().contains("hunter"), "{url}: {error}");
        assert!(!format!("{error:?}").contains("hunter"), "{url}: {error:?}");
    }
}

fn is_secret(value: &(impl Debug + Display)) {
    is_secret_in_debug(value);
    assert!(!value.to_string().contains(PASSWORD), "{value}");
}

fn is_secret_in_debug(value: &impl Debug) {
    for shown in [format!("{value:?}"), format!("{value:#?}")] {
        assert!(!shown.contains(PASSWORD), "{shown}");
    }
}

#[test]
fn password_echoed_by_a_peer_is_not_shown() {
    for (start, node_error) in [
        ("ERR wrong arguments:", "server error: ERR wrong"),
        ("WRONGPASS for", "authentication failed: WRONGPASS"),
        ("NOPERM with", "no permission: NOPERM"),
        ("NOPROTO in", "not supported: NOPROTO"),
        // Long texts are cut: no part of the password may be left before the cut.
        (LONG, "server error: ERR xxx"),
    ] {
        let peer = Peer::start(move |stream| {
            let mut reader = BufReader::new(&stream);
            while let Some(words) = read_command(&mut reader) {
                let error = format!("-{start} {}\r\n", words.join(" "));
                if (&stream).write_all(error.as_bytes()).is_err() {
                    return;
                }
            }
        });
        let url = peer.url().replace("//", &format!("//app:{PASSWORD}@"));
        let events = Arc::new(Mutex::new(String::new()));
        let shown = events.clone();
        let observer = move |event: &Event<'_>| {
            *shown.lock().unwrap_or_else(PoisonError::into_inner) += &format!("{event:?}\n");
        };
        let settings = Client::builder().quarantine(false).nodes([url]).observer(observer);
        let client = settings.clone().build().unwrap();
        let answer = || match client.node_status()[0].answer.clone() {
            NodeAnswer::NodeError(NodeError::Connecting) => None,
            answer => Some(answer),
        };
        eventually("the peer has replied", PATIENCE, || answer().is_some());
        let error = block_on(settings.connect_timeout(Duration::from_millis(200)).connect());
        let error = error.unwrap_err();
        let shown =
            format!("{:?} {} {error:?} {error}", client.node_status(), client.node_status()[0]);
        let shown = shown + &events.lock().unwrap();
        assert!(shown.contains(node_error), "{shown}");
        assert!(!shown.contains("hunter"), "{shown}");
    }
}

const PASSWORD: &str = "hunter2";
const PATIENCE: Duration = Duration::from_secs(20);

const LONG: &str = "ERR xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\
                    xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\
                    xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
