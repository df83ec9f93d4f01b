//! An operator that changes the set. It first reads the state of the wanted nodes and decides. Only
//! then does it run handshakes with them, plan the change, and send it.

use std::sync::Arc;

use quorate_core::{
    command::{Command, Reply},
    membership::{self, AgreedConfig, Handshake, NodeInfo, PlanError, plan},
    moment::Moment,
    quorum::majority,
};

use super::QUARANTINE_TIME;
use crate::{
    clock::{MS, Nanos},
    event::{Due, Event},
    net::{Waiting, Whose},
    run::Env,
    settings::label,
};

#[derive(Debug)]
pub(crate) struct Operator {
    party: usize,
    pub(super) wanted: Vec<usize>,
    labels: Vec<Arc<str>>,
    /// What each server reported, and on which connection.
    infos: Vec<Option<(NodeInfo, u32)>>,
    pub(super) config: Option<AgreedConfig>,
    /// It has decided; before that, it only reads.
    is_acting: bool,
    began_at: Nanos,
    ends_at: Nanos,
    /// To how many nodes it sends the change before it crashes.
    sends: usize,
    pub(super) is_done: bool,
    pub(super) why_not: Option<PlanError>,
}

impl Operator {
    pub(super) fn new(env: &mut Env, party: usize, wanted: Vec<usize>, sends: usize) -> Self {
        env.note_change(|| {
            format!("operator {party} wants {wanted:?}, and sends the change to up to {sends}")
        });
        for (seat, server) in wanted.iter().enumerate() {
            env.net.link(party, seat).node = *server;
        }
        let operator = Self {
            party,
            labels: wanted.iter().map(|server| label(*server)).collect(),
            infos: vec![None; wanted.len()],
            wanted,
            config: None,
            is_acting: false,
            began_at: env.now,
            ends_at: env.now + 4 * QUARANTINE_TIME,
            sends,
            is_done: false,
            why_not: None,
        };
        operator.plan_tick(env, 0);
        operator
    }

    fn plan_tick(&self, env: &mut Env, after: Nanos) {
        let (client, what) = (self.party as u8, Due::Work { task: 0, step: 0 });
        env.queue.add(env.now + after, Event::Client { client, restarts: 0, what });
    }

    /// Sends a command on a connection that is there, or can be made.
    fn send(&self, env: &mut Env, seat: usize, command: Command) {
        let (now, is_reachable) = (env.now, env.is_reachable(self.party, seat));
        let link = env.net.link(self.party, seat);
        if link.is_up
            && !link.waiting.is_empty()
            && link.answered_at + env.settings.link_timeout < now
        {
            let late = env.stragglers_for();
            env.break_link(self.party, seat, late);
            return;
        }
        if !link.is_up && is_reachable {
            link.waiting.clear();
            link.open(now, true);
        }
        let waiting = Waiting { whose: Whose::Handshake(Moment::from_nanos(now)), command };
        env.net.send(&mut env.queue, now, (self.party, seat, 0), waiting);
    }

    /// A server has answered. Answers to read-only handshakes count only before the decision.
    pub(crate) fn handle_answer(
        &mut self,
        generation: u32,
        seat: usize,
        command: &Command,
        reply: Option<Reply>,
    ) {
        if let Some(Reply::Membership(membership::Reply::Info(info))) = reply
            && command.is_read_only() != self.is_acting
        {
            self.infos[seat] = Some((*info, generation));
        }
    }

    /// Returns true if a majority has the planned config.
    pub(super) fn tick(&mut self, env: &mut Env) -> bool {
        if self.is_done {
            return false;
        }
        let informed = self.informed();
        let is_agreed =
            self.config.as_ref().is_some_and(|it| informed >= majority(it.members.len()));
        // Clients enrol the new node.
        let is_new = self.config.as_ref().is_some_and(|config| config.newcomer.is_some());
        let all = self.wanted.len() - usize::from(is_new);
        let is_over = env.now >= self.ends_at || informed >= self.sends.min(all);
        let is_over = is_over && (self.config.is_some() || env.now >= self.ends_at);
        if is_over {
            self.is_done = true;
            env.note_change(|| {
                format!("operator {} stops: {informed} nodes have the change", self.party)
            });
            return is_agreed;
        }
        for seat in 0..self.wanted.len() {
            let handshake = Handshake { is_read_only: !self.is_acting, ..env.handshake() };
            self.send(env, seat, membership::Command::Handshake(handshake).into());
        }
        if self.config.is_none() && env.now >= self.began_at + 40 * MS {
            self.decide(env);
        }
        if let Some(config) = self.config.clone() {
            self.send_change(env, &config);
        }
        let wait = env.dice.between(30 * MS, 60 * MS);
        self.plan_tick(env, wait);
        false
    }

    fn informed(&self) -> usize {
        let Some(config) = &self.config else { return 0 };
        let has = |it: &&(NodeInfo, u32)| it.0.config.as_ref() == Some(config);
        self.infos.iter().flatten().filter(has).count()
    }

    fn decide(&mut self, env: &mut Env) {
        let infos = self.infos.iter().map(|it| it.as_ref().map(|(info, _)| info));
        match plan(self.labels.iter().zip(infos)) {
            Ok(_) | Err(PlanError::Minority { .. }) if !self.is_acting => {
                env.note_change(|| format!("operator {} acts", self.party));
                self.is_acting = true;
                // Read-only handshakes change nothing: a new node has no name yet.
                self.infos.fill(None);
                self.began_at = env.now;
            }
            Ok(config) => {
                env.note_change(|| {
                    format!("operator {} plans {}: {}", self.party, config.change, config.members)
                });
                self.config = Some(config);
            }
            Err(PlanError::Minority { config, .. }) => self.send_change(env, &config),
            Err(why) => self.why_not = Some(why),
        }
    }

    /// Sends the change to the nodes that have an earlier config, in any order.
    fn send_change(&self, env: &mut Env, config: &AgreedConfig) {
        let mut seats: Vec<usize> = (0..self.wanted.len()).collect();
        for at in (1..seats.len()).rev() {
            seats.swap(at, env.dice.index(at + 1));
        }
        let informed = self.informed();
        let is_behind = |seat: &usize| {
            let known = self.infos[*seat].as_ref().and_then(|(info, _)| info.config.as_ref());
            known.is_some_and(|it| it.origin == config.origin && it.change < config.change)
        };
        let seats = seats.into_iter().filter(is_behind).take(self.sends.saturating_sub(informed));
        for seat in seats.collect::<Vec<_>>() {
            let Some((info, generation)) = &self.infos[seat] else { continue };
            if env.net.link(self.party, seat).generation != *generation {
                continue;
            }
            let fresh = env.fresh();
            let (mark, config) = (info.mark, config.clone());
            let command = membership::Command::Change { mark, config, fresh };
            self.send(env, seat, command.into());
        }
    }
}
