//! A client: its council, and one link to each address of its list.

use quorate_core::{
    command::{ClientId, Command, Reply, Stay},
    guard::{Council, Enrolment, Mark, Met, Opinion, slack_us},
    line::{Session, Speaker},
};

use super::{
    GUARD, LIFE, Ms, TTL, label,
    lock::Lock,
    net::{Call, Event, Kind, Net, Tag},
};

#[derive(Debug)]
pub(super) struct Client {
    pub(super) party: usize,
    pub(super) id: ClientId,
    pub(super) list: Vec<usize>,
    council: Council,
    pub(super) links: Vec<Link>,
    pub(super) lock: Lock,
    pub(super) stopped_until: Ms,
    /// Answers that came while it stood still.
    pub(super) held_back: Vec<(Tag, u64, Option<Reply>)>,
    pub(super) wins: u64,
    pub(super) last: Option<Opinion>,
}

#[derive(Debug)]
pub(super) struct Link {
    pub(super) generation: u64,
    pub(super) epoch: Option<u64>,
    /// The session, when it was last asked to go on with success, and what the node is.
    pub(super) up: Option<(Session, Ms, Mark)>,
    /// The session that is about to begin, and what the node is.
    pending: Option<(Session, Mark)>,
    asked_at: Option<Ms>,
    next_at: Ms,
}

impl Client {
    pub(super) fn new(net: &mut Net, party: usize, list: Vec<usize>) -> Self {
        let labels = list.iter().map(|server| label(*server));
        let mut bytes = [0; 20];
        bytes[..8].copy_from_slice(&net.fresh().to_be_bytes());
        let link = |net: &mut Net| Link {
            generation: net.fresh(),
            epoch: None,
            up: None,
            pending: None,
            asked_at: None,
            next_at: net.now,
        };
        Self {
            party,
            id: ClientId::from_random(bytes),
            council: Council::new(labels, TTL, GUARD),
            links: list.iter().map(|_| link(net)).collect(),
            list,
            lock: Lock::default(),
            stopped_until: 0,
            held_back: Vec::new(),
            wins: 0,
            last: None,
        }
    }

    pub(super) fn speaker(&self, session: Session) -> Speaker {
        Speaker { client: self.id, session }
    }

    pub(super) fn send(&self, net: &mut Net, seat: usize, kind: Kind, command: Command) {
        let link = &self.links[seat];
        let tag = Tag { generation: link.generation, seat, kind, sent_at: net.now };
        let (from, server, epoch) = (self.party, self.list[seat], link.epoch);
        net.send(Call { from, server, epoch, tag, command });
    }

    fn stay(net: &Net, mark: Mark) -> Stay {
        let slack_us = slack_us(Some(GUARD));
        Stay { life_ms: LIFE, mark: Some(mark), slack_us, wall_ms: net.wall_ms() }
    }

    /// Does what is due, and says when it wants to be called again.
    pub(super) fn tick(&mut self, net: &mut Net) {
        if self.stopped_until > net.now {
            net.at(self.stopped_until, Event::Tick { party: self.party });
            return;
        }
        for (tag, epoch, reply) in std::mem::take(&mut self.held_back) {
            self.answer(net, tag, epoch, reply);
        }
        for seat in 0..self.links.len() {
            self.tend(net, seat);
        }
        self.work(net);
        let wait = net.dice.between(10, 40);
        net.at(net.now + wait, Event::Tick { party: self.party });
    }

    fn tend(&mut self, net: &mut Net, seat: usize) {
        let link = &mut self.links[seat];
        let is_late = link.asked_at.is_some_and(|at| at + TIMEOUT < net.now);
        let is_lapsed = link.up.is_some_and(|(_, at, _)| at + LIFE <= net.now);
        if is_late || is_lapsed {
            self.drop_link(net, seat, 10);
        }
        let link = &mut self.links[seat];
        if link.asked_at.is_some() || link.next_at > net.now {
            return;
        }
        link.asked_at = Some(net.now);
        self.council.ask(seat);
        match link.up {
            Some((session, _, mark)) => {
                let stay = Self::stay(net, mark);
                let command = Command::Ping { speaker: self.speaker(session), stay };
                self.send(net, seat, Kind::Ping, command);
            }
            None => {
                let greeting = net.greeting();
                self.send(net, seat, Kind::Meet, Command::Meet { greeting });
            }
        }
    }

