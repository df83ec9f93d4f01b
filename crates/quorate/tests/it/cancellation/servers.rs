//! Lock calls dropped while their requests are on the way to real servers.

use std::time::Duration;

use quorate::{Client, error::LockError};
use quorate_testkit::{Fault, eventually};

use super::fixture::{NAME, poll};
use crate::{
    faults::fixture::{PATIENCE, ProxyFixture, connect_to_all, wait_until_attached},
    links::executor::block_on,
    mode::Mode,
};

in_both_modes! {
    call_that_is_never_polled_sends_nothing,
    call_that_is_dropped_after_its_first_poll_leaves_no_key,
    call_that_is_dropped_while_replies_are_held_back_leaves_no_key,
    call_that_gave_up_silent_nodes_leaves_no_key_on_them,
    call_whose_link_was_given_up_leaves_no_key,
    release_reaches_a_node_after_its_link_was_given_up,
    client_dropped_right_after_a_call_leaves_no_key,
}

fn call_that_is_never_polled_sends_nothing(mode: Mode) {
    let fixture = ProxyFixture::start_in(mode, 3);
    let client = fixture.connect();
    let mutex = client.mutex(NAME);
    for _ in 0..10 {
        drop(mutex.try_lock());
        drop(mutex.lock());
    }
    // Requests keep their order: with this one answered, earlier ones would have been seen.
    block_on(block_on(mutex.lock()).unwrap().release()).unwrap();
    fixture.wait_until_undone(1);
}

fn call_that_is_dropped_after_its_first_poll_leaves_no_key(mode: Mode) {
    let fixture = ProxyFixture::start_in(mode, 3);
    let client = fixture.connect();
    for _ in 0..ROUNDS {
        drop_after_first_poll(&client);
    }
    fixture.wait_until_undone(ROUNDS);
}

fn call_that_is_dropped_while_replies_are_held_back_leaves_no_key(mode: Mode) {
    let fixture = ProxyFixture::start_in(mode, 3);
    let client = fixture.connect();
    for held in 1..8_usize {
        let held: Vec<usize> = (0..3).filter(|node| held >> node & 1 == 1).collect();
        wait_until_attached(&client);
        fixture.set(&held, Fault::BlackHole);
        drop_after_first_poll(&client);
        fixture.set(&held, Fault::Pass);
    }
    fixture.wait_until_undone(7);
}

fn call_that_gave_up_silent_nodes_leaves_no_key_on_them(mode: Mode) {
    let fixture = ProxyFixture::start_in(mode, 3);
    let client = connect_to_all(fixture.through_proxies().vote_timeout(SHORT_VOTE_TIMEOUT));
    for silent in [vec![1, 2], vec![0, 1, 2]] {
        fixture.set(&silent, Fault::BlackHole);
        let called = block_on(client.mutex(NAME).try_lock());
        assert!(matches!(called, Err(LockError::NoQuorum { .. })), "{called:?}");
        fixture.set(&silent, Fault::Pass);
        wait_until_attached(&client);
    }
    fixture.wait_until_undone(2);
}

fn call_whose_link_was_given_up_leaves_no_key(mode: Mode) {
    let fixture = ProxyFixture::start_in(mode, 3);
    let client = fixture.connect();
    let connections = || fixture.proxies.iter().map(|proxy| proxy.connections()).min();
    let before = connections();
    fixture.set(&[0, 1, 2], Fault::BlackHole);
    drop_after_first_poll(&client);
    eventually("all links have reconnected", PATIENCE, || connections() > before);
    fixture.set(&[0, 1, 2], Fault::Pass);
    wait_until_attached(&client);
    fixture.wait_until_undone(1);
}

fn release_reaches_a_node_after_its_link_was_given_up(mode: Mode) {
    let fixture = ProxyFixture::start_in(mode, 3);
    let client = fixture.connect();
    let silent = &fixture.proxies[2];
    let before = silent.connections();
    silent.set(Fault::BlackHole);
    let guard = block_on(client.mutex(NAME).lock()).unwrap();
    eventually("the link has reconnected", PATIENCE, || silent.connections() > before);
    block_on(guard.release()).unwrap();
    silent.set(Fault::Pass);
    wait_until_attached(&client);
    fixture.wait_until_undone(1);
}

fn client_dropped_right_after_a_call_leaves_no_key(mode: Mode) {
    let fixture = ProxyFixture::start_in(mode, 3);
    for _ in 0..ROUNDS {
        let client = fixture.connect();
        drop_after_first_poll(&client);
        drop(client);
    }
    fixture.wait_until_undone(ROUNDS);
}

fn drop_after_first_poll(client: &Client) {
    let mutex = client.mutex(NAME);
    // A fast server may have answered by the end of the poll; then this drops a guard.
    drop(poll(Box::pin(mutex.try_lock()).as_mut()));
}

const ROUNDS: u64 = 20;

const SHORT_VOTE_TIMEOUT: Duration = Duration::from_millis(50);
