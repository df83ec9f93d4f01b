//! What a seed draws before the run begins: the number of nodes and clients, clocks and pace.

use std::{sync::Arc, time::Duration};

use quorate_core::{dialect::Dialect, membership::slack_us, terms::Drift};

use crate::{
    clock::{MS, Nanos, Ppm, SECOND, US},
    dice::Dice,
    fault::Bound,
    full::Full,
};

/// The settings of one run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The seed.
    pub seed: u64,
    /// How many nodes vote.
    pub nodes: usize,
    /// How many servers are not nodes yet; only where the set of nodes changes.
    pub spares: usize,
    /// How many clients there are.
    pub clients: usize,
    /// How many tasks each client has at the same time.
    pub tasks: usize,
    /// How many locks there are.
    pub locks: usize,
    /// Whether clients wait in a queue, or retry as in classic mode.
    pub has_queue: bool,
    /// The lifetime of a session without pings, in milliseconds.
    pub session_ms: u64,
    /// Whether pushes may overtake replies.
    pub do_pushes_overtake: bool,
    /// Whether there are no faults at all, so that no client may have to wait for a timer.
    pub is_calm: bool,
    /// Whether in the end a minority of the nodes stays away for good, and one client reaches fewer
    /// than a majority.
    pub does_end_cut: bool,
    /// The ttls to choose from, in milliseconds.
    pub ttls_ms: Vec<u64>,
    /// Which bound may be broken; `None` if exclusion is promised throughout.
    pub beyond: Option<Bound>,
    /// Whether locks are held for long, and there are many of them, instead of a few contended
    /// ones.
    pub is_hoarding: bool,
    /// The longest time for which a lock is held.
    pub hold_max: Nanos,
    /// The longest pause of a user between two operations.
    pub think_max: Nanos,
    /// Whether times come from a handful of values, so that they coincide.
    pub is_coarse: bool,
    /// The rate of each client's clock.
    pub client_rates: Vec<Ppm>,
    /// The rate of each node's clock.
    pub node_rates: Vec<Ppm>,
    /// The least time that a message takes.
    pub latency: Nanos,
    /// By how much longer it may take.
    pub jitter: Nanos,
    /// A link that is silent for this long while a reply is awaited is opened again.
    pub link_timeout: Nanos,
    /// For how long there are faults.
    pub faults_until: Nanos,
    /// For how long clients work.
    pub work_until: Nanos,
    /// How many faults there are, besides full nodes.
    pub faults: usize,
    /// When nodes are full.
    pub fulls: Vec<Full>,
    /// The quarantine, if nodes use it.
    pub quarantine: Option<QuarantineSettings>,
    /// Whether nodes forget although exclusion is promised: the quarantine protects it.
    pub is_forgetful: bool,
    /// How locks are shared, if they are.
    pub sharing: Option<Sharing>,
    /// Whether nodes restart without their data one after the other, without other faults: holders
    /// keep their locks.
    pub is_rolling: bool,
    /// A link with more unanswered requests than this is busy, and leaves commands to be batched.
    pub idle_max: usize,
    /// Whether users acquire several locks at once.
    pub has_sets: bool,
    /// Whether some requests are entries of an identity that several clients share.
    pub has_identities: bool,
}

/// How locks are shared.
#[derive(Clone, Copy, Debug)]
pub struct Sharing {
    /// How many of a hundred requests are readers.
    pub percent: u64,
    /// Whether readers come so often that a lock would be shared all the time if writers were not
    /// served in queue order.
    pub is_crowded: bool,
}

/// The quarantine of nodes.
#[derive(Clone, Copy, Debug)]
pub struct QuarantineSettings {
    /// For how long a quarantined node does not vote, in milliseconds.
    pub quarantine_ms: u64,
    /// The largest error of a client's wall clock, in milliseconds.
    pub wall_ms: u64,
    /// Whether servers write everything to disk at once, and clients count on that.
    pub is_durable: bool,
}

impl QuarantineSettings {
    fn draw(dice: &mut Dice, ttl_ms: u64, session_ms: u64) -> Self {
        // Some wall clocks are wrong by more than a quarantine: then the nodes' clocks must do.
        let wall_ms = dice.pick(&[WALL_FINE_MS, WALL_FINE_MS, WALL_LOOSE_MS]);
        let quarantine_ms = ttl_ms + ttl_ms / 50 + 2 * WALL_FINE_MS + session_ms;
        Self { quarantine_ms, wall_ms, is_durable: dice.below(4) == 0 }
    }

