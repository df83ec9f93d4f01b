//! Clients that end: what they still do, and which calls they refuse.

use std::{
    task::{Context, Waker},
    thread,
    time::Duration,
};

use quorate::{
    Client,
    error::{ExtendError, LockError, LostReason, ReleaseError},
};
use quorate_testkit::{Server, eventually, redis};

use crate::{
    cancellation::fixture::poll,
    faults::fixture::{PATIENCE, ProxyFixture, connect_to_all, node_error, wait_until_attached},
    links::executor::block_on,
    mode::Mode,
};

in_both_modes! {
    shutdown_undoes_a_call_that_is_not_polled_any_more,
}

#[test]
fn program_that_drops_its_guard_and_its_client_leaves_no_key() {
    let fixture = ProxyFixture::start(3);
    for _ in 0..ROUNDS {
        let client = connect_to_all(fixture.direct());
        let guard = block_on(client.mutex(NAME).lock()).unwrap();
        drop(guard);
        drop(client);
        fixture.wait_until_empty("no client is left to release it");
    }
}

#[test]
fn last_guard_ends_the_client() {
    let fixture = ProxyFixture::start(3);
    for _ in 0..ROUNDS {
        let client = connect_to_all(fixture.direct());
        let guard = block_on(client.mutex(NAME).lock()).unwrap();
        drop(client);
        block_on(guard.verify()).unwrap();
        drop(guard);
        fixture.wait_until_empty("no client is left to release it");
    }
    eventually("every connection is closed", PATIENCE, || {
        fixture.servers.iter().all(|server| {
            let clients: String = redis::cmd("CLIENT")
                .arg("LIST")
                .query(&mut server.connection())
                .expect("the server answers");
            !clients.contains("name=quorate-")
        })
    });
}

#[test]
fn client_with_a_stopped_node_is_dropped_in_bounded_time() {
    let fixture = ProxyFixture::start(3);
    let client = connect_to_all(fixture.direct());
    let guard = block_on(client.mutex(NAME).lock()).unwrap();
    fixture.servers[0].pause();
    drop(guard);
    drop(client);
    fixture.servers[0].resume();
    // The release was sent before the drop returned; the node had only not read it.
    fixture.wait_until_empty("the stopped node runs the release when it continues");
}

#[test]
fn shutdown_ends_waiting_calls_and_refuses_later_ones() {
    let fixture = ProxyFixture::start(3);
    let holder = connect_to_all(fixture.direct());
    let guard = block_on(holder.mutex(NAME).lock()).unwrap();
    let client = connect_to_all(fixture.direct());
    let calls: Vec<_> = [None, Some(PATIENCE)]
        .into_iter()
        .map(|wait| {
            let mutex = client.mutex(NAME);
            thread::spawn(move || match wait {
                None => block_on(mutex.lock()).map(drop),
                Some(wait) => block_on(mutex.lock_timeout(wait)).map(drop),
            })
        })
        .collect();
    let asked = || fixture.servers.iter().all(|server| server.command_calls("set") > 3);
    eventually("both calls wait", PATIENCE, asked);

    let clone = client.clone();
    assert!(block_on(client.shutdown(PATIENCE)).is_clean);
    for call in calls {
        assert_eq!(call.join().unwrap(), Err(LockError::ShutDown));
    }
    is_shut_down(&clone);

    block_on(guard.release()).unwrap();
    assert!(fixture.is_empty());
}

#[test]
fn shutdown_ends_a_call_whose_nodes_are_silent() {
    let fixture = ProxyFixture::start(3);
    let client = connect_to_all(fixture.direct().vote_timeout(PATIENCE));
    fixture.servers.iter().for_each(Server::pause);
    let mutex = client.mutex(NAME);
    let mut call = Box::pin(mutex.lock());
    assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert!(!block_on(client.shutdown(Duration::from_millis(50))).is_clean);
    assert_eq!(block_on(call).map(drop), Err(LockError::ShutDown));
    fixture.servers.iter().for_each(Server::resume);
}

