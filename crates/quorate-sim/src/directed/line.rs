//! Schedules for those who wait in line, over three nodes.

mod leases;

use std::time::Duration;

use quorate_core::{
    command::{ClientId, Command, Owner, Reply, SessionTerms},
    contend::{Contend, Outcome, Output, Said, Saying, Wait},
    fence::{FENCE_LIFE_MS, Fence, SLACK_US},
    line::{Ask, Extend, Place, Session, Speaker, TICKET_MAX, Yield},
    moment::{Moment, NodeTime},
    mutant::{self, Mutant},
    quorum::{NodeSet, Vote},
    renew::{self, Renew},
    store::Store,
};

pub use self::leases::{
    adopted_lease_never_heals, adopted_owner_leaves_the_queue, extension_keeps_the_fence,
    fence_lives_for_a_day_after_its_grant, lease_that_was_waited_for_has_time_left,
    waiter_trusts_a_node_again_after_one_doubt,
};
use super::{Try, at, name, terms};

/// A has two grants with different fences and sends a confirmation to the one that is behind. That
/// node loses the key, grants it to B, who holds the lock, and gets it back. Then the confirmation
/// arrives.
///
/// # Errors
///
/// If A holds the lock with the fence of B.
pub fn a_confirmation_takes_no_lost_key_again() -> Result<(), String> {
    let mut nodes = Nodes::new(0);
    let mut before = Party::start(&mut nodes, 9, 1, &[0, 1, 2], 0);
    before.exchange(&mut nodes, 0, 1);
    nodes.release(0, &before.owner(), 1);

    let mut a = Party::start(&mut nodes, 1, 1, &[0, 1, 2], 2);
    let mut b = Party::start(&mut nodes, 2, 2, &[0, 1, 2], 2);
    a.exchange(&mut nodes, 1, 3);
    let from_2 = b.reach(&mut nodes, 2, 3)?;
    let from_0 = a.reach(&mut nodes, 0, 3)?;
    nodes.stores[1].forget(&name());
    let from_1 = b.reach(&mut nodes, 1, 4)?;
    a.hear(&from_0, 5);
    b.hear(&from_2, 5);
    b.hear(&from_1, 5);
    let held_by_b = b.held()?;
    nodes.release(1, &b.owner(), 6);

    a.settle(&mut nodes, &[0, 1], 7);
    differs(a.held()?, held_by_b)
}

/// A has two grants with different fences. To the node that is behind it sends a heartbeat and a
/// confirmation of the larger fence. Before they arrive that node loses the key, and B holds the
/// lock and releases it. The heartbeat gets the key again, with a larger fence than B's.
///
/// # Errors
///
/// If A, who holds the lock after B, has a smaller fence.
pub fn confirmation_counts_with_the_fence_that_is_stored() -> Result<(), String> {
    let mut nodes = Nodes::new(0);
    let mut before = Party::start(&mut nodes, 9, 1, &[0, 1, 2], 0);
    before.exchange(&mut nodes, 1, 1);
    nodes.release(1, &before.owner(), 1);

    let mut a = Party::start(&mut nodes, 1, 1, &[0, 1], 2);
    a.exchange(&mut nodes, 0, 3);
    a.machine.handle_timeout(at(36));
    a.pull(36);
    let from_1 = a.reach(&mut nodes, 1, 37)?;
    a.hear(&from_1, 37);
    nodes.stores[0].forget(&name());
    let mut c = Party::start(&mut nodes, 3, 2, &[0, 2], 38);
    c.exchange(&mut nodes, 0, 38);
    nodes.release(0, &c.owner(), 38);
    let mut b = Party::start(&mut nodes, 2, 3, &[0, 2], 39);
    b.settle(&mut nodes, &[0, 2], 40);
    let held_by_b = b.held()?;
    [0, 2].into_iter().for_each(|node| nodes.release(node, &b.owner(), 41));

    a.settle(&mut nodes, &[0, 1], 42);
    follows(held_by_b, a.held()?)
}

