//! Many replies at a time, and values that other programs have stored.

use std::time::Duration;

use quorate::{
    Client,
    error::{Holder, LockError},
};
use quorate_testkit::{Fault, Proxy, Server, redis::cmd};

use super::executor::block_on;
use crate::{
    cancellation::fixture::poll,
    faults::fixture::PATIENCE,
    watchdog::{fixture::NAME, journal::Journal},
};

#[test]
fn many_array_replies_in_one_read_are_not_taken_for_nested_arrays() {
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
fn foreign_value_in_the_form_of_arrays_is_reported() {
    let value = "\r\n*".repeat(100);
    let holder = shown(value.as_bytes());
    assert!(holder.who.starts_with(r"\r\n*\r\n*"), "{holder}");
    assert_eq!(holder.expires_in, None);
}

#[test]
fn long_foreign_value_is_reported_by_its_beginning() {
    // The value is longer than the longest reply that a link accepts.
    let holder = shown(&b"a".repeat(2_000_000));
    assert!(holder.who.starts_with("aaaa") && holder.who.len() < 1_000, "{holder}");
    assert_eq!(holder.expires_in, None);
}

/// The reported holder while the key has this foreign value. Checks that the link stays up.
fn shown(value: &[u8]) -> Holder {
    let server = Server::start();
    let (client, journal) = connect(&server.url(), PATIENCE);
    cmd("SET").arg(NAME).arg(value).exec(&mut server.connection()).expect("a server that answers");
    let holder = match block_on(client.mutex(NAME).lock_timeout(SHORT)) {
        Err(LockError::Timeout { holder: Some(holder), .. }) => holder,
        other => panic!("the lock is held, but lock_timeout returned {other:?}"),
    };
    assert_eq!(server.get(NAME).as_deref(), Some(value));
    block_on(client.mutex("another").lock()).expect("it is free").check().expect("just taken");
    assert_eq!(journal.count("down"), 0, "{:?}", journal.lines());
    *holder
}

fn connect(url: &str, vote_timeout: Duration) -> (Client, Journal) {
    let journal = Journal::default();
    let settings = Client::builder().quarantine(false).nodes([url]).vote_timeout(vote_timeout);
    let client = block_on(settings.observer(journal.clone()).connect()).expect("a server");
    (client, journal)
}

const SHORT: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_secs(60);