    /// The connection to a node, and what it has granted to whoever has not decided, is gone.
    fn drop_link(&mut self, net: &mut Net, seat: usize, wait: Ms) {
        let link = &mut self.links[seat];
        link.generation = net.fresh();
        link.epoch = None;
        link.up = None;
        link.pending = None;
        link.asked_at = None;
        link.next_at = net.now + wait;
        self.council.leave(seat);
        self.lock.forget(seat);
    }

    pub(super) fn answer(&mut self, net: &mut Net, tag: Tag, epoch: u64, reply: Option<Reply>) {
        if self.stopped_until > net.now {
            self.held_back.push((tag, epoch, reply));
            return;
        }
        let seat = tag.seat;
        let Some(link) = self.links.get_mut(seat) else { return };
        if link.generation != tag.generation || tag.kind == Kind::Release {
            return;
        }
        let Some(reply) = reply else { return self.drop_link(net, seat, 10) };
        match (tag.kind, reply) {
            (Kind::Meet, Reply::Met(met)) => {
                link.epoch = Some(epoch);
                self.hear(net, seat, *met);
            }
            (Kind::Repair, reply) => {
                link.asked_at = None;
                let wait = if matches!(reply, Reply::TooSoon { .. }) { 100 } else { 0 };
                link.next_at = net.now + wait;
            }
            (Kind::Attach | Kind::Ping, Reply::Attached { .. }) => {
                link.asked_at = None;
                link.next_at = net.now + net.dice.between(LIFE / 6, LIFE / 2);
                if tag.kind == Kind::Ping {
                    self.council.hear_again(seat);
                }
                let known = link.up.map(|(session, _, mark)| (session, mark));
                let going = link.pending.take().or(known);
                link.up = going.map(|(session, mark)| (session, tag.sent_at, mark));
            }
            (_, Reply::Stale) => self.drop_link(net, seat, 10),
            (kind, reply) => self.hear_lock(net, seat, kind, reply),
        }
    }

    fn hear(&mut self, net: &mut Net, seat: usize, met: Met) {
        let (opinion, is_changed) = self.council.hear(seat, met);
        if is_changed {
            for other in (0..self.links.len()).filter(|other| *other != seat) {
                self.drop_link(net, other, 0);
            }
        }
        self.last = Some(opinion.clone());
        match opinion {
            Opinion::Votes(mark) => {
                let session = Session::from_random(net.random());
                let link = &mut self.links[seat];
                link.asked_at = Some(net.now);
                link.pending = Some((session, mark));
                let stay = Self::stay(net, mark);
                let command = Command::Attach { speaker: self.speaker(session), stay };
                self.send(net, seat, Kind::Attach, command);
            }
            Opinion::Enrol(it) => {
                let enrolment = Enrolment { wall_ms: net.wall_ms(), ..it };
                self.repair(net, seat, Command::Enrol { enrolment });
            }
            Opinion::Tell { mark, pact } => {
                let fresh = Mark::from_random(net.random());
                self.repair(net, seat, Command::Change { mark, pact, fresh });
            }
            Opinion::Waits { .. } | Opinion::Differs(_) => {
                let wait = net.dice.between(40, 120);
                let link = &mut self.links[seat];
                link.asked_at = None;
                link.next_at = net.now + wait;
            }
        }
    }

    fn repair(&mut self, net: &mut Net, seat: usize, command: Command) {
        self.links[seat].asked_at = Some(net.now);
        self.send(net, seat, Kind::Repair, command);
    }
}

/// How long a node may be silent.
const TIMEOUT: Ms = 120;