/// A holds the lock. One of its keys is lost, and B comes, holds the lock and goes. Then A extends.
///
/// # Errors
///
/// If A's lease lives on although a later holder has come and gone.
pub fn a_lease_that_is_not_the_newest_does_not_live_on() -> Result<(), String> {
    let mut nodes = Nodes::new(0);
    let mut a = Party::start(&mut nodes, 1, 1, &[0, 1], 0);
    a.settle(&mut nodes, &[0, 1], 1);
    let held_by_a = a.held()?;
    nodes.stores[1].forget(&name());
    let mut b = Party::start(&mut nodes, 2, 2, &[1, 2], 2);
    b.settle(&mut nodes, &[1, 2], 3);
    let held_by_b = b.held()?;
    [1, 2].into_iter().for_each(|node| nodes.release(node, &b.owner(), 4));

    let mut machine = Renew::start(terms(TTL_MS), 3, terms(TTL_MS).valid_until(at(0)), at(5));
    let (owner, fence) = (a.owner(), held_by_a);
    let entry = Extend { name: name(), owner, fence, ttl_ms: TTL_MS, may_heal: true };
    let extend = Command::Extend { speaker: a.speaker(), entries: [entry].into() };
    for node in 0..3 {
        let reply = nodes.apply(node, 6, &extend);
        machine.handle_vote(node, extend.vote(&reply), at(7));
    }
    match machine.outcome() {
        Some(renew::Outcome::Extended { .. }) => {
            Err(format!("the lease of {held_by_a} lives on after that of {held_by_b}"))
        }
        _ => Ok(()),
    }
}

