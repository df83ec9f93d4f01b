//! One call that acquires a lock in the default mode: its owners, its commands and its position.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use super::{
    Debt, Observer,
    owners::{OwnerKind, Owners},
};
use crate::{
    command::{ClientId, Command, Owner, Reply},
    contend::{self, Contend, Mode, Outcome, Said, Saying},
    line::{Ask, Extend, Place, Push, Session, Speaker, Yield, owed_until},
    moment::Moment,
    mutant::{self, Mutant},
    name::Name,
    quorum::NodeSet,
    terms::Terms,
};

/// What is wanted.
#[derive(Clone, Debug)]
pub struct Want {
    /// The lock.
    pub name: Name,
    /// For how long, and how long silent nodes are waited for.
    pub terms: Terms,
    /// By whom.
    pub kind: OwnerKind,
    /// Once, or until its turn comes.
    pub mode: Mode,
    /// No lease of these nodes is longer.
    pub max_ttl: Duration,
}

/// One call. It lives until every node has answered or was given up, whatever becomes of the
/// caller.
#[derive(Clone, Debug)]
pub struct Waiter {
    want: Want,
    client: ClientId,
    machine: Contend,
    came_at: Moment,
    /// Its place in the queue, once the nodes have told their time.
    place: Option<Place>,
    /// The last one is that of today.
    incarnations: Vec<Incarnation>,
    to_do: VecDeque<Step>,
    is_end_noted: bool,
}

/// An output in short form. The command is built when it leaves, which keeps waiters small.
#[derive(Clone, Debug)]
enum Step {
    Wait(Owner),
    Hold(Owner),
    Forget(Owner),
    Send { node: usize, said: Said, is_first: bool },
}

/// One owner under which the lock is asked for. After a withdrawal the call goes on under a new
/// one, since a late release must never hit a new grant.
#[derive(Clone, Debug, Hash)]
struct Incarnation {
    owner: Owner,
    /// Where it may be known. Elsewhere it has nothing to give back.
    sent: NodeSet,
    is_forgotten: bool,
}

impl Incarnation {
    const fn new(owner: Owner) -> Self {
        Self { owner, sent: NodeSet::EMPTY, is_forgotten: false }
    }
}

/// What the driver must do next.
#[derive(Clone, Debug, Eq, PartialEq)]
#[must_use]
pub enum Output {
    /// News about this owner go to the waiter from now on.
    Wait(Owner),
    /// The owner holds the lock: news about it are no news.
    Hold(Owner),
    /// News about this owner do not go to the waiter any more.
    Forget(Owner),
    /// Send this, or say at once that it cannot be sent.
    Send {
        /// To which node.
        node: usize,
        /// What it is about.
        said: Said,
        /// The node may not know the owner before this.
        is_first: bool,
        /// Each connection puts in its own session.
        command: Command,
    },
    /// Call `handle_timeout` at this moment; something else may come first.
    Until(Moment),
    /// Nothing to do any more.
    Idle,
}

impl Waiter {
    /// Starts at `now`, before the first byte is sent. `up` are the nodes that can be reached. News
    /// about its [owner](Self::owner) go to it from now on.
    #[must_use]
    pub fn start(
        want: Want,
        nodes: usize,
        up: NodeSet,
        owners: &mut impl Owners,
        now: Moment,
    ) -> Self {
        let machine = Contend::start(want.terms, nodes, up, want.mode, now);
        let machine = if want.kind.is_shared { machine.shared() } else { machine };
        let place = place(&want, owners, now);
        // Without a place it is only an entry in the client's own books, and is never sent.
        let owner = owners.next_owner(&place.unwrap_or_else(|| nowhere(owners)), &want.kind);
        Self {
            want,
            client: owners.client(),
            machine,
            came_at: now,
            place,
            to_do: VecDeque::new(),
            incarnations: vec![Incarnation::new(owner)],
            is_end_noted: false,
        }
    }

    /// What it asks nodes for.
    #[must_use]
    pub const fn machine(&self) -> &Contend {
        &self.machine
    }

    /// What is wanted.
    #[must_use]
    pub const fn want(&self) -> &Want {
        &self.want
    }

