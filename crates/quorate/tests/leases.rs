//! One process takes a lease and ends; another renews and releases it. Then several processes adopt
//! one lease at the same time, while a node is down.

use std::{
    io::{self, Read as _},
    process::ExitCode,
    time::Duration,
};

use quorate::{Client, ClientBuilder, DetachedLease, blocking};
use quorate_testkit::{
    Server, admit, eventually,
    processes::{self, Child, Outcome, PATIENCE, command, print_line},
};

fn main() -> ExitCode {
    processes::run("leases", run_child, |_| {
        let servers = Server::start_many(3);
        for nodes in [1, 3] {
            run_case(&servers[..nodes]);
        }
        run_rivals(&servers);
    })
}

fn run_child(role: &str, args: &[&str]) -> Outcome {
    match (role, args) {
        (TAKER, urls) => take(urls),
        (ADOPTER, [lease, urls @ ..]) => adopt(lease, urls),
        _ => return Err("there is no such child".into()),
    }
    Ok(())
}

/// No node is silent here, but a busy machine may be slow.
fn settings(urls: &[impl AsRef<str>]) -> ClientBuilder {
    Client::builder().nodes(urls).vote_timeout(TTL / 2)
}

fn connect(urls: &[impl AsRef<str>]) -> blocking::Client {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let client = runtime.expect("a runtime").block_on(settings(urls).connect());
    let client = client.expect("a majority is there");
    blocking::Client::try_from(client).expect("it has a thread of its own")
}

fn run_case(servers: &[Server]) {
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    admit(servers, Client::builder().nodes(&urls));
    let client = connect(&urls);
    let lease: DetachedLease = lease_of_another(&urls).parse().expect("a lease");
    let fence = lease.fence().expect("a lease of the default mode");
    let later = client.mutex(LOCK);
    assert!(
        later.try_lock().expect("the nodes answer").is_none(),
        "it was left to expire, not released"
    );

    let guard = client.adopt(&lease).expect("nobody else has adopted it");
    assert_eq!(guard.fence(), Some(fence), "it is the same holder to the resource");
    assert!(client.adopt(&lease).is_err(), "it can be adopted once");
    let end = servers[0].time_us() + 2 * TTL.as_micros() as u64;
    eventually("it was renewed for longer than a ttl", PATIENCE, || {
        guard.check().expect("it is held");
        servers[0].time_us() > end
    });
    guard.extend(LONG).expect("it is held");
    guard.verify().expect("the nodes know the new holder");
    assert!(later.try_lock().expect("the nodes answer").is_none());
    guard.release().expect("it is ours");

    let next = later.lock_timeout(PATIENCE).expect("it was released");
    assert!(next.fence() > Some(fence), "the next holder is another");
    print_line(&format!(
        "a lease was renewed and released by another process, nodes: {}",
        servers.len()
    ));
}

/// Panics if two processes have adopted one lease.
fn run_rivals(servers: &[Server]) {
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    admit(servers, Client::builder().nodes(&urls));
    let client = connect(&urls);
    servers[2].kill();
    let mut succeeded = 0;
    for round in 0..ROUNDS {
        let mutex = client.mutex(LOCK).ttl(LONG);
        let guard = mutex.lock_timeout(PATIENCE).expect("two nodes are there");
        let lease = guard.detach().expect("it is held").expose_secret();
        let mut rivals =
            [(); RIVALS].map(|()| Child::start(command(ADOPTER).arg(&lease).args(&urls)));
        rivals.iter().for_each(|rival| assert_eq!(rival.next_line(), READY));
        rivals.iter_mut().for_each(|rival| rival.send_line("adopt"));
        let outcomes = rivals.each_ref().map(Child::next_line);
        let held = outcomes.iter().filter(|outcome| *outcome == HELD).count();
        assert!(held <= 1, "round {round}: {outcomes:?}");
        if held == 1 {
            assert!(mutex.try_lock().expect("two nodes answer").is_none(), "it is held");
        }
        succeeded += held;
        // The holder releases it when its input ends. If none holds it, they have released it.
        rivals.into_iter().for_each(Child::end);
    }
    print_line(&format!(
        "{RIVALS} processes adopted one lease: {succeeded} of {ROUNDS} times one held it"
    ));
}

/// What a rival does.
fn adopt(lease: &str, urls: &[&str]) {
    let client = connect(urls);
    let lease = lease.parse().expect("a lease");
    print_line(READY);
    io::stdin().read_line(&mut String::new()).expect("the test sends a line");
    match client.adopt(&lease) {
        Ok(guard) => {
            print_line(HELD);
            io::stdin().read_to_end(&mut Vec::new()).expect("it ends");
            guard.release().expect("it is held");
        }
        Err(_) => print_line("not adopted"),
    }
}

/// The lease that another process takes and prints before it ends.
fn lease_of_another(urls: &[String]) -> String {
    let taker = Child::start(command(TAKER).args(urls));
    let lease = taker.next_line();
    taker.end();
    lease
}

/// What the first process does.
fn take(urls: &[&str]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let lease = runtime.expect("a runtime").block_on(async {
        let client = settings(urls).ttl(TTL).connect().await.expect("nodes");
        let guard = client.mutex(LOCK).lock_timeout(PATIENCE).await.expect("it is free");
        guard.detach().await.expect("it is held")
    });
    print_line(&lease.expose_secret());
}

const TAKER: &str = "taker";
const ADOPTER: &str = "adopter";
const LOCK: &str = "handed:over";
const READY: &str = "ready";
const HELD: &str = "held";
const RIVALS: usize = 3;
const ROUNDS: usize = 5;

/// Longer than it takes to start a process on a busy machine.
const TTL: Duration = Duration::from_secs(3);
const LONG: Duration = Duration::from_secs(30);
