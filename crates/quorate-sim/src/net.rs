//! Connections between clients and nodes: ordered within one, not across a reconnect.

use std::collections::VecDeque;

use quorate_core::{
    client::About,
    command::{Command, Reply},
    moment::Moment,
    queue::{Push, Session},
};

use crate::{
    clock::{MS, Nanos, SECOND},
    dice::Dice,
    event::{Direction, Due, Event, Queue},
    fault::When,
    node::Node,
};

/// What connections are like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) seed: u64,
    /// How many links each client has.
    pub(crate) nodes: usize,
    /// A connection can be used only with a session.
    pub(crate) has_sessions: bool,
    pub(crate) latency: Nanos,
    pub(crate) jitter: Nanos,
    /// A link that is silent for this long while a reply is awaited is opened again.
    pub(crate) timeout: Nanos,
}

/// All connections.
#[derive(Debug)]
pub(crate) struct Net {
    shape: Shape,
    links: Vec<Link>,
    /// Requests of broken connections that will still arrive.
    stragglers: Vec<Option<Straggler>>,
}

/// The connection of one client to one node.
#[derive(Debug)]
pub(crate) struct Link {
    /// The node that it leads to.
    pub(crate) node: usize,
    pub(crate) is_up: bool,
    /// The node knows the session, or there are no sessions.
    pub(crate) is_attached: bool,
    /// The node must not be asked for locks yet: holders renew theirs first.
    pub(crate) is_recovering: bool,
    pub(crate) session: Session,
    pub(crate) generation: u32,
    /// What the client waits for, in order.
    pub(crate) waiting: VecDeque<Waiting>,
    /// What faults add to the time that a message takes.
    pub(crate) slow_by: Nanos,
    pub(crate) answered_at: Nanos,
    /// When it must break, and for how long requests in flight may still arrive then.
    pub(crate) breaks: Option<(When, Nanos)>,
    /// Most messages are on time, some are a little late, and a few up to this much.
    pub(crate) late_max: Nanos,
    is_watched: bool,
    latency: Nanos,
    jitter: Nanos,
    timeout: Nanos,
    requests: Pipe<Command>,
    replies: Pipe<Received>,
    pushes: Pipe<Received>,
    dice: Dice,
}

/// What a node sends.
#[derive(Debug)]
pub(crate) enum Received {
    /// `None` is an error.
    Reply(Option<Reply>),
    Push(Push),
}

/// A request whose answer is awaited.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) whose: Whose,
    pub(crate) command: Command,
}

/// Who takes in an answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Whose {
    /// The client's machine.
    Machine(About),
    /// The link itself: its attach and its pings, sent then.
    Link(Moment),
    /// The link: the membership handshake, sent then.
    Handshake(Moment),
}

/// A message on its way.
#[derive(Debug)]
pub(crate) struct Flying<T> {
    pub(crate) sent_at: Nanos,
    pub(crate) what: T,
}

#[derive(Debug)]
pub(crate) struct Straggler {
    pub(crate) client: usize,
    pub(crate) node: usize,
    pub(crate) request: Flying<Command>,
}

/// One direction of a connection.
#[derive(Debug)]
struct Pipe<T> {
    flying: VecDeque<Flying<T>>,
    last_arrival: Nanos,
    /// How many faults hold it back.
    cuts: u32,
    /// How many messages would have arrived without them.
    stalled: u32,
}

impl<T> Pipe<T> {
    const fn new() -> Self {
        Self { flying: VecDeque::new(), last_arrival: 0, cuts: 0, stalled: 0 }
    }

    fn forget(&mut self) -> VecDeque<Flying<T>> {
        self.stalled = 0;
        self.last_arrival = 0;
        std::mem::take(&mut self.flying)
    }

    /// The next message arrives, unless it is held back.
    fn arrive(&mut self, is_cut: bool) -> Option<Flying<T>> {
        self.stalled += u32::from(is_cut);
        if is_cut { None } else { self.flying.pop_front() }
    }
}

