//! Calls that are dropped at any await, or at any moment in between, leave nothing behind.

use std::time::Duration;

use quorate::{Client, Guard, Mutex};
use tokio::{join, time::sleep};

use crate::{
    dice::{Dice, for_seeds},
    fixture::{Fixture, Program},
    server::{Manner, Node},
    trace::now,
    waiting::{all_attached, eventually, polled},
};

#[test]
fn call_dropped_at_any_await_leaves_no_key_and_the_next_caller_gets_the_lock() {
    for_seeds(2 * (CALLS.len() * PLIGHTS.len()) as u64, |seed| {
        let case = usize::try_from(seed).expect("small");
        let call = CALLS[case % CALLS.len()];
        let plight = PLIGHTS[case / CALLS.len() % PLIGHTS.len()];
        let mut fixture = Fixture::new(seed, 3, Dice::new(seed, "latency").ms(1..=8));
        fixture.program("client-0", move |program| drop_everywhere(program, call, plight));
        fixture.run(Duration::from_secs(600), |_| {});
    });
}

/// The call that is dropped.
#[derive(Clone, Copy, Debug)]
enum Call {
    TryLock,
    Lock,
    /// Another client holds the lock at first.
    LockLater,
    /// Another client holds the lock all the time.
    LockInVain,
    Extend,
    Verify,
    Release,
    With,
}

/// The fault of one server during the call.
#[derive(Clone, Copy, Debug)]
enum Plight {
    Nothing,
    Odd(Manner),
    Cut,
    CutBack,
    Held,
}

/// One call, dropped after its first poll, its second, and so on until it is done before.
async fn drop_everywhere(program: Program, call: Call, plight: Plight) {
    let client = program.client("").ttl(TTL).build().expect("valid");
    let rival = program.client(" rival").ttl(TTL).build().expect("valid");
    let mut dice = program.dice("plights");
    for polls in 1.. {
        all_attached(&client).await;
        all_attached(&rival).await;
        let what = format!("{call:?} with {plight:?}, dropped after poll {polls}");
        let lock = format!("{call:?}-{polls}");
        // Some faults begin before the call, some during the call.
        let strike_after = if dice.chance(50) { Duration::ZERO } else { dice.ms(1..=8) };
        let strike = async {
            sleep(strike_after).await;
            set(&program, plight, true);
        };
        let is_done = drop_once(&client, &rival, &lock, (call, polls), strike).await;
        // Some end before the link is closed, some after.
        let node_error = if dice.chance(80) { dice.ms(0..=50) } else { dice.ms(900..=1_500) };
        sleep(node_error).await;
        set(&program, plight, false);

        sleep(UNDER_WAY).await;
        eventually(GONE_WITHIN, &format!("no key is left by {what}"), || {
            program.nodes.iter().all(|node| !node.has(&lock, now()))
        })
        .await;
        all_attached(&rival).await;
        let next = rival.mutex(&lock).try_lock().await;
        let next = next.unwrap_or_else(|error| panic!("{what}: {error}"));
        let next = next.unwrap_or_else(|| panic!("{what}: the lock is still held"));
        next.release().await.unwrap_or_else(|error| panic!("{what}: {error}"));
        if is_done {
            return;
        }
    }
}

/// Makes the call and drops it after this number of polls. True if it was done before.
async fn drop_once(
    client: &Client,
    rival: &Client,
    lock: &str,
    (call, polls): (Call, usize),
    strike: impl Future<Output = ()>,
) -> bool {
    let mutex: Mutex = client.mutex(lock);
    match call {
        Call::TryLock => join!(polled(mutex.try_lock(), polls), strike).0.is_some(),
        Call::Lock => join!(polled(mutex.lock(), polls), strike).0.is_some(),
        Call::LockLater => {
            let other = held(rival, lock).await;
            let later = async {
                sleep(Duration::from_millis(8)).await;
                drop(other);
            };
            join!(polled(mutex.lock(), polls), later, strike).0.is_some()
        }
        Call::LockInVain => {
            let _other = held(rival, lock).await;
            let wait = Duration::from_millis(20);
            join!(polled(mutex.lock_timeout(wait), polls), strike).0.is_some()
        }
        Call::Extend => {
            let guard = held(client, lock).await;
            let is_done = join!(polled(guard.extend(2 * TTL), polls), strike).0.is_some();
            guard.check().expect("a dropped extension ends no lease");
            is_done
        }
        Call::Verify => {
            let guard = held(client, lock).await;
            let is_done = join!(polled(guard.verify(), polls), strike).0.is_some();
            guard.check().expect("a dropped question ends no lease");
            is_done
        }
        Call::Release => {
            let guard = held(client, lock).await;
            join!(polled(guard.release(), polls), strike).0.is_some()
        }
        Call::With => {
            let work = async |_: &Guard| sleep(Duration::from_millis(3)).await;
            join!(polled(mutex.with(work), polls), strike).0.is_some()
        }
    }
}

async fn held(client: &Client, lock: &str) -> Guard {
    let guard = client.mutex(lock).try_lock().await.expect("every server answers");
    guard.expect("it is free")
}

fn set(program: &Program, plight: Plight, is_bad: bool) {
    let (me, node) = (program.host.as_str(), Node::host(STRUCK));
    match (plight, is_bad) {
        (Plight::Nothing, _) => {}
        (Plight::Odd(manner), true) => program.nodes[STRUCK].set(manner),
        (Plight::Odd(_), false) => program.nodes[STRUCK].set(Manner::Answer),
        (Plight::Cut, true) => turmoil::partition(me, node),
        (Plight::CutBack, true) => turmoil::partition_oneway(node, me),
        (Plight::Cut | Plight::CutBack, false) => turmoil::repair(me, node),
        (Plight::Held, true) => turmoil::hold(me, node),
        (Plight::Held, false) => turmoil::release(me, node),
    }
}

const CALLS: [Call; 8] = [
    Call::TryLock,
    Call::Lock,
    Call::LockLater,
    Call::LockInVain,
    Call::Extend,
    Call::Verify,
    Call::Release,
    Call::With,
];

const PLIGHTS: [Plight; 7] = [
    Plight::Nothing,
    Plight::Odd(Manner::Hang),
    Plight::Odd(Manner::Late(Duration::from_millis(80))),
    Plight::Odd(Manner::HangUp),
    Plight::Cut,
    Plight::CutBack,
    Plight::Held,
];

/// The server with the fault.
const STRUCK: usize = 1;

/// By then all requests of the call that can arrive have arrived.
const UNDER_WAY: Duration = Duration::from_millis(100);

const TTL: Duration = Duration::from_secs(30);

/// Far below the ttl: a broken link is noticed within a second and opened again within another.
const GONE_WITHIN: Duration = Duration::from_secs(5);
