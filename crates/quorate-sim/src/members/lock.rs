//! How a client takes the lock, confirms its fence, renews it and lets it go.

use std::collections::{BTreeMap, BTreeSet};

use quorate_core::{
    command::{Command, Owner, Reply},
    fence::Fence,
    line::{Ask, Extend, Extended, Place},
    name::Name,
    quorum::majority,
};

use super::{
    Ms, TTL,
    client::Client,
    net::{Call, Kind, Net, Tag},
};

/// Where a client stands.
#[derive(Debug, Default)]
pub(super) struct Lock {
    pub(super) stage: Stage,
    next_at: Ms,
}

#[derive(Debug, Default)]
pub(super) enum Stage {
    #[default]
    Idle,
    Asking(Attempt, BTreeSet<usize>),
    Confirming(Attempt, Fence, BTreeSet<usize>),
    Holding(Hold),
}

#[derive(Clone, Debug)]
pub(super) struct Attempt {
    number: u64,
    owner: Owner,
    sent_at: Ms,
    gives_up_at: Ms,
    grants: BTreeMap<usize, Fence>,
}

#[derive(Debug)]
pub(super) struct Hold {
    pub(super) number: u64,
    owner: Owner,
    fence: Fence,
    until: Ms,
    goes_at: Ms,
    renew_at: Ms,
    /// When the renewal under way was sent, and who has confirmed it.
    renewal: (Ms, BTreeSet<usize>),
}

impl Lock {
    /// A session has ended: what was granted in it does not count for what is undecided.
    pub(super) fn forget(&mut self, seat: usize) {
        match &mut self.stage {
            Stage::Idle => {}
            Stage::Asking(attempt, asked) => {
                attempt.grants.remove(&seat);
                asked.remove(&seat);
            }
            Stage::Confirming(attempt, _, confirmed) => {
                attempt.grants.remove(&seat);
                confirmed.remove(&seat);
            }
            Stage::Holding(hold) => {
                hold.renewal.1.remove(&seat);
            }
        }
    }
}

impl Client {
    fn name() -> Name {
        Name::parse("lock", "").expect("valid")
    }

    /// Does what is due about the lock.
    pub(super) fn work(&mut self, net: &mut Net) {
        match std::mem::take(&mut self.lock.stage) {
            Stage::Idle if self.lock.next_at <= net.now => self.begin(net),
            Stage::Idle => {}
            Stage::Asking(attempt, _) | Stage::Confirming(attempt, ..)
                if attempt.gives_up_at <= net.now =>
            {
                self.let_go(net, &attempt.owner);
                self.lock.next_at = net.now + net.dice.between(20, 250);
            }
            Stage::Asking(attempt, asked) => self.ask(net, attempt, asked),
            Stage::Holding(hold) if hold.until <= net.now || hold.goes_at <= net.now => {
                net.lets_go(hold.number);
                self.let_go(net, &hold.owner);
                self.lock.next_at = net.now + net.dice.between(20, 400);
            }
            Stage::Holding(hold) if hold.renew_at <= net.now => self.renew(net, hold),
            stage => self.lock.stage = stage,
        }
    }

    fn begin(&mut self, net: &mut Net) {
        let number = net.fresh();
        let place = Place { ticket: net.wall_ms() * 1_000, ttl_ms: TTL, client: self.id };
        let attempt = Attempt {
            number,
            owner: place.owner(number),
            sent_at: net.now,
            gives_up_at: net.now + net.dice.between(30, TTL * 3 / 4),
            grants: BTreeMap::new(),
        };
        self.ask(net, attempt, BTreeSet::new());
    }

    /// Asks those who were not asked yet in the session of today.
    fn ask(&mut self, net: &mut Net, attempt: Attempt, mut asked: BTreeSet<usize>) {
        for (seat, link) in self.links.iter().enumerate() {
            let Some((session, ..)) = link.up else { continue };
            if asked.insert(seat) {
                let (name, owner) = (Self::name(), attempt.owner.clone());
                let ask = Ask { name, owner, is_waiting: false, is_known: false };
                let command = Command::Acquire { speaker: self.speaker(session), ask };
                self.send(net, seat, Kind::Acquire(attempt.number), command);
            }
        }
        self.lock.stage = Stage::Asking(attempt, asked);
    }

