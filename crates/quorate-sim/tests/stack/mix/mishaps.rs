//! Servers that forget: they lose their data, serve other data, or their clocks step forward.

use std::time::Duration;

use quorate_core::quorum::majority;

use super::settings::{Forgetting, Settings};
use crate::{
    dice::Dice,
    fixture::Fixture,
    server::{Keeps, Node},
};

/// Lets servers forget during the chaos. At its end all of them run.
pub(super) struct Mishaps {
    dice: Dice,
    settings: Settings,
    next_at: Duration,
    snapshot_at: Duration,
    /// Planned events.
    due: Vec<(Duration, Due)>,
    /// The next server of a rolling restart.
    turn: usize,
    is_stepped: bool,
}

/// A planned event.
#[derive(Clone, Debug)]
enum Due {
    /// A server that is down starts.
    Start(usize),
    Strike(usize, Mishap),
    /// A program reaches these servers again.
    Repair(String, Vec<usize>),
}

/// What happens to a server.
#[derive(Clone, Copy, Debug)]
enum Mishap {
    Restart(Keeps),
    Flush,
    Copy(usize),
    Step(i64),
}

impl Mishaps {
    pub(super) fn new(seed: u64, settings: Settings) -> Self {
        let mut dice = Dice::new(seed, "mishaps");
        let (next_at, snapshot_at) = (dice.ms(500..=4_000), Duration::ZERO);
        Self { dice, settings, next_at, snapshot_at, due: Vec::new(), turn: 0, is_stepped: false }
    }

    /// To be called after every tick.
    pub(super) fn step(&mut self, fixture: &mut Fixture) {
        let now = fixture.now();
        let is_over = now >= self.settings.chaos_until;
        let due = self.due.extract_if(.., |(at, _)| is_over || *at <= now).collect::<Vec<_>>();
        for (_, due) in due {
            self.happen(fixture, due, is_over);
        }
        if is_over {
            return;
        }
        if now >= self.snapshot_at {
            self.snapshot_at = now + SNAPSHOT_EVERY;
            fixture.nodes.iter().for_each(|node| node.take_snapshot());
        }
        if now >= self.next_at {
            self.plan(fixture, now);
        }
    }

    fn plan(&mut self, fixture: &mut Fixture, now: Duration) {
        if self.settings.forgetting == Forgetting::Rolling {
            self.roll(fixture, now);
            return;
        }
        self.next_at = now + self.dice.ms(200..=4_000);
        let nodes = fixture.nodes.len();
        let node = self.dice.below(nodes);
        let mishap = self.draw(node, nodes);
        let holders = fixture.claims.holders();
        if self.dice.chance(70) && !holders.is_empty() && self.is_bearable(fixture, node) {
            let holder = holders[self.dice.below(holders.len())].clone();
            self.cut_off(fixture, now, holder, node);
            let after = self.settings.ttl + self.dice.ms(0..=800);
            self.next_at += after;
            self.due.push((now + after, Due::Strike(node, mishap)));
            if let Mishap::Step(_) = mishap {
                // A second step must not end the quarantine early.
                let again = after + self.dice.ms(50..=400);
                self.due.push((now + again, Due::Strike(node, mishap)));
            }
        } else if self.is_bearable(fixture, node) {
            self.strike(fixture, node, mishap);
        }
    }

    /// Cuts a holder off from a minority of the others, so that it depends on the server that is
    /// about to forget.
    fn cut_off(&mut self, fixture: &Fixture, now: Duration, holder: String, node: usize) {
        let nodes = fixture.nodes.len();
        let spare = nodes - majority(nodes);
        let from = 1 + self.dice.below(nodes - 1);
        let others = (0..nodes).map(|other| (node + from + other) % nodes);
        let cut: Vec<usize> = others.filter(|other| *other != node).take(spare).collect();
        fixture.trace.add_at(now, format_args!("{holder} is cut off from {cut:?}"));
        for other in &cut {
            fixture.sim.partition(holder.as_str(), Node::host(*other));
        }
        let back = 2 * self.settings.ttl + self.dice.ms(500..=2_500);
        self.due.push((now + back, Due::Repair(holder, cut)));
    }

