//! Servers that forget a script while something is under way.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use quorate::Client;
use quorate_testkit::redis::cmd;

use super::{
    executor::block_on,
    strangers::peer::{Peer, fake_redis, is_release},
};
use crate::{
    cancellation::fixture::poll,
    conformance::fixture::{Fixture, PATIENCE, on_servers, on_servers_in_both_modes, take},
    mode::Mode,
};

in_both_modes! {
    server_that_forgets_every_script_is_not_asked_indefinitely,
}

/// A call that goes away sends its release behind its question. If the question came behind that,
/// it would take the lock for nobody.
#[test]
fn request_is_not_resent_after_its_own_release() {
    on_servers_in_both_modes(&[1, 3], async |fixture| {
        let (client, other) = (fixture.client("client").await, fixture.client("other").await);
        for number in 0..40 {
            know_only_how_to_release(fixture, &other).await;
            let mutex = client.mutex(format!("a:{number}"));
            // Nearly always it is dropped before any server has answered.
            drop(poll(pin!(mutex.try_lock())));
        }
        assert!(client.shutdown(PATIENCE).await.is_clean, "everything is answered");
        assert!(other.shutdown(PATIENCE).await.is_clean, "everything is answered");
        assert!(fixture.is_empty(), "a lock is left");
    });
}

/// A server knows a script again when it receives its text.
async fn know_only_how_to_release(fixture: &Fixture, client: &Client) {
    let guard = take(client.mutex("b")).await;
    for server in fixture.servers() {
        let flush = cmd("SCRIPT").arg("FLUSH").exec(&mut server.connection());
        flush.expect("the scripts are gone");
    }
    guard.release().await.expect("it is held");
}

fn server_that_forgets_every_script_is_not_asked_indefinitely(mode: Mode) {
    // The server replies NOSCRIPT to every release.
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let peer = Peer::start(fake_redis(move |words, _| {
        is_release(words).then(|| {
            counted.fetch_add(1, Ordering::SeqCst);
            "-NOSCRIPT No matching script.\r\n".into()
        })
    }));
    let ttl = Duration::from_millis(300);
    let settings =
        mode.of(Client::builder().quarantine(false)).nodes([peer.url()]).vote_timeout(PATIENCE);
    let client = block_on(settings.ttl(ttl).max_ttl(ttl).connect()).unwrap();
    let mutex = client.mutex(NAME).no_renew();
    let released = block_on(block_on(mutex.lock()).unwrap().release());
    assert!(released.is_err(), "{released:?}");
    // The client retries until the key has expired.
    let _ = block_on(client.shutdown(PATIENCE));
    let asked = asked.load(Ordering::SeqCst);
    assert!((2..20).contains(&asked), "{asked} times");
}

/// The fences of the nodes differ, so the client confirms one with a script that they have
/// forgotten.
#[test]
fn try_lock_wins_a_free_lock_although_servers_forgot_the_confirm_script() {
    on_servers(&[3, 5], async |fixture| {
        let client = fixture.connect(fixture.builder()).await;
        for _ in 0..3 {
            differ_in_fences(fixture);
            flush_scripts(fixture);
            let guard = client.mutex(NAME).try_lock().await.expect("all nodes answer");
            guard.expect("it is free").release().await.expect("it is held");
            fixture.wait_until_empty(fixture.all());
        }
    });
}

/// Gives each node another fence, which is ahead of every ticket.
fn differ_in_fences(fixture: &Fixture) {
    for (number, server) in (1..).zip(fixture.servers()) {
        let ahead = server.time_us() + number * 1_000_000;
        let set = cmd("SET")
            .arg(format!("quorate:f:{{{NAME}}}"))
            .arg(format!("{ahead:016}"))
            .exec(&mut server.connection());
        set.expect("it is stored");
    }
}

fn flush_scripts(fixture: &Fixture) {
    for server in fixture.servers() {
        let flush = cmd("SCRIPT").arg("FLUSH").exec(&mut server.connection());
        flush.expect("the scripts are gone");
    }
}

const NAME: &str = "a";
