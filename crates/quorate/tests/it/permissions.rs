//! Redis users with exactly the permissions that docs/operations.md lists.

use std::time::Duration;

use quorate::diagnose::{Purpose, RIGHTS};
use quorate::error::LockError;
use quorate::{Client, Mutex};
use quorate_testkit::{Server, redis::cmd};

use crate::cancellation::fixture::poll;
use crate::conformance::fixture::{LONG, PATIENCE, take};

/// A server does not report which command of a script it denied.
#[tokio::test(flavor = "multi_thread")]
async fn listed_commands_are_enough_for_mutexes() {
    let server = with_user(Server::start());
    let settings = || {
        Client::builder().quarantine(false).nodes([server.url_with("app", "secret", 1)]).ttl(LONG)
    };
    let client = settings().connect().await.expect("the user may connect");

    let guard = take(client.mutex("app:1")).await;
    guard.extend(LONG).await.expect("it is held");
    guard.verify().await.expect("it is held");
    let error = client.mutex("app:1").lock_timeout(Duration::ZERO).await.expect_err("it is held");
    assert!(matches!(error, LockError::Timeout { .. }), "{error}");
    assert!(client.inspect("app:1").await.expect("the user may inspect").is_held());
    assert_eq!(client.locks("").all().await.expect("the user may list").locks.len(), 1);
    let mutex = client.mutex("app:1");
    // Each waiter releases: the order of the waiters is not known.
    let turn = |mutex: Mutex| async move {
        mutex.lock().await.expect("it is granted").release().await.expect("it is held");
    };
    let waiters: Vec<_> = (0..3).map(|_| tokio::spawn(turn(mutex.clone()))).collect();
    let lease = guard.detach().await.unwrap();
    client.adopt(&lease).await.expect("it was detached").release().await.expect("it is held");
    for waiter in waiters {
        tokio::time::timeout(PATIENCE, waiter).await.expect("it ends").expect("no panic");
    }
    let classic = settings().classic().connect().await.expect("the user may connect");
    let guard = take(classic.mutex("app:1")).await;
    guard.extend(LONG).await.expect("it is held");
    assert!(classic.inspect("app:1").await.expect("the user may inspect").is_held());
    guard.release().await.expect("it is held");
}

#[tokio::test(flavor = "multi_thread")]
async fn listed_commands_are_enough_for_quarantine_readers_and_permits() {
    let servers: Vec<Server> = Server::start_many(3).into_iter().map(with_user).collect();
    let urls = || servers.iter().map(|server| server.url_with("app", "secret", 0));
    let settings = || Client::builder().nodes(urls()).ttl(LONG).max_ttl(LONG);
    let operator = settings().build().expect("the settings are valid");
    operator.admit().await.expect("the servers are new and empty");
    for settings in [settings(), settings().classic()] {
        let client = settings.connect().await.expect("the user may connect");
        let guard = client.mutex("app:1").lock_timeout(PATIENCE).await.expect("it is free");
        guard.extend(LONG).await.expect("it is held");
        let lease = guard.detach().await.expect("it is held");
        client.renew_lease(&lease).await.expect("it was detached");
        client.release_lease(&lease).await.expect("it was detached");
        let jobs = client.semaphore("app:jobs", 2);
        let [_one, two] = [jobs.acquire().await, jobs.acquire().await].map(|it| it.expect("free"));
        assert!(jobs.acquire_timeout(Duration::from_millis(50)).await.is_err(), "both are held");
        two.release().await.expect("it is held");
    }
    let client = settings().connect().await.expect("the user may connect");
    let lock = client.rwlock("app:2");
    let reader = lock.read().await.expect("no writer holds it");
    let left = lock.read().await.expect("no writer holds it").detach().await.expect("it is held");
    reader.extend(LONG).await.expect("it is held");
    assert!(lock.write_timeout(Duration::from_millis(50)).await.is_err(), "two readers hold it");
    reader.release().await.expect("it is held");
    client.release_lease(&left).await.expect("it was detached");
    lock.write_timeout(PATIENCE)
        .await
        .expect("no reader holds it")
        .release()
        .await
        .expect("it is held");
}

/// Callers that come while the server is busy share a call. The server rejects a call that names a
/// lock which the user may not access.
#[tokio::test(flavor = "multi_thread")]
async fn lock_that_the_user_may_not_access_does_not_affect_others() {
    let server = with_user(Server::start());
    let settings = Client::builder().quarantine(false).vote_timeout(PATIENCE).ttl(PATIENCE);
    let settings = settings.nodes([server.url_with("app", "secret", 0)]);
    let client = settings.connect().await.expect("the user may connect");
    for _ in 0..10 {
        let names = (0..12).map(|number| match number {
            7 => "other".to_owned(),
            _ => format!("app:{number}"),
        });
        let mutexes: Vec<Mutex> = names.map(|name| client.mutex(name)).collect();
        server.pause();
        let mut calls: Vec<_> = mutexes.iter().map(|mutex| Box::pin(mutex.lock())).collect();
        for call in &mut calls {
            assert!(poll(call.as_mut()).is_pending(), "the server is paused");
        }
        server.resume();
        for (number, call) in calls.into_iter().enumerate() {
            match (number, call.await) {
                (7, Err(LockError::Denied { nodes, .. })) => {
                    let error = nodes[0].to_string();
                    assert!(error.contains("NOPERM"), "{error}");
                }
                (7, other) => panic!("{other:?}"),
                (_, granted) => granted.expect("it is free").release().await.expect("it is held"),
            }
        }
    }
    assert!(server.lock_keys().is_empty(), "a lock is left");
}

/// Adds a user with the permissions of the page, and no others.
fn with_user(server: Server) -> Server {
    let mut user = cmd("ACL");
    user.arg("SETUSER").arg(&["app", "reset", "on", ">secret", "resetchannels"]);
    user.arg(&["~app:*", "~quorate:*", "&quorate:c:*"]).arg(commands());
    user.exec(&mut server.connection()).expect("the user is created");
    server
}

/// The page and `quorate doctor` have the same list.
#[test]
fn page_lists_the_commands_that_a_diagnosis_checks() {
    let page = include_str!("../../../../docs/operations.md");
    let (_, rest) = page.split_once("```acl\n").expect("the page lists them");
    let (listed, rest) = rest.split_once("```").expect("the list ends");
    assert_eq!(listed.split_whitespace().collect::<Vec<_>>(), commands());
    for right in RIGHTS.iter().filter(|right| right.purpose != Purpose::Locks) {
        assert!(rest.contains(&format!("`{}`", right.rule)), "{right:?}");
    }
}

/// The rules for all that a client without `durable_nodes` does.
fn commands() -> Vec<&'static str> {
    let needed = RIGHTS.iter().filter(|right| right.purpose != Purpose::Durability);
    needed.map(|right| right.rule).collect()
}
