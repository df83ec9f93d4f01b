//! Records that another program has damaged: they are reported, and not used.

use quorate::{
    Client,
    error::{NodeAnswer, NodeError},
};
use quorate_testkit::{Server, redis::cmd};

use super::fixture::{Fixture, is_attached, quarantined, settings, wait_until};
use crate::conformance::fixture::PATIENCE;

#[tokio::test(flavor = "multi_thread")]
async fn damaged_record_is_reported_until_it_is_deleted() {
    let fixture = Fixture::new(3);
    let server = &fixture.servers[1];
    let mut connection = server.connection();
    let record: Vec<u8> = cmd("DUMP").arg(RECORD).query(&mut connection).expect("there is one");
    for (damage, what) in [
        (&["HSET", RECORD, "seen", "lately"][..], "seen is not a number"),
        (&["HSET", RECORD, "quarantine_ms", "-1"], "quarantine_ms is not a number"),
        (&["HSET", RECORD, "changed", "0x10"], "changed is not a number"),
        (&["HSET", RECORD, "wire", "one"], "wire is not a number"),
        (&["HSET", RECORD, "doubt", "unknown"], "since is not a number"),
        (&["HDEL", RECORD, "doubted"], "doubted is not a number"),
        (&["HSET", RECORD, "mark", "a"], "it cannot be understood"),
        (&["HSET", RECORD, "members", "nobody"], "it cannot be understood"),
        (&["SET", RECORD, "text"], "it has another type"),
    ] {
        tell(server, damage);
        // The other two must answer, even on a busy machine.
        let settings = fixture.settings().vote_timeout(PATIENCE);
        let client = settings.connect().await.expect("two of them vote");
        let damaged = expect_damaged(&client, 1, what);
        let expected = format!(
            "the node's record quorate:node is damaged: {what}, delete it and the node is \
             quarantined anew"
        );
        assert_eq!(damaged.to_string(), expected);
        let guard = client.mutex("a").lock().await.expect("two of them vote");
        guard.release().await.expect("it is held");
        let mut restore = cmd("RESTORE");
        restore.arg(RECORD).arg(0).arg(&record).arg("REPLACE");
        restore.exec(&mut connection).expect("it is as it was");
        wait_until(&client, "it votes again", |nodes| nodes.iter().all(is_attached));
    }
    tell(server, &["HSET", RECORD, "seen", "lately"]);
    let client = fixture.settings().connect().await.expect("two of them vote");
    expect_damaged(&client, 1, "seen is not a number");
    tell(server, &["DEL", RECORD]);
    wait_until(&client, "it is quarantined anew", |nodes| quarantined(&nodes[1]).is_some());
}

/// Clients without quarantine read it as well.
#[tokio::test(flavor = "multi_thread")]
async fn record_of_another_type_is_reported_without_quarantine() {
    let server = Server::start();
    tell(&server, &["SET", RECORD, "text"]);
    for settings in [settings([server.url()]), settings([server.url()]).classic()] {
        let client = settings.build().expect("the settings are valid");
        expect_damaged(&client, 0, "it has another type");
        tell(&server, &["DEL", RECORD]);
        wait_until(&client, "it votes", |nodes| nodes.iter().all(is_attached));
        tell(&server, &["SET", RECORD, "text"]);
    }
}

fn expect_damaged(client: &Client, node: usize, expected: &str) -> NodeError {
    let mut told = None;
    wait_until(client, expected, |nodes| {
        let NodeAnswer::NodeError(node_error) = &nodes[node].answer else { return false };
        told = Some(node_error.clone());
        matches!(node_error, NodeError::DamagedRecord { what, .. } if what == expected)
    });
    told.expect("waited for")
}

fn tell(server: &Server, words: &[&str]) {
    let mut command = cmd(words[0]);
    words[1..].iter().for_each(|word| {
        command.arg(word);
    });
    command.exec(&mut server.connection()).expect("the server runs the command");
}

const RECORD: &str = "quorate:node";
