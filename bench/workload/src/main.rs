//! A program that does one thing a number of times, and nothing else, so that its instructions,
//! its memory and the commands that it causes can be counted from outside.
//!
//! Arguments: what to do, the mode, how often, and the nodes.

use std::{
    task::{Context, Waker},
    time::Duration,
};

use quorate::{Client, ClientBuilder};
use tokio::{runtime::Builder, task::LocalSet};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [what, mode, times, nodes @ ..] = args.as_slice() else { panic!("{USAGE}: {args:?}") };
    let times: usize = times.parse().expect(USAGE);
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("the runtime can be built");
    let local = LocalSet::new();
    local.block_on(&runtime, async {
        let client = settings(mode, nodes).connect().await.expect("servers are up");
        match what.as_str() {
            "pairs" => pairs(&client, times).await,
            "callers" => callers(&client, times).await,
            "held" => held(&client, times).await,
            "waiters" => waiters(&client, times).await,
            _ => panic!("{USAGE}: {args:?}"),
        }
    });
    // What is still held at the end counts as memory, so nothing is dropped.
    Box::leak(Box::new((runtime, local)));
}

/// Timeouts so long that a slow run does the same as a fast one.
fn settings(mode: &str, nodes: &[String]) -> ClientBuilder {
    let settings = Client::builder().nodes(nodes).vote_timeout(Duration::from_secs(20));
    let settings = settings.connect_timeout(Duration::from_secs(60)).ttl(Duration::from_secs(60));
    match mode {
        "default" => settings,
        "classic" => settings.classic(),
        "classic-quarantine" => settings.classic().quarantine(true),
        _ => panic!("{USAGE}: {mode:?}"),
    }
}

/// One caller, without contention.
async fn pairs(client: &Client, times: usize) {
    let mutex = client.mutex("count");
    for _ in 0..times {
        let guard = mutex.lock().await.expect("nobody else");
        guard.release().await.expect("servers answer");
    }
    leak(client);
}

/// Callers that all begin at the same moment, so that their requests can travel together.
async fn callers(client: &Client, times: usize) {
    for _ in 0..times / CALLERS {
        let callers = (0..CALLERS).map(|caller| {
            let mutex = client.mutex(format!("count:{caller}"));
            tokio::task::spawn_local(async move {
                let guard = mutex.lock().await.expect("nobody else");
                guard.release().await.expect("servers answer");
            })
        });
        for caller in callers.collect::<Vec<_>>() {
            caller.await.expect("no caller panics");
        }
    }
    leak(client);
}

/// Locks that are held at the end.
async fn held(client: &Client, times: usize) {
    let mut guards = Vec::with_capacity(times);
    for number in 0..times {
        let name = format!("held:{number:06}");
        guards.push(client.mutex(name).lock().await.expect("nobody else"));
    }
    Box::leak(Box::new(guards));
    leak(client);
}

/// Waiters of one lock that still wait at the end. Their futures are part of what they need.
async fn waiters(client: &Client, times: usize) {
    let mutex = client.mutex("count");
    Box::leak(Box::new(mutex.lock().await.expect("nobody else")));
    let mutex = &*Box::leak(Box::new(mutex));
    for number in 0..times {
        // Not all at once: a link keeps the memory for the longest row of requests that it had.
        if number % CALLERS == 0 {
            drop(client.mutex("between").lock().await.expect("nobody else"));
        }
        let mut waiter = Box::pin(mutex.lock());
        let is_waiting = waiter.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(is_waiting.is_pending(), "the lock is held");
        Box::leak(Box::new(waiter));
    }
    // Every node has answered a later request, and so the earlier ones too.
    let last = client.mutex("last").lock().await.expect("nobody else");
    Box::leak(Box::new(last));
    leak(client);
}

fn leak(client: &Client) {
    Box::leak(Box::new(client.clone()));
}

const CALLERS: usize = 32;
const USAGE: &str = "pairs|callers|held|waiters default|classic|classic-quarantine TIMES NODE…";
