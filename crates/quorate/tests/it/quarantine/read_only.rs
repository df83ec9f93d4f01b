//! Clients that only read: their reports are true, and they write nothing before they have decided.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    thread,
    time::Duration,
};

use quorate::{
    Client,
    error::{AdmitError, ChangeError, LockError, NodeAnswer, NodeError, NodeReport},
};
use quorate_testkit::{Contents, Fault, Proxy, Server, eventually, redis, redis::cmd};

use super::fixture::{Fixture, MAX_TTL, is_attached, quarantined, settings, wait_until};
use crate::{conformance::fixture::PATIENCE, links::strangers::peer::Peer};

fn looking(servers: &[Server]) -> Client {
    looking_at(servers.iter().map(Server::url))
}

fn looking_at(urls: impl IntoIterator<Item = String>) -> Client {
    settings(urls).read_only().build().expect("the settings are valid")
}

fn contents(servers: &[Server]) -> Vec<Contents> {
    servers.iter().map(Server::contents).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_admission_changes_no_node() {
    let servers = Server::builder().append_only().start_many(4);
    let nodes = &servers[..3];
    let refused = async |urls: Vec<String>| {
        let before = contents(&servers);
        let error = looking_at(urls).admit().await.expect_err("it is refused");
        assert_eq!(contents(&servers), before, "{error}");
        error
    };
    let urls = || nodes.iter().map(Server::url).collect::<Vec<_>>();
    cmd("SET").arg("a").arg("b").exec(&mut servers[2].connection()).expect("it is stored");
    let error = refused(urls()).await;
    assert_eq!(error, AdmitError::NotEmpty { node: servers[2].url(), keys: 1 });
    servers[2].flush_all();

    let twin = Proxy::start(&servers[1].address());
    let error = refused(vec![servers[0].url(), servers[1].url(), twin.url()]).await;
    assert!(matches!(error, AdmitError::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains("is the same server as"), "{error}");

    // They become a set, which does not vote yet.
    let client = settings(urls()).build().expect("the settings are valid");
    let has_place = |it: &NodeReport| {
        quarantined(it).is_some_and(|(_, why)| why == "it knows nothing of earlier locks")
    };
    wait_until(&client, "all have their places", |nodes| nodes.iter().all(has_place));
    drop(client);
    let others = [0, 1, 3].map(|node| servers[node].url());
    let error = refused(others.to_vec()).await;
    assert!(matches!(error, AdmitError::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains("another address for one of them"), "{error}");
    let longer = settings(urls()).max_ttl(MAX_TTL * 2).read_only().build().expect("valid");
    let before = contents(&servers);
    let error = longer.admit().await.expect_err("it has other terms");
    assert!(error.to_string().contains("this client has 2 s"), "{error}");
    assert_eq!(contents(&servers), before);

    servers[1].restart();
    let error = refused(urls()).await;
    let why = "it was restarted, its replication changed, or it has another server's data".into();
    assert_eq!(error, AdmitError::NotNew { node: servers[1].url(), why });
}

/// Nodes that are only read get no names, which would show that two of them are the same.
#[tokio::test(flavor = "multi_thread")]
async fn two_addresses_of_a_new_server_are_noticed_however_late_one_answers() {
    let servers = Server::start_many(2);
    let twin = Proxy::start(&servers[1].address());
    twin.set(Fault::Refuse);
    let operator = looking_at([servers[0].url(), servers[1].url(), twin.url()]);
    // It is now read once a second, and hardly at the same time by both addresses.
    eventually("it is read again and again", PATIENCE, || servers[1].command_calls("hello") > 10);
    twin.set(Fault::Pass);
    let before = contents(&servers);
    let error = operator.admit().await.expect_err("two are the same");
    assert!(error.to_string().contains("is the same server as"), "{error}");
    assert_eq!(contents(&servers), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn read_only_client_admits_a_set_that_began_its_quarantine() {
    let servers = Server::start_many(3);
    let client = settings(servers.iter().map(Server::url)).build().expect("valid settings");
    wait_until(&client, "all are quarantined", |nodes| {
        nodes.iter().all(|it| quarantined(it).is_some())
    });
    let operator = looking(&servers);
    operator.admit().await.expect("they are new and empty");
    operator.admit().await.expect("they vote");
    wait_until(&client, "all vote", |nodes| nodes.iter().all(is_attached));
    assert!(operator.node_status().iter().all(is_attached), "{:?}", operator.node_status());
}

/// A key is written to the third node after it was read, found empty, and given its place.
#[tokio::test(flavor = "multi_thread")]
async fn last_node_that_rejects_is_reported_with_the_admitted_ones() {
    let servers = Server::start_many(3);
    let late = relay_and_store(&servers[2]);
    let urls = || vec![servers[0].url(), servers[1].url(), late.url()];
    let operator = looking_at(urls());
    let error = operator.admit().await.expect_err("it is not empty any more");
    let AdmitError::Incomplete { admitted, nodes } = &error else { panic!("{error}") };
    assert_eq!(*admitted, 2, "{error}");
    assert!(nodes[..2].iter().all(is_attached), "{error}");
    assert_eq!(nodes[2].answer, NodeAnswer::NodeError(NodeError::NotEmpty(1)));
    let told = "2 of 3 nodes were admitted, each of the others votes when its quarantine ends";
    assert!(error.to_string().starts_with(told), "{error}");
    // A majority votes, and the third one does when its quarantine has ended.
    let client = settings(urls()).connect().await.expect("two vote");
    client.mutex("a").lock().await.expect("they vote").release().await.expect("it is held");
    wait_until(&client, "the third votes", |nodes| nodes.iter().all(is_attached));
}

/// Passes every command to the server, and stores a key just before an admission.
fn relay_and_store(server: &Server) -> Peer {
    let (address, url) = (server.address(), server.url());
    Peer::start(move |mut client| {
        let mut upstream = TcpStream::connect(&address).expect("the server listens");
        let (mut replies, mut back) = (clone(&upstream), clone(&client));
        let answering = thread::spawn(move || {
            // It ends when either side closes.
            let _ = std::io::copy(&mut replies, &mut back);
        });
        let (mut received, mut bytes) = (Vec::<u8>::new(), [0; 4_096]);
        while let Ok(len @ 1..) = client.read(&mut bytes) {
            received.extend(&bytes[..len]);
            if received.windows(ADMISSION.len()).any(|it| it == ADMISSION.as_bytes()) {
                received.clear();
                let client = redis::Client::open(url.as_str()).expect("a url");
                let mut connection = client.get_connection().expect("it listens");
                cmd("SET").arg("late").arg("x").exec(&mut connection).expect("it is stored");
            }
            upstream.write_all(&bytes[..len]).expect("the server reads");
        }
        let _ = upstream.shutdown(Shutdown::Both);
        let _ = answering.join();
    })
}

fn clone(stream: &TcpStream) -> TcpStream {
    stream.try_clone().expect("there is another descriptor")
}

/// How the script of an admission begins.
const ADMISSION: &str = "Lets a new node vote immediately";

#[tokio::test(flavor = "multi_thread")]
async fn read_only_client_acquires_nothing_and_follows_the_nodes() {
    let fixture = Fixture::new(3);
    let client = looking(&fixture.servers);
    wait_until(&client, "all vote", |nodes| nodes.iter().all(is_attached));
    let before = contents(&fixture.servers);
    let error = client.mutex("a").lock_timeout(Duration::from_secs(1)).await.expect_err("it looks");
    let LockError::NoQuorum { nodes, .. } = error else { panic!("{error}") };
    assert!(nodes.iter().all(|it| it.to_string().contains("is read-only")), "{nodes:?}");
    assert!(!client.inspect("a").await.expect("they answer").is_held());
    assert_eq!(contents(&fixture.servers), before);

    fixture.servers[1].flush_all();
    let empty = fixture.servers[1].contents();
    wait_until(&client, "it has forgotten", |nodes| {
        quarantined(&nodes[1]).is_some_and(|(_, why)| {
            let begins = "the time begins when the next read-write client connects";
            why == format!("it knows nothing of earlier locks; {begins}")
        })
    });
    assert_eq!(fixture.servers[1].contents(), empty);
    let ordinary = fixture.settings().connect().await.expect("two vote");
    wait_until(&ordinary, "it has its place", |nodes| {
        quarantined(&nodes[1]).is_some_and(|(_, why)| why == "it knows nothing of earlier locks")
    });
    drop(ordinary);
    let is_ready = |nodes: &[NodeReport]| matches!(nodes[1].answer, NodeAnswer::Ready(_));
    wait_until(&client, "the quarantine has ended", is_ready);
    let why = "votes 5 s after the next read-write client connects";
    assert!(client.node_status()[1].to_string().ends_with(why), "{:?}", client.node_status());
    client.admit().await.expect("all vote, or do when they are asked");
    let _ordinary = fixture.client("ordinary").await;
    wait_until(&client, "it votes", |nodes| nodes.iter().all(is_attached));
}

/// In both modes, with quarantine and without.
#[tokio::test(flavor = "multi_thread")]
async fn reads_of_the_membership_write_nothing() {
    let (fixture, alone) = (Fixture::new(3), vec![Server::start()]);
    for servers in [&fixture.servers, &alone] {
        let before = contents(servers);
        let settings = || settings(servers.iter().map(Server::url)).read_only();
        for settings in [settings(), settings().classic()] {
            let client = settings.connect().await.expect("they vote");
            assert_eq!(client.has_quarantine(), servers.len() == 3);
            wait_until(&client, "all answer", |nodes| nodes.iter().all(is_attached));
            assert!(!client.inspect("a").await.expect("they answer").is_held());
            assert!(client.mutex("a").try_lock().await.is_err(), "it only looks");
        }
        assert_eq!(contents(servers), before);
    }
}

/// Without a session it would not be notified.
#[tokio::test(flavor = "multi_thread")]
async fn missing_right_is_reported_by_a_read() {
    let server = Server::start();
    let user = ["SETUSER", "app", "on", ">secret", "~*", "&*", "+@all"];
    cmd("ACL").arg(&user).exec(&mut server.connection()).expect("there are users");
    for (taken, told) in [("-eval", "'eval'"), ("-subscribe", "'subscribe'"), ("-time", "'time'")] {
        let change = ["SETUSER", "app", "+@all", taken];
        cmd("ACL").arg(&change).exec(&mut server.connection()).expect("there is one");
        let client = looking_at([server.url_with("app", "secret", 0)]);
        wait_until(&client, "it is refused", |nodes| {
            let answer = &nodes[0].answer;
            let is_denied = matches!(answer, NodeAnswer::NodeError(NodeError::NoPermission(_)));
            is_denied && nodes[0].to_string().contains(told)
        });
    }
}

/// One node has received it, and then the operator ended.
#[tokio::test(flavor = "multi_thread")]
async fn interrupted_change_is_finished_by_the_same_call() {
    let servers = Server::start_many(4);
    let urls = |nodes: [usize; 3]| nodes.map(|node| servers[node].url());
    looking_at(urls([0, 1, 2])).admit().await.expect("they are new and empty");
    let record = |node: usize| -> Vec<u8> {
        let mut dump = cmd("DUMP");
        dump.arg("quorate:node").query(&mut servers[node].connection()).expect("it has a record")
    };
    let before = record(1);
    let operator = looking_at(urls([0, 1, 3]));
    let changed = operator.change_nodes().await.expect("one is exchanged");
    assert_eq!((changed.change, changed.is_open), (2, false), "{changed}");
    let mut restore = cmd("RESTORE");
    restore.arg("quorate:node").arg(0).arg(before).arg("REPLACE");
    restore.exec(&mut servers[1].connection()).expect("it is put back");
    servers[3].flush_all();
    let change = |node: usize| -> Option<u64> {
        let mut change = cmd("HGET");
        change.arg("quorate:node").arg("change");
        change.query(&mut servers[node].connection()).expect("it answers")
    };
    assert_eq!([change(0), change(1), change(3)], [Some(2), Some(1), None]);
    let operator = looking_at(urls([0, 1, 3]));
    let changed = operator.change_nodes().await.expect("it is finished");
    assert_eq!(changed.change, 2, "{changed}");
    assert_eq!([change(0), change(1), change(3)], [Some(2); 3]);
    let before = contents(&servers);
    let again = operator.change_nodes().await.expect_err("it is done");
    assert!(matches!(again, ChangeError::Impossible(_)), "{again}");
    assert_eq!(contents(&servers), before);
}
