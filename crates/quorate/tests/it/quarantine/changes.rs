//! The set of nodes changes, one node at a time, while locks are taken.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use quorate::{Client, error::ChangeError};
use quorate_testkit::{
    Fault, Proxy, Server, eventually,
    history::{Moment, Recorder, Until},
    redis::cmd,
};
use tokio::task::JoinHandle;

use super::fixture::{
    GUARD, MAX_TTL, RECOVERY, is_attached, quarantined, settings, wait_for_vote, wait_until,
};
use crate::conformance::fixture::PATIENCE;

#[tokio::test(flavor = "multi_thread")]
async fn killed_node_is_replaced_under_load() {
    let servers = Server::start_many(4);
    let old = found(&servers[..3]).await;
    let load = Load::start(&old, "old");
    servers[2].kill();
    let operator = client(&servers, &[0, 1, 3]);
    let changed = operator.change_nodes().await.expect("two of three answer");
    assert_eq!((changed.change, changed.is_open), (2, false), "{changed}");
    let left = changed.joins_in.expect("it is new");
    assert!(left <= GUARD + RECOVERY && left > GUARD, "{left:?}");
    // A client with the new addresses takes part at once, and a client with the old ones still
    // does.
    let new = client(&servers, &[0, 1, 3]);
    wait_until(&new, "it learns how long", |nodes| quarantined(&nodes[2]).is_some());
    let more = Load::start(&new, "new");
    wait_for_vote(&new, 2);
    // The new node and one old node are a majority for clients that know the new node.
    servers[0].kill();
    let guard = new.mutex("another").lock_timeout(PATIENCE).await.expect("two of three vote");
    drop(guard);
    let (old, new) = (load.stop().await, more.stop().await);
    assert!(old > 0 && new > 0, "{old} and {new} times");
}

