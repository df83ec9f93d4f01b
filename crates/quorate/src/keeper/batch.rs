//! One renewal of up to 128 leases: one request to each node, each lease judged by itself.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use quorate_core::{
    command::{Command, Prolongation, Reply},
    lease::{Extension, LostReason},
    moment::Moment,
    quorum::Vote,
    renew::{Outcome, Renew},
};

use super::Keeper;
use crate::{
    engine::{Engine, FOREVER, Mode, Timed},
    error::Trouble,
    held::Held,
    node::{Inbox, Request, Sent},
    observe::{self, Event},
};

/// Renewals on their way.
#[derive(Debug)]
pub(super) struct Batch {
    engine: Arc<Engine>,
    sent_at: Moment,
    entries: Mutex<Vec<Entry>>,
}

#[derive(Debug)]
struct Entry {
    held: Arc<Held>,
    extension: Extension,
    machine: Renew,
    is_settled: bool,
}

impl Batch {
    /// Asks every node to let these leases live on.
    pub(super) fn start(engine: &Arc<Engine>, leases: &[Arc<Held>], now: Moment) {
        let shortest = leases.iter().map(|held| held.hand().terms.ttl()).min();
        let vote_timeout = engine.vote_timeout(shortest.unwrap_or_default());
        let (mut entries, mut keys) = (Vec::new(), Vec::new());
        let order = engine.extending.lock().unwrap_or_else(PoisonError::into_inner);
        for held in leases {
            let mut hand = held.hand();
            if hand.check_extension(now).is_err() || !hand.lease.can_grow() {
                continue;
            }
            let terms = hand.terms.with_vote_timeout(vote_timeout);
            let extension = hand.lease.handle_extension_sent(&terms, now);
            hand.is_extended = true;
            let held_until = hand.lease.valid_until();
            drop(hand);
            let machine = Renew::start(terms, engine.nodes.len(), held_until, now);
            keys.push((held.clone(), terms.ttl_ms()));
            entries.push(Entry { held: held.clone(), extension, machine, is_settled: false });
        }
        if entries.is_empty() {
            return;
        }
        let command = command(engine, &keys);
        let entries = Mutex::new(entries);
        let batch = Arc::new(Self { engine: engine.clone(), sent_at: now, entries });
        let (mut answered, mut queued) = (Vec::new(), Vec::new());
        for (number, node) in engine.nodes.iter().enumerate() {
            let request = Request { command: command.clone(), node: number, inbox: batch.clone() };
            match node.send(request, now) {
                Sent::Queued => queued.push(node),
                Sent::Answered(answer) => answered.push((number, answer)),
            }
        }
        drop(order);
        // Those who are told may call us in turn.
        queued.iter().for_each(|node| node.flush());
        for (number, answer) in answered {
            batch.take_in(number, &command, &answer, now);
        }
        let weak: Weak<Self> = Arc::downgrade(&batch);
        if engine.timers.add(now.saturating_add(vote_timeout), weak).is_err() {
            batch.handle_timeout(FOREVER);
        }
    }

    fn take_in(
        &self,
        node: usize,
        command: &Command,
        answer: &Result<Reply, Trouble>,
        now: Moment,
    ) {
        let mut entries = self.lock();
        for (index, entry) in entries.iter_mut().enumerate() {
            let vote = match answer {
                Ok(Reply::Each(fates)) => command.prolonged(fates, index),
                Ok(Reply::EachExtended(fates)) => command.extended(fates, index),
                Ok(_) | Err(_) => Vote::Unknown,
            };
            entry.machine.handle_vote(node, vote, now);
        }
        self.settle(entries, now);
    }

    /// Acts on every entry whose outcome has become certain.
    fn settle(&self, mut entries: MutexGuard<'_, Vec<Entry>>, now: Moment) {
        let mut settled = Vec::new();
        for entry in entries.iter_mut().filter(|entry| !entry.is_settled) {
            if let Some(outcome) = entry.machine.outcome() {
                entry.is_settled = true;
                settled.push((entry.held.clone(), entry.extension, outcome));
            }
        }
        drop(entries);
        for (held, extension, outcome) in settled {
            self.act(&held, extension, outcome, now);
        }
    }

    fn act(&self, held: &Arc<Held>, extension: Extension, outcome: Outcome, now: Moment) {
        let engine = &self.engine;
        // A guard that went meanwhile may have released first: what is gone then is not lost.
        if !engine.keeper.is_kept(held.number) {
            return;
        }
        let name = held.name.as_str();
        match outcome {
            Outcome::Extended { valid_until } => {
                let margin = {
                    let mut hand = held.hand();
                    // Time may have passed since the answer came.
                    let now = engine.now();
                    let margin = hand.lease.remaining(now);
                    hand.lease.handle_extended(extension, valid_until, now);
                    margin
                };
                engine.tell(&Event::Renewed { name, outcome: observe::Outcome::Done, margin });
                Keeper::handle_extended(engine, held, self.sent_at);
            }
            Outcome::Gone => self.lose(held, LostReason::Gone),
            // Another extension, sent after this one, may have made the lease last.
            Outcome::TooLate => {
                if let Err(lost) = held.check(now) {
                    self.lose(held, lost.reason);
                }
            }
            Outcome::Unsure => {
                let margin = held.remaining(now);
                engine.tell(&Event::Renewed { name, outcome: observe::Outcome::NoQuorum, margin });
                Keeper::risk(engine, std::iter::once(held), now);
                Keeper::retry(engine, held, now);
            }
        }
    }

    fn lose(&self, held: &Held, reason: LostReason) {
        let (name, margin) = (held.name.as_str(), std::time::Duration::ZERO);
        self.engine.tell(&Event::Renewed { name, outcome: observe::Outcome::Gone, margin });
        Keeper::lose(&self.engine, held, reason);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One request for all of them.
fn command(engine: &Engine, keys: &[(Arc<Held>, u64)]) -> Command {
    let parts = |held: &Held| (held.name.clone(), held.owner.clone());
    match engine.mode {
        Mode::Classic => Command::Prolong {
            speaker: engine.known_speaker(),
            entries: keys
                .iter()
                .map(|(held, ttl_ms)| {
                    let (name, owner) = parts(held);
                    Prolongation { name, owner, ttl_ms: *ttl_ms }
                })
                .collect(),
        },
        Mode::Line => Command::Extend {
            speaker: engine.speaker(),
            entries: keys
                .iter()
                .filter_map(|(held, ttl_ms)| {
                    let (name, owner) = parts(held);
                    held.fenced.map(|fenced| fenced.extend(name, owner, *ttl_ms))
                })
                .collect(),
        },
    }
}

impl Inbox for Batch {
    fn handle_answer(
        self: Arc<Self>,
        node: usize,
        command: Command,
        answer: Result<Reply, Trouble>,
        now: Moment,
    ) {
        self.take_in(node, &command, &answer, now);
    }
}

impl Timed for Batch {
    fn handle_timeout(self: Arc<Self>, now: Moment) {
        let mut entries = self.lock();
        entries.iter_mut().for_each(|entry| entry.machine.handle_timeout(now));
        self.settle(entries, now);
    }
}