impl Net {
    pub(crate) fn new(shape: Shape, clients: usize) -> Self {
        let mut net = Self { shape, links: Vec::new(), stragglers: Vec::new() };
        (0..clients).for_each(|_| net.add_client());
        net
    }

    /// One more client, with a link to each node.
    pub(crate) fn add_client(&mut self) {
        let (shape, first) = (self.shape, self.links.len());
        let link = |node: usize| Link {
            node,
            is_up: !shape.has_sessions,
            is_attached: !shape.has_sessions,
            is_recovering: false,
            session: Session::from_random(0),
            generation: 0,
            waiting: VecDeque::new(),
            slow_by: 0,
            answered_at: 0,
            breaks: None,
            late_max: 0,
            is_watched: false,
            latency: shape.latency,
            jitter: shape.jitter,
            timeout: shape.timeout,
            requests: Pipe::new(),
            replies: Pipe::new(),
            pushes: Pipe::new(),
            dice: Dice::new(shape.seed, STREAM + (first + node) as u64),
        };
        self.links.extend((0..shape.nodes).map(link));
    }

    pub(crate) const fn ends(&self, link: u16) -> (usize, usize) {
        (link as usize / self.shape.nodes, link as usize % self.shape.nodes)
    }

    pub(crate) fn link(&mut self, client: usize, node: usize) -> &mut Link {
        &mut self.links[client * self.shape.nodes + node]
    }

    pub(crate) fn links(&mut self) -> impl Iterator<Item = &mut Link> {
        self.links.iter_mut()
    }

    /// The connections to a node that are up, each as a client and its link.
    pub(crate) fn links_to(&self, node: usize) -> Vec<(usize, usize)> {
        let is_there = |link: &Link| link.is_up && link.node == node;
        let all = self.links.iter().enumerate().filter(|(_, link)| is_there(link));
        all.map(|(number, _)| self.ends(number as u16)).collect()
    }

    const fn number(&self, client: usize, node: usize) -> u16 {
        (client * self.shape.nodes + node) as u16
    }

    /// Sends a request, if the connection is up. Returns false if it is not.
    pub(crate) fn send(
        &mut self,
        queue: &mut Queue,
        now: Nanos,
        (client, node, restarts): (usize, usize, u32),
        waiting: Waiting,
    ) -> bool {
        let number = self.number(client, node);
        let link = &mut self.links[number as usize];
        if !link.is_up {
            return false;
        }
        let command = waiting.command.clone();
        if link.waiting.is_empty() {
            link.answered_at = now;
        }
        link.waiting.push_back(waiting);
        let generation = link.generation;
        link.watch(queue, now, (client, node, restarts));
        let at = link.arrival(now, Direction::ToNode);
        link.requests.flying.push_back(Flying { sent_at: now, what: command });
        if let Some((When::OnRequest, _)) = link.breaks {
            let soon = now + link.dice.below(at.saturating_sub(now) + 1);
            queue.add(soon, Event::Snap { link: number, generation });
        }
        let way = Direction::ToNode;
        queue.add(at, Event::Arrive { link: number, generation, way });
        true
    }

    /// Sends the reply to the request that has just been run.
    pub(crate) fn reply(
        &mut self,
        queue: &mut Queue,
        now: Nanos,
        number: u16,
        reply: Option<Reply>,
    ) {
        self.send_back(queue, now, number, Received::Reply(reply), Direction::ToClient);
    }

    /// Sends a node's pushes to all listeners, in order with its replies or not.
    pub(crate) fn push_all(
        &mut self,
        queue: &mut Queue,
        now: Nanos,
        node: &mut Node,
        may_overtake: bool,
    ) {
        let way = if may_overtake { Direction::Push } else { Direction::ToClient };
        for push in node.store.take_pushes() {
            for (link, generation) in node.links_of(push.client) {
                if self.links[link as usize].generation == generation {
                    self.send_back(queue, now, link, Received::Push(push.clone()), way);
                }
            }
        }
    }