    /// Whether wall clocks are good enough to end a quarantine without the node's clock.
    pub(crate) const fn is_wall_fine(&self) -> bool {
        self.wall_ms <= WALL_FINE_MS
    }

    /// How far a ticket may differ from a node's time.
    pub(crate) fn slack_us(&self) -> u64 {
        slack_us(Some(self.quarantine_ms))
    }

    /// Its shortest duration in true time, by clocks within the bounds.
    pub(crate) const fn least(&self) -> Nanos {
        (self.quarantine_ms / 100 * 98).saturating_sub(2 * WALL_FINE_MS) * MS
    }
}

impl Settings {
    /// Draws the settings of a seed. Values in `fixed` are not drawn.
    #[must_use]
    pub fn draw(seed: u64, fixed: &Fixed) -> Self {
        let mut dice = Dice::new(seed, STREAM);
        let nodes = dice.pick(&[1, 2, 3, 3, 3, 3, 4, 5, 5, 5]);
        let nodes = fixed.nodes.unwrap_or(nodes);
        let clients = dice.between(2, 5) as usize;
        let clients = fixed.clients.unwrap_or(clients);
        let beyond = (dice.below(4) == 0).then(|| dice.pick(&Bound::DRAWN));
        let is_coarse = dice.below(3) == 0;
        let is_hoarding = dice.below(4) == 0;
        let pace = Pace::draw(&mut dice);
        let mut rate = |wrong| match beyond {
            Some(Bound::Clocks) => dice.pick(wrong),
            _ => PROMISED.draw(&mut dice),
        };
        let client_rates = (0..clients).map(|_| rate(&[0, -5_000, -60_000, 30_000])).collect();
        let node_rates = (0..nodes).map(|_| rate(&[0, 0, 5_000, 80_000, -80_000])).collect();
        let faults_until = dice.between(800, 1_600) * MS;
        let is_calm = beyond.is_none() && dice.below(8) == 0;
        let has_queue = fixed.has_queue.unwrap_or_else(|| dice.below(2) == 0);
        let drawn = Self {
            seed,
            nodes,
            spares: 0,
            clients,
            tasks: if is_hoarding { 3 } else { dice.pick(&[1, 1, 2]) },
            locks: if is_hoarding { clients } else { dice.pick(&[1, 1, 2, 3]) },
            ttls_ms: pace.ttls_ms,
            beyond,
            is_hoarding,
            hold_max: 600 * MS,
            think_max: 60 * MS,
            is_coarse,
            client_rates,
            node_rates,
            latency: if is_coarse { dice.pick(&[0, MS, 2 * MS]) } else { pace.latency },
            jitter: if is_coarse { dice.pick(&[0, MS]) } else { pace.jitter },
            link_timeout: SECOND,
            faults_until,
            work_until: faults_until + dice.between(300, 600) * MS,
            faults: if is_calm { 0 } else { dice.between(4, 14) as usize },
            has_queue,
            is_calm,
            session_ms: dice.pick(&[400, 1_000, 5_000]),
            do_pushes_overtake: dice.below(2) == 0,
            // In classic mode a client that is cut off can block a majority indefinitely.
            does_end_cut: has_queue && nodes >= 3 && !is_calm && dice.below(4) == 0,
            quarantine: None,
            is_forgetful: false,
            sharing: None,
            is_rolling: false,
            idle_max: 2,
            has_sets: false,
            has_identities: false,
            fulls: Vec::new(),
        };
        drawn.quarantined(fixed).shared(fixed).rolling().filled().batched().in_sets().reentrant()
    }

    /// In a fifth of the runs users acquire several locks at once. These have their own stream.
    fn in_sets(mut self) -> Self {
        let mut dice = Dice::new(self.seed, SET_STREAM);
        if dice.below(5) == 0 && !self.is_crowded() {
            (self.has_sets, self.locks) = (true, self.locks.max(dice.between(2, 4) as usize));
        }
        self
    }

    /// In a fifth of the queue runs some locks are reentrant. These have their own stream.
    fn reentrant(mut self) -> Self {
        let mut dice = Dice::new(self.seed, IDENTITY_STREAM);
        self.has_identities = self.has_queue && !self.is_crowded() && dice.below(5) == 0;
        self
    }

    /// In an eighth of the runs a link counts as busy as soon as one request is unanswered, nodes
    /// take every batch, and clients use several locks. These have their own stream.
    fn batched(mut self) -> Self {
        if Dice::new(self.seed, BATCH_STREAM).below(8) == 0 {
            self.idle_max = 0;
            if !self.is_crowded() {
                (self.tasks, self.locks) = (3, self.locks.max(3));
            }
        }
        self
    }

