//! Users who may do no more than they must.

use std::{num::NonZeroU32, time::Duration};

use quorate::{Client, Mutex};
use quorate_testkit::{Server, redis::cmd};

use crate::conformance::fixture::{LONG, PATIENCE, take};

/// The documents named the keys and channels that a user needs, but no commands; and a server does
/// not say which one a script was denied.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_with_the_commands_of_the_readme_can_do_everything() {
    let server = with_user(Server::start());
    let settings = || {
        Client::builder().quarantine(false).nodes([server.url_with("app", "secret", 1)]).ttl(LONG)
    };
    let client = settings().connect().await.expect("it is let in");

    let guard = take(client.mutex("app:1")).await;
    guard.extend(LONG).await.expect("it is held");
    guard.verify().await.expect("it is held");
    let error = client.mutex("app:1").lock_timeout(Duration::ZERO).await.expect_err("it is held");
    assert!(error.to_string().starts_with("held by another"), "{error}");
    assert!(client.inspect("app:1").await.expect("it may look").is_held());
    assert_eq!(client.locks("").await.expect("it may list").locks.len(), 1);
    let mutex = client.mutex("app:1");
    // Each lets go by itself, since nobody knows which of them is the first in line.
    let turn = |mutex: Mutex| async move {
        mutex.lock().await.expect("its turn comes").release().await.expect("it is held");
    };
    let waiters: Vec<_> = (0..3).map(|_| tokio::spawn(turn(mutex.clone()))).collect();
    let lease = guard.detach().await.unwrap();
    client.adopt(&lease).await.expect("it was left").release().await.expect("it is held");
    for waiter in waiters {
        tokio::time::timeout(PATIENCE, waiter).await.expect("it has an end").expect("no panic");
    }
    let classic = settings().classic().connect().await.expect("it is let in");
    let guard = take(classic.mutex("app:1")).await;
    guard.extend(LONG).await.expect("it is held");
    assert!(classic.inspect("app:1").await.expect("it may look").is_held());
    guard.release().await.expect("it is held");
}

#[tokio::test(flavor = "multi_thread")]
async fn readme_commands_are_enough_for_guarded_nodes_readers_and_permits() {
    let servers: Vec<Server> = Server::start_many(3).into_iter().map(with_user).collect();
    let urls = || servers.iter().map(|server| server.url_with("app", "secret", 0));
    let settings = || Client::builder().nodes(urls()).ttl(LONG).max_ttl(LONG);
    let operator = settings().build().expect("the settings are valid");
    operator.admit().await.expect("they are new and empty");
    for settings in [settings(), settings().classic()] {
        let client = settings.connect().await.expect("it is let in");
        let guard = client.mutex("app:1").lock_timeout(PATIENCE).await.expect("it is free");
        guard.extend(LONG).await.expect("it is held");
        let lease = guard.detach().await.expect("it is held");
        client.renew_lease(&lease).await.expect("it was left");
        client.release_lease(&lease).await.expect("it was left");
        let jobs = client.semaphore("app:jobs", NonZeroU32::new(2).expect("not zero"));
        let [_one, two] = [jobs.acquire().await, jobs.acquire().await].map(|it| it.expect("free"));
        assert!(jobs.acquire_timeout(Duration::from_millis(50)).await.is_err(), "both are held");
        two.release().await.expect("it is held");
    }
    let client = settings().connect().await.expect("it is let in");
    let lock = client.rwlock("app:2");
    let reader = lock.read().await.expect("nobody writes");
    let left = lock.read().await.expect("nobody writes").detach().await.expect("it is held");
    reader.extend(LONG).await.expect("it is held");
    assert!(lock.write_timeout(Duration::from_millis(50)).await.is_err(), "two read");
    reader.release().await.expect("it is held");
    client.release_lease(&left).await.expect("it was left");
    lock.write_timeout(PATIENCE).await.expect("nobody reads").release().await.expect("it is held");
}

/// With a user who may do what the README says, and nothing else.
fn with_user(server: Server) -> Server {
    let mut user = cmd("ACL");
    user.arg("SETUSER").arg(&["app", "reset", "on", ">secret", "resetchannels"]);
    user.arg(&["~app:*", "~quorate:*", "&quorate:c:*"]).arg(commands());
    user.exec(&mut server.connection()).expect("it is a user");
    server
}

/// What the README says, one by one.
fn commands() -> Vec<String> {
    let readme = include_str!("../../../../../README.md");
    let (_, rest) = readme.split_once("```acl\n").expect("the README names them");
    let (commands, _) = rest.split_once("```").expect("it has an end");
    commands.split_whitespace().map(str::to_owned).collect()
}
