//! What a client draws when it is built, and for each connection.

use std::{collections::BTreeSet, time::Duration};

use quorate_testkit::{Server, eventually};

use super::*;
use crate::error::{LockError, NodeAnswer, NodeError, NodeReport};

#[test]
fn two_clients_with_the_same_jitter_seed_have_different_sessions() {
    let server = Server::start();
    let clients = [(); 2].map(|()| {
        let settings = Client::builder().nodes([server.url()]);
        let mut parts = settings.parts(Nonces::of_the_system()).unwrap();
        (parts.jitter_seed, parts.first_round) = (7, 7);
        settings.build_of(parts).unwrap()
    });
    for client in &clients {
        eventually("it is attached", PATIENCE, || {
            client.node_status().iter().all(|node| node.answer == NodeAnswer::Attached)
        });
    }
    let sessions = server.keys().into_iter().filter(|key| key.starts_with(b"quorate:s:"));
    let sessions = sessions.filter_map(|key| server.get(key)).map(|it| it[..32].to_vec());
    assert_eq!(sessions.collect::<BTreeSet<_>>().len(), 2);
}

#[test]
fn without_randomness_no_client_is_built() {
    let settings = Client::builder().memory(&MemoryNodes::new(1));
    let refused = settings.parts(Nonces::broken()).map(drop).unwrap_err();
    assert!(matches!(refused, ConfigError::System { what: "random bytes", .. }), "{refused:?}");
}

#[tokio::test]
async fn without_randomness_no_session_begins() {
    let server = Server::start();
    let settings = Client::builder().nodes([server.url()]);
    let mut parts = settings.parts(Nonces::of_the_system()).unwrap();
    parts.nonces = Nonces::broken();
    let client = settings.build_of(parts).unwrap();
    let is_told = |nodes: &[NodeReport]| {
        let answer = &nodes.first().expect("there is one").answer;
        matches!(answer, NodeAnswer::NodeError(NodeError::NoRandomness(_)))
    };
    eventually("the node says why", PATIENCE, || is_told(&client.node_status()));
    let refused = client.mutex("a").try_lock().await;
    let Err(LockError::NoQuorum { nodes, .. }) = refused else { panic!("{refused:?}") };
    assert!(is_told(&nodes), "{nodes:?}");
    assert!(server.keys().is_empty(), "nothing was stored");
}

#[tokio::test]
async fn without_randomness_no_session_begins_in_memory() {
    let nodes = MemoryNodes::new(1);
    let settings = Client::builder().memory(&nodes);
    let mut parts = settings.parts(Nonces::of_the_system()).unwrap();
    parts.nonces = Nonces::broken();
    let client = settings.build_of(parts).unwrap();
    let refused = client.mutex("a").try_lock().await;
    let Err(LockError::NoQuorum { nodes: told, .. }) = refused else { panic!("{refused:?}") };
    assert!(told[0].to_string().contains("no random bytes"), "{told:?}");
    assert!(nodes.names(0).is_empty(), "nothing was stored");
}

#[cfg(feature = "local")]
#[test]
fn without_randomness_no_local_session_begins() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Client::builder().local(folder.path().join("locks"));
    let mut parts = settings.parts(Nonces::of_the_system()).unwrap();
    parts.nonces = Nonces::broken();
    let refused = settings.build_of(parts).map(drop).unwrap_err();
    assert!(refused.to_string().contains("no random bytes"), "{refused}");
}

const PATIENCE: Duration = Duration::from_secs(20);
