//! Extensions, and renewals that run at the same time.

use std::{
    sync::{Arc, Barrier},
    thread,
    time::Duration,
};

use quorate::{
    Client, Guard,
    error::{ExtendError, LockError, LostReason},
    memory::{
        Behaviour::{Answer, Fail, Hang},
        MemoryNodes,
    },
};
use quorate_testkit::{Fault, Proxy, Server, eventually, redis::cmd};
use tokio::time::Instant;

use super::fixture::{NAME, PausedFixture, TICK, TTL, build, loss, pass, settings, take};
use crate::{cancellation::fixture::poll, faults::fixture::PATIENCE, links::executor::block_on};

#[tokio::test(start_paused = true)]
async fn dropped_extension_does_not_delay_renewals() {
    // The watchdog must not count on an extension that no majority has confirmed.
    let fixture = PausedFixture::new(3);
    let guard = fixture.hold().await;
    fixture.behave(&[Hang, Hang, Answer]);
    let mut call = Box::pin(guard.extend(6 * TTL));
    assert!(poll(call.as_mut()).is_pending());
    drop(call);
    fixture.behave(&[Answer; 3]);
    pass(20 * TTL).await;
    guard.check().unwrap();
    guard.verify().await.unwrap();
    assert_eq!(fixture.journal.count("lost"), 0);
}

#[tokio::test(start_paused = true)]
async fn shortened_lease_is_renewed_until_its_max_hold_ends() {
    // The lease begins at its max_hold, so it cannot grow before it is shortened.
    let fixture = PausedFixture::new(3);
    let asked = Instant::now();
    let guard = take(&fixture.mutex().ttl(TTL).max_hold(TTL / 2)).await;
    guard.extend(300 * TICK).await.unwrap();
    pass(TTL / 2 - 10 * TICK).await;
    guard.check().unwrap();
    guard.verify().await.unwrap();
    let (lost, told) = loss(&guard).await;
    assert_eq!(lost.reason, LostReason::MaxHold);
    assert!(told - asked <= TTL / 2 + TICK, "{:?}", told - asked);
}

#[test]
fn short_extension_resent_after_noscript_does_not_shorten_a_later_one() {
    // The short extension is sent again as text, and may run after the long one.
    let server = Server::start();
    let proxy = Proxy::start(&server.address());
    let settings = Client::builder().quarantine(false).nodes([proxy.url()]).vote_timeout(PATIENCE);
    let client = block_on(settings.connect()).unwrap();
    let mutex = client.mutex(NAME).ttl(20 * SECOND).no_renew();
    let guard = Arc::new(block_on(mutex.lock()).unwrap());
    cmd("SCRIPT").arg("FLUSH").exec(&mut server.connection()).unwrap();
    proxy.set(Fault::Delay { up: Duration::ZERO, down: Duration::from_millis(300) });

    let calls = server.command_calls("evalsha");
    let short = extend(&guard, SHORT);
    eventually("the server has replied NOSCRIPT", PATIENCE, || {
        server.command_calls("evalsha") > calls
    });
    // A new connection loads the scripts again, so that the long extension finds them.
    let other = block_on(Client::connect([server.url()])).unwrap();
    let long = extend(&guard, LONG);
    short.join().unwrap().unwrap();
    long.join().unwrap().unwrap();

    let kept = Duration::from_millis(server.pttl(NAME).try_into().unwrap());
    // Read after `kept`, so it can only be smaller than it was at that moment.
    let promised = guard.remaining();
    assert!(promised <= kept, "promised {promised:?}, kept {kept:?}");
    drop(other);
}

#[tokio::test(start_paused = true)]
async fn renewal_overtaken_by_an_extension_does_not_end_the_lease() {
    // The majority of the renewal arrives after the old deadline, but the extension that was sent
    // after it has moved the deadline.
    let nodes = MemoryNodes::new(3);
    let patient = settings(&nodes).vote_timeout(100 * SECOND);
    let client = build(patient);
    // The nodes keep the key for the longer time, so that a late renewal still finds it.
    let guard = take(&client.mutex(NAME).ttl(60 * SECOND)).await;
    // The renewal is sent after a fifth of that at the earliest, and the client gives up a node
    // that does not answer for a second.
    guard.extend(SECOND * 6 / 5).await.unwrap();
    (1..3).for_each(|node| nodes.set(node, if node == 1 { Fail } else { Hang }));
    pass(SECOND / 2).await;
    nodes.set(1, Answer);
    guard.extend(50 * SECOND).await.unwrap();
    pass(SECOND * 18 / 25).await;
    nodes.set(2, Answer);
    pass(SECOND).await;
    guard.check().unwrap();
}

#[test]
fn concurrent_extensions_never_outlast_the_key() {
    // Extensions are numbered in the order in which they are sent.
    let client = Client::builder().memory(&MemoryNodes::new(1)).build().unwrap();
    let mutex = client.mutex(NAME).ttl(LONG).no_renew();
    for round in 0..ROUNDS {
        let guard = Arc::new(block_on(mutex.lock()).unwrap());
        let start = Arc::new(Barrier::new(2));
        let extend = |ttl| {
            let (guard, start) = (guard.clone(), start.clone());
            thread::spawn(move || {
                start.wait();
                block_on(guard.extend(ttl))
            })
        };
        let (short, long) = (extend(LONG / 6), extend(LONG));
        short.join().unwrap().unwrap();
        long.join().unwrap().unwrap();

        let promised = guard.remaining();
        let refused = block_on(client.mutex(NAME).lock_timeout(Duration::ZERO));
        let Err(LockError::Timeout { holder: Some(holder), .. }) = refused else {
            panic!("the lock is held, but lock_timeout returned {refused:?}");
        };
        let kept = holder.expires_in.unwrap();
        assert!(promised <= kept, "round {round}: promised {promised:?}, kept {kept:?}");
        block_on(Arc::into_inner(guard).unwrap().release()).unwrap();
    }
}

fn extend(guard: &Arc<Guard>, ttl: Duration) -> thread::JoinHandle<Result<(), ExtendError>> {
    let guard = guard.clone();
    thread::spawn(move || block_on(guard.extend(ttl)))
}

const SECOND: Duration = Duration::from_secs(1);
const SHORT: Duration = Duration::from_millis(1_500);
const LONG: Duration = Duration::from_secs(60);

/// Enough to hit the race in a version that has it.
const ROUNDS: usize = 2_000;
