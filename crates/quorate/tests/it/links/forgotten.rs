//! Servers that forget a script while something is under way.

use std::{
    collections::HashSet,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use quorate::{Client, Guard};
use quorate_testkit::redis::cmd;
use tokio::task::JoinSet;

use super::{
    executor::block_on,
    monitor::{Call, Monitor},
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

/// What one caller gets does not depend on what the server has forgotten.
#[test]
fn callers_get_their_locks_while_servers_forget_scripts() {
    on_servers_in_both_modes(&[1, 3], async |fixture| {
        let client = fixture.connect(fixture.builder().vote_timeout(PATIENCE)).await;
        let mut callers = JoinSet::new();
        for caller in 0..CALLERS {
            let client = client.clone();
            callers.spawn(async move {
                for turn in 0..TURNS {
                    let mutex = client.mutex(format!("{caller}:{turn}"));
                    let guard = mutex.lock().await.expect("it is free");
                    guard.release().await.expect("it is held");
                }
            });
        }
        while let Some(ended) = callers.join_next().await {
            ended.expect("no caller fails");
            flush_scripts(fixture);
        }
        assert!(client.shutdown(PATIENCE).await.is_clean, "everything is answered");
        assert!(fixture.is_empty(), "a lock is left");
    });
}

/// Callers that come while the server is busy share a call.
#[test]
fn batch_whose_script_is_forgotten_is_sent_again_as_single_commands() {
    on_servers(&[1], async |fixture| {
        // So the driver does not run between the callers, and their requests are one batch.
        let settings = fixture.builder().vote_timeout(PATIENCE).danger_engine_on_this_runtime();
        let client = fixture.connect(settings).await;
        let server = &fixture.servers()[0];
        flush_scripts(fixture);
        let monitor = Monitor::start(server);
        let mutexes: Vec<_> = (0..CALLERS).map(|it| client.mutex(it.to_string())).collect();
        server.pause();
        let mut calls: Vec<_> = mutexes.iter().map(|it| Box::pin(it.lock())).collect();
        for call in &mut calls {
            assert!(poll(call.as_mut()).is_pending(), "the server is paused");
        }
        server.resume();
        let mut guards = Vec::new();
        for call in calls {
            guards.push(call.await.expect("it is free"));
        }
        let releases = guards.into_iter().map(Guard::release).map(tokio::spawn);
        for release in releases.collect::<Vec<_>>() {
            release.await.expect("no panic").expect("it is held");
        }
        let (mut taken, mut freed) = (Asked::default(), Asked::default());
        while freed.left(CALLERS) {
            let words = monitor.next();
            let Some(call) = Call::of(&words) else { continue };
            taken.add(&call.acquires());
            freed.add(&call.releases());
        }
        assert!(taken.alone_again > 0, "no acquire was sent again alone");
        assert!(fixture.is_empty(), "a lock is left");
    });
}

/// Which owners the server was asked about.
#[derive(Default)]
struct Asked {
    together: HashSet<String>,
    alone: HashSet<String>,
    /// How many were first part of a batch.
    alone_again: usize,
}

impl Asked {
    fn add(&mut self, asked: &[(&str, &str)]) {
        for (_, owner) in asked {
            if asked.len() > 1 {
                self.together.insert((*owner).to_owned());
            } else if self.alone.insert((*owner).to_owned()) {
                self.alone_again += usize::from(self.together.contains(*owner));
            }
        }
    }

    /// Whether fewer owners than this were asked about.
    fn left(&self, owners: usize) -> bool {
        self.together.union(&self.alone).count() < owners
    }
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
const CALLERS: usize = 40;
const TURNS: usize = 10;
