//! New locks on a full server: refused with the reason, and taken when there is memory again.

use std::time::Duration;

use quorate::Client;
use quorate_testkit::{Fault, Proxy, Server, eventually, redis::cmd};

use super::fixture::{Nodes, on_every_set};
use crate::{
    conformance::fixture::{PATIENCE, take},
    mode::Mode,
    watchdog::journal::Journal,
};

#[test]
fn new_lock_on_a_full_server_fails_with_the_reason() {
    on_every_set(TTL, async |nodes| {
        let journal = Journal::default();
        let known = nodes.client(&journal).await;
        let held = take(known.mutex("held")).await;
        nodes.set_full(true);
        // A client that connects now has a session, but acquires no lock.
        let new = nodes.client(&journal).await;
        for client in [&known, &new] {
            let tried = client.mutex("new").try_lock().await;
            nodes.assert_full(&tried.expect_err("there is no memory"));
            let waited = client.mutex("new").lock_timeout(TTL / 4).await;
            nodes.assert_full(&waited.expect_err("there is no memory"));
            let waited = client.mutex("new").lock().await;
            nodes.assert_full(&waited.expect_err("there is no memory"));
            if nodes.mode == Mode::Queue {
                let read = client.rwlock("new").try_read().await;
                nodes.assert_full(&read.expect_err("there is no memory"));
                let tried = client.mutex("held").try_lock().await;
                assert!(tried.expect("the nodes tell").is_none(), "another has it");
                refuse_behind_others(nodes, client).await;
            }
        }
        held.verify().await.expect("it is held");
        for server in &nodes.servers {
            assert_eq!(server.lock_keys(), [b"held"], "nothing new is stored");
        }
        nodes.set_full(false);
        for client in [&known, &new] {
            take(client.mutex("new")).await.release().await.expect("it is held");
        }
        held.release().await.expect("it is held");
    });
}

/// Two of three nodes are a majority, but one of them is full. A new client must not give up before
/// it has reached the third.
#[test]
fn new_client_asks_the_last_node_before_a_try_fails() {
    on_every_set(TTL, async |nodes| {
        let [full, _, _] = &nodes.servers[..] else { return };
        let fill = |size: u8| {
            let mut set = cmd("CONFIG");
            set.arg("SET").arg("maxmemory").arg(size).exec(&mut full.connection())
        };
        fill(1).expect("the server takes it");
        let delay = Duration::from_millis(40);
        nodes.proxies[2].set(Fault::Delay { up: Duration::ZERO, down: delay });
        let client = || nodes.builder().build().expect("the settings are valid");
        let tried = client().mutex("one").try_lock().await;
        drop(tried.expect("two nodes have memory").expect("it is free"));
        let tried = client().mutex_all(["a", "b"]).try_lock().await;
        drop(tried.expect("two nodes have memory").expect("they are free"));
        if nodes.mode == Mode::Queue {
            let tried = client().semaphore("permits", 2).try_acquire().await;
            drop(tried.expect("two nodes have memory").expect("it is free"));
        }
        nodes.proxies[2].set(Fault::Pass);
        fill(0).expect("the server takes it");
    });
}

/// The waiter before it is removed from the queue, since its session has expired: a write that
/// needs no memory, and must not admit the reader.
#[test]
fn new_reader_is_not_blocked_by_a_waiter_that_has_ended() {
    let server = Server::start();
    let proxy = Proxy::start(&server.address());
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let [holder, new] = [
            Client::connect([server.url()]).await.expect("the server is up"),
            Client::connect([server.url()]).await.expect("the server is up"),
        ];
        let gone = Client::connect([proxy.url()]).await.expect("the server is up");
        let held = holder.rwlock("a").read().await.expect("nobody writes");
        let rwlock = gone.rwlock("a");
        let writer = tokio::spawn(async move { rwlock.write().await });
        let queue = || {
            let mut range = cmd("ZRANGE");
            let range = range.arg("quorate:q:{a}").arg(&[0, -1]);
            range.query::<Vec<String>>(&mut server.connection()).expect("the server answers")
        };
        eventually("it waits", PATIENCE, || queue().len() == 1);
        proxy.set(Fault::Refuse);
        eventually("its session has expired", PATIENCE, || server.sessions() == 2);
        let mut fill = cmd("CONFIG");
        fill.arg(&["SET", "maxmemory", "1"]);
        fill.exec(&mut server.connection()).expect("the server takes it");

        let read = new.rwlock("a").try_read().await.expect_err("there is no memory");
        assert!(read.to_string().contains("memory is full"), "{read}");
        assert_eq!(queue(), [""; 0], "the waiter that has ended blocks no reader");
        held.verify().await.expect("it is held");
        writer.abort();
    });
}

/// Several waiters of one client ask again together, and none of them is granted the lock.
async fn refuse_behind_others(nodes: &Nodes, client: &Client) {
    let names = ["held", "new", "newer"];
    let waits = names.map(|name| {
        let mutex = client.mutex(name);
        tokio::spawn(async move { mutex.lock_timeout(TTL).await })
    });
    for wait in waits {
        nodes.assert_full(&wait.await.expect("no panic").expect_err("there is no memory"));
    }
}

const TTL: Duration = Duration::from_secs(6);