    /// In a third of the queue runs locks are shared. These have their own stream.
    fn shared(mut self, fixed: &Fixed) -> Self {
        let mut dice = Dice::new(self.seed, SHARE_STREAM);
        let is_shared = dice.below(3) == 0;
        if !self.has_queue || !fixed.is_shared.unwrap_or(is_shared) {
            return self;
        }
        let percent = dice.between(30, 80);
        let is_crowded = dice.below(4) == 0 && !self.is_hoarding;
        if is_crowded {
            (self.tasks, self.locks, self.think_max) = (3, 1, 5 * MS);
        }
        self.sharing = Some(Sharing { percent, is_crowded });
        self
    }

    /// In most queue runs and in a third of the others nodes use quarantine, and in most of those
    /// nodes forget. These have their own stream, so that the other seeds keep their meaning.
    fn quarantined(mut self, fixed: &Fixed) -> Self {
        let mut dice = Dice::new(self.seed, QUARANTINE_STREAM);
        let (has_quarantine, is_forgetful) = (dice.below(3) != 0, dice.below(3) != 0);
        let has_quarantine = has_quarantine == self.has_queue;
        let has_quarantine = fixed.has_quarantine.unwrap_or(has_quarantine);
        // A client that is cut off may block others for a ttl, which must be long to be noticed.
        let is_cut = self.does_end_cut && self.longest_ttl() >= SECOND;
        let has_quarantine = has_quarantine && (!is_cut || fixed.has_quarantine.is_some());
        if self.nodes < 3 || !has_quarantine {
            return self;
        }
        // Short ttls, so that a quarantine ends while clients work.
        self.ttls_ms = dice.pick::<&[u64]>(&[&[40, 60], &[100, 150], &[200, 300], &[400]]).to_vec();
        self.session_ms = dice.pick(&[100, 200, 400]);
        let longest_ms = self.longest_ttl() / MS;
        let quarantine = QuarantineSettings::draw(&mut dice, longest_ms, self.session_ms);
        let is_memory = self.beyond == Some(Bound::Memory);
        if is_memory {
            self.beyond = None;
        }
        self.is_forgetful = is_memory || (self.beyond.is_none() && !self.is_calm && is_forgetful);
        self.quarantine = Some(quarantine);
        let more = if self.is_calm { 0 } else { quarantine.quarantine_ms * MS };
        self.faults_until += more;
        self.work_until += 2 * more;
        self
    }

    /// In an eighth of the queue runs in which nodes forget, they restart one after the other.
    /// These have their own stream.
    fn rolling(mut self) -> Self {
        let mut dice = Dice::new(self.seed, ROLLING_STREAM);
        let is_rolling = dice.below(8) == 0 && self.has_queue && self.is_forgetful;
        let Some(quarantine) = self.quarantine.as_mut().filter(|_| is_rolling) else { return self };
        self.is_rolling = true;
        self.does_end_cut = false;
        self.ttls_ms = dice.pick::<&[u64]>(&[&[200, 300], &[400], &[300, 400]]).to_vec();
        let longest_ms = self.ttls_ms.iter().max().copied().unwrap_or(0);
        *quarantine = QuarantineSettings::draw(&mut dice, longest_ms, self.session_ms);
        (quarantine.wall_ms, quarantine.is_durable) = (WALL_FINE_MS, false);
        (self.tasks, self.locks) = (2, 2);
        self.faults = self.nodes;
        self.faults_until = self.restarted_every() * (self.nodes as u64 + 1);
        self.work_until = self.faults_until + 300 * MS;
        self
    }

    /// When a restarted node certainly votes, and is asked for locks, so that the next can follow.
    pub(crate) fn restarted_every(&self) -> Nanos {
        let quarantine_ms = self
            .quarantine
            .map_or(0, |quarantine| quarantine.quarantine_ms / 50 * 51 + 2 * quarantine.wall_ms);
        (quarantine_ms + 3 * self.session_ms + 600) * MS
    }

    /// Whether a lock is shared all the time.
    pub(crate) fn is_crowded(&self) -> bool {
        self.sharing.is_some_and(|sharing| sharing.is_crowded)
    }

    /// Whether leases are detached for others: in queue runs only where locks are shared, and not
    /// where no client may have to wait for a timer.
    pub(crate) const fn does_leave(&self) -> bool {
        !self.has_queue || (self.sharing.is_some() && !self.is_calm)
    }

    /// The dialect of clients.
    pub(crate) const fn dialect(&self) -> Dialect {
        if self.has_queue { Dialect::Queue } else { Dialect::Classic }
    }