/// Its caller does not poll it, and would release the lock only at its next poll.
fn shutdown_undoes_a_call_that_is_not_polled_any_more(mode: Mode) {
    let fixture = ProxyFixture::start_in(mode, 1);
    let client = connect_to_all(fixture.direct().vote_timeout(PATIENCE));
    let (server, mutex) = (&fixture.servers[0], client.mutex(NAME));
    server.pause();
    let mut call = Box::pin(mutex.try_lock());
    assert!(poll(call.as_mut()).is_pending());
    let mut ending = Box::pin(client.shutdown(PATIENCE));
    assert!(poll(ending.as_mut()).is_pending());
    server.resume();
    eventually("the key was there", PATIENCE, || server.command_calls("del") > 0);
    assert!(fixture.is_empty(), "the key is gone");
    assert_eq!(block_on(call).map(drop), Err(LockError::ShutDown));
    assert!(block_on(ending).is_clean);
}

#[test]
fn shutdown_is_clean_if_every_node_has_confirmed_the_release() {
    let fixture = ProxyFixture::start(3);
    for _ in 0..ROUNDS {
        let client = connect_to_all(fixture.direct());
        drop(block_on(client.mutex(NAME).lock()).unwrap());
        assert!(block_on(client.shutdown(PATIENCE)).is_clean);
        assert!(fixture.is_empty());
    }
}

#[test]
fn shutdown_is_not_clean_while_an_answer_is_pending() {
    let fixture = ProxyFixture::start(3);
    let client = connect_to_all(fixture.direct());
    let guard = block_on(client.mutex(NAME).lock()).unwrap();
    fixture.servers[1].pause();
    block_on(guard.release()).unwrap();
    let clone = client.clone();
    assert!(!block_on(client.shutdown(Duration::from_millis(50))).is_clean);
    is_shut_down(&clone);
    fixture.servers[1].resume();
    fixture.wait_until_empty("the release was on its way");
}

#[test]
fn shutdown_waits_for_a_node_that_is_back_in_time() {
    let fixture = ProxyFixture::start(3);
    let client = connect_to_all(fixture.direct());
    let guard = block_on(client.mutex(NAME).lock()).unwrap();
    fixture.servers[1].pause();
    drop(guard);
    let ending = thread::spawn(move || block_on(client.shutdown(PATIENCE)));
    fixture.servers[1].resume();
    assert!(ending.join().unwrap().is_clean);
    assert!(fixture.is_empty());
}

#[test]
fn guard_that_outlives_a_shutdown_is_lost_and_its_lock_released() {
    let fixture = ProxyFixture::start(3);
    let client = connect_to_all(fixture.direct());
    let guard = block_on(client.mutex(NAME).lock()).unwrap();
    assert!(block_on(client.shutdown(PATIENCE)).is_clean);
    assert!(fixture.is_empty());
    let lost = guard.check().unwrap_err();
    assert_eq!(lost.reason, LostReason::ShutDown);
    assert_eq!(block_on(guard.extend(PATIENCE)), Err(ExtendError::Lost(lost.clone())));
    assert_eq!(block_on(guard.release()), Err(ReleaseError::Lost(lost)));
}

fn is_shut_down(client: &Client) {
    let mutex = client.mutex(NAME);
    for called in [
        block_on(mutex.try_lock()).map(drop),
        block_on(mutex.lock()).map(drop),
        block_on(mutex.lock_timeout(PATIENCE)).map(drop),
    ] {
        assert_eq!(called, Err(LockError::ShutDown));
    }
}

#[test]
fn shutdown_with_one_of_three_servers_killed_is_clean() {
    let fixture = ProxyFixture::start(3);
    let client = block_on(fixture.direct().connect()).unwrap();
    wait_until_attached(&client);
    fixture.servers[2].kill();
    let is_missed = || node_error(&client.node_status()[2]).is_some();
    eventually("the client notices the dead server", PATIENCE, is_missed);
    block_on(block_on(client.mutex(NAME).lock()).unwrap().release()).unwrap();
    assert!(block_on(client.shutdown(PATIENCE)).is_clean);
}

const NAME: &str = "orders:42";
const ROUNDS: usize = 20;
