//! The links of a client to its nodes: made, kept alive with a session, and made anew. All worlds
//! with connections use them.

mod meetings;

use std::time::Duration;

use quorate_core::{
    client::{self, Joins, Patience, Transmit},
    command::{ClientId, Command, Reply, Stay},
    guard::{Met, Opinion},
    line::{Push, Speaker},
    moment::Moment,
    terms::vote_timeout,
};

use self::meetings::Verdict;
pub(crate) use self::meetings::{Meetings, council};
use crate::{
    client::Names,
    clock::{ClientClock, MS, Nanos},
    dice::Dice,
    driver::{Driver, Driving},
    event::{Due, Event, Queue},
    net::{Link, Net, Waiting, Whose},
    settings::{WAKE_LAG_MAX, wall_ms},
};

/// What links need of their world.
pub(crate) trait Surroundings {
    /// True time.
    fn true_time(&self) -> Nanos;

    fn wire(&mut self) -> (&mut Net, &mut Queue);

    /// How long sessions last; `None` if there are none.
    fn session_ms(&self) -> Option<u64>;

    /// Whether the client can connect to this node of its list now.
    fn is_reachable(&mut self, client: usize, node: usize) -> bool;

    /// How late requests may still arrive after their client has closed the connection.
    fn stragglers_for(&mut self) -> Nanos {
        0
    }

    /// A link with more unanswered requests than this is busy.
    fn idle_max(&self) -> usize {
        2
    }

    /// Whether nodes take every batch, like those without a server, and not only heartbeats.
    fn takes_batches(&self) -> bool {
        false
    }

    /// Something to trace about a link.
    fn note(&mut self, client: usize, node: usize, text: impl FnOnce() -> String);
}

/// What every client has, whatever its user does.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) number: usize,
    /// Counts the processes that had this number.
    pub(crate) life: u32,
    pub(crate) id: ClientId,
    pub(crate) clock: ClientClock,
    pub(crate) dice: Dice,
    /// Everything that it decides.
    pub(crate) machine: Machine,
    pub(crate) driving: Driving,
    /// What it knows of its nodes, where they are guarded.
    pub(crate) meetings: Option<Meetings>,
}

/// The machine that is shipped.
pub(crate) type Machine = client::Client<Names>;

/// A client with one link to each node of its list.
pub(crate) trait Linked: Sized {
    type World: Surroundings;

    fn me(&self) -> &Process;

    fn me_mut(&mut self) -> &mut Process;

    /// The machine reports something.
    fn handle_event(&mut self, world: &mut Self::World, event: client::Event);

    fn is_dead(&self) -> bool {
        false
    }

    /// The next step of its user is due.
    fn handle_work(&mut self, world: &mut Self::World, task: usize, step: u32);

    /// Its user goes away, if it still waits.
    fn cancel(&mut self, _world: &mut Self::World, _task: usize, _operation: u32) {}

    /// The judge may look at a command before it is sent.
    fn note_sending(&mut self, _world: &mut Self::World, _transmit: &Transmit) {}

    /// The judge may look at an answer before the machine does.
    fn note_answer(&mut self, _node: usize, _transmit: &Transmit, _reply: Option<&Reply>) {}

    /// This will never be answered.
    fn note_unanswered(&mut self, _world: &mut Self::World, _node: usize, _command: &Command) {}

    fn note_push(&mut self, _world: &mut Self::World, _node: usize, _push: &Push, _counts: bool) {}

    fn note_break(&mut self, _world: &mut Self::World, _is_planned: bool) {}

    fn note_opinion(&mut self, _world: &mut Self::World, _node: usize, _opinion: &Opinion) {}

    /// What its own clock shows.
    fn now(&self, world: &Self::World) -> Moment {
        self.me().clock.at(world.true_time())
    }

