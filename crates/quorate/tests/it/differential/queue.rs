//! The same for waiters in the queue, including the pushes of the node, and what it stores besides
//! the key of a lock.
//!
//! A session contains the node's time in microseconds, so the store gets the time that the server
//! has returned to an attach.

mod batches;
mod directed;
mod draw;
mod failing;
mod listeners;
mod records;
mod refusing;
mod tracker;

use quorate_core::{
    backoff::Jitter,
    command::{Command, Reply},
    fence::{FENCE_LIFETIME_MS, FENCE_RENEW_MS, Fence},
    moment::NodeTime,
    name::Name,
    queue::Push,
    store::{LockDetails, Store},
};
use quorate_testkit::Server;

use self::{draw::Draw, listeners::NodeEvents, tracker::Tracker};
use super::{
    JUMP_MS_MAX, Pace,
    batch::{Memory, Step},
    left_ms,
    node::{Answered, Node},
    on_every_flavour, seed,
};

#[test]
fn ten_thousand_random_commands_of_the_queue_match_the_store() {
    compare_on_every_server(Pace::Real, Memory::Enough, 10_000, &tracker::KINDS, &batches::KINDS);
}

#[test]
fn fifteen_thousand_random_commands_of_the_queue_match_the_store_while_days_pass() {
    let kinds = [&tracker::KINDS[..], &tracker::SELDOM].concat();
    let entries = [&batches::KINDS[..], &batches::SELDOM].concat();
    compare_on_every_server(Pace::Set, Memory::Enough, 15_000, &kinds, &entries);
}

#[test]
fn fifteen_thousand_random_commands_of_the_queue_match_the_store_on_full_servers() {
    compare_on_every_server(Pace::Set, Memory::Scarce, 15_000, &tracker::FULL, &batches::FULL);
}

/// A lock is held for most of a year and extended about every half of its fence's lifetime, on a
/// server that is full now and then. All the time both know when it was granted.
#[test]
fn fence_is_kept_for_most_of_a_year_like_in_the_store() {
    on_every_flavour(Pace::Set, |server| {
        let mut comparison = Comparison::new(server, Pace::Set, Memory::Enough);
        let (mut fence, mut since_ms) = (None, None);
        for _ in 0..600 {
            let half_in_ms = fence
                .map_or(1, |(_, left_ms): (Fence, u64)| left_ms.saturating_sub(FENCE_RENEW_MS));
            // Around the half, and now and then much later.
            let late = [0, 1, 2, 600_000, FENCE_RENEW_MS - 1][comparison.draw.below(5)];
            comparison.node.let_pass((half_in_ms + late).saturating_sub(1));
            let steps =
                comparison.draw.extension(fence.map(|(fence, _)| fence), comparison.node.now());
            comparison.run(&steps);
            let kept = comparison.store.details(comparison.batch_at, &comparison.draw.names[0]);
            fence = kept.fence;
            assert_eq!(kept.since_ms, *since_ms.get_or_insert(kept.since_ms));
            directed::set_memory(server, u64::from(comparison.draw.is_heads()));
        }
        directed::set_memory(server, 0);
        let extended = comparison.tracker.count("the record of a fence extended");
        assert!(extended > 200, "{extended}");
        let held_ms = comparison.batch_at.as_millis() - since_ms.flatten().expect("it is kept");
        assert!(held_ms > 100 * FENCE_LIFETIME_MS, "{held_ms} ms");
    });
}

/// Fails unless all these kinds of commands, and of entries of batches, have come.
fn compare_on_every_server(
    pace: Pace,
    memory: Memory,
    commands_min: u64,
    kinds: &[&str],
    entries: &[&str],
) {
    let seed = seed();
    on_every_flavour(pace, |server| {
        let mut comparison = Comparison::new(server, pace, memory);
        while comparison.tracker.compared < commands_min {
            comparison.run_batch();
        }
        comparison.tracker.check_coverage(seed, kinds);
        comparison.tracker.entries.check_coverage(seed, commands_min / 5_000, entries);
    });
}