#[tokio::test(flavor = "multi_thread")]
async fn replaced_node_that_still_runs_has_no_vote() {
    let servers = Server::start_many(4);
    let old = found(&servers[..3]).await;
    let load = Load::start(&old, "old");
    let operator = client(&servers, &[0, 1, 3]);
    operator.change_nodes().await.expect("all answer");
    // It was not notified, and its clients learn from the others that it is replaced.
    wait_until(&old, "it is replaced", |nodes| {
        let text = nodes[2].to_string();
        text.contains("the nodes have agreed on") && text.contains(&servers[3].url())
    });
    wait_until(&old, "the others vote", |nodes| nodes[..2].iter().all(is_attached));
    assert!(load.stop().await > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_with_either_list_join_until_the_change_is_closed() {
    let servers = Server::start_many(4);
    let old = found(&servers[..3]).await;
    let load = Load::start(&old, "old");
    let new = client(&servers, &[0, 1, 2, 3]);
    let changed = new.change_nodes().await.expect("all answer");
    assert!(changed.is_open && changed.joins_in.is_some(), "{changed}");
    let more = Load::start(&new, "new");
    let error = new.change_nodes().await.expect_err("too soon");
    assert!(matches!(error, ChangeError::TooSoon { left } if left <= GUARD), "{error}");
    wait_for_vote(&new, 3);
    wait_until(&old, "the old list is admitted", |nodes| nodes.iter().all(is_attached));
    assert!(load.stop().await > 0, "both lists are in use");
    let closed = close(&new).await;
    assert!(!closed, "the change is closed");
    wait_until(&old, "the old list is rejected", |nodes| {
        nodes.iter().all(|node| node.to_string().contains("the nodes have agreed to be 4"))
    });
    assert!(more.stop().await > 0);
}

/// While two lists are in use, the first node that a new client reaches does not vote for it until
/// others have confirmed the list. The first try waits for that.
#[tokio::test(flavor = "multi_thread")]
async fn first_try_of_a_new_client_waits_until_the_nodes_confirm_each_other() {
    let servers = Server::start_many(4);
    drop(found(&servers[..3]).await);
    let changed = client(&servers, &[0, 1, 2, 3]).change_nodes().await.expect("all answer");
    assert!(changed.is_open, "{changed}");
    for number in 0..20 {
        let new = client(&servers, &[0, 1, 2, 3]);
        let guard = new.mutex(format!("a{number}")).try_lock().await.expect("three of four vote");
        assert!(guard.is_some(), "it is free");
    }
}

/// Otherwise some would go by it at once, the others only when the quarantine has ended, and too
/// few of them would agree until then.
#[tokio::test(flavor = "multi_thread")]
async fn second_change_within_a_quarantine_is_proposed_to_no_node() {
    let servers = Server::start_many(5);
    let slow = Proxy::start(&servers[0].address());
    let client = |others: [usize; 2]| {
        let urls = [slow.url()].into_iter().chain(others.map(|node| servers[node].url()));
        settings(urls).build().expect("valid settings")
    };
    let old = client([1, 2]);
    old.admit().await.expect("they are new and empty");
    let new = client([1, 3]);
    new.change_nodes().await.expect("all answer");
    let idle = client([1, 4]);
    wait_until(&idle, "it has inspected them", |nodes| nodes[..2].iter().all(is_attached));
    // As if it had received it long before the others.
    let mut quick = servers[1].connection();
    cmd("HDEL").arg("quorate:node").arg("changed").exec(&mut quick).expect("it is deleted");
    // The node that would reject it gets it last.
    slow.set(Fault::Delay { up: Duration::from_millis(100), down: Duration::ZERO });
    let next = client([1, 4]);
    let error = next.change_nodes().await.expect_err("too soon");
    let ChangeError::TooSoon { left } = error else { panic!("{error}") };
    assert!(left <= GUARD && left > GUARD / 2, "{left:?}");
    for server in [0, 1, 3] {
        let mut change = cmd("HGET");
        change.arg("quorate:node").arg("change");
        let change: u64 = change.query(&mut servers[server].connection()).expect("it has a place");
        assert_eq!(change, 2, "node {server}");
    }
    slow.set(Fault::Pass);
    wait_for_vote(&new, 2);
    let load = Load::start(&new, "new");
    // It has inspected the nodes once, when they still had to wait.
    let changed = idle.change_nodes().await.expect("the quarantine has ended");
    assert_eq!(changed.change, 3, "{changed}");
    assert!(load.stop().await > 0);
}

/// Two of five have lost their data, one of them is slow to answer, and a third is down.
#[tokio::test(flavor = "multi_thread")]
async fn vouching_client_waits_for_every_node_that_answers() {
    let servers = Server::start_many(5);
    let slow = Proxy::start(&servers[3].address());
    let mut urls: Vec<String> = servers.iter().map(Server::url).collect();
    urls[3] = slow.url();
    let settings = || settings(urls.clone());
    let founder = settings().build().expect("valid settings");
    founder.admit().await.expect("they are new and empty");
    drop(founder);
    servers[2..4].iter().for_each(Server::flush_all);
    servers[4].kill();
    slow.set(Fault::BlackHole);
    let before = slow.connections();
    let client = settings().read_only().build().expect("valid settings");
    let vouching = tokio::spawn({
        let client = client.clone();
        async move { client.vouch_for_nodes().await }
    });
    let has_place = |node: usize| {
        let mut place = cmd("HGET");
        place.arg("quorate:node").arg("enrolled");
        let place: Option<u8> = place.query(&mut servers[node].connection()).expect("it answers");
        place == Some(1)
    };
    // It has the answers of the first three, which are a majority.
    eventually("the slow one is asked", PATIENCE, || slow.connections() > before);
    assert!(!has_place(2) && !has_place(3) && !vouching.is_finished());
    slow.set(Fault::Pass);
    let vouched = tokio::time::timeout(PATIENCE, vouching).await.expect("it ends");
    vouched.expect("no panic").expect("enough have their places");
    assert!(has_place(2) && has_place(3), "it was waited for");
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_that_are_no_single_step_are_refused() {
    let servers = Server::start_many(6);
    let client = |nodes: &[usize]| client(&servers, nodes);
    let refused = async |nodes: &[usize]| client(nodes).change_nodes().await.expect_err("refused");
    let error = refused(&[0, 1, 2]).await;
    assert!(error.to_string().contains("belongs to a set"), "{error}");
    let _set = found(&servers[..3]).await;
    for (nodes, expected) in [
        (&[0, 1, 2][..], "agreed on this list already"),
        (&[0, 1, 2, 3, 4], "2 nodes added and 0 removed"),
        (&[0, 3, 4], "only 1 of the 2 nodes"),
    ] {
        let error = refused(nodes).await;
        assert!(!matches!(error, ChangeError::NoQuorum { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    // This error takes precedence over all others.
    let longer = settings([0, 3, 4].map(|node| servers[node].url())).max_ttl(MAX_TTL * 2);
    let longer = longer.build().expect("valid settings");
    let error = longer.change_nodes().await.expect_err("it has other terms");
    let expected = "this change is not possible: the nodes have agreed on a max_ttl of 1 s, \
                    this client has 2 s";
    assert_eq!(error.to_string(), expected);
    cmd("SET").arg("a").arg("b").exec(&mut servers[3].connection()).expect("it is stored");
    let error = refused(&[0, 1, 3]).await;
    let expected = format!("the new node {} has keys", servers[3].url());
    assert!(matches!(error, ChangeError::Impossible(_)), "{error}");
    assert!(error.to_string().contains(&expected), "{error}");
    servers[3].flush_all();
    let _other = found(&servers[3..]).await;
    let error = refused(&[0, 1, 3]).await;
    assert!(error.to_string().contains("different sets"), "{error}");
}

/// These become a set, and a client of it.
async fn found(servers: &[Server]) -> Client {
    let client = settings(servers.iter().map(Server::url)).build().expect("valid settings");
    client.admit().await.expect("they are new and empty");
    client
}

fn client(servers: &[Server], nodes: &[usize]) -> Client {
    let urls = nodes.iter().map(|node| servers[*node].url());
    settings(urls).build().expect("valid settings")
}

/// Closes the change as soon as that is allowed, and returns whether it is still open.
async fn close(client: &Client) -> bool {
    let started = Instant::now();
    loop {
        match client.change_nodes().await {
            Ok(changed) => return changed.is_open,
            Err(error) => assert!(started.elapsed() < PATIENCE, "{error}"),
        }
    }
}

/// Acquires a lock again and again, and records what happens.
struct Load {
    recorder: Recorder,
    is_over: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<usize>>,
}

impl Load {
    fn start(client: &Client, who: &str) -> Self {
        let (recorder, is_over) = (Recorder::in_memory(), Arc::new(AtomicBool::new(false)));
        let task = |number: usize| {
            let (client, recorder, is_over) = (client.clone(), recorder.clone(), is_over.clone());
            let who = format!("{who}{number}");
            tokio::spawn(async move {
                let mut times = 0;
                while !is_over.load(Ordering::SeqCst) {
                    times += usize::from(turn(&client, &recorder, &who).await);
                }
                times
            })
        };
        let tasks = (0..3).map(task).collect();
        Self { recorder, is_over, tasks }
    }

    /// How often the lock was acquired.
    async fn stop(self) -> usize {
        self.is_over.store(true, Ordering::SeqCst);
        let mut times = 0;
        for task in self.tasks {
            times +=
                tokio::time::timeout(PATIENCE, task).await.expect("it ends").expect("no panic");
        }
        self.recorder.history().assert_kept(Until::Believed);
        times
    }
}

async fn turn(client: &Client, recorder: &Recorder, who: &str) -> bool {
    let request = recorder.ask(who, NAME);
    let Ok(guard) = client.mutex(NAME).lock_timeout(Duration::from_secs(1)).await else {
        return false;
    };
    let valid_until = Moment::now().after(guard.remaining());
    let holding = request.acquired(guard.fence().map(|it| it.get()), Some(valid_until));
    let _ = guard.verify().await;
    match guard.check() {
        Ok(()) => holding.released(),
        Err(_) => holding.lost(),
    }
    let _ = guard.release().await;
    true
}

const NAME: &str = "orders:42";
