//! Extensions that ran in another order than the one they were counted in.

use std::{
    sync::{Arc, Barrier},
    thread,
    time::Duration,
};

use quorate::{
    Client, Guard,
    error::{ExtendError, LockError},
    memory::{
        Behaviour::{Answer, Fail, Hang},
        MemoryNodes,
    },
};
use quorate_testkit::{Fault, Proxy, Server, eventually, redis::cmd};

use crate::{
    faults::cluster::PATIENCE,
    links::executor::block_on,
    watchdog::fixture::{build, pass, settings, take},
};

#[test]
fn a_short_extension_that_met_noscript_does_not_run_after_a_later_long_one() {
    // It was sent again as text, behind the long one: 60 s were promised and 1.5 s kept.
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
    eventually("NOSCRIPT is on its way", PATIENCE, || server.command_calls("evalsha") > calls);
    // Its attach loads the scripts again, so that the long one finds them.
    let other = block_on(Client::connect([server.url()])).unwrap();
    let long = extend(&guard, LONG);
    short.join().unwrap().unwrap();
    long.join().unwrap().unwrap();

    let kept = Duration::from_millis(server.pttl(NAME).try_into().unwrap());
    // Read later, so it is less than at the moment when the other one was read.
    let promised = guard.remaining();
    assert!(promised <= kept, "promised {promised:?}, kept {kept:?}");
    drop(other);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_is_overtaken_by_an_extension_loses_nothing() {
    // Its majority came after the old deadline, and the lease was called lost, although the
    // extension that was sent after it had long made it last.
    let nodes = MemoryNodes::new(3);
    let patient = settings(&nodes).vote_timeout(100 * SECOND);
    let client = build(patient);
    // The nodes keep the key for the longer time, so that a late renewal still finds it.
    let guard = take(&client.mutex(NAME).ttl(60 * SECOND)).await;
    // The renewal leaves after a fifth of that at the earliest, and a node that does not answer
    // for a second is given up.
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
fn extensions_from_two_threads_promise_no_more_than_the_node_keeps() {
    // They were numbered in one order and sent in the other.
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
            panic!("it is held, and yet: {refused:?}");
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

const NAME: &str = "orders:42";
const SECOND: Duration = Duration::from_secs(1);
const SHORT: Duration = Duration::from_millis(1_500);
const LONG: Duration = Duration::from_secs(60);

/// So many that the buggy version never got through.
const ROUNDS: usize = 2_000;
