//! What one seed decides before anything happens: the size of the run, its clocks and its pace.

use std::{sync::Arc, time::Duration};

use quorate_core::{dialect::Dialect, membership::slack_us, terms::Drift};

use crate::{
    clock::{MS, Nanos, Ppm, SECOND, US},
    dice::Dice,
    fault::Bound,
    full::Full,
};

/// One run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What everything follows from.
    pub seed: u64,
    /// How many nodes vote.
    pub nodes: usize,
    /// How many servers are no nodes yet; none, but where the set of nodes changes.
    pub spares: usize,
    /// How many clients there are.
    pub clients: usize,
    /// How many things each client does at the same time.
    pub tasks: usize,
    /// How many locks they share.
    pub locks: usize,
    /// Whether clients wait in line, or ask again and again as in classic mode.
    pub has_queue: bool,
    /// How long a session lasts if it is not heard of, in milliseconds.
    pub session_ms: u64,
    /// Whether pushes may overtake replies.
    pub do_pushes_overtake: bool,
    /// Whether nothing goes wrong at all, so that nobody may have to wait for a timer.
    pub is_calm: bool,
    /// Whether a minority of the nodes stays away for good in the end, and one client is cut off
    /// from the majority of the rest.
    pub does_end_cut: bool,
    /// The ttls to choose from, in milliseconds.
    pub ttls_ms: Vec<u64>,
    /// Which bound may be broken; `None` if exclusion is promised throughout.
    pub beyond: Option<Bound>,
    /// Whether locks are held for long, and there are many of them, instead of few that all want.
    pub is_hoarding: bool,
    /// For how long a lock is held, at the most.
    pub hold_max: Nanos,
    /// For how long users think between two things, at the most.
    pub think_max: Nanos,
    /// Whether times come from a handful of values, so that they coincide.
    pub is_coarse: bool,
    /// The rate of each client's clock.
    pub client_rates: Vec<Ppm>,
    /// The rate of each node's clock.
    pub node_rates: Vec<Ppm>,
    /// The least time that a message takes.
    pub latency: Nanos,
    /// By how much that varies.
    pub jitter: Nanos,
    /// A link that is silent for so long, while something is awaited, is made anew.
    pub link_timeout: Nanos,
    /// For how long work goes on under faults.
    pub faults_until: Nanos,
    /// For how long work goes on at all.
    pub work_until: Nanos,
    /// How many faults there are, besides nodes that are full.
    pub faults: usize,
    /// When nodes are full.
    pub fulls: Vec<Full>,
    /// The restart guard, if nodes are guarded.
    pub quarantine: Option<QuarantineSettings>,
    /// Whether nodes forget although exclusion is promised: the guard makes up for it.
    pub is_forgetful: bool,
    /// Who shares locks, if anybody does.
    pub sharing: Option<Sharing>,
    /// Whether nodes are restarted without their data one after the other, and nothing else goes
    /// wrong: holders keep their locks.
    pub is_rolling: bool,
    /// A link with more unanswered requests than this is busy, and leaves commands to be batched.
    pub idle_max: usize,
    /// Whether users want several locks at once.
    pub has_sets: bool,
    /// Whether some hold locks as entries of an identity, which others have, too.
    pub has_identities: bool,
}

/// Who shares locks with others.
#[derive(Clone, Copy, Debug)]
pub struct Sharing {
    /// How many of a hundred requests do.
    pub percent: u64,
    /// Whether there are so many of them that a lock is shared all the time, if nobody who wants it
    /// alone ever gets its turn.
    pub is_crowded: bool,
}

/// How nodes are guarded.
#[derive(Clone, Copy, Debug)]
pub struct QuarantineSettings {
    /// For how long a doubted node does not vote, in milliseconds.
    pub quarantine_ms: u64,
    /// By how much a client's wall clock may be wrong at the most, in milliseconds.
    pub wall_ms: u64,
    /// Whether servers write everything to disk at once, and clients count on that.
    pub is_durable: bool,
}

impl QuarantineSettings {
    fn draw(dice: &mut Dice, ttl_ms: u64, session_ms: u64) -> Self {
        // Some wall clocks are worse than the guard is long: the nodes' clocks must do then.
        let wall_ms = dice.pick(&[WALL_FINE_MS, WALL_FINE_MS, WALL_LOOSE_MS]);
        let quarantine_ms = ttl_ms + ttl_ms / 50 + 2 * WALL_FINE_MS + session_ms;
        Self { quarantine_ms, wall_ms, is_durable: dice.below(4) == 0 }
    }

    /// Whether wall clocks are good enough to end the guard without the node's.
    pub(crate) const fn is_wall_fine(&self) -> bool {
        self.wall_ms <= WALL_FINE_MS
    }

    /// How far a ticket may lie from a node's time.
    pub(crate) fn slack_us(&self) -> u64 {
        slack_us(Some(self.quarantine_ms))
    }

    /// The least that it lasts in true time, by clocks that run as promised.
    pub(crate) const fn least(&self) -> Nanos {
        (self.quarantine_ms / 100 * 98).saturating_sub(2 * WALL_FINE_MS) * MS
    }
}

impl Settings {
    /// Draws a run from a seed. What `fixed` says is not drawn.
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
            // In classic mode whoever is cut off can keep the others from a majority for ever.
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

    /// In a fifth of the runs users want several locks at once. They have a stream of their own,
    /// too.
    fn in_sets(mut self) -> Self {
        let mut dice = Dice::new(self.seed, SET_STREAM);
        if dice.below(5) == 0 && !self.is_crowded() {
            (self.has_sets, self.locks) = (true, self.locks.max(dice.between(2, 4) as usize));
        }
        self
    }

