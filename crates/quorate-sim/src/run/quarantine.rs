//! Runs with quarantine: how the set is founded, how nodes forget, and what the checker records.

use quorate_core::{
    command::{Command, Reply},
    membership::{self, AgreedConfig, Enrolment, Handshake, Mark, Member, Members, NodeId},
};

use super::{Env, Run};
use crate::{
    clock::{MS, Nanos},
    fault::{Bound, Keeps},
    node::Noted,
    settings::{QuarantineSettings, Settings, label, wall_ms},
};

/// How far nodes' clocks may be apart, in microseconds. Only a node that has forgotten its fences
/// depends on its clock: its fences continue from there.
pub(super) fn apart_us(settings: &Settings) -> u64 {
    let quarantine = settings.quarantine.filter(|_| settings.is_forgetful);
    // In a long run, different rates bring clocks apart as well.
    let share = if settings.is_changing() { 8 } else { 4 };
    quarantine.map_or(1_000_000_000, |quarantine| quarantine.quarantine_ms * 1_000 / share)
}

/// How much longer a waiter may have to wait than without quarantine: for quarantines of nodes, and
/// for another one that a late client starts.
pub(super) fn progress_within(settings: &Settings) -> Nanos {
    settings.quarantine.map_or(0, |QuarantineSettings { quarantine_ms, wall_ms, .. }| {
        (3 * quarantine_ms + 2 * wall_ms) * MS
    })
}

impl Env {
    /// If all nodes forget at about the same time, clients may found two sets. Then an operator
    /// must empty the nodes of one of them.
    pub(super) fn end_split(&mut self) {
        let origins: Vec<_> =
            self.nodes.iter().map(|node| node.store.membership.origin()).collect();
        // The set with the most votes, or else with the most nodes.
        let weight = |(origin, _): &&(NodeId, bool)| {
            let of = || origins.iter().flatten().filter(|it| it.0 == *origin);
            (of().filter(|it| it.1).count(), of().count())
        };
        let Some((most, _)) = origins.iter().flatten().max_by_key(weight).copied() else { return };
        for (node, origin) in self.nodes.iter_mut().zip(&origins) {
            if origin.is_some_and(|(origin, _)| origin != most) {
                node.store.clear();
                self.count.emptied += 1;
                // Its quarantine begins again.
                self.check.delay_stalls(self.now);
            }
        }
    }

    /// Founds the set: all nodes vote from the start.
    pub(super) fn found(&mut self) {
        let Some(QuarantineSettings { quarantine_ms, is_durable, .. }) = self.settings.quarantine
        else {
            return;
        };
        self.count.quarantined = 1;
        let id = |node: usize| NodeId::from_random(node as u128 + 1);
        let nodes = 0..self.nodes.len();
        let member = |node: usize| Member { id: id(node), label: label(node) };
        let members = Members::new(nodes.map(member));
        let max_ttl_ms = self.settings.longest_ttl() / MS;
        let config =
            AgreedConfig::founded_by(members, max_ttl_ms, quarantine_ms).expect("there are nodes");
        let (wall_ms, lifetime_ms) = (wall_ms(0), self.settings.session_ms);
        for (number, node) in self.nodes.iter_mut().enumerate() {
            let [mark, fresh] = [1, 2].map(|bits| Mark::from_random(number as u128 * 2 + bits));
            let (id, known) = (id(number), None);
            let handshake = Handshake {
                wall_ms,
                known,
                mark,
                id,
                lifetime_ms,
                quarantine_ms,
                is_read_only: false,
                is_durable,
            };
            let enrolment = Enrolment { mark, id, config: config.clone(), wall_ms };
            let time = node.clock.at(0);
            // A client that knows no later time cannot notice a rollback to this one.
            node.memory.seen_ms = time.as_millis();
            for command in [
                membership::Command::Handshake(handshake),
                membership::Command::Enrol(enrolment),
                membership::Command::Admit { mark, fresh },
            ] {
                let reply = node.store.apply(time, &command.clone().into());
                debug_assert!(reply != Reply::Stale, "{command:?}");
            }
        }
    }