    /// When its caller came.
    #[must_use]
    pub const fn came_at(&self) -> Moment {
        self.came_at
    }

    /// Its ticket, once it has one.
    #[must_use]
    pub fn ticket(&self) -> Option<u64> {
        self.place.map(|place| place.ticket)
    }

    /// The owner of today.
    #[must_use]
    pub fn owner(&self) -> &Owner {
        &self.today().owner
    }

    /// Nodes to which the owner of today was never sent.
    #[must_use]
    pub fn untaken(&self) -> NodeSet {
        NodeSet::all(self.machine.nodes()).without(self.today().sent)
    }

    /// The next thing to do.
    pub fn poll_output(&mut self, owners: &mut impl Owners) -> Output {
        loop {
            if let Some(step) = self.to_do.pop_front() {
                return match step {
                    Step::Wait(owner) => Output::Wait(owner),
                    Step::Hold(owner) => Output::Hold(owner),
                    Step::Forget(owner) => Output::Forget(owner),
                    Step::Send { node, said, is_first } => {
                        let Some(known) = self.incarnation(said.life) else { continue };
                        let owner = known.owner.clone();
                        let command = self.command(owner, said.what);
                        Output::Send { node, said, is_first, command }
                    }
                };
            }
            match self.machine.poll_output() {
                contend::Output::Say { node, said } => self.say(node, said, owners),
                _ if self.is_end_news() => {}
                contend::Output::Wait { until } => return Output::Until(until),
                contend::Output::Idle => return Output::Idle,
            }
        }
    }

    /// This cannot be sent, and is answered with `None` next.
    pub fn handle_unsent(&mut self, node: usize, said: Said, is_first: bool) {
        if let Some(known) = self.incarnation(said.life).filter(|_| is_first) {
            known.sent.remove(node);
        }
    }

    /// What `node` answered to `said`, which was sent at `sent_at`. `None` is no usable answer.
    pub fn handle_answer(
        &mut self,
        node: usize,
        said: Said,
        sent_at: Moment,
        reply: Option<&Reply>,
        now: Moment,
    ) -> Option<Debt> {
        self.machine.handle_reply(node, said, sent_at, reply, now);
        if reply.is_some() || said.what != Saying::Leave {
            return None;
        }
        let owner = self.incarnation(said.life)?.owner.clone();
        let until = owed_until(now, self.want.max_ttl);
        Some(Debt { release: self.command(owner, said.what), until })
    }

    /// A node tells something about one of its owners.
    pub fn handle_push(&mut self, node: usize, push: &Push, now: Moment) {
        let known = self.incarnations.iter().position(|it| it.owner == push.owner);
        if let Some(life) = known.and_then(|known| u32::try_from(known).ok()) {
            self.machine.handle_push(node, life, push.news, push.fence, now);
        }
    }

    /// The node can be reached.
    pub fn handle_up(&mut self, node: usize, now: Moment) {
        self.machine.handle_up(node, now);
    }

    /// The node cannot be reached any more, or has even forgotten us.
    pub fn handle_down(&mut self, node: usize, is_forgotten: bool) {
        match is_forgotten {
            true => self.machine.handle_forgotten(node),
            false => self.machine.handle_down(node),
        }
    }

    /// The moment of [`Output::Until`] has come.
    pub fn handle_timeout(&mut self, now: Moment) {
        self.machine.handle_timeout(now);
    }

    /// The caller has gone and will never use the lock.
    pub fn handle_abandon(&mut self) {
        if self.machine.outcome() != Some(Outcome::Abandoned) {
            self.machine.handle_abandon();
            self.is_end_noted = false;
        }
    }

    /// Shows every part; of one that has nothing left to decide only its owners.
    pub(super) fn observe(&self, is_settled: bool, to: &mut impl Observer) {
        let Self {
            want: _,
            client: _,
            machine,
            came_at: _,
            place,
            incarnations,
            to_do,
            is_end_noted,
        } = self;
        to.detail(machine);
        incarnations.iter().for_each(|known| to.whole(&known.owner));
        let (seats, rest) = machine.parts();
        let rest = (rest, place, incarnations, to_do.len(), is_end_noted);
        if is_settled {
            to.detail(&rest);
            return;
        }
        to.whole(&rest);
        seats.enumerate().for_each(|(node, seat)| to.of_node(node, &seat));
    }