    fn send_back(
        &mut self,
        queue: &mut Queue,
        now: Nanos,
        number: u16,
        what: Received,
        way: Direction,
    ) {
        let link = &mut self.links[number as usize];
        let at = link.arrival(now, way);
        let pipe = if way == Direction::Push { &mut link.pushes } else { &mut link.replies };
        pipe.flying.push_back(Flying { sent_at: now, what });
        let generation = link.generation;
        queue.add(at, Event::Arrive { link: number, generation, way });
    }

    /// A connection, if it is still this one.
    fn link_of(&mut self, link: u16, generation: u32) -> Option<&mut Link> {
        Some(&mut self.links[link as usize]).filter(|link| link.generation == generation)
    }

    /// The next request of a connection reaches its node, unless it is held back or lost.
    pub(crate) fn arrived_request(
        &mut self,
        link: u16,
        generation: u32,
    ) -> Option<Flying<Command>> {
        let requests = &mut self.link_of(link, generation)?.requests;
        requests.arrive(requests.cuts > 0)
    }

    /// The next reply of a connection reaches its client, unless it is held back or lost.
    pub(crate) fn arrived_reply(
        &mut self,
        link: u16,
        generation: u32,
        way: Direction,
    ) -> Option<Flying<Received>> {
        let Link { replies, pushes, .. } = self.link_of(link, generation)?;
        let is_cut = replies.cuts > 0;
        let pipe = if way == Direction::Push { pushes } else { replies };
        pipe.arrive(is_cut)
    }

    /// Holds one direction back, or continues it.
    pub(crate) fn set_cut(
        &mut self,
        queue: &mut Queue,
        now: Nanos,
        (client, node): (usize, usize),
        way: Direction,
        is_cut: bool,
    ) {
        let number = self.number(client, node);
        let Link { requests, replies, pushes, generation, .. } = &mut self.links[number as usize];
        let (cuts, stalled) = match way {
            Direction::ToNode => (&mut requests.cuts, [(way, &mut requests.stalled)].into()),
            Direction::ToClient | Direction::Push => {
                let aside = (Direction::Push, &mut pushes.stalled);
                (&mut replies.cuts, vec![(way, &mut replies.stalled), aside])
            }
        };
        if is_cut {
            *cuts += 1;
            return;
        }
        *cuts -= 1;
        if *cuts == 0 {
            for (way, stalled) in stalled {
                for _ in 0..std::mem::take(stalled) {
                    queue.add(now, Event::Arrive { link: number, generation: *generation, way });
                }
            }
        }
    }

    /// Breaks a connection. Its client keeps its open requests until it notices. The first few of
    /// the requests in flight may still arrive within `stragglers_for`.
    pub(crate) fn break_link(
        &mut self,
        queue: &mut Queue,
        now: Nanos,
        (client, node): (usize, usize),
        stragglers_for: Nanos,
    ) {
        let link = self.link(client, node);
        link.is_up = false;
        link.is_attached = false;
        link.is_recovering = false;
        let (broken, leads_to) = (link.generation, link.node);
        link.generation += 1;
        link.breaks = None;
        link.is_watched = false;
        link.replies.forget();
        link.pushes.forget();
        // A node may take long to notice a closed connection.
        let noticed_after = match link.dice.below(4) {
            0 => link.dice.below(NOTICED_MAX),
            _ => link.dice.below(2 * MS),
        };
        let mut flying = link.requests.forget();
        if stragglers_for > 0 && !flying.is_empty() {
            let late = link.dice.between(0, flying.len() as u64) as usize;
            let mut delays: Vec<Nanos> =
                (0..late).map(|_| link.dice.below(stragglers_for)).collect();
            delays.sort_unstable();
            for (request, delay) in flying.drain(..late).zip(delays) {
                let slot = self.stragglers.len() as u32;
                let straggler = Straggler { client, node: leads_to, request };
                self.stragglers.push(Some(straggler));
                queue.add(now + delay, Event::Straggle { slot });
            }
        }
        let number = self.number(client, node);
        queue.add(now + noticed_after, Event::HangUp { link: number, generation: broken });
    }

