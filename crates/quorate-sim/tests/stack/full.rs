//! Full servers keep leases and queue entries, even when connections are opened again.

use std::time::Duration;

use quorate::{
    Client, Guard,
    error::{LockError, NodeAnswer, NodeError},
};
use tokio::{
    task::{JoinHandle, spawn_local},
    time::sleep,
};

use crate::{
    dice::{Dice, for_seeds},
    fixture::{Fixture, Mode, Program, TICK},
    server::{Manner, Node},
    trace::now,
    waiting::{all_attached, eventually},
};

#[test]
fn leases_and_waiters_outlive_full_servers() {
    for_seeds(20, |seed| run(seed, Meanwhile::Nothing));
}

#[test]
fn leases_and_waiters_outlive_full_servers_and_broken_connections() {
    for_seeds(20, |seed| run(seed, Meanwhile::HangUp));
}

#[test]
fn leases_and_waiters_outlive_full_servers_and_expired_sessions() {
    for_seeds(20, |seed| run(seed, Meanwhile::Cut));
}

/// What else happens while the servers are full.
#[derive(Clone, Copy, Debug)]
enum Meanwhile {
    Nothing,
    /// Servers close connections, some of them again and again.
    HangUp,
    /// Servers cannot be reached for longer than a session lasts. They are lost one after another,
    /// and come back one after another.
    Cut,
}

fn run(seed: u64, meanwhile: Meanwhile) {
    let mut dice = Dice::new(seed, "full");
    let nodes = 1 + 2 * dice.below(3);
    let ttl = match meanwhile {
        Meanwhile::Nothing | Meanwhile::HangUp => dice.ms(1_500..=3_000),
        Meanwhile::Cut => Duration::from_secs(20),
    };
    let mut fixture = Fixture::new(seed, nodes, dice.ms(2..=10));
    fixture.program("program", move |program| play(program, ttl, meanwhile));
    fixture.run(Duration::from_secs(200), |_| {});
}

async fn play(program: Program, ttl: Duration, meanwhile: Meanwhile) {
    let [holder, other] =
        [" holder", " other"].map(|who| program.client(who).ttl(ttl).build().expect("valid"));
    all_attached(&holder).await;
    all_attached(&other).await;
    let held = hold(&program, &holder).await;
    // In classic mode there is no queue.
    let waiting = match program.mode {
        Mode::Queue => wait(&program, &other).await,
        Mode::Classic => Vec::new(),
    };

    program.nodes.iter().for_each(|node| node.set_full(true));
    let filled_at = now();
    let mut dice = program.dice("meanwhile");
    match meanwhile {
        Meanwhile::Nothing => {}
        Meanwhile::HangUp => hang_up(&program, &mut dice).await,
        Meanwhile::Cut => cut(&program, &mut dice).await,
    }
    while now() < filled_at + SESSION + 2 * ttl {
        for guard in &held {
            guard.check().unwrap_or_else(|lost| panic!("{}: {lost}", guard.name()));
        }
        sleep(TICK).await;
    }
    refuse(&other).await;
    for guard in held {
        guard.release().await.expect("it is held");
    }
    for waiter in waiting {
        let guard = waiter.await.expect("no panic").expect("it is handed off");
        guard.release().await.expect("it is held");
    }
    program.nodes.iter().for_each(|node| node.set_full(false));
    let guard = other.mutex("new").lock().await.expect("there is memory again");
    guard.release().await.expect("it is held");
}

/// One lock of each kind, on every node.
async fn hold(program: &Program, client: &Client) -> Vec<Guard> {
    let jobs = client.semaphore("jobs", 1);
    let mut held = vec![
        client.mutex("mutex").lock().await.expect("it is free"),
        jobs.acquire().await.expect("there is a permit").into_guard(),
    ];
    if program.mode == Mode::Queue {
        held.push(client.rwlock("rwlock").read().await.expect("nobody writes").into_guard());
    }
    for guard in &held {
        eventually(SOON, "every node has it", || {
            program.nodes.iter().all(|node| node.has(guard.name(), now()))
        })
        .await;
    }
    held
}

/// One waiter for each lock, in the queue of every node.
async fn wait(program: &Program, client: &Client) -> Vec<JoinHandle<Result<Guard, LockError>>> {
    let (mutex, rwlock) = (client.mutex("mutex"), client.rwlock("rwlock"));
    let jobs = client.semaphore("jobs", 1);
    let waiting = vec![
        spawn_local(async move { mutex.lock().await }),
        spawn_local(async move { rwlock.write().await.map(Guard::from) }),
        spawn_local(async move { jobs.acquire().await.map(Guard::from) }),
    ];
    for name in ["mutex", "rwlock", "jobs#1"] {
        eventually(SOON, "it waits on every node", || {
            program.nodes.iter().all(|node| node.waits_for(name, now()) == 1)
        })
        .await;
    }
    waiting
}

async fn hang_up(program: &Program, dice: &mut Dice) {
    for _ in 0..3 {
        sleep(dice.ms(0..=1_000)).await;
        let struck: Vec<_> = program.nodes.iter().filter(|_| dice.chance(70)).collect();
        struck.iter().for_each(|node| node.set(Manner::HangUp));
        sleep(dice.ms(1..=100)).await;
        struck.iter().for_each(|node| node.set(Manner::Answer));
    }
}

async fn cut(program: &Program, dice: &mut Dice) {
    let hosts: Vec<String> = program.nodes.iter().map(|node| Node::host(node.number)).collect();
    let me = program.host.as_str();
    for node in &hosts {
        turmoil::partition(me, node.as_str());
        sleep(dice.ms(0..=100)).await;
    }
    sleep(SESSION + dice.ms(500..=2_000)).await;
    for node in &hosts {
        turmoil::repair(me, node.as_str());
        sleep(dice.ms(0..=100)).await;
    }
}

/// No request for a new lock succeeds.
async fn refuse(client: &Client) {
    let refused = client.mutex("new").try_lock().await.expect_err("there is no memory");
    let LockError::NoQuorum { nodes, .. } = &refused else { panic!("{refused:?}") };
    let is_full = |answer: &NodeAnswer| *answer == NodeAnswer::NodeError(NodeError::OutOfMemory);
    assert!(nodes.iter().any(|report| is_full(&report.answer)), "{refused}");
}

/// The lifetime of a session without pings.
const SESSION: Duration = Duration::from_secs(5);

/// Long enough for everything that only takes round trips.
const SOON: Duration = Duration::from_secs(1);