    /// One thing to say to one node.
    fn say(&mut self, node: usize, said: Said, owners: &mut impl Owners) {
        let place = self.place(owners);
        // The next incarnation is known before the last one is forgotten: in between nobody would
        // tell the waiter of nodes that come up.
        let last = self.machine.life().max(said.life);
        while u32::try_from(self.incarnations.len()).is_ok_and(|len| len <= last) {
            let owner = owners.next_owner(&place, &self.want.kind);
            if !mutant::is_on(Mutant::ReturnUnregistered) {
                self.to_do.push_back(Step::Wait(owner.clone()));
            }
            self.incarnations.push(Incarnation::new(owner));
        }
        let Some(known) = self.incarnation(said.life) else { return };
        let is_known = known.sent.contains(node);
        if said.what == Saying::Leave {
            if !std::mem::replace(&mut known.is_forgotten, true) {
                let owner = known.owner.clone();
                self.to_do.push_back(Step::Forget(owner));
            }
            if !is_known {
                return;
            }
        } else {
            known.sent.insert(node);
        }
        self.to_do.push_back(Step::Send { node, said, is_first: !is_known });
    }

    /// Its place in the queue: the nodes' time at which the caller came, however late they told it.
    fn place(&mut self, owners: &mut impl Owners) -> Place {
        if let Some(place) = self.place {
            return place;
        }
        // Nothing is said to a node before a majority has told its time.
        let drawn = place(&self.want, owners, self.came_at);
        let place = drawn.unwrap_or_else(|| nowhere(owners));
        let owner = owners.next_owner(&place, &self.want.kind);
        self.to_do.push_back(Step::Wait(owner.clone()));
        let before = std::mem::replace(&mut self.incarnations, vec![Incarnation::new(owner)]);
        self.to_do.extend(before.into_iter().map(|known| Step::Forget(known.owner)));
        *self.place.insert(place)
    }

    /// Notes what the outcome means for the owner, once.
    fn is_end_news(&mut self) -> bool {
        let Some(outcome) = self.machine.outcome() else { return false };
        if std::mem::replace(&mut self.is_end_noted, true) {
            return false;
        }
        let owner = self.owner().clone();
        self.to_do.push_back(match outcome {
            Outcome::Held { .. } if !mutant::is_on(Mutant::HolderForgotten) => Step::Hold(owner),
            _ => Step::Forget(owner),
        });
        true
    }

    fn incarnation(&mut self, life: u32) -> Option<&mut Incarnation> {
        self.incarnations.get_mut(usize::try_from(life).ok()?)
    }

    fn today(&self) -> &Incarnation {
        self.incarnations.last().expect("there is one from the beginning")
    }

    fn command(&self, owner: Owner, what: Saying) -> Command {
        let name = self.want.name.clone();
        let speaker = Speaker { client: self.client, session: Session::UNSET };
        match what {
            Saying::Ask { is_waiting, is_known } => {
                Command::Acquire { speaker, ask: Ask { name, owner, is_waiting, is_known } }
            }
            Saying::Yield(fence) | Saying::Doubt(fence) => {
                Command::Release { name, owner, yields: Some(Yield { fence, speaker }) }
            }
            Saying::Leave => Command::Release { name, owner, yields: None },
            Saying::Confirm(fence) => {
                let ttl_ms = self.want.terms.ttl_ms();
                let entry = Extend { name, owner, fence, ttl_ms, may_heal: false };
                Command::Extend { speaker, entries: Arc::new([entry]) }
            }
        }
    }
}

/// The place of a caller that came at `came_at`, if enough nodes have told their time.
fn place(want: &Want, owners: &mut impl Owners, came_at: Moment) -> Option<Place> {
    let ticket = owners.draw_ticket(came_at)?;
    Some(Place { ticket, ttl_ms: want.terms.ttl_ms(), client: owners.client() })
}

fn nowhere(owners: &impl Owners) -> Place {
    Place { ticket: 0, ttl_ms: 0, client: owners.client() }
}