    /// True if all connections of a client are up, and a message that is sent now is not late.
    pub(crate) fn is_calm(&self, now: Nanos, client: usize) -> bool {
        let links = self.links.iter().skip(client * self.shape.nodes).take(self.shape.nodes);
        links.into_iter().all(|link| link.votes() && link.is_calm(now))
    }

    /// Cancels the breaks that are still planned.
    pub(crate) fn heal(&mut self) {
        self.links.iter_mut().for_each(|link| link.breaks = None);
    }

    /// Requests in flight to this node are lost: its process and all its connections are gone.
    pub(crate) fn drop_stragglers(&mut self, node: usize) {
        let is_lost = |late: &Option<Straggler>| late.as_ref().is_some_and(|it| it.node == node);
        self.stragglers.iter_mut().filter(|late| is_lost(late)).for_each(|late| *late = None);
    }

    pub(crate) fn straggler(&mut self, slot: u32) -> Option<Straggler> {
        self.stragglers[slot as usize].take()
    }

    /// True if the client could connect.
    pub(crate) fn is_open(&mut self, client: usize, node: usize) -> bool {
        let link = self.link(client, node);
        link.requests.cuts == 0 && link.replies.cuts == 0
    }
}

impl Link {
    /// Whether the node can be asked for locks.
    pub(crate) const fn votes(&self) -> bool {
        self.is_attached && !self.is_recovering
    }

    /// A new connection.
    pub(crate) fn open(&mut self, now: Nanos, has_sessions: bool) {
        self.is_up = true;
        self.is_attached = !has_sessions;
        let bits = (u128::from(self.dice.next()) << 64) | u128::from(self.dice.next());
        self.session = Session::from_random(bits);
        self.answered_at = now;
    }

    /// Plans a check for silence, if none is planned.
    pub(crate) fn watch(
        &mut self,
        queue: &mut Queue,
        now: Nanos,
        (client, node, restarts): (usize, usize, u32),
    ) {
        if !std::mem::replace(&mut self.is_watched, true) {
            let what = Due::Silence { node: node as u8, generation: self.generation };
            queue.add(now + self.timeout, Event::Client { client: client as u8, restarts, what });
        }
    }

    /// How long to wait before the next try to connect.
    pub(crate) const fn reconnect_delay(&mut self) -> Nanos {
        self.dice.between(RECONNECT_MIN, RECONNECT_MAX) + 4 * self.latency
    }

    /// Checks for silence. `Some` is the time of the next check; `None` means that nothing is
    /// awaited.
    pub(crate) fn check_silence(&mut self) -> Option<Nanos> {
        self.is_watched = !self.waiting.is_empty();
        self.is_watched.then(|| self.answered_at + self.timeout)
    }

    /// A typical round trip.
    pub(crate) const fn round_trip(&self) -> Nanos {
        2 * self.latency + self.jitter
    }

    fn is_calm(&self, now: Nanos) -> bool {
        let soon = now + self.latency + self.jitter;
        self.requests.last_arrival <= soon && self.replies.last_arrival <= soon
    }

    fn lateness(&mut self) -> Nanos {
        if self.late_max == 0 {
            return 0;
        }
        match self.dice.below(100) {
            0..60 => 0,
            60..95 => self.dice.below(self.late_max / 50),
            95..99 => self.dice.below(self.late_max / 4),
            _ => self.dice.below(self.late_max),
        }
    }

    /// When a message that is sent now arrives: never before the one that was sent before it.
    fn arrival(&mut self, now: Nanos, way: Direction) -> Nanos {
        let takes =
            self.latency + self.dice.below(self.jitter + 1) + self.slow_by + self.lateness();
        let last = match way {
            Direction::ToNode => &mut self.requests.last_arrival,
            Direction::ToClient => &mut self.replies.last_arrival,
            Direction::Push => &mut self.pushes.last_arrival,
        };
        *last = (*last).max(now + takes);
        *last
    }
}

/// The longest time until a node notices that a connection is closed.
const NOTICED_MAX: Nanos = SECOND;

const RECONNECT_MIN: Nanos = 2 * MS;
const RECONNECT_MAX: Nanos = 60 * MS;

/// The streams of the links begin here.
const STREAM: u64 = 1_000;