struct Comparison<'a> {
    draw: Draw,
    node: Node<'a>,
    events: NodeEvents,
    store: Store,
    /// The time of the last batch.
    batch_at: NodeTime,
    tracker: Tracker,
    /// What was compared last, for the report of a difference.
    last: Vec<String>,
}

impl<'a> Comparison<'a> {
    fn new(server: &'a Server, pace: Pace, memory: Memory) -> Self {
        Self {
            draw: Draw::new(Jitter::new(seed()), memory),
            node: Node::connect(server, pace),
            events: NodeEvents::new(server.address()),
            store: Store::new(),
            batch_at: NodeTime::from_micros(0),
            tracker: Tracker::default(),
            last: Vec::new(),
        }
    }

    fn run_batch(&mut self) {
        let ends = self.ends_in_ms();
        self.node.let_pass(self.draw.pause_ms(&ends));
        self.listen();
        let now = self.node.now();
        self.track_ends(now);
        let steps = self.draw.batch(self.store.clone(), now);
        self.run(&steps);
    }

    fn run(&mut self, steps: &[Step]) {
        let names = self.names(steps);
        let Answered { from, to, replies, asides } = self.node.ask(steps, &names);
        let is_in_time =
            from.as_millis() == to.as_millis() && from.as_millis() >= self.batch_at.as_millis();
        self.tracker.handle_batch();
        if !is_in_time {
            self.node.clear();
            self.store.clear();
            self.store.set_full(false);
            self.batch_at = NodeTime::from_micros(0);
            self.compare_pushes(steps, None);
            return;
        }
        let mut pushes = Vec::new();
        for (step, reply) in steps.iter().zip(replies) {
            self.compare(step, reply, from, to);
            let pushed = self.store.take_pushes();
            if let Step::Ask(command) = step {
                self.tracker.entries.handle_pushes(command, &pushed, self.store.is_full());
            }
            pushes.extend(pushed);
        }
        for (name, found) in names.iter().zip(asides) {
            let kept = self.store.details(from, name);
            assert!(
                found == kept,
                "{name:?}: {found:?}, but the store has {kept:?}{}",
                self.report()
            );
        }
        self.compare_pushes(steps, Some(pushes));
        self.batch_at = from;
    }

    /// The locks of all single commands, and those of these batches.
    fn names(&self, steps: &[Step]) -> Vec<Name> {
        let mut names = self.draw.names.clone();
        let commands = steps.iter().filter_map(|step| match step {
            Step::Ask(command) => Some(command),
            _ => None,
        });
        for name in commands.flat_map(Command::entries).filter_map(Command::entry_name) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        names
    }

    /// When something will expire, if that is soon or the clock can be set.
    fn ends_in_ms(&self) -> Vec<u64> {
        if !self.node.is_set() {
            return Vec::new();
        }
        let (mut store, now) = (self.store.clone(), self.batch_at);
        let of_lock = self.draw.names.iter().flat_map(|name| {
            let LockDetails { fence, queue_ends_in_ms, .. } = store.details(now, name);
            [fence.map(|(_, left)| left), queue_ends_in_ms, left_ms(&mut store, now, name)]
        });
        let of_sessions =
            self.draw.callers.iter().map(|it| it.session_ends_at_ms.checked_sub(now.as_millis()));
        of_lock.chain(of_sessions).flatten().filter(|left| *left <= JUMP_MS_MAX).collect()
    }

    /// Counts what is about to end or has just ended.
    fn track_ends(&mut self, now: NodeTime) {
        let mut store = self.store.clone();
        for name in &self.draw.names {
            let before = store.details(self.batch_at, name);
            let after = store.details(now, name);
            self.tracker.handle_passed(&before, &after);
        }
    }

