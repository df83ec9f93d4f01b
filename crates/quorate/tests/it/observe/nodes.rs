//! Nodes that come and go.

use quorate::Client;
use quorate_testkit::{Server, eventually};

use crate::{
    faults::fixture::{PATIENCE, wait_until_attached},
    links::executor::block_on,
    watchdog::journal::Journal,
};

#[test]
fn restarted_server_is_reported_as_down_and_up() {
    let servers = Server::start_many(2);
    let journal = Journal::default();
    let settings = Client::builder().quarantine(false).nodes(servers.iter().map(Server::url));
    let client = block_on(settings.observer(journal.clone()).connect()).unwrap();
    wait_until_attached(&client);
    let labels: Vec<String> =
        client.node_status().iter().map(|report| report.node.clone()).collect();
    let told = |what: &str, node: usize| journal.count(&format!("{what} {}", labels[node]));
    eventually("both are up", PATIENCE, || told("up", 0) == 1 && told("up", 1) == 1);
    assert_eq!(journal.count("down"), 0);

    servers[1].kill();
    eventually("it is down", PATIENCE, || told("down", 1) > 0);
    servers[1].restart();
    eventually("it is up again", PATIENCE, || told("up", 1) == 2);
    wait_until_attached(&client);
    let of_second: Vec<String> =
        journal.lines().into_iter().filter(|line| line.contains(&labels[1])).collect();
    assert!(of_second[0].starts_with("up ") && of_second[1].starts_with("down "), "{of_second:?}");
    assert!(of_second.last().is_some_and(|line| line.starts_with("up ")), "{of_second:?}");
    assert_eq!((told("up", 0), told("down", 0)), (1, 0), "nothing happened to the other one");

    let _ = block_on(client.shutdown(PATIENCE));
    let ends = labels.iter().filter(|label| journal.count(&format!("down {label} shut_down")) == 1);
    assert_eq!(ends.count(), 2);
}

#[test]
fn observer_sees_no_password() {
    let server = Server::builder().password("hunter2").start();
    let journal = Journal::default();
    let settings =
        Client::builder().quarantine(false).nodes([server.url()]).observer(journal.clone());
    let client = block_on(settings.connect()).unwrap();
    drop(block_on(client.mutex("orders:42").lock()).unwrap());
    let _ = block_on(client.shutdown(PATIENCE));
    let lines = journal.lines();
    assert!(lines.len() > 5, "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains("hunter2")), "{lines:?}");
}