    /// In a fifth of the runs in line some locks are reentrant. They have a stream of their own,
    /// too.
    fn reentrant(mut self) -> Self {
        let mut dice = Dice::new(self.seed, IDENTITY_STREAM);
        self.has_identities = self.has_queue && !self.is_crowded() && dice.below(5) == 0;
        self
    }

    /// In an eighth of the runs a link counts as busy as soon as one request is unanswered, nodes
    /// take every batch, and clients want several locks. They have a stream of their own, too.
    fn batched(mut self) -> Self {
        if Dice::new(self.seed, BATCH_STREAM).below(8) == 0 {
            self.idle_max = 0;
            if !self.is_crowded() {
                (self.tasks, self.locks) = (3, self.locks.max(3));
            }
        }
        self
    }

    /// A third of the runs in line have locks that are shared. They have a stream of their own,
    /// too.
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

    /// Most runs in line are guarded, and a third of the others; most of those forget. They have
    /// a stream of their own, so that all others are what they were.
    fn quarantined(mut self, fixed: &Fixed) -> Self {
        let mut dice = Dice::new(self.seed, GUARD_STREAM);
        let (has_quarantine, is_forgetful) = (dice.below(3) != 0, dice.below(3) != 0);
        let has_quarantine = has_quarantine == self.has_queue;
        let has_quarantine = fixed.has_quarantine.unwrap_or(has_quarantine);
        // One who is cut off is in the way for a ttl: that must be long where it is looked for.
        let is_cut = self.does_end_cut && self.longest_ttl() >= SECOND;
        let has_quarantine = has_quarantine && (!is_cut || fixed.has_quarantine.is_some());
        if self.nodes < 3 || !has_quarantine {
            return self;
        }
        // Short ones, so that a guard comes to its end while there is work.
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

    /// In an eighth of the runs in line where nodes forget, they are restarted in turn. They have
    /// a stream of their own, too.
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

    /// Whether leases are left to others: in line only where locks are shared, and not where nobody
    /// may have to wait for a timer.
    pub(crate) const fn does_leave(&self) -> bool {
        !self.has_queue || (self.sharing.is_some() && !self.is_calm)
    }

    /// How clients speak with nodes.
    pub(crate) const fn dialect(&self) -> Dialect {
        if self.has_queue { Dialect::Queue } else { Dialect::Classic }
    }

    /// Whether nodes know the sessions of clients, and vote only by them.
    pub(crate) const fn has_sessions(&self) -> bool {
        self.has_queue || self.quarantine.is_some()
    }

    /// The longest that a question and its answer take when nothing is wrong.
    pub(crate) const fn longest_trip(&self) -> Nanos {
        2 * (self.latency + self.jitter)
    }

    /// How many servers there are, nodes or not.
    pub(crate) const fn servers(&self) -> usize {
        self.nodes + self.spares
    }

    /// Whether the set of nodes changes, so that clients may know different ones.
    pub(crate) const fn is_changing(&self) -> bool {
        self.spares > 0
    }

    /// The longest ttl that anybody uses.
    #[must_use]
    pub fn longest_ttl(&self) -> Nanos {
        self.ttls_ms.iter().max().copied().unwrap_or(0) * MS
    }
}

/// What the caller wants instead of what the seed says.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fixed {
    /// How many nodes.
    pub nodes: Option<usize>,
    /// How many clients.
    pub clients: Option<usize>,
    /// Whether clients wait in line.
    pub has_queue: Option<bool>,
    /// Whether nodes are guarded, where there are three or more.
    pub has_quarantine: Option<bool>,
    /// Whether locks are shared, where clients wait in line.
    pub is_shared: Option<bool>,
}

/// Short and long leases have different troubles, and so have near and far nodes.
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

/// Rates within the promise, its ends among them.
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

/// Exclusion is promised while every clock keeps to true time within half a per cent.
const PROMISED: Rates = Rates(5_000);

/// The allowance that every lease is made with.
pub(crate) const DRIFT: Drift = Drift { ppm: 10_000, fixed: Duration::from_millis(2) };

/// A node may read its clock this much late: servers look at a clock that was read before.
pub(crate) const CLOCK_LAG_MAX: Nanos = MS;

/// A process that runs handles what is due within this time.
pub(crate) const WAKE_LAG_MAX: Nanos = MS / 2;

/// Once faults have stopped and nobody wants a lock any more, everything that was asked to be
/// freed is free within this time.
pub(crate) const SETTLED_WITHIN: Nanos = 2 * SECOND;

const STREAM: u64 = 1;
const GUARD_STREAM: u64 = 3;
const SHARE_STREAM: u64 = 4;
const ROLLING_STREAM: u64 = 5;
const BATCH_STREAM: u64 = 6;
const SET_STREAM: u64 = 7;
const IDENTITY_STREAM: u64 = 8;

/// The address of a node.
pub(crate) fn label(node: usize) -> Arc<str> {
    format!("n{node}").into()
}

/// The time that wall clocks should show.
pub(crate) const fn wall_ms(now: Nanos) -> u64 {
    1_800_000_000_000 + now / MS
}

/// By how much wall clocks may be wrong where the guard allows for it: less than a real one does,
/// as everything else here is.
const WALL_FINE_MS: u64 = 20;

/// And where only the nodes' clocks are good.
const WALL_LOOSE_MS: u64 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_world() {
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
    fn the_drift_is_the_default_one() {
        assert_eq!(DRIFT, Drift::default());
    }
}
