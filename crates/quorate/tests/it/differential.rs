//! The scripts on real servers against the core's store: the same commands, the same replies.
//!
//! Time is the difficulty: the store gets it as an argument, the server reads its own clock. So a
//! batch of commands is sent in one piece between two reads of the server's time. If both reads
//! return the same millisecond, the whole batch ran in it, and the store gets that millisecond.
//! Other batches are dropped, and both sides start empty again.
//!
//! The same is done with servers whose clocks stand still and are set between batches, so that days
//! pass as well. The clocks are often set to the millisecond in which something expires, or to one
//! next to it.

mod asides;
mod batch;
mod connection;
mod keys;
mod node;
mod quarantine;
mod queue;
mod tracker;

use std::{env, thread};

use quorate_core::{
    backoff::Jitter,
    command::{Command, Reply},
    moment::NodeTime,
    name::Name,
    store::Store,
};
use quorate_testkit::{Flavour, Server};

use self::{
    batch::{Draw, Memory, Step},
    node::{Answered, Node, show},
    tracker::Tracker,
};

#[test]
fn six_thousand_random_commands_match_the_store() {
    compare_on_every_server(Pace::Real, Memory::Enough, 6_000);
}

#[test]
fn twenty_thousand_random_commands_match_the_store_while_days_pass() {
    compare_on_every_server(Pace::Set, Memory::Enough, 20_000);
}

#[test]
fn ten_thousand_random_commands_match_the_store_on_full_servers() {
    compare_on_every_server(Pace::Set, Memory::Scarce, 10_000);
}

fn compare_on_every_server(pace: Pace, memory: Memory, commands_min: u64) {
    let seed = seed();
    on_every_flavour(pace, |server| {
        let mut comparison = Comparison {
            seed,
            draw: Draw::new(Jitter::new(seed), memory),
            node: Node::connect(server, pace),
            store: Store::new(),
            batch_at: NodeTime::from_micros(0),
            tracker: Tracker::default(),
            last: Vec::new(),
        };
        while comparison.tracker.compared < commands_min {
            comparison.run_batch();
        }
        comparison.tracker.check_coverage(seed, memory);
    });
}

/// How the servers' time passes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Pace {
    /// By itself.
    Real,
    /// Only between batches, when it is set.
    Set,
}

/// Runs this on a server of each kind at the same time. A panic names the thread, which has the
/// name of the flavour.
fn on_every_flavour(pace: Pace, run: impl Fn(&Server) + Sync) {
    thread::scope(|scope| {
        for flavour in Flavour::ALL {
            let server = Server::builder().flavour(flavour);
            let server = match pace {
                Pace::Real => server,
                Pace::Set => server.own_clock(),
            };
            let run = &run;
            let thread = thread::Builder::new().name(format!("{flavour:?}"));
            thread.spawn_scoped(scope, move || run(&server.start())).expect("a thread");
        }
    });
}

/// A fixed seed, so that a failure can be repeated as far as real time allows.
fn seed() -> u64 {
    match env::var("QUORATE_SEED") {
        Ok(text) => text.parse().expect("QUORATE_SEED is a number"),
        Err(_) => 0x5eed_2026,
    }
}

struct Comparison<'a> {
    seed: u64,
    draw: Draw,
    node: Node<'a>,
    store: Store,
    /// The time of the last batch.
    batch_at: NodeTime,
    tracker: Tracker,
    /// What was compared last, for the report of a difference.
    last: Vec<String>,
}

impl Comparison<'_> {
    fn run_batch(&mut self) {
        let ends = self.ends_in_ms();
        self.node.let_pass(self.draw.pause_ms(&ends));
        let steps = self.draw.batch();
        let Answered { from, to, replies, .. } = self.node.ask(&steps, &[]);
        // A clock that was set back counts like a millisecond that ended: the time of the batch is
        // unknown.
        if from.as_millis() != to.as_millis() || from.as_millis() < self.batch_at.as_millis() {
            self.tracker.handle_dropped();
            self.node.clear();
            self.store.clear();
            self.store.set_full(false);
            self.draw.clear();
            self.batch_at = NodeTime::from_micros(0);
            return;
        }
        let mut expired = self.expired(from);
        for (step, reply) in steps.iter().zip(replies) {
            self.compare(step, reply, from);
            if let Some(name) = step.name()
                && let Some(at) = expired.iter().position(|it| it == name)
            {
                // The first command after the expiry, on a server that deletes lazily.
                expired.swap_remove(at);
                self.tracker.handle_expiry(step);
            }
        }
        self.batch_at = from;
    }

    fn compare(&mut self, step: &Step, from_server: Option<Result<Reply, String>>, now: NodeTime) {
        let from_store = step.apply(&mut self.store, now).map(Ok);
        let (server, store) = (show(from_server.as_ref()), show(from_store.as_ref()));
        self.last.push(format!("at {} ms: {step:?} -> {server}", now.as_millis()));
        if self.last.len() > SHOWN_MAX {
            self.last.remove(0);
        }
        let Self { seed, tracker, last, .. } = self;
        assert!(
            from_server == from_store,
            "a difference after {} commands, seed {seed}:\n  {}\nbut the store replies: {store}\n\
             repeat with QUORATE_SEED={seed}",
            tracker.compared,
            last.join("\n  "),
        );
        if let Some(Ok(reply)) = from_store {
            tracker.handle_compared(&reply);
        }
    }

    /// When keys will expire, if that is soon or the clock can be set.
    fn ends_in_ms(&self) -> Vec<u64> {
        let (mut store, now) = (self.store.clone(), self.batch_at);
        let names = self.draw.names.iter().filter(|_| self.node.is_set());
        let left = names.map(|name| left_ms(&mut store, now, name));
        left.flatten().filter(|left| *left <= JUMP_MS_MAX).collect()
    }

    /// The names that have expired since the last batch.
    fn expired(&mut self, now: NodeTime) -> Vec<Name> {
        let before = self.store.names(self.batch_at);
        let after = self.store.names(now);
        before.into_iter().filter(|name| !after.contains(name)).collect()
    }
}

/// In how many milliseconds a key will expire.
fn left_ms(store: &mut Store, now: NodeTime, name: &Name) -> Option<u64> {
    match store.apply(now, &Command::ReadKey { name: name.clone() }) {
        Reply::Key(Some(seen)) => seen.expires_in_ms,
        _ => None,
    }
}

/// Two days. A year at a time would leave the years in which numbers are exact.
const JUMP_MS_MAX: u64 = 2 * 24 * 60 * 60 * 1_000;
const SHOWN_MAX: usize = 40;
