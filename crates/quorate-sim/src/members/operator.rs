//! An operator, who changes the set: it looks at the nodes that it wants, and decides. Only then
//! does it meet them, plan, and tell.

use std::sync::Arc;

use quorate_core::{
    command::{Command, Reply},
    guard::{Greeting, Mark, Met, Pact, Unplanned, plan},
    quorum::majority,
};

use super::{
    GUARD, Ms, label,
    net::{Call, Event, Kind, Net, Tag},
};

#[derive(Debug)]
pub(super) struct Operator {
    party: usize,
    pub(super) wanted: Vec<usize>,
    labels: Vec<Arc<str>>,
    met: Vec<Option<(Met, u64)>>,
    pub(super) pact: Option<Pact>,
    /// It has decided; before, it only looks.
    is_acting: bool,
    generation: u64,
    began_at: Ms,
    ends_at: Ms,
    /// How many nodes it tells before it crashes.
    tells: usize,
    pub(super) is_done: bool,
    pub(super) why_not: Option<Unplanned>,
}

impl Operator {
    pub(super) fn new(net: &mut Net, party: usize, wanted: Vec<usize>, tells: usize) -> Self {
        net.note(|| format!("operator {party} wants {wanted:?}, and tells up to {tells}"));
        net.at(net.now, Event::Tick { party });
        Self {
            party,
            labels: wanted.iter().map(|server| label(*server)).collect(),
            met: vec![None; wanted.len()],
            wanted,
            pact: None,
            is_acting: false,
            generation: net.fresh(),
            began_at: net.now,
            ends_at: net.now + 4 * GUARD,
            tells,
            is_done: false,
            why_not: None,
        }
    }

    fn send(&self, net: &mut Net, seat: usize, kind: Kind, command: Command) {
        let tag = Tag { generation: self.generation, seat, kind, sent_at: net.now };
        let epoch = match kind {
            Kind::Meet => None,
            _ => self.met[seat].as_ref().map(|(_, epoch)| *epoch),
        };
        net.send(Call { from: self.party, server: self.wanted[seat], epoch, tag, command });
    }

    pub(super) fn answer(&mut self, tag: Tag, epoch: u64, reply: Option<Reply>) {
        if tag.generation != self.generation {
            return;
        }
        if let (Kind::Meet, Some(Reply::Met(met))) = (tag.kind, reply) {
            self.met[tag.seat] = Some((*met, epoch));
        }
    }

    /// Returns true if a majority goes by what it has planned.
    pub(super) fn tick(&mut self, net: &mut Net) -> bool {
        if self.is_done {
            return false;
        }
        let told = self.told();
        let is_agreed = self.pact.as_ref().is_some_and(|it| told >= majority(it.members.len()));
        // The newcomer is given its place by clients.
        let is_new = self.pact.as_ref().is_some_and(|pact| pact.newcomer.is_some());
        let all = self.wanted.len() - usize::from(is_new);
        let is_over = net.now >= self.ends_at || told >= self.tells.min(all);
        let is_over = is_over && (self.pact.is_some() || net.now >= self.ends_at);
        if is_over {
            self.is_done = true;
            net.note(|| format!("operator {} goes, {told} were told", self.party));
            return is_agreed;
        }
        for seat in 0..self.wanted.len() {
            let greeting = Greeting { is_looking: !self.is_acting, ..net.greeting() };
            self.send(net, seat, Kind::Meet, Command::Meet { greeting });
        }
        if self.pact.is_none() && net.now >= self.began_at + 40 {
            self.decide(net);
        }
        if let Some(pact) = self.pact.clone() {
            self.tell(net, &pact);
        }
        let wait = net.dice.between(30, 60);
        net.at(net.now + wait, Event::Tick { party: self.party });
        false
    }

    fn told(&self) -> usize {
        let Some(pact) = &self.pact else { return 0 };
        let has = |it: &&(Met, u64)| it.0.pact.as_ref() == Some(pact);
        self.met.iter().flatten().filter(has).count()
    }

    fn decide(&mut self, net: &mut Net) {
        let met = self.met.iter().map(|it| it.as_ref().map(|(met, _)| met));
        match plan(self.labels.iter().zip(met)) {
            Ok(_) | Err(Unplanned::Minority { .. }) if !self.is_acting => {
                net.note(|| format!("operator {} acts", self.party));
                self.is_acting = true;
                // What was looked at left no trace: a newcomer has no name yet.
                self.met.fill(None);
                (self.generation, self.began_at) = (net.fresh(), net.now);
            }
            Ok(pact) => {
                net.note(|| {
                    format!("operator {} plans {}: {}", self.party, pact.change, pact.members)
                });
                self.pact = Some(pact);
            }
            Err(Unplanned::Minority { pact, .. }) => self.tell(net, &pact),
            Err(why) => self.why_not = Some(why),
        }
    }

    /// Tells those who know of an earlier change, in any order.
    fn tell(&self, net: &mut Net, pact: &Pact) {
        let mut seats: Vec<usize> = (0..self.wanted.len()).collect();
        for at in (1..seats.len()).rev() {
            seats.swap(at, net.dice.index(at + 1));
        }
        let told = self.told();
        let is_behind = |seat: &usize| {
            let known = self.met[*seat].as_ref().and_then(|(met, _)| met.pact.as_ref());
            known.is_some_and(|it| it.origin == pact.origin && it.change < pact.change)
        };
        let seats = seats.into_iter().filter(is_behind).take(self.tells.saturating_sub(told));
        for seat in seats.collect::<Vec<_>>() {
            let Some((met, _)) = &self.met[seat] else { continue };
            let fresh = Mark::from_random(net.random());
            let command = Command::Change { mark: met.mark, pact: pact.clone(), fresh };
            self.send(net, seat, Kind::Repair, command);
        }
    }
}