    /// Records what a command shows about the memory of its node.
    pub(super) fn note_memory(&mut self, node: usize, command: &Command, reply: &Reply) {
        if self.settings.quarantine.is_none() {
            return;
        }
        let known = &mut self.nodes[node];
        let time_ms = known.clock.at(self.now).as_millis();
        match known.memory.note(time_ms, command, reply) {
            Noted::Nothing => {}
            Noted::Doubts { is_right } => {
                self.count.doubts += 1;
                self.count.false_doubts += u64::from(!is_right);
            }
            Noted::Unwitnessed => self.check.break_bound(Bound::Witness),
        }
    }

    /// For how long a node that forgot a claim must not vote for others: no claim from before lasts
    /// longer.
    pub(super) fn carried_for(&self) -> Nanos {
        match self.settings.is_forgetful {
            true => self.settings.longest_ttl() / 50 * 51,
            false => 0,
        }
    }

    /// A node has forgotten what it had granted.
    fn note_forgotten(&mut self) {
        if self.settings.is_forgetful {
            self.count.forgettings += 1;
            self.check.note_forgotten();
        }
    }
}

impl Run {
    /// A server process ends, and another one starts with the data that was kept.
    pub(crate) fn restart(&mut self, index: usize, node: usize, keeps: Keeps) {
        let env = &mut self.env;
        let is_durable = env.settings.quarantine.is_some_and(|quarantine| quarantine.is_durable);
        let known = &mut env.nodes[node];
        known.recall(env.now, index as u16, keeps);
        known.run_anew();
        if keeps != Keeps::Everything {
            env.note_forgotten();
        } else if !is_durable {
            known.memory.suspect();
        }
        self.hang_up_all(node);
    }

    pub(crate) fn flush(&mut self, node: usize) {
        self.env.nodes[node].forget_all(self.env.now);
        self.env.note_forgotten();
    }

    /// A virtual machine is rolled back, with its server.
    pub(super) fn roll_back(&mut self, index: usize, node: usize) {
        self.env.nodes[node].set_back(self.env.now, index as u16);
        self.env.note_forgotten();
        self.hang_up_all(node);
    }

    /// A node copies the data of another. With different clocks its keys would never expire.
    pub(super) fn copy(&mut self, node: usize, of: usize) {
        let env = &mut self.env;
        if node == of || env.nodes[node].is_stepped || env.nodes[of].is_stepped {
            return;
        }
        let other = env.nodes[of].store.clone();
        env.nodes[node].copy(env.now, &other);
        env.note_forgotten();
    }

    pub(super) fn black_out(&mut self, index: usize, nodes: u32, is_kept: bool) {
        let keeps = if is_kept { Keeps::Everything } else { Keeps::Nothing };
        for node in (0..self.env.nodes.len()).filter(|node| nodes & (1 << node) != 0) {
            self.restart(index, node, keeps);
        }
    }

    /// Sets a node's clock. A step forward expires grants early, so it counts as forgetting. Only
    /// one clock may be set back, because the node's keys then last beyond the end of the run.
    pub(super) fn step(&mut self, node: usize, micros: i64) {
        let env = &mut self.env;
        if !env.settings.is_forgetful {
            env.nodes[node].clock.step(micros);
            return;
        }
        if micros < 0 && env.nodes.iter().any(|known| known.is_stepped) {
            return;
        }
        env.nodes[node].clock.step(micros);
        env.nodes[node].is_stepped = true;
        env.check.note_wrong_clock();
        if micros > 0 {
            env.nodes[node].memory.forget(env.now);
            env.count.forgettings += 1;
            env.check.note_lost();
        }
    }

    /// Sets the clock of a node that does not vote, where wall clocks are good enough to notice.
    pub(super) fn nudge(&mut self, node: usize, micros: i64) {
        let env = &mut self.env;
        let Some(quarantine) = env.settings.quarantine.filter(QuarantineSettings::is_wall_fine)
        else {
            return;
        };
        let session = env.settings.session_ms * MS;
        let known = &mut env.nodes[node];
        let is_out = known.memory.is_forgetful(env.now, quarantine.least());
        if is_out && !known.memory.is_unwitnessed() {
            known.clock.step(micros);
            known.is_stepped = true;
            // Holders that do not know yet may have extended their leases there.
            known.memory.forget_extended(env.now, session);
            env.check.note_wrong_clock();
        }
    }

    fn hang_up_all(&mut self, node: usize) {
        self.env.nodes[node].hang_up_all();
        self.break_node(node);
    }
}
