//! Servers that are not trusted, and servers that do not trust us.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    thread,
};

use quorate::{
    Client, ClientBuilder, Tls,
    error::{NodeAnswer, NodeError},
};
use quorate_testkit::{Server, eventually};

use super::certificates::{Authority, SecureServer};
use crate::faults::fixture::PATIENCE;

#[test]
fn server_of_another_authority_is_refused() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let server = SecureServer::start(&theirs, &theirs.server(&["localhost"]));
    assert_eq!(
        node_error(server.client(ours.trusted())).to_string(),
        "TLS failed: the server's certificate is not signed by a trusted authority"
    );
}

#[test]
fn server_whose_certificate_has_expired_is_refused() {
    let authority = Authority::new("ours");
    let server = SecureServer::start(&authority, &authority.expired(&["localhost"]));
    assert_eq!(
        node_error(server.client(authority.trusted())).to_string(),
        "TLS failed: the server's certificate has expired"
    );
}

#[test]
fn server_with_another_name_is_refused() {
    let authority = Authority::new("ours");
    let server = SecureServer::start(&authority, &authority.server(&["localhost"]));
    let by_address = [server.url("rediss", "127.0.0.1")];
    let settings = server.client(authority.trusted()).nodes(by_address);
    assert_eq!(
        node_error(settings).to_string(),
        "TLS failed: the server's certificate is for another name"
    );
}

#[test]
fn missing_client_certificate_is_reported() {
    let authority = Authority::new("ours");
    let server = SecureServer::start_strict(&authority, &authority.server(&["localhost"]));
    is_refused_by(server.client(authority.trusted()));
}

#[test]
fn certificate_of_another_authority_is_reported_as_rejected() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let server = SecureServer::start_strict(&theirs, &theirs.server(&["localhost"]));
    let me = ours.client();
    let tls = theirs.trusted().identity_pem(me.certificate, me.key);
    is_refused_by(server.client(tls));
}

#[test]
fn plain_answer_to_tls_is_recognized() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("rediss://{}", listener.local_addr().unwrap());
    // What a server replies to a TLS hello that it cannot read, if that happens to have a line end.
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.read(&mut [0; 64]);
            let _ = stream.write_all(b"-ERR Protocol error: unbalanced quotes in request\r\n");
        }
    });
    let settings =
        Client::builder().quarantine(false).nodes([url]).tls(Authority::new("ours").trusted());
    assert_eq!(
        node_error(settings).to_string(),
        "TLS failed: the server does not speak TLS there; for a plain connection write redis://"
    );
}

#[test]
fn plain_server_is_not_taken_for_a_tls_server() {
    let server = Server::start();
    let url = server.url().replace("redis://", "rediss://");
    let settings =
        Client::builder().quarantine(false).nodes([url]).tls(Authority::new("ours").trusted());
    let text = node_error(settings).to_string();
    assert!(text.contains("TLS"), "{text}");
}

#[test]
fn tls_server_is_reported_to_a_plain_client() {
    let authority = Authority::new("ours");
    let server = SecureServer::start(&authority, &authority.server(&["localhost"]));
    let plainly = [server.url("redis", "localhost")];
    let text = node_error(server.client(Tls::new()).nodes(plainly)).to_string();
    assert!(text.contains("rediss://"), "{text}");
}

/// Waits until the client knows why the server rejects it. The reason comes after the handshake,
/// and is lost if the connection is reset then: one of the next attempts reports it.
fn is_refused_by(settings: ClientBuilder) {
    let client = settings.build().expect("the settings are valid");
    eventually("the refusal is reported", PATIENCE, || {
        let text = client.node_status()[0].to_string();
        assert!(client.node_status()[0].answer != NodeAnswer::Attached);
        text.contains("TLS failed: the server refused") && text.contains("client certificate")
    });
}

/// Waits until the first connect has failed, and returns the reason.
fn node_error(settings: ClientBuilder) -> NodeError {
    let client = settings.build().expect("the settings are valid");
    let mut found = None;
    eventually("the connect fails", PATIENCE, || {
        found = match client.node_status()[0].answer.clone() {
            NodeAnswer::NodeError(NodeError::Connecting) => None,
            NodeAnswer::NodeError(node_error) => Some(node_error),
            answer => panic!("no such server is a node: {answer:?}"),
        };
        found.is_some()
    });
    found.expect("just found")
}