    /// Some clients without a subscription subscribe.
    fn listen(&mut self) {
        for at in 0..self.draw.callers.len() {
            let client = self.draw.callers[at].client;
            if self.draw.callers[at].connection.is_none() && self.draw.is_heads() {
                self.events.listen(client);
                self.store.subscribe(client);
                self.draw.callers[at].connection = self.events.connection(client);
            }
        }
    }

    fn compare(
        &mut self,
        step: &Step,
        from_server: Option<Result<Reply, String>>,
        from: NodeTime,
        to: NodeTime,
    ) {
        let now = match (&from_server, step) {
            (Some(Ok(Reply::Attached { time_us })), Step::Ask(command)) => {
                self.handle_attached(command, *time_us);
                NodeTime::from_micros(*time_us)
            }
            (Some(Ok(Reply::Inspected(report))), _) => NodeTime::from_micros(report.time_us),
            _ => from,
        };
        let is_in_time = now.as_millis() == from.as_millis() && now.as_millis() == to.as_millis();
        assert!(is_in_time, "another time than the server's{}", self.report());
        self.tracker.handle_before(step, &mut self.store, now);
        let from_store = step.apply(&mut self.store, now).map(Ok);
        self.last.push(format!("at {} ms: {} -> {from_server:?}", now.as_millis(), show(step)));
        if self.last.len() > SHOWN_MAX {
            self.last.remove(0);
        }
        assert!(from_server == from_store, "the store replies {from_store:?}{}", self.report());
        if let (Some(Ok(reply)), Step::Ask(command)) = (from_store, step) {
            self.tracker.entries.handle(command, &reply);
            self.tracker.handle_compared(command, &reply);
        }
    }

    fn handle_attached(&mut self, command: &Command, time_us: u64) {
        if let Command::Attach { sender, terms } | Command::Ping { sender, terms } = command {
            let callers = self.draw.callers.iter_mut();
            let its = callers.filter(|it| it.client == sender.client);
            its.for_each(|it| {
                it.answered_us = time_us;
                it.session_ends_at_ms = time_us / 1_000 + terms.lifetime_ms;
            });
        }
    }

    /// Compares the pushes to each client, or drops them if `pushed` is not known.
    fn compare_pushes(&mut self, steps: &[Step], pushed: Option<Vec<Push>>) {
        for at in 0..self.draw.callers.len() {
            let client = self.draw.callers[at].client;
            if self.events.connection(client).is_none() {
                continue;
            }
            let is_cut = steps
                .iter()
                .any(|it| matches!(it, Step::HangUp { client: it, .. } if *it == client));
            let received = match is_cut {
                true => self.events.last_received(client),
                false => self.events.received(client),
            };
            if is_cut {
                self.store.unsubscribe(client);
            }
            let Some(pushed) = &pushed else { continue };
            let pushed: Vec<_> = pushed.iter().filter(|it| it.client == client).cloned().collect();
            let is_same = received == pushed || is_cut && pushed.starts_with(&received);
            assert!(
                is_same,
                "received {received:?}, but the store pushed {pushed:?}{}",
                self.report()
            );
            pushed.iter().for_each(|push| self.tracker.handle_push(push));
        }
    }

    /// What was compared last.
    fn report(&self) -> String {
        let Self { tracker, last, .. } = self;
        let (count, last, seed) = (tracker.compared, last.join("\n  "), seed());
        format!("\nafter {count} commands:\n  {last}\nrepeat with QUORATE_SEED={seed}")
    }
}

/// A step as readable text, with its owner, which is no secret here.
fn show(step: &Step) -> String {
    let owner = match step {
        Step::Ask(Command::Acquire { request: ask, .. }) => Some(&ask.owner),
        Step::Ask(Command::Release { owner, .. }) => Some(owner),
        _ => None,
    };
    match owner {
        Some(owner) => format!("{step:?} {}", owner.as_bytes().escape_ascii()),
        None => format!("{step:?}"),
    }
}

const SHOWN_MAX: usize = 30;
