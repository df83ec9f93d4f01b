//! When nodes are full. These faults have their own stream, so that the other faults of a seed stay
//! the same.

use crate::{
    clock::{MS, Nanos},
    dice::Dice,
    fault::{Fault, What},
    settings::Settings,
};

/// A period in which nodes are full.
#[derive(Clone, Copy, Debug)]
pub struct Full {
    /// When it begins, in true time.
    pub at: Nanos,
    /// For how long.
    pub lasts: Nanos,
    /// Which nodes, as bits.
    pub nodes: u32,
}

impl Full {
    pub(crate) const fn fault(self) -> Fault {
        let Self { at, lasts, nodes } = self;
        Fault { at, lasts, client: 0, node: 0, lock: 0, what: What::Full { nodes } }
    }
}

impl Settings {
    /// In a third of the runs nodes are full for a while among the other faults. In a quarter of
    /// the runs they are full after the other faults, for longer than a session and a lease: no
    /// lease may be lost.
    pub(crate) fn filled(mut self) -> Self {
        let mut dice = Dice::new(self.seed, STREAM);
        let [is_struck, is_tried] = [dice.below(3) == 0, dice.below(4) == 0];
        if self.is_calm || self.is_rolling {
            return self;
        }
        let ttl = self.longest_ttl();
        if is_struck {
            let at = dice.between(5 * MS, self.faults_until.saturating_sub(50 * MS));
            let lasts = dice.between(MS, 2 * ttl);
            self.fulls.push(Full { at, lasts, nodes: self.draw_nodes(&mut dice) });
        }
        let least = self.session_ms * MS + 2 * ttl;
        if is_tried && self.beyond.is_none() && !self.does_end_cut && least <= LEAST_MAX {
            let at = self.faults_until + self.session_ms * MS + dice.below(ttl);
            let lasts = least + dice.below(ttl);
            self.fulls.push(Full { at, lasts, nodes: self.draw_nodes(&mut dice) });
            let after = self.work_until - self.faults_until;
            self.work_until = at + lasts + after;
        }
        self
    }

    /// All nodes or one node.
    fn draw_nodes(&self, dice: &mut Dice) -> u32 {
        match dice.below(2) {
            0 => (1 << self.nodes) - 1,
            _ => 1 << dice.index(self.nodes),
        }
    }
}

/// Runs in which this would take longer are left to other faults.
const LEAST_MAX: Nanos = 2_000 * MS;

const STREAM: u64 = 5;
