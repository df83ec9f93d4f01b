//! Connections between clients and nodes: ordered within one, not across a reconnect.

use std::collections::VecDeque;

use quorate_core::{
    client::About,
    command::{Command, Reply},
    line::{Push, Session},
    moment::Moment,
};

use crate::{
    clock::{MS, Nanos, SECOND},
    dice::Dice,
    event::{Direction, Due, Event, Queue},
    fault::When,
    settings::Settings,
};

/// All connections.
#[derive(Debug)]
pub(crate) struct Net {
    nodes: usize,
    links: Vec<Link>,
    /// Requests of broken connections that will arrive after all.
    stragglers: Vec<Option<Straggler>>,
}

/// The connection of one client to one node.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) is_up: bool,
    /// The node knows the session; where there are none, every connection will do.
    pub(crate) is_attached: bool,
    /// The node is not to be asked for locks yet: holders renew theirs first.
    pub(crate) is_recovering: bool,
    pub(crate) session: Session,
    pub(crate) generation: u32,
    /// What the client waits for, in order.
    pub(crate) waiting: VecDeque<Waiting>,
    /// What faults add to the time that a message takes.
    pub(crate) slow_by: Nanos,
    pub(crate) heard_at: Nanos,
    /// It is to break, and how long what is on its way may still take then.
    pub(crate) breaks: Option<(When, Nanos)>,
    is_watched: bool,
    latency: Nanos,
    jitter: Nanos,
    requests: Pipe<Flying<Command>>,
    replies: Pipe<Flying<Heard>>,
    pushes: Pipe<Flying<Heard>>,
    dice: Dice,
}

/// What a node sends.
#[derive(Debug)]
pub(crate) enum Heard {
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
    /// The link, before it is of use: what the node is, asked then.
    Meeting(Moment),
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
    flying: VecDeque<T>,
    last_arrival: Nanos,
    /// How many faults hold it up.
    cuts: u32,
    /// How many messages would have arrived but for them.
    stalled: u32,
}

impl<T> Pipe<T> {
    const fn new() -> Self {
        Self { flying: VecDeque::new(), last_arrival: 0, cuts: 0, stalled: 0 }
    }

    fn forget(&mut self) -> VecDeque<T> {
        self.stalled = 0;
        self.last_arrival = 0;
        std::mem::take(&mut self.flying)
    }
}

impl Net {
    pub(crate) fn new(settings: &Settings) -> Self {
        let count = settings.clients * settings.nodes;
        let link = |number: usize| Link {
            is_up: !settings.has_sessions(),
            is_attached: !settings.has_sessions(),
            is_recovering: false,
            session: Session::from_random(0),
            generation: 0,
            waiting: VecDeque::new(),
            slow_by: 0,
            heard_at: 0,
            breaks: None,
            is_watched: false,
            latency: settings.latency,
            jitter: settings.jitter,
            requests: Pipe::new(),
            replies: Pipe::new(),
            pushes: Pipe::new(),
            dice: Dice::new(settings.seed, STREAM + number as u64),
        };
        let links = (0..count).map(link).collect();
        Self { nodes: settings.nodes, links, stragglers: Vec::new() }
    }

    pub(crate) const fn ends(&self, link: u16) -> (usize, usize) {
        (link as usize / self.nodes, link as usize % self.nodes)
    }

    pub(crate) fn link(&mut self, client: usize, node: usize) -> &mut Link {
        &mut self.links[client * self.nodes + node]
    }

    const fn number(&self, client: usize, node: usize) -> u16 {
        (client * self.nodes + node) as u16
    }

    /// Sends a request, if the connection is up. Returns false if it is not.
    pub(crate) fn send(
        &mut self,
        queue: &mut Queue,
        now: Nanos,
        (client, node, life): (usize, usize, u32),
        waiting: Waiting,
    ) -> bool {
        let number = self.number(client, node);
        let link = &mut self.links[number as usize];
        if !link.is_up {
            return false;
        }
        let command = waiting.command.clone();
        if link.waiting.is_empty() {
            link.heard_at = now;
        }
        link.waiting.push_back(waiting);
        let generation = link.generation;
        link.watch(queue, now, (client, node, life));
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
        self.send_back(queue, now, number, Heard::Reply(reply), Direction::ToClient);
    }

    /// Sends what a node tells unasked, behind its replies or beside them.
    pub(crate) fn push(
        &mut self,
        queue: &mut Queue,
        now: Nanos,
        (client, node): (usize, usize),
        push: Push,
        may_overtake: bool,
    ) {
        let way = if may_overtake { Direction::Aside } else { Direction::ToClient };
        let number = self.number(client, node);
        self.send_back(queue, now, number, Heard::Push(push), way);
    }

    fn send_back(
        &mut self,
        queue: &mut Queue,
        now: Nanos,
        number: u16,
        what: Heard,
        way: Direction,
    ) {
        let link = &mut self.links[number as usize];
        let at = link.arrival(now, way);
        let pipe = if way == Direction::Aside { &mut link.pushes } else { &mut link.replies };
        pipe.flying.push_back(Flying { sent_at: now, what });
        let generation = link.generation;
        queue.add(at, Event::Arrive { link: number, generation, way });
    }

    /// The next request of a connection reaches its node, unless it is held up or gone.
    pub(crate) fn arrived_request(
        &mut self,
        link: u16,
        generation: u32,
    ) -> Option<Flying<Command>> {
        let link = &mut self.links[link as usize];
        if generation != link.generation {
            return None;
        }
        if link.requests.cuts > 0 {
            link.requests.stalled += 1;
            return None;
        }
        link.requests.flying.pop_front()
    }

