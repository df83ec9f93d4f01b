//! The scripts on real servers against the core's store: the same commands, the same replies.
//!
//! Time is the difficulty: the store is told it, the server reads its own. So a batch of commands
//! is sent in one piece between two questions for the time. If both give the same millisecond, all
//! of the batch ran in it, and the store is told that very millisecond. Other batches are dropped,
//! and both sides start empty again.

mod batch;
mod line;
mod replies;
mod tracker;

use std::{env, thread};

use quorate_core::{backoff::Jitter, command::Reply, moment::NodeTime, name::Name, store::Store};
use quorate_testkit::{Flavour, Server};

use self::{
    batch::{Draw, Step},
    replies::{Answered, Wire, show},
    tracker::Tracker,
};

#[test]
fn twenty_thousand_random_commands_get_the_replies_that_the_store_gives() {
    let seed = seed();
    on_every_flavour(|server| {
        let mut trial = Trial {
            seed,
            draw: Draw::new(Jitter::new(seed)),
            wire: Wire::connect(server),
            store: Store::new(),
            told_at: NodeTime::from_micros(0),
            tracker: Tracker::default(),
            last: Vec::new(),
        };
        while trial.tracker.compared < COMMANDS_MIN {
            trial.run_batch();
        }
        trial.tracker.check_coverage(seed);
    });
}

/// Runs a trial on a server of each kind at the same time. A panic names the thread, which has the
/// name of the flavour.
fn on_every_flavour(trial: impl Fn(&Server) + Sync) {
    thread::scope(|scope| {
        for flavour in Flavour::ALL {
            let trial = &trial;
            let run = move || trial(&Server::builder().flavour(flavour).start());
            let thread = thread::Builder::new().name(format!("{flavour:?}"));
            thread.spawn_scoped(scope, run).expect("a thread");
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

struct Trial {
    seed: u64,
    draw: Draw,
    wire: Wire,
    store: Store,
    /// The time of the last batch.
    told_at: NodeTime,
    tracker: Tracker,
    /// What was compared last, for the report of a difference.
    last: Vec<String>,
}

impl Trial {
    fn run_batch(&mut self) {
        self.tracker.handle_batch();
        self.wire.let_pass(self.draw.pause_ms());
        let steps = self.draw.batch();
        let Answered { from, to, replies, .. } = self.wire.ask(&steps, &[]);
        // A clock that was set back is as good as a millisecond that ended: nothing is known.
        if from.as_millis() != to.as_millis() || from.as_millis() < self.told_at.as_millis() {
            self.tracker.handle_dropped();
            self.wire.clear();
            self.store.clear();
            self.told_at = NodeTime::from_micros(0);
            return;
        }
        let mut expired = self.expired(from);
        for (step, reply) in steps.iter().zip(replies) {
            self.compare(step, reply, from);
            if let Some(name) = step.name()
                && let Some(at) = expired.iter().position(|it| it == name)
            {
                // The first who comes by after the end, on a server that deletes lazily.
                expired.swap_remove(at);
                self.tracker.handle_expiry(step);
            }
        }
        self.told_at = from;
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
            "a difference after {} commands, seed {seed}:\n  {}\nbut the store says: {store}\n\
             repeat with QUORATE_SEED={seed}",
            tracker.compared,
            last.join("\n  "),
        );
        if let Some(Ok(reply)) = from_store {
            tracker.handle_compared(&reply);
        }
    }

    /// The names that went by themselves since the last batch.
    fn expired(&mut self, now: NodeTime) -> Vec<Name> {
        let before = self.store.names(self.told_at);
        let after = self.store.names(now);
        before.into_iter().filter(|name| !after.contains(name)).collect()
    }
}

const COMMANDS_MIN: u64 = 20_000;
const SHOWN_MAX: usize = 40;