    /// Restarts the next server if all vote.
    fn roll(&mut self, fixture: &mut Fixture, now: Duration) {
        if self.due.is_empty() && fixture.nodes.iter().all(|node| node.votes()) {
            let node = self.turn % fixture.nodes.len();
            self.turn += 1;
            self.next_at = now + self.dice.ms(100..=1_500);
            let keeps = [Keeps::Everything, Keeps::Nothing][self.dice.below(2)];
            self.strike(fixture, node, Mishap::Restart(self.kept(keeps)));
        }
    }

    fn draw(&mut self, node: usize, nodes: usize) -> Mishap {
        let is_step = match self.settings.forgetting {
            Forgetting::Clocks => true,
            Forgetting::Both => self.dice.chance(40),
            Forgetting::Data | Forgetting::Rolling => false,
        };
        if is_step {
            let ahead = self.dice.ms(6_000..=40_000).as_millis();
            return Mishap::Step(i64::try_from(ahead).expect("short"));
        }
        let other = (node + 1 + self.dice.below(nodes - 1)) % nodes;
        match self.dice.below(7) {
            0 => Mishap::Restart(self.kept(Keeps::Everything)),
            1 | 2 => Mishap::Restart(self.kept(Keeps::Nothing)),
            3 | 4 => Mishap::Restart(self.kept(Keeps::Snapshot)),
            5 => Mishap::Flush,
            // A clock that is far behind would keep the copied keys for long.
            _ if self.is_stepped => Mishap::Flush,
            _ => Mishap::Copy(other),
        }
    }

    /// Servers that are said to write everything to disk keep everything.
    fn kept(&self, keeps: Keeps) -> Keeps {
        if self.settings.is_durable { Keeps::Everything } else { keeps }
    }

    /// Whether a majority still votes without this server, or need not.
    fn is_bearable(&self, fixture: &Fixture, node: usize) -> bool {
        if self.is_down(node) {
            return false;
        }
        let others =
            (0..fixture.nodes.len()).filter(|other| *other != node && !self.is_down(*other));
        let votes = others.filter(|other| fixture.nodes[*other].votes()).count();
        self.settings.is_reckless || votes >= majority(fixture.nodes.len())
    }

    fn is_down(&self, node: usize) -> bool {
        self.due.iter().any(|(_, due)| matches!(due, Due::Start(down) if *down == node))
    }

    fn happen(&mut self, fixture: &mut Fixture, due: Due, is_over: bool) {
        match due {
            Due::Start(node) => {
                fixture.trace.add_at(fixture.now(), format_args!("node-{node} is started"));
                fixture.sim.bounce(Node::host(node));
            }
            Due::Repair(holder, cut) => {
                fixture.trace.add_at(fixture.now(), format_args!("{holder} reaches {cut:?} again"));
                for node in cut {
                    fixture.sim.repair(holder.as_str(), Node::host(node));
                }
            }
            Due::Strike(node, mishap) => {
                if !is_over && self.is_bearable(fixture, node) {
                    self.strike(fixture, node, mishap);
                }
            }
        }
    }

    fn strike(&mut self, fixture: &mut Fixture, node: usize, mishap: Mishap) {
        let now = fixture.now();
        fixture.trace.add_at(now, format_args!("node-{node}: {mishap:?}"));
        match mishap {
            Mishap::Restart(keeps) => {
                fixture.nodes[node].set_keeps(keeps);
                fixture.sim.crash(Node::host(node));
                let longest = if self.dice.chance(50) { 50 } else { 1_500 };
                self.due.push((now + self.dice.ms(5..=longest), Due::Start(node)));
            }
            Mishap::Flush => fixture.nodes[node].flush(),
            Mishap::Copy(other) => fixture.nodes[node].copy(&fixture.nodes[other]),
            Mishap::Step(ahead_ms) => {
                self.is_stepped = true;
                fixture.nodes[node].step_clock(ahead_ms);
            }
        }
    }
}

/// How often servers write a snapshot.
const SNAPSHOT_EVERY: Duration = Duration::from_secs(1);