    /// The next reply of a connection reaches its client, unless it is held up or gone.
    pub(crate) fn arrived_reply(
        &mut self,
        link: u16,
        generation: u32,
        way: Direction,
    ) -> Option<Flying<Heard>> {
        let link = &mut self.links[link as usize];
        if generation != link.generation {
            return None;
        }
        let is_cut = link.replies.cuts > 0;
        let pipe = if way == Direction::Aside { &mut link.pushes } else { &mut link.replies };
        if is_cut {
            pipe.stalled += 1;
            return None;
        }
        pipe.flying.pop_front()
    }

    /// Holds up one direction, or lets go of it again.
    pub(crate) fn set_cut(
        &mut self,
        queue: &mut Queue,
        now: Nanos,
        (client, node): (usize, usize),
        way: Direction,
        is_cut: bool,
    ) {
        let number = self.number(client, node);
        let link = &mut self.links[number as usize];
        let (cuts, stalled) = match way {
            Direction::ToNode => (&mut link.requests.cuts, &mut link.requests.stalled),
            Direction::ToClient | Direction::Aside => {
                (&mut link.replies.cuts, &mut link.replies.stalled)
            }
        };
        if is_cut {
            *cuts += 1;
            return;
        }
        *cuts -= 1;
        if *cuts == 0 {
            let generation = link.generation;
            for _ in 0..std::mem::take(stalled) {
                queue.add(now, Event::Arrive { link: number, generation, way });
            }
            if way == Direction::ToClient {
                for _ in 0..std::mem::take(&mut link.pushes.stalled) {
                    let way = Direction::Aside;
                    queue.add(now, Event::Arrive { link: number, generation, way });
                }
            }
        }
    }

    /// Breaks a connection. What its client waits for stays there until the client notices. Of the
    /// requests on their way the first few may still arrive within `stragglers_for`.
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
        let broken = link.generation;
        link.generation += 1;
        link.breaks = None;
        link.is_watched = false;
        link.replies.forget();
        link.pushes.forget();
        // A node may take long to notice that nobody is there.
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
                self.stragglers.push(Some(Straggler { client, node, request }));
                queue.add(now + delay, Event::Straggle { slot });
            }
        }
        let number = self.number(client, node);
        queue.add(now + noticed_after, Event::HangUp { link: number, generation: broken });
    }

    /// True if all connections of a client are up, and a message that is sent now is not late.
    pub(crate) fn is_calm(&self, now: Nanos, client: usize) -> bool {
        let links = self.links.iter().skip(client * self.nodes).take(self.nodes);
        links.into_iter().all(|link| link.votes() && link.is_calm(now))
    }

    /// Connections that were to break do not any more.
    pub(crate) fn heal(&mut self) {
        self.links.iter_mut().for_each(|link| link.breaks = None);
    }

    pub(crate) fn straggler(&mut self, slot: u32) -> Option<Straggler> {
        self.stragglers[slot as usize].take()
    }

    /// True if somebody could connect.
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
    pub(crate) fn open(&mut self, now: Nanos, settings: &Settings) {
        self.is_up = true;
        self.is_attached = !settings.has_sessions();
        let bits = (u128::from(self.dice.next()) << 64) | u128::from(self.dice.next());
        self.session = Session::from_random(bits);
        self.heard_at = now;
    }

    /// Looks after the connection in a while, if nobody is to already.
    pub(crate) fn watch(
        &mut self,
        queue: &mut Queue,
        now: Nanos,
        (client, node, life): (usize, usize, u32),
    ) {
        if !std::mem::replace(&mut self.is_watched, true) {
            let what = Due::Silence { node: node as u8, generation: self.generation };
            queue.add(now + LINK_TIMEOUT, Event::Client { client: client as u8, life, what });
        }
    }

    /// How long to wait before the next try to connect.
    pub(crate) const fn reconnect_delay(&mut self) -> Nanos {
        self.dice.between(RECONNECT_MIN, RECONNECT_MAX) + 4 * self.latency
    }

    /// Looks after silence. `Some` is when to look again; `None` means that nothing is awaited.
    pub(crate) fn look(&mut self) -> Option<Nanos> {
        self.is_watched = !self.waiting.is_empty();
        self.is_watched.then(|| self.heard_at + LINK_TIMEOUT)
    }

    /// A round trip as a rule.
    pub(crate) const fn round_trip(&self) -> Nanos {
        2 * self.latency + self.jitter
    }

    fn is_calm(&self, now: Nanos) -> bool {
        let soon = now + self.latency + self.jitter;
        self.requests.last_arrival <= soon && self.replies.last_arrival <= soon
    }

    /// When a message that is sent now arrives: never before the one that was sent before it.
    fn arrival(&mut self, now: Nanos, way: Direction) -> Nanos {
        let takes = self.latency + self.dice.below(self.jitter + 1) + self.slow_by;
        let last = match way {
            Direction::ToNode => &mut self.requests.last_arrival,
            Direction::ToClient => &mut self.replies.last_arrival,
            Direction::Aside => &mut self.pushes.last_arrival,
        };
        *last = (*last).max(now + takes);
        *last
    }
}

/// A link on which nothing is heard for so long, while something is awaited, is made anew.
pub(crate) const LINK_TIMEOUT: Nanos = SECOND;

/// A node may take so long to notice that a connection is gone.
const NOTICED_MAX: Nanos = SECOND;

const RECONNECT_MIN: Nanos = 2 * MS;
const RECONNECT_MAX: Nanos = 60 * MS;

/// The streams of the links begin here.
const STREAM: u64 = 1_000;