    /// Whether clients have sessions, without which nodes do not vote.
    pub(crate) const fn has_sessions(&self) -> bool {
        self.has_queue || self.quarantine.is_some()
    }

    /// The longest round trip without faults.
    pub(crate) const fn longest_trip(&self) -> Nanos {
        2 * (self.latency + self.jitter)
    }

    /// How many servers there are, including spare ones.
    pub(crate) const fn servers(&self) -> usize {
        self.nodes + self.spares
    }

    /// Whether the set of nodes changes, so that clients may know different ones.
    pub(crate) const fn is_changing(&self) -> bool {
        self.spares > 0
    }

    /// The longest ttl of a request.
    #[must_use]
    pub fn longest_ttl(&self) -> Nanos {
        self.ttls_ms.iter().max().copied().unwrap_or(0) * MS
    }
}

/// Values that override what the seed draws.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fixed {
    /// How many nodes.
    pub nodes: Option<usize>,
    /// How many clients.
    pub clients: Option<usize>,
    /// Whether clients wait in a queue.
    pub has_queue: Option<bool>,
    /// Whether nodes use quarantine, where there are three or more.
    pub has_quarantine: Option<bool>,
    /// Whether locks are shared, where clients wait in a queue.
    pub is_shared: Option<bool>,
}

/// Short and long leases fail in different ways, and so do near and far nodes.
struct Pace {
    ttls_ms: Vec<u64>,
    latency: Nanos,
    jitter: Nanos,
}

impl Pace {
    fn draw(dice: &mut Dice) -> Self {
        let ttls_ms: &[u64] = dice.pick(&[
            &[40, 60],
            &[100, 150],
            &[200, 300],
            &[400],
            &[200, 1_000],
            &[4_000, 300],
            &[8_000, 500],
        ]);
        let latency = dice.between(50, 1_500) * US;
        let jitter = dice.between(0, 2_000) * US;
        Self { ttls_ms: ttls_ms.to_vec(), latency, jitter }
    }
}

/// Rates within the bounds, often at their ends.
struct Rates(Ppm);

impl Rates {
    fn draw(&self, dice: &mut Dice) -> Ppm {
        let width = self.0.unsigned_abs();
        match dice.below(4) {
            0 => self.0,
            1 => -self.0,
            _ => dice.below(u64::from(2 * width) + 1) as Ppm - self.0,
        }
    }
}

/// Exclusion is promised while every clock runs within half a per cent of true time.
const PROMISED: Rates = Rates(5_000);

/// The allowance that every lease is made with.
pub(crate) const DRIFT: Drift = Drift { ppm: 10_000, fixed: Duration::from_millis(2) };

/// A node may read its clock this much late: servers use a clock that was read before.
pub(crate) const CLOCK_LAG_MAX: Nanos = MS;

/// A running process handles due work within this time.
pub(crate) const WAKE_LAG_MAX: Nanos = MS / 2;

/// After the last fault and the last request, all releases are executed within this time.
pub(crate) const SETTLED_WITHIN: Nanos = 2 * SECOND;

const STREAM: u64 = 1;
const QUARANTINE_STREAM: u64 = 3;
const SHARE_STREAM: u64 = 4;
const ROLLING_STREAM: u64 = 5;
const BATCH_STREAM: u64 = 6;
const SET_STREAM: u64 = 7;
const IDENTITY_STREAM: u64 = 8;

/// The address of a node.
pub(crate) fn label(node: usize) -> Arc<str> {
    format!("n{node}").into()
}

/// The time that correct wall clocks show.
pub(crate) const fn wall_ms(now: Nanos) -> u64 {
    1_800_000_000_000 + now / MS
}

/// The largest error of wall clocks that the quarantine allows for. Like all times of the simulator
/// it is smaller than a real one.
const WALL_FINE_MS: u64 = 20;

/// The largest error of wall clocks where only the nodes' clocks are good.
const WALL_LOOSE_MS: u64 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_gives_the_same_settings() {
        let draw = |seed| format!("{:?}", Settings::draw(seed, &Fixed::default()));
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn promised_rates_stay_within_half_a_per_cent_and_reach_both_ends() {
        let mut dice = Dice::new(1, 1);
        let rates: Vec<Ppm> = (0..200).map(|_| PROMISED.draw(&mut dice)).collect();
        assert!(rates.iter().all(|rate| (-5_000..=5_000).contains(rate)));
        assert!(rates.contains(&5_000) && rates.contains(&-5_000));
    }

    #[test]
    fn drift_is_the_default_one() {
        assert_eq!(DRIFT, Drift::default());
    }
}