    fn extend(&self, net: &mut Net, owner: &Owner, fence: Fence, kind: Kind) {
        let may_heal = matches!(kind, Kind::Renew(_));
        for (seat, link) in self.links.iter().enumerate() {
            let Some((session, ..)) = link.up else { continue };
            let (name, owner) = (Self::name(), owner.clone());
            let entry = Extend { name, owner, fence, ttl_ms: TTL, may_heal };
            let entries = [entry].into();
            let command = Command::Extend { speaker: self.speaker(session), entries };
            self.send(net, seat, kind, command);
        }
    }

    fn renew(&mut self, net: &mut Net, mut hold: Hold) {
        hold.renewal = (net.now, BTreeSet::new());
        hold.renew_at = net.now + TTL / 3;
        self.extend(net, &hold.owner, hold.fence, Kind::Renew(net.now));
        self.lock.stage = Stage::Holding(hold);
    }

    /// Nobody waits for the answers, and any connection is good enough.
    fn let_go(&self, net: &mut Net, owner: &Owner) {
        for (seat, server) in self.list.iter().enumerate() {
            let (name, owner) = (Self::name(), owner.clone());
            let command = Command::Release { name, owner, yields: None };
            let kind = Kind::Release;
            let tag = Tag { generation: 0, seat, kind, sent_at: net.now };
            net.send(Call { from: self.party, server: *server, epoch: None, tag, command });
        }
    }

    pub(super) fn hear_lock(&mut self, net: &mut Net, seat: usize, kind: Kind, reply: Reply) {
        let needed = majority(self.list.len());
        if self.links[seat].up.is_none() {
            return;
        }
        match (std::mem::take(&mut self.lock.stage), kind, reply) {
            (
                Stage::Asking(mut attempt, asked),
                Kind::Acquire(number),
                Reply::Granted { fence, .. },
            ) if number == attempt.number => {
                attempt.grants.insert(seat, fence);
                self.lock.stage = match attempt.grants.values().max() {
                    Some(fence) if attempt.grants.len() >= needed => {
                        self.extend(net, &attempt.owner, *fence, Kind::Confirm(number));
                        Stage::Confirming(attempt.clone(), *fence, BTreeSet::new())
                    }
                    _ => Stage::Asking(attempt, asked),
                };
            }
            (
                Stage::Confirming(attempt, fence, mut confirmed),
                Kind::Confirm(number),
                Reply::EachExtended(fates),
            ) if number == attempt.number => {
                if fates.first() == Some(&Extended::LivesOn(fence)) {
                    confirmed.insert(seat);
                }
                self.lock.stage = match confirmed.len() >= needed {
                    true => self.win(net, &attempt, fence),
                    false => Stage::Confirming(attempt, fence, confirmed),
                };
            }
            (Stage::Holding(mut hold), Kind::Renew(at), Reply::EachExtended(fates))
                if at == hold.renewal.0 && net.now < hold.until =>
            {
                if matches!(fates.first(), Some(Extended::LivesOn(_))) {
                    hold.renewal.1.insert(seat);
                }
                if hold.renewal.1.len() >= needed {
                    hold.until = hold.until.max(at + USABLE);
                    net.holds(hold.number, self.party, hold.until, hold.fence);
                }
                self.lock.stage = Stage::Holding(hold);
            }
            (stage, ..) => self.lock.stage = stage,
        }
    }

    fn win(&mut self, net: &mut Net, attempt: &Attempt, fence: Fence) -> Stage {
        let until = attempt.sent_at + USABLE;
        if until <= net.now {
            self.let_go(net, &attempt.owner);
            return Stage::Idle;
        }
        self.wins += 1;
        net.holds(attempt.number, self.party, until, fence);
        let work = match net.is_calm {
            true => net.dice.between(5, 40),
            false => net.dice.between(5, 5 * TTL),
        };
        Stage::Holding(Hold {
            number: attempt.number,
            owner: attempt.owner.clone(),
            fence,
            until,
            goes_at: net.now + work,
            renew_at: net.now + TTL / 3,
            renewal: (0, BTreeSet::new()),
        })
    }
}

/// What is left of the ttl: clocks here run at the same rate, and count milliseconds.
const USABLE: Ms = TTL - TTL / 100 - 2;