/// A day after the last holder, when its fence is forgotten, one comes whose clock is behind. Later
/// one comes whose clock is far ahead.
///
/// # Errors
///
/// If a fence is smaller than one before, or far away from the time of the nodes.
pub fn fences_neither_go_back_nor_run_away() -> Result<(), String> {
    let mut nodes = Nodes::new(1_800_000_000_000_000);
    let mut hold = |number: u8, ticket: u64, ms: u64| {
        let mut party = Party::start(&mut nodes, number, ticket, &[0, 1, 2], ms);
        party.settle(&mut nodes, &[0, 1, 2], ms);
        (0..3).for_each(|node| nodes.release(node, &party.owner(), ms));
        Ok::<_, String>((party.held()?, nodes.time(ms).as_micros()))
    };
    let (first, begin) = hold(1, 1_800_000_000_000_000, 0)?;
    let (behind, _) = hold(2, begin - 1_000_000, FENCE_LIFE_MS + 1)?;
    let (ahead, now) = hold(3, TICKET_MAX, FENCE_LIFE_MS + 2)?;
    let mut wrong = Vec::new();
    if behind <= first {
        wrong.push("fences go back when the last one is forgotten");
    }
    if ahead > Fence::new(now + SLACK_US) {
        wrong.push("a broken clock uses up the fences");
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
}

/// A is granted one node and stands still, until the grant has run out. B gets that node and
/// another, holds the lock and goes. Then A hears of two grants that are alive, one of which has
/// the fence of the old one.
///
/// # Errors
///
/// If A, who holds the lock after B, has a smaller fence.
pub fn a_grant_that_has_run_out_says_nothing_about_the_fence() -> Result<(), String> {
    let mut nodes = Nodes::new(0);
    let mut a = Party::start(&mut nodes, 1, 1, &[0, 1], 0);
    a.exchange(&mut nodes, 0, 1);
    // The node grants, and the connection breaks before it can say so.
    a.reach(&mut nodes, 1, 1)?;
    a.machine.handle_down(1);
    a.machine.handle_up(1, at(95));
    // Its heartbeat is late, and what it says to the first node is held up.
    a.machine.handle_timeout(at(95));
    a.pull(95);
    a.exchange(&mut nodes, 1, 98);

    let mut b = Party::start(&mut nodes, 2, 2, &[0, 1, 2], 102);
    b.settle(&mut nodes, &[0, 2], 103);
    let held_by_b = b.held()?;
    [0, 2].into_iter().for_each(|node| nodes.release(node, &b.owner(), 104));

    a.machine.handle_up(2, at(104));
    a.pull(104);
    a.settle(&mut nodes, &[1, 2], 105);
    follows(held_by_b, a.held()?)
}

/// A asks, and the connection breaks with the question on its way. On the next one A asks again,
/// changes its mind and leaves. Then the first question arrives.
///
/// # Errors
///
/// If the lock belongs to one who has left.
pub fn what_an_older_connection_has_sent_takes_nothing() -> Result<(), String> {
    let mut nodes = Nodes::new(0);
    let mut a = Party::start(&mut nodes, 1, 1, &[0, 1, 2], 0);
    let (_, said, _) = *a.sent.first().ok_or("nothing was asked")?;
    let late = a.command(said);
    a.sent.clear();
    a.session = Session::from_random(2);
    a.attach(&mut nodes, 2);
    for node in 0..3 {
        a.machine.handle_down(node);
        a.machine.handle_up(node, at(2));
    }
    a.machine.handle_abandon();
    a.pull(3);
    a.settle(&mut nodes, &[0, 1, 2], 4);
    for node in 0..3 {
        nodes.apply(node, 5, &late);
        let now = nodes.time(6);
        if !nodes.stores[node].names(now).is_empty() {
            return Err("the lock belongs to one who has left".to_owned());
        }
    }
    Ok(())
}

/// A is granted one node of three, and asked to give it back; the connection breaks with that on
/// its way. Then A gets the two others, holds the lock, and its extension finds the first node as
/// it was. Then what A gave back arrives.
///
/// # Errors
///
/// If the node, which A counts, is given to another.
pub fn what_an_older_connection_has_given_back_stays() -> Result<(), String> {
    let mut nodes = Nodes::new(0);
    let mut before = Party::start(&mut nodes, 9, 1, &[1, 2], 0);
    before.settle(&mut nodes, &[1, 2], 0);
    let mut early = Party::start(&mut nodes, 2, 2, &[0], 0);
    let mut a = Party::start(&mut nodes, 1, 3, &[0, 1, 2], 1);
    a.settle(&mut nodes, &[0, 1, 2], 1);
    early.machine.handle_up(1, at(1));
    early.pull(1);
    early.settle(&mut nodes, &[0, 1], 2);
    a.listen(&mut nodes, 0, 3)?;
    let (_, said, _) = *a.sent.first().ok_or("nothing was given back")?;
    let late = a.command(said);
    a.sent.clear();
    a.session = Session::from_random(2);
    a.attach(&mut nodes, 4);
    // It stands in line at the first node only.
    nodes.release(1, &early.owner(), 4);
    [1, 2].into_iter().for_each(|node| nodes.release(node, &before.owner(), 5));
    [1, 2].into_iter().try_for_each(|node| a.listen(&mut nodes, node, 5))?;
    let (owner, fence) = (a.owner(), a.held()?);
    let entry =
        Extend { name: name(), owner: owner.clone(), fence, ttl_ms: TTL_MS, may_heal: true };
    nodes.apply(0, 6, &Command::Extend { speaker: a.speaker(), entries: [entry].into() });
    nodes.apply(0, 7, &late);
    let check = Command::Check { name: name(), owner };
    let reply = nodes.apply(0, 8, &check);
    match check.vote(&reply) {
        Vote::Grant => Ok(()),
        Vote::Refuse | Vote::Unknown => Err("what the holder counts was given away".to_owned()),
    }
}

/// A waits, is cut off from two nodes and withdraws; what it says to the third is held up there.
/// The holder goes, A comes back and holds the lock by two nodes. Then the old release arrives at
/// one of them, and B comes.
///
/// # Errors
///
/// If B holds the lock as well.
pub fn a_late_release_takes_nothing_from_one_who_came_back() -> Result<(), String> {
    let mut nodes = Nodes::new(0);
    let mut before = Party::start(&mut nodes, 9, 1, &[0, 1, 2], 0);
    before.settle(&mut nodes, &[0, 1, 2], 0);
    let mut a = Party::start(&mut nodes, 1, 2, &[0, 1, 2], 1);
    a.settle(&mut nodes, &[0, 1, 2], 1);
    [1, 2].into_iter().for_each(|node| a.machine.handle_down(node));
    let withdrawn = a.owner();
    for ms in [35, 69] {
        a.machine.handle_timeout(at(ms));
        a.pull(ms);
    }
    let (_, said, _) = *a.sent.first().ok_or("nothing was given back")?;
    let late = a.command(said);
    a.sent.clear();
    a.machine.handle_down(0);
    for node in 0..3 {
        nodes.stores[node].hang_up(a.place.client);
        nodes.release(node, &before.owner(), 70);
    }

    a.session = Session::from_random(2);
    a.attach(&mut nodes, 71);
    nodes.release(1, &withdrawn, 71);
    [0, 1].into_iter().for_each(|node| a.machine.handle_up(node, at(72)));
    a.pull(72);
    a.settle(&mut nodes, &[0, 1], 73);
    a.held()?;
    nodes.apply(0, 74, &late);
    let mut b = Party::start(&mut nodes, 2, 3, &[0, 1, 2], 75);
    b.settle(&mut nodes, &[0, 2], 76);
    match b.held() {
        Ok(_) => Err("what was given back long ago lets another hold the lock".to_owned()),
        Err(_) => Ok(()),
    }
}

/// A holds the lock by two nodes, stands in line behind B on the third, and hands the lease over.
/// On one of the two its time is over; B gets that one, holds the lock, and goes. Then C adopts the
/// lease of A.
///
/// # Errors
///
/// If C holds the lock with the fence of A, because the third node came to A in the end.
pub fn a_lease_that_was_handed_over_does_not_come_back() -> Result<(), String> {
    let mut nodes = Nodes::new(0);
    let mut b = Party::start(&mut nodes, 2, 1, &[1, 2], 0);
    b.exchange(&mut nodes, 2, 0);
    let mut a = Party::start(&mut nodes, 1, 2, &[0, 1, 2], 1);
    a.settle(&mut nodes, &[0, 1, 2], 2);
    let adopt = |from: Owner, owner: Owner, speaker| {
        let (name, speaker) = (name(), Some(speaker));
        Command::Adopt { name, from, owner, ttl_ms: TTL_MS, speaker }
    };
    let mut left = a.owner();
    if mutant::current() != Some(Mutant::HandOverInLine) {
        left = a.place.owner(99);
        let rename = adopt(a.owner(), left.clone(), a.speaker());
        (0..3).for_each(|node| _ = nodes.apply(node, 3, &rename));
    }
    let (owner, fence) = (left.clone(), a.held()?);
    let entry = Extend { name: name(), owner, fence, ttl_ms: TTL_MS, may_heal: false };
    nodes.apply(0, 60, &Command::Extend { speaker: a.speaker(), entries: [entry].into() });
    for ms in [50, 105] {
        b.machine.handle_timeout(at(ms));
        b.pull(ms);
        b.settle(&mut nodes, &[1, 2], ms);
    }
    let held_by_b = b.held()?;
    follows(fence, held_by_b)?;
    [1, 2].into_iter().for_each(|node| nodes.release(node, &b.owner(), 110));

    let c = Party::start(&mut nodes, 3, 3, &[], 112);
    let adopt = adopt(left, c.owner(), c.speaker());
    let mut taking = Try::start(terms(TTL_MS), 3, 112);
    for node in 0..3 {
        let reply = nodes.apply(node, 113, &adopt);
        taking.vote(node, adopt.vote(&reply), 114);
    }
    match taking.outcome() {
        Some(Outcome::Held { .. }) => follows(held_by_b, fence),
        _ => Ok(()),
    }
}

fn differs(one: Fence, other: Fence) -> Result<(), String> {
    if one == other { Err(format!("two holders have the fence {one}")) } else { Ok(()) }
}

fn follows(before: Fence, after: Fence) -> Result<(), String> {
    match before < after {
        true => Ok(()),
        false => Err(format!("the holder after the one with fence {before} has {after}")),
    }
}

/// Three nodes whose clocks agree.
pub(super) struct Nodes {
    pub(super) stores: [Store; 3],
    begin_us: u64,
}

impl Nodes {
    pub(super) const fn new(begin_us: u64) -> Self {
        Self { stores: [const { Store::new() }; 3], begin_us }
    }

    const fn time(&self, ms: u64) -> NodeTime {
        NodeTime::from_micros(self.begin_us + ms * 1_000)
    }

    pub(super) fn apply(&mut self, node: usize, ms: u64, command: &Command) -> Reply {
        let now = self.time(ms);
        self.stores[node].apply(now, command)
    }

    pub(super) fn release(&mut self, node: usize, owner: &Owner, ms: u64) {
        let release = Command::Release { name: name(), owner: owner.clone(), yields: None };
        self.apply(node, ms, &release);
    }
}

/// A client with one attempt.
pub(super) struct Party {
    session: Session,
    place: Place,
    pub(super) machine: Contend,
    /// What is on its way to the nodes, and since when.
    sent: Vec<(usize, Said, Moment)>,
}

/// What a node said.
struct Answer {
    node: usize,
    said: Said,
    sent_at: Moment,
    reply: Reply,
}

impl Party {
    pub(super) fn start(nodes: &mut Nodes, number: u8, ticket: u64, up: &[usize], ms: u64) -> Self {
        let place = Place { ticket, ttl_ms: TTL_MS, client: ClientId::from_random([number; 20]) };
        let mut reached = NodeSet::EMPTY;
        up.iter().for_each(|node| reached.insert(*node));
        let wait = Wait::Patiently(Duration::from_secs(1));
        let machine = Contend::start(terms(TTL_MS), 3, reached, wait, at(ms));
        let session = Session::from_random(1);
        let mut party = Self { session, place, machine, sent: Vec::new() };
        party.attach(nodes, ms);
        party.pull(ms);
        party
    }

    pub(super) const fn speaker(&self) -> Speaker {
        Speaker { client: self.place.client, session: self.session }
    }

    pub(super) fn owner(&self) -> Owner {
        self.place.owner(self.machine.life().into())
    }

    fn attach(&self, nodes: &mut Nodes, ms: u64) {
        let attach = Command::Attach {
            speaker: self.speaker(),
            terms: SessionTerms::without_membership(5_000),
        };
        for node in 0..3 {
            nodes.stores[node].listen(self.place.client);
            nodes.apply(node, ms, &attach);
        }
    }

    /// Takes what the machine wants to say.
    pub(super) fn pull(&mut self, ms: u64) {
        while let Output::Say { node, said } = self.machine.poll_output() {
            self.sent.push((node, said, at(ms)));
        }
    }

    fn command(&self, said: Said) -> Command {
        let (name, owner) = (name(), self.place.owner(said.life.into()));
        match said.what {
            Saying::Ask { is_waiting, is_known } => {
                let ask = Ask { name, owner, is_waiting, is_known };
                Command::Acquire { speaker: self.speaker(), ask }
            }
            Saying::Yield(fence) | Saying::Doubt(fence) => Command::Release {
                name,
                owner,
                yields: Some(Yield { fence, speaker: self.speaker() }),
            },
            Saying::Leave => Command::Release { name, owner, yields: None },
            Saying::Confirm(fence) => {
                let entry = Extend { name, owner, fence, ttl_ms: TTL_MS, may_heal: false };
                Command::Extend { speaker: self.speaker(), entries: [entry].into() }
            }
        }
    }

    /// The first thing that is on its way to the node arrives.
    fn reach(&mut self, nodes: &mut Nodes, node: usize, ms: u64) -> Result<Answer, String> {
        let index = self.sent.iter().position(|(to, _, _)| *to == node);
        let index = index.ok_or_else(|| format!("nothing is on its way to n{node}"))?;
        let (_, said, sent_at) = self.sent.remove(index);
        let reply = nodes.apply(node, ms, &self.command(said));
        Ok(Answer { node, said, sent_at, reply })
    }

    fn hear(&mut self, answer: &Answer, ms: u64) {
        let Answer { node, said, sent_at, reply } = answer;
        self.machine.handle_reply(*node, *said, *sent_at, Some(reply), at(ms));
        self.pull(ms);
    }

    /// What the node tells unasked arrives.
    pub(super) fn listen(&mut self, nodes: &mut Nodes, node: usize, ms: u64) -> Result<(), String> {
        let pushes = nodes.stores[node].take_pushes();
        let ours = pushes.into_iter().filter(|push| push.owner == self.owner());
        let push = ours.last().ok_or_else(|| format!("n{node} tells nothing"))?;
        self.machine.handle_push(node, self.machine.life(), push.news, push.fence, at(ms));
        self.pull(ms);
        Ok(())
    }

    /// Everything that is on its way to the node arrives, and so do the answers.
    fn exchange(&mut self, nodes: &mut Nodes, node: usize, ms: u64) {
        while let Ok(answer) = self.reach(nodes, node, ms) {
            self.hear(&answer, ms);
        }
    }

    /// The same for these nodes, until nothing is left to say to them.
    pub(super) fn settle(&mut self, nodes: &mut Nodes, these: &[usize], ms: u64) {
        while self.sent.iter().any(|(to, _, _)| these.contains(to)) {
            these.iter().for_each(|node| self.exchange(nodes, *node, ms));
        }
    }

    pub(super) fn held(&self) -> Result<Fence, String> {
        match self.machine.outcome() {
            Some(Outcome::Held { fence, .. }) => Ok(fence),
            other => Err(format!("an attempt ended as {other:?}, not with the lock")),
        }
    }
}

pub(super) const TTL_MS: u64 = 100;
