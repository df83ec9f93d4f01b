//! Orders that come late, replies that come together, and values that are not ours.

use std::time::Duration;

use quorate::{
    Client,
    error::{Holder, LockError},
};
use quorate_testkit::{Fault, Proxy, Server, eventually, redis::cmd};

use crate::{
    cancellation::fixture::poll,
    faults::cluster::{PATIENCE, connect_to_all},
    links::executor::block_on,
    watchdog::{fixture::NAME, journal::Journal},
};

#[test]
fn a_late_renewal_of_who_left_a_lease_does_not_shorten_it() {
    // Both had the same owner, so it took 30 s for 3 s, and the lock went to somebody else.
    let servers = Server::start_many(3);
    let proxy = Proxy::start(&servers[2].address());
    let journal = Journal::default();
    let urls = [servers[0].url(), servers[1].url(), proxy.url()];
    let settings = Client::builder().quarantine(false).nodes(urls).vote_timeout(SHORT);
    let leaver = connect_to_all(settings.observer(journal.clone()));
    let settings = Client::builder().quarantine(false);
    let adopter = connect_to_all(settings.nodes(servers.iter().map(Server::url)));
    let guard = block_on(leaver.mutex(NAME).ttl(30 * SHORT).lock()).unwrap();
    proxy.set(Fault::BlackHole);
    eventually("a renewal is on its way", PATIENCE, || journal.count("renewed") > 0);

    let lease = block_on(guard.detach()).unwrap();
    let guard = block_on(adopter.adopt(&lease)).unwrap();
    block_on(guard.extend(Duration::from_secs(30))).unwrap();
    let calls = servers[2].command_calls("evalsha");
    proxy.set(Fault::Pass);
    eventually("it has come", PATIENCE, || servers[2].command_calls("evalsha") > calls);
    // Read first, so it is more than at the moment when the other one is read.
    let left = Duration::from_millis(servers[0].pttl(NAME).try_into().unwrap());
    assert!(guard.remaining() <= left, "promised {:?}, kept {left:?}", guard.remaining());
    block_on(guard.verify()).unwrap();
}

#[test]
fn many_replies_that_come_together_are_not_taken_for_one() {
    // Arrays in a row were counted as arrays within arrays, and the link went down.
    let server = Server::start();
    let proxy = Proxy::start(&server.address());
    let (client, journal) = connect(&proxy.url(), PATIENCE);
    let take = |number| block_on(client.mutex(format!("order:{number}")).ttl(LONG).lock());
    let guards: Vec<_> = (0..400).map(|number| take(number).unwrap()).collect();
    proxy.set(Fault::BlackHole);
    let mut calls: Vec<_> = guards.iter().map(|guard| Box::pin(guard.verify())).collect();
    assert!(calls.iter_mut().all(|call| poll(call.as_mut()).is_pending()));
    proxy.set(Fault::Pass);
    for call in calls {
        block_on(call).unwrap();
    }
    assert_eq!(journal.count("down"), 0, "{:?}", journal.lines());
}

#[test]
fn a_foreign_value_that_looks_like_arrays_is_shown() {
    // It was counted as arrays within arrays, and the link went down.
    let value = "\r\n*".repeat(100);
    let holder = shown(value.as_bytes());
    assert!(holder.who.starts_with(r"\r\n*\r\n*"), "{holder}");
    assert_eq!(holder.expires_in, None);
}

#[test]
fn a_foreign_value_of_any_length_is_shown_by_its_beginning() {
    // It was longer than any reply may be, and the link went down.
    let holder = shown(&b"a".repeat(2_000_000));
    assert!(holder.who.starts_with("aaaa") && holder.who.len() < 1_000, "{holder}");
    assert_eq!(holder.expires_in, None);
}

/// Who is said to hold the lock while somebody else's value is there. The link stays up.
fn shown(value: &[u8]) -> Holder {
    let server = Server::start();
    let (client, journal) = connect(&server.url(), PATIENCE);
    cmd("SET").arg(NAME).arg(value).exec(&mut server.connection()).expect("a server that answers");
    let holder = match block_on(client.mutex(NAME).lock_timeout(SHORT)) {
        Err(LockError::Timeout { holder: Some(holder), .. }) => holder,
        other => panic!("somebody holds it, and yet: {other:?}"),
    };
    assert_eq!(server.get(NAME).as_deref(), Some(value));
    block_on(client.mutex("another").lock()).expect("nobody has it").check().expect("just taken");
    assert_eq!(journal.count("down"), 0, "{:?}", journal.lines());
    holder
}

fn connect(url: &str, vote_timeout: Duration) -> (Client, Journal) {
    let journal = Journal::default();
    let settings = Client::builder().quarantine(false).nodes([url]).vote_timeout(vote_timeout);
    let client = block_on(settings.observer(journal.clone()).connect()).expect("a server");
    (client, journal)
}

const SHORT: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_secs(60);