    fn link<'w>(&self, world: &'w mut Self::World, node: usize) -> &'w mut Link {
        world.wire().0.link(self.me().number, node)
    }

    /// Plans something for a true time.
    fn plan(&self, world: &mut Self::World, at: Nanos, what: Due) {
        let (client, life) = (self.me().number as u8, self.me().life);
        world.wire().1.add(at, Event::Client { client, life, what });
    }

    /// Plans something for when its own clock shows `moment`, or a little later.
    fn plan_at(&mut self, world: &mut Self::World, moment: Moment, what: Due) {
        let lag = self.me_mut().dice.below(WAKE_LAG_MAX);
        let at = self.me().clock.when(moment).max(world.true_time()).saturating_add(lag);
        self.plan(world, at, what);
    }

    /// How long silent nodes are waited for. All links of a world are alike.
    fn patience(&self, world: &mut Self::World) -> impl Fn(Duration) -> Duration + use<Self> {
        let trip = Duration::from_nanos(self.link(world, 0).round_trip());
        move |ttl| vote_timeout(ttl, trip)
    }

    fn with_patience<T>(
        &mut self,
        world: &mut Self::World,
        act: impl FnOnce(&mut Machine, Patience<'_>, Moment) -> T,
    ) -> T {
        let (now, patience) = (self.now(world), self.patience(world));
        act(&mut self.me_mut().machine, &patience, now)
    }

    /// Something is due, or was due while the process stood still.
    fn handle(&mut self, world: &mut Self::World, what: Due) {
        match what {
            Due::Silence { node, generation } => self.look(world, usize::from(node), generation),
            Due::Broken { node, generation } => {
                self.handle_break(world, usize::from(node), generation, false);
            }
            Due::Reconnect { node, generation } => {
                self.reconnect(world, usize::from(node), generation);
            }
            Due::Ping { node, generation } => self.ping(world, usize::from(node), generation),
            Due::Recovered { node, generation } => {
                self.handle_recovered(world, usize::from(node), generation);
            }
            Due::Machine => self.handle_machine_timeout(world),
            Due::Work { task, step } => self.handle_work(world, usize::from(task), step),
            Due::Cancel { task, operation } => self.cancel(world, usize::from(task), operation),
        }
    }

    fn handle_machine_timeout(&mut self, world: &mut Self::World) {
        let now = self.now(world);
        let armed_at = &mut self.me_mut().driving.armed_at;
        *armed_at = armed_at.filter(|armed_at| *armed_at > now);
        let wall = Duration::from_millis(wall_ms(world.true_time()));
        self.with_patience(world, |machine, patience, now| {
            machine.handle_timeout(wall, patience, now);
        });
        self.drive(world);
    }

    /// Sends a request. Returns false if the connection is down.
    fn send(&self, world: &mut Self::World, node: usize, waiting: Waiting) -> bool {
        let (ends, now) = ((self.me().number, node, self.me().life), world.true_time());
        let (net, queue) = world.wire();
        net.send(queue, now, ends, waiting)
    }

    /// A reply has come in, or will never come.
    fn handle_answer(
        &mut self,
        world: &mut Self::World,
        node: usize,
        Waiting { whose, command }: Waiting,
        answer: Option<Reply>,
    ) {
        if answer.is_none() && !self.link(world, node).is_up {
            self.note_unanswered(world, node, &command);
        }
        self.me_mut().driving.pulling = answer.is_some().then_some(node);
        let is_of_machine = matches!(whose, Whose::Machine(_));
        match whose {
            Whose::Machine(about) => {
                let transmit = Transmit { about, command };
                self.note_answer(node, &transmit, answer.as_ref());
                let (now, about) = (self.now(world), (&transmit.about, &transmit.command));
                self.me_mut().machine.handle_answer(node, about, answer.as_ref(), now);
            }
            Whose::Link(sent_at) => self.handle_link_answer(world, node, sent_at, answer.as_ref()),
            Whose::Meeting(sent_at) => self.handle_meeting(world, node, sent_at, answer.as_ref()),
        }
        self.drive(world);
        self.me_mut().driving.pulling = None;
        // Without a session that the node knows, a connection is of no use.
        let is_forgotten = answer.as_ref().is_some_and(Reply::is_stale);
        if is_forgotten || !is_of_machine && answer.is_none() {
            self.close(world, node, is_forgotten);
        }
    }

    /// A node tells something unasked.
    fn handle_push(&mut self, world: &mut Self::World, node: usize, push: Push) {
        let counts = push.counts_in(self.link(world, node).session);
        self.note_push(world, node, &push, counts);
        if !counts {
            self.close(world, node, true);
            return;
        }
        let now = self.now(world);
        self.me_mut().machine.handle_push(node, push, now);
        self.drive(world);
    }

    /// The node knows our session, and tells its time.
    fn handle_link_answer(
        &mut self,
        world: &mut Self::World,
        node: usize,
        sent_at: Moment,
        answer: Option<&Reply>,
    ) {
        let Some(Reply::Attached { time_us }) = answer else { return };
        self.me_mut().machine.handle_time(node, *time_us, sent_at);
        let recovers_in = self.me_mut().meetings.as_mut().map_or(0, |meetings| {
            meetings.know(node, *time_us, sent_at);
            meetings.hear_again(node)
        });
        let generation = self.link(world, node).generation;
        let now = world.true_time();
        let next = now + world.session_ms().unwrap_or(0) * MS / 4;
        self.plan(world, next, Due::Ping { node: node as u8, generation });
        let link = self.link(world, node);
        if !std::mem::replace(&mut link.is_attached, true) {
            link.is_recovering = recovers_in > 0;
            if recovers_in > 0 {
                self.with_patience(world, |machine, patience, now| {
                    machine.handle_recovering(node, patience, now);
                });
                self.drive(world);
                let what = Due::Recovered { node: node as u8, generation };
                self.plan(world, now + recovers_in, what);
            } else {
                self.tell_up(world, node);
            }
        }
    }

    /// The node can be asked for locks.
    fn tell_up(&mut self, world: &mut Self::World, node: usize) {
        let now = self.now(world);
        self.me_mut().machine.handle_up(node, now);
        self.drive(world);
    }

    fn handle_recovered(&mut self, world: &mut Self::World, node: usize, generation: u32) {
        let link = self.link(world, node);
        if link.generation == generation && link.is_recovering {
            link.is_recovering = false;
            self.tell_up(world, node);
        }
    }

    fn ping(&mut self, world: &mut Self::World, node: usize, generation: u32) {
        let link = self.link(world, node);
        if link.generation == generation && link.is_attached {
            let speaker = Speaker { client: self.me().id, session: link.session };
            let command = Command::Ping { speaker, stay: self.stay(world, node) };
            let whose = Whose::Link(self.now(world));
            self.send(world, node, Waiting { whose, command });
        }
    }

    /// The connection to a node is gone: what was asked on it will never be answered. If the node
    /// has forgotten the session, what it granted does not count.
    fn handle_break(
        &mut self,
        world: &mut Self::World,
        node: usize,
        generation: u32,
        is_forgotten: bool,
    ) {
        let is_dead = self.is_dead();
        let link = self.link(world, node);
        if is_dead || generation != link.generation {
            return;
        }
        let (waiting, delay) = (std::mem::take(&mut link.waiting), link.reconnect_delay());
        let away = self.me_mut().meetings.as_mut().and_then(|meetings| meetings.leave(node));
        let at = world.true_time() + delay + away.unwrap_or(0);
        self.plan(world, at, Due::Reconnect { node: node as u8, generation });
        self.note_break(world, away.is_some());
        for waiting in waiting {
            self.handle_answer(world, node, waiting, None);
        }
        let now = self.now(world);
        self.me_mut().machine.handle_down(node, is_forgotten, now);
        self.drive(world);
    }

    /// Closes a link that is silent for too long.
    fn look(&mut self, world: &mut Self::World, node: usize, generation: u32) {
        let now = world.true_time();
        let link = self.link(world, node);
        if generation != link.generation {
            return;
        }
        match link.look() {
            None => {}
            Some(then) if now < then => {
                self.plan(world, then, Due::Silence { node: node as u8, generation });
            }
            Some(_) => {
                let silent = || "is silent for too long and made anew".into();
                world.note(self.me().number, node, silent);
                self.close(world, node, false);
            }
        }
    }

    fn reconnect(&mut self, world: &mut Self::World, node: usize, generation: u32) {
        let is_reachable = world.is_reachable(self.me().number, node);
        let (now, has_sessions) = (world.true_time(), world.session_ms().is_some());
        let link = self.link(world, node);
        if generation != link.generation || link.is_up {
            return;
        }
        if !is_reachable {
            let delay = link.reconnect_delay();
            self.plan(world, now + delay, Due::Reconnect { node: node as u8, generation });
            return;
        }
        link.open(now, has_sessions);
        if !has_sessions {
            self.tell_up(world, node);
        } else if self.me().meetings.is_some() {
            self.meet(world, node);
        } else {
            self.attach(world, node);
        }
    }

    /// Begins a session.
    fn attach(&mut self, world: &mut Self::World, node: usize) {
        let session = self.link(world, node).session;
        let speaker = Speaker { client: self.me().id, session };
        let command = Command::Attach { speaker, stay: self.stay(world, node) };
        let whose = Whose::Link(self.now(world));
        self.send(world, node, Waiting { whose, command });
    }

    /// The terms of a session with this node.
    fn stay(&mut self, world: &Self::World, node: usize) -> Stay {
        let life_ms = world.session_ms().unwrap_or(0);
        let now = world.true_time();
        self.me_mut()
            .meetings
            .as_mut()
            .map_or_else(|| Stay::unguarded(life_ms), |it| it.stay(node, now))
    }

    /// Closes a connection that is of no use, if it is there.
    fn close(&mut self, world: &mut Self::World, node: usize, is_forgotten: bool) {
        if self.link(world, node).is_up {
            let (number, now) = (self.me().number, world.true_time());
            let late = world.stragglers_for();
            let (net, queue) = world.wire();
            net.break_link(queue, now, (number, node), late);
            let generation = net.link(number, node).generation;
            self.handle_break(world, node, generation, is_forgotten);
        }
    }

    /// A new connection to a guarded node begins with a question.
    fn meet(&mut self, world: &mut Self::World, node: usize) {
        let moment = self.now(world);
        let Some(meetings) = self.me_mut().meetings.as_mut() else { return };
        let greeting = meetings.greeting(node, world.true_time(), moment);
        self.send_meeting(world, node, Command::Meet { greeting });
    }

    fn send_meeting(&self, world: &mut Self::World, node: usize, command: Command) {
        let whose = Whose::Meeting(self.now(world));
        self.send(world, node, Waiting { whose, command });
    }

    fn handle_meeting(
        &mut self,
        world: &mut Self::World,
        node: usize,
        sent_at: Moment,
        answer: Option<&Reply>,
    ) {
        match answer {
            Some(Reply::Met(met)) => self.handle_met(world, node, sent_at, met),
            Some(Reply::Enrolled | Reply::Changed) => self.meet(world, node),
            // Without an answer, or with another one, the connection is of no use.
            Some(Reply::Stale) | None => {}
            Some(_) => self.close(world, node, false),
        }
    }

    fn handle_met(&mut self, world: &mut Self::World, node: usize, sent_at: Moment, met: &Met) {
        let now = world.true_time();
        let Some(meetings) = self.me_mut().meetings.as_mut() else { return };
        let (opinion, is_changed) = meetings.hear(node, sent_at, met);
        let others = (0..meetings.nodes()).filter(|other| is_changed && *other != node);
        self.note_opinion(world, node, &opinion);
        // They are judged anew.
        others.for_each(|other| self.close(world, other, true));
        let Some(meetings) = self.me_mut().meetings.as_mut() else { return };
        match meetings.judge(node, opinion, met, now) {
            Verdict::Votes => self.attach(world, node),
            Verdict::Say(command) => self.send_meeting(world, node, command),
            Verdict::Leave => self.close(world, node, false),
        }
    }
}

