//! Requests are sent in the order in which they were made, and none is withdrawn.

use std::{
    collections::HashMap,
    task::{Context, Waker},
    thread,
};

use quorate::Client;
use quorate_testkit::Server;

use super::{
    executor::block_on,
    monitor::{Call, Monitor},
};
use crate::mode::Mode;

in_both_modes! {
    dropped_calls_are_sent_in_order_and_none_is_lost,
    releases_follow_their_attempts_from_many_threads_at_a_time,
}

fn dropped_calls_are_sent_in_order_and_none_is_lost(mode: Mode) {
    let server = Server::start();
    let client =
        block_on(mode.of(Client::builder().quarantine(false)).nodes([server.url()]).connect())
            .unwrap();
    let monitor = Monitor::start(&server);
    for number in 0..CALLS {
        drop_after_first_poll(&client, &format!("lock:{number}"));
    }
    let seen = read_until_freed(&monitor, CALLS);
    let expected: Vec<String> = (0..CALLS).map(|number| format!("lock:{number}")).collect();
    assert_eq!(seen.taken(), expected, "each attempt once, and in order");
    seen.assert_each_is_taken_before_it_is_freed();
    assert!(server.lock_keys().is_empty());
}

fn releases_follow_their_attempts_from_many_threads_at_a_time(mode: Mode) {
    let server = Server::start();
    let client =
        block_on(mode.of(Client::builder().quarantine(false)).nodes([server.url()]).connect())
            .unwrap();
    let monitor = Monitor::start(&server);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let client = &client;
            scope.spawn(move || {
                for number in 0..CALLS / THREADS {
                    let name = format!("lock:{thread}:{number}");
                    match number % 3 {
                        0 => drop_after_first_poll(client, &name),
                        1 => drop(block_on(client.mutex(&name).lock()).expect("it is free")),
                        _ => {
                            let guard = block_on(client.mutex(&name).lock()).expect("it is free");
                            block_on(guard.release()).expect("it is ours");
                        }
                    }
                }
            });
        }
    });
    let calls = CALLS / THREADS * THREADS;
    let seen = read_until_freed(&monitor, calls);
    assert_eq!(seen.taken().len(), calls);
    seen.assert_each_is_taken_before_it_is_freed();
    assert!(server.lock_keys().is_empty());
}

fn drop_after_first_poll(client: &Client, name: &str) {
    let mutex = client.mutex(name);
    let mut call = Box::pin(mutex.try_lock());
    drop(call.as_mut().poll(&mut Context::from_waker(Waker::noop())));
}

/// Reads until this many undos or releases have run.
fn read_until_freed(monitor: &Monitor, calls: usize) -> Seen {
    let mut steps = Vec::new();
    let mut freed = 0;
    while freed < calls {
        for step in Step::of(&monitor.next()) {
            freed += usize::from(matches!(step, Step::Free { .. }));
            steps.push(step);
        }
    }
    Seen { steps }
}

/// A command about a lock.
enum Step {
    Take { name: String, owner: String },
    Free { name: String, owner: String },
}

impl Step {
    /// None for a command about the client itself: its ping.
    fn of(words: &[String]) -> Vec<Self> {
        let take = |(name, owner): (&str, &str)| Self::Take {
            name: name.to_owned(),
            owner: owner.to_owned(),
        };
        let free = |(name, owner): (&str, &str)| Self::Free {
            name: name.to_owned(),
            owner: owner.to_owned(),
        };
        if let [set, name, owner, ..] = words
            && set == "SET"
        {
            return vec![take((name, owner))];
        }
        let Some(call) = Call::of(words) else {
            panic!("no other client uses this server: {words:?}");
        };
        let taken = call.acquires().into_iter().map(take);
        taken.chain(call.releases().into_iter().map(free)).collect()
    }
}

/// The commands that the server ran, in their order.
struct Seen {
    steps: Vec<Step>,
}

impl Seen {
    /// The names of all attempts.
    fn taken(&self) -> Vec<String> {
        let name = |step: &Step| match step {
            Step::Take { name, .. } => Some(name.clone()),
            Step::Free { .. } => None,
        };
        self.steps.iter().filter_map(name).collect()
    }

    /// For each owner: one attempt, then one undo or release, of the same name.
    fn assert_each_is_taken_before_it_is_freed(&self) {
        let mut taken = HashMap::new();
        for step in &self.steps {
            match step {
                Step::Take { name, owner } => {
                    assert!(taken.insert(owner, name).is_none(), "an owner is used once");
                }
                Step::Free { name, owner } => {
                    assert_eq!(taken.remove(owner), Some(name), "freed before it was taken");
                }
            }
        }
        assert!(taken.is_empty(), "taken and not freed: {taken:?}");
    }
}

const CALLS: usize = 300;
const THREADS: usize = 4;
