//! The same for quarantine: how a node handles its record, clocks that were set, and what clients
//! know of both.
//!
//! All of that depends on milliseconds, so the server's clock stands still while a batch of
//! commands runs, and is set forward and back in between. Keys that have expired meanwhile are
//! deleted before the first command: with an earlier time the server would return them again, and
//! count them until then.

mod draw;
mod node;
mod tracker;

use quorate_core::{
    backoff::Jitter, command::Reply, membership::Reply as MembershipReply, moment::NodeTime,
    store::Store,
};

use self::{
    draw::{Draw, Step},
    node::{Answered, Node},
    tracker::Tracker,
};
use super::{Pace, batch::Memory, on_every_flavour, seed};

#[test]
fn twenty_thousand_random_commands_of_quarantine_match_the_store() {
    compare_on_every_server(Memory::Enough, &tracker::KINDS);
}

#[test]
fn random_commands_of_quarantine_match_the_store_on_full_servers() {
    compare_on_every_server(Memory::Scarce, &tracker::FULL);
}

fn compare_on_every_server(memory: Memory, kinds: &[&str]) {
    let seed = seed();
    on_every_flavour(Pace::Set, |server| {
        let node = Node::connect(server);
        let mut comparison = Comparison {
            draw: Draw::new(Jitter::new(seed), memory, node.now_us() / 1_000),
            node,
            store: Store::new(),
            run: 0,
            tracker: Tracker::default(),
            last: Vec::new(),
        };
        while comparison.tracker.compared < 20_000 {
            comparison.run_batch();
        }
        comparison.tracker.check_coverage(seed, kinds);
    });
}

struct Comparison<'a> {
    draw: Draw,
    node: Node<'a>,
    store: Store,
    /// Which run the store is.
    run: u64,
    tracker: Tracker,
    /// What was compared last, for the report of a difference.
    last: Vec<String>,
}

impl Comparison<'_> {
    fn run_batch(&mut self) {
        let (to_ms, micros) = self.draw.set_clocks(self.node.now_us() / 1_000);
        self.node.set_clock(to_ms, micros);
        let now = NodeTime::from_micros(to_ms * 1_000);
        // It forgets what has expired, as the server is about to.
        self.store.names(now);
        self.store.queued_names(now);
        let steps = self.draw.batch(self.store.clone(), self.run, now);
        let Answered { from, to, replies } = self.node.ask(&steps, &self.draw.keys());
        let is_in_time = from.as_millis() == to_ms && to.as_millis() == to_ms;
        self.tracker.handle_batch();
        if !is_in_time {
            self.node.clear();
            self.store.clear();
            self.store.set_full(false);
            return;
        }
        for (step, reply) in steps.iter().zip(replies) {
            self.compare(step, reply, from);
        }
    }

    fn compare(&mut self, step: &Step, from_server: Option<Result<Reply, String>>, from: NodeTime) {
        // The microseconds of some servers go on, and those servers report them.
        let now = match &from_server {
            Some(Ok(Reply::Attached { time_us })) => NodeTime::from_micros(*time_us),
            Some(Ok(Reply::Membership(MembershipReply::Info(info)))) => {
                NodeTime::from_micros(info.time_us)
            }
            _ => from,
        };
        let is_full = self.store.is_full();
        let from_store = step.apply(&mut self.store, &mut self.run, now).map(Ok);
        self.last.push(format!("at {} ms: {step:?} -> {from_server:?}", now.as_millis()));
        if self.last.len() > SHOWN_MAX {
            self.last.remove(0);
        }
        let is_in_time = now.as_millis() == from.as_millis();
        assert!(is_in_time, "another time than the server's{}", self.report());
        assert!(from_server == from_store, "the store replies {from_store:?}{}", self.report());
        if let (Some(Ok(reply)), Step::Ask(command)) = (from_store, step) {
            self.tracker.handle_compared(command, &reply, is_full);
        }
    }

    /// What was compared last.
    fn report(&self) -> String {
        let Self { tracker, last, .. } = self;
        let (count, last, seed) = (tracker.compared, last.join("\n  "), seed());
        format!("\nafter {count} commands:\n  {last}\nrepeat with QUORATE_SEED={seed}")
    }
}

const SHOWN_MAX: usize = 30;