impl<C: Linked> Driver for C {
    type Source = Names;
    type World = C::World;

    fn machine(&mut self) -> &mut Machine {
        &mut self.me_mut().machine
    }

    fn driving(&mut self) -> &mut Driving {
        &mut self.me_mut().driving
    }

    /// A link that waits for several answers leaves more work to the machine until it gets one, so
    /// that it takes all of it together.
    fn is_busy(&mut self, world: &mut C::World, node: usize) -> bool {
        let is_pulling = self.me().driving.pulling == Some(node);
        let idle_max = world.idle_max();
        let link = self.link(world, node);
        !is_pulling && link.is_attached && link.waiting.len() > idle_max
    }

    /// Like a link to a server, a node takes heartbeats together. Some worlds have nodes that take
    /// every batch; one that recovers takes all that does not ask for locks.
    fn joins(&mut self, world: &mut C::World, node: usize) -> Joins {
        match (world.takes_batches(), self.link(world, node).is_recovering) {
            (false, _) => Command::is_heartbeat,
            (true, true) => |command| !command.is_asking(),
            (true, false) => |_| true,
        }
    }

    fn transmit(&mut self, world: &mut C::World, node: usize, transmit: Transmit) {
        self.note_sending(world, &transmit);
        let link = self.link(world, node);
        let mut command = transmit.command.clone();
        command.set_session(link.session);
        let is_open = if command.is_asking() { link.votes() } else { link.is_attached };
        let whose = Whose::Machine(transmit.about.clone());
        if !is_open || !self.send(world, node, Waiting { whose, command }) {
            self.note_answer(node, &transmit, None);
            let now = self.now(world);
            self.machine().handle_unsent(node, (&transmit.about, &transmit.command), now);
        }
    }

    fn handle_event(&mut self, world: &mut C::World, event: client::Event) {
        Linked::handle_event(self, world, event);
    }

    fn arm(&mut self, world: &mut C::World, at: Moment) {
        self.plan_at(world, at, Due::Machine);
    }
}
