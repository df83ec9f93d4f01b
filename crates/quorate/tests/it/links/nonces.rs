//! Sessions, marks and names of nodes are random: no shown value reveals them.

use std::{
    fmt::Debug,
    sync::{Arc, Mutex},
    time::Duration,
};

use quorate::{
    Client,
    observe::{Event, Observer},
};
use quorate_core::backoff::Jitter;
use quorate_testkit::{Server, eventually, redis::cmd};

use super::executor::block_on;
#[cfg(feature = "local")]
use crate::local::outside::Folder;

#[test]
fn numbers_of_rounds_do_not_lead_to_sessions_marks_or_node_ids() {
    let servers = Server::start_many(3);
    let rounds = Rounds::default();
    let settings = Client::builder().nodes(servers.iter().map(Server::url));
    let client = settings.observer(rounds.clone()).build().expect("the settings are valid");
    block_on(client.admit()).expect("they are new and empty");
    let guard = block_on(client.mutex("a").lock()).expect("they vote");
    let shown = rounds.0.lock().expect("nobody panicked").clone();
    assert!(!shown.is_empty(), "an observer has received rounds");
    for (node, server) in servers.iter().enumerate() {
        let secrets = secrets(server);
        assert!(secrets.len() >= 3, "{secrets:?}");
        for seed in shown.iter().flat_map(|round| (0..3).map(move |back| round.wrapping_sub(back)))
        {
            let drawn = drawn_from(seed ^ node as u64);
            let guessed: Vec<_> = secrets.iter().filter(|it| drawn.contains(it)).collect();
            assert!(guessed.is_empty(), "node {node}: {guessed:?} follow from the round {seed:x}");
        }
    }
    drop(guard);
}

#[test]
fn printed_values_show_no_session() {
    let server = Server::start();
    let settings = Client::builder().nodes([server.url()]).observer(Rounds::default());
    let client = block_on(settings.clone().connect()).expect("it is there");
    let mutex = client.mutex("a");
    let guard = block_on(mutex.lock()).expect("it is free");
    let secrets = secrets(&server);
    let hidden = |value: &dyn Debug| {
        for text in [format!("{value:?}"), format!("{value:#?}")] {
            assert!(!secrets.iter().any(|it| text.contains(it)), "{text}");
        }
    };
    hidden(&settings);
    hidden(&client);
    hidden(&mutex);
    hidden(&guard);
    hidden(&block_on(mutex.lock_timeout(Duration::ZERO)).expect_err("it is held"));
    server.kill();
    eventually("the client has noticed the loss", PATIENCE, || block_on(mutex.try_lock()).is_err());
    hidden(&block_on(mutex.try_lock()).expect_err("no node is reachable"));
    hidden(&client);
}

#[cfg(feature = "local")]
#[test]
fn numbers_of_rounds_do_not_lead_to_sessions_of_a_local_node() {
    let (folder, rounds) = (Folder::new(), Rounds::default());
    let settings = folder.builder().observer(rounds.clone());
    let client = settings.build().expect("the folder can be used");
    let guard = block_on(client.mutex("a").lock()).expect("it is free");
    let sessions = folder.sessions();
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    let first = rounds.0.lock().expect("nobody panicked")[0];
    assert!(!drawn_from(first).contains(&sessions[0]), "it follows from the round {first:x}");
    drop(guard);
}

/// What a client has drawn for a node, as 32 digits each: sessions, the node's mark and its id.
fn secrets(server: &Server) -> Vec<String> {
    let sessions = server.keys().into_iter().filter(|key| key.starts_with(b"quorate:s:"));
    let sessions = sessions.filter_map(|key| server.get(key));
    let sessions = sessions.map(|stored| String::from_utf8_lossy(&stored[..32]).into_owned());
    let mut record = cmd("HMGET");
    record.arg("quorate:node").arg("mark").arg("id");
    let record: Vec<Option<String>> =
        record.query(&mut server.connection()).expect("the server answers");
    sessions.chain(record.into_iter().flatten()).collect()
}

/// The numbers that a generator for delays would have given.
fn drawn_from(seed: u64) -> Vec<String> {
    let mut jitter = Jitter::new(seed);
    let numbers: Vec<u64> = (0..200).map(|_| jitter.next()).collect();
    numbers.windows(2).map(|pair| format!("{:016x}{:016x}", pair[0], pair[1])).collect()
}

/// All numbers of rounds that an observer gets.
#[derive(Clone, Debug, Default)]
struct Rounds(Arc<Mutex<Vec<u64>>>);

impl Observer for Rounds {
    fn observe(&self, event: &Event<'_>) {
        if let Event::Started { round, .. } = event {
            self.0.lock().expect("nobody panicked").push(*round);
        }
    }
}

const PATIENCE: Duration = Duration::from_secs(20);
