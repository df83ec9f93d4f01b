//! The links of a client to its nodes: made, kept alive with a session, and made anew.

mod handshakes;

use std::time::Duration;

use quorate_core::{
    client::{self, Joins, Patience, Transmit},
    command::{ClientId, Command, Reply, SessionTerms},
    membership::{self, NodeInfo},
    moment::Moment,
    queue::{Push, Sender},
    terms::vote_timeout,
};

use self::handshakes::NextStep;
pub(crate) use self::handshakes::{Handshakes, view_of};
use super::{Client, Names};
use crate::{
    clock::{ClientClock, MS, Nanos},
    dice::Dice,
    driver::{Driver, Driving},
    event::{Due, Event},
    net::{Link, Waiting, Whose},
    run::Env,
    settings::{WAKE_LAG_MAX, wall_ms},
};

/// What every client has, whatever its user does.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) number: usize,
    /// How often it was restarted.
    pub(crate) restarts: u32,
    pub(crate) id: ClientId,
    pub(crate) clock: ClientClock,
    pub(crate) dice: Dice,
    /// Everything that it decides.
    pub(crate) machine: Machine,
    pub(crate) driving: Driving,
    /// Its membership view, where nodes use quarantine.
    pub(crate) handshakes: Option<Handshakes>,
}

/// The machine that is shipped.
pub(crate) type Machine = client::Client<Names>;

/// A client has one link to each node of its list.
impl Client {
    /// What its own clock shows.
    pub(crate) fn now(&self, env: &Env) -> Moment {
        self.me.clock.at(env.now)
    }

    pub(crate) fn link<'w>(&self, env: &'w mut Env, node: usize) -> &'w mut Link {
        env.net.link(self.me.number, node)
    }

    /// Plans something for a true time.
    pub(crate) fn plan(&self, env: &mut Env, at: Nanos, what: Due) {
        let (client, restarts) = (self.me.number as u8, self.me.restarts);
        env.queue.add(at, Event::Client { client, restarts, what });
    }

    /// Plans something for when its own clock shows `moment`, or a little later.
    pub(crate) fn plan_at(&mut self, env: &mut Env, moment: Moment, what: Due) {
        let lag = self.me.dice.below(WAKE_LAG_MAX);
        let at = self.me.clock.when(moment).max(env.now).saturating_add(lag);
        self.plan(env, at, what);
    }

    /// How long silent nodes are waited for. All links of a run are alike.
    fn patience(&self, env: &mut Env) -> impl Fn(Duration) -> Duration + use<> {
        let trip = Duration::from_nanos(self.link(env, 0).round_trip());
        move |ttl| vote_timeout(ttl, trip)
    }

    pub(crate) fn with_patience<T>(
        &mut self,
        env: &mut Env,
        act: impl FnOnce(&mut Machine, Patience<'_>, Moment) -> T,
    ) -> T {
        let (now, patience) = (self.now(env), self.patience(env));
        act(&mut self.me.machine, &patience, now)
    }

    /// A task is due, or was due while the process was paused.
    pub(crate) fn handle(&mut self, env: &mut Env, what: Due) {
        match what {
            Due::Silence { node, generation } => {
                self.check_silence(env, usize::from(node), generation);
            }
            Due::Broken { node, generation } => {
                self.handle_break(env, usize::from(node), generation, false);
            }
            Due::Reconnect { node, generation } => {
                self.reconnect(env, usize::from(node), generation);
            }
            Due::Ping { node, generation } => self.ping(env, usize::from(node), generation),
            Due::Recovered { node, generation } => {
                self.handle_recovered(env, usize::from(node), generation);
            }
            Due::Machine => self.handle_machine_timeout(env),
            Due::Work { task, step } => self.work(env, usize::from(task), step),
            Due::Cancel { task, operation } => {
                self.cancel_operation(env, usize::from(task), operation);
            }
        }
    }

    fn handle_machine_timeout(&mut self, env: &mut Env) {
        let now = self.now(env);
        let armed_at = &mut self.me.driving.armed_at;
        *armed_at = armed_at.filter(|armed_at| *armed_at > now);
        let wall = Duration::from_millis(wall_ms(env.now));
        self.with_patience(env, |machine, patience, now| {
            machine.handle_timeout(wall, patience, now);
        });
        self.drive(env);
    }

    /// Sends a request. Returns false if the connection is down.
    fn send(&self, env: &mut Env, node: usize, waiting: Waiting) -> bool {
        let (ends, now) = ((self.me.number, node, self.me.restarts), env.now);
        let Env { net, queue, .. } = env;
        net.send(queue, now, ends, waiting)
    }

    /// A reply has come in, or will never come.
    pub(crate) fn handle_answer(
        &mut self,
        env: &mut Env,
        node: usize,
        Waiting { whose, command }: Waiting,
        answer: Option<Reply>,
    ) {
        if answer.is_none() && !self.link(env, node).is_up {
            self.note_unanswered(env, node, &command);
        }
        self.me.driving.pulling = answer.is_some().then_some(node);
        let is_of_machine = matches!(whose, Whose::Machine(_));
        match whose {
            Whose::Machine(about) => {
                let transmit = Transmit { about, command };
                self.count(node, &transmit, answer.as_ref());
                let (now, about) = (self.now(env), (&transmit.about, &transmit.command));
                self.me.machine.handle_answer(node, about, answer.as_ref(), now);
            }
            Whose::Link(sent_at) => self.handle_link_answer(env, node, sent_at, answer.as_ref()),
            Whose::Handshake(sent_at) => self.handle_handshake(env, node, sent_at, answer.as_ref()),
        }
        self.drive(env);
        self.me.driving.pulling = None;
        // The node does not know the session: the connection is closed.
        let is_forgotten = answer.as_ref().is_some_and(Reply::is_stale);
        if is_forgotten || !is_of_machine && answer.is_none() {
            self.close(env, node, is_forgotten);
        }
    }

    /// A push has arrived.
    pub(crate) fn handle_push(&mut self, env: &mut Env, node: usize, push: Push) {
        let counts = push.counts_in(self.link(env, node).session);
        self.note_push(env, node, &push, counts);
        if !counts {
            self.close(env, node, true);
            return;
        }
        let now = self.now(env);
        self.me.machine.handle_push(node, push, now);
        self.drive(env);
    }

    /// The node knows the session, and reports its time.
    fn handle_link_answer(
        &mut self,
        env: &mut Env,
        node: usize,
        sent_at: Moment,
        answer: Option<&Reply>,
    ) {
        let Some(Reply::Attached { time_us }) = answer else { return };
        self.me.machine.handle_time(node, *time_us, sent_at);
        let recovers_in = self.me.handshakes.as_mut().map_or(0, |handshakes| {
            handshakes.know(node, *time_us, sent_at);
            handshakes.record_session(node)
        });
        let generation = self.link(env, node).generation;
        let now = env.now;
        let next = now + env.session_ms().unwrap_or(0) * MS / 4;
        self.plan(env, next, Due::Ping { node: node as u8, generation });
        let link = self.link(env, node);
        if !std::mem::replace(&mut link.is_attached, true) {
            link.is_recovering = recovers_in > 0;
            if recovers_in > 0 {
                self.with_patience(env, |machine, patience, now| {
                    machine.handle_recovering(node, patience, now);
                });
                self.drive(env);
                let what = Due::Recovered { node: node as u8, generation };
                self.plan(env, now + recovers_in, what);
            } else {
                self.report_up(env, node);
            }
        }
    }

    /// The node can be asked for locks.
    fn report_up(&mut self, env: &mut Env, node: usize) {
        let now = self.now(env);
        self.me.machine.handle_up(node, now);
        self.drive(env);
    }

    fn handle_recovered(&mut self, env: &mut Env, node: usize, generation: u32) {
        let link = self.link(env, node);
        if link.generation == generation && link.is_recovering {
            link.is_recovering = false;
            self.report_up(env, node);
        }
    }

    fn ping(&mut self, env: &mut Env, node: usize, generation: u32) {
        let link = self.link(env, node);
        if link.generation == generation && link.is_attached {
            let sender = Sender { client: self.me.id, session: link.session };
            let command = Command::Ping { sender, terms: self.session_terms(env, node) };
            let whose = Whose::Link(self.now(env));
            self.send(env, node, Waiting { whose, command });
        }
    }

    /// The connection to a node is closed: its open requests will never be answered. If the node
    /// has forgotten the session, its grants do not count.
    fn handle_break(&mut self, env: &mut Env, node: usize, generation: u32, is_forgotten: bool) {
        let is_dead = self.is_dead;
        let link = self.link(env, node);
        if is_dead || generation != link.generation {
            return;
        }
        let (waiting, delay) = (std::mem::take(&mut link.waiting), link.reconnect_delay());
        let away = self.me.handshakes.as_mut().and_then(|handshakes| handshakes.leave(node));
        let at = env.now + delay + away.unwrap_or(0);
        self.plan(env, at, Due::Reconnect { node: node as u8, generation });
        self.note_break(env, away.is_some());
        for waiting in waiting {
            self.handle_answer(env, node, waiting, None);
        }
        let now = self.now(env);
        if is_forgotten {
            self.note_forgotten(node);
        }
        self.me.machine.handle_down(node, is_forgotten, now);
        self.drive(env);
    }

    /// Closes a link that has been silent for too long.
    fn check_silence(&mut self, env: &mut Env, node: usize, generation: u32) {
        let now = env.now;
        let link = self.link(env, node);
        if generation != link.generation {
            return;
        }
        match link.check_silence() {
            None => {}
            Some(then) if now < then => {
                self.plan(env, then, Due::Silence { node: node as u8, generation });
            }
            Some(_) => {
                let silent = || "is silent for too long and is opened again".into();
                env.note(self.me.number, node, silent);
                self.close(env, node, false);
            }
        }
    }

    pub(crate) fn reconnect(&mut self, env: &mut Env, node: usize, generation: u32) {
        let is_reachable = env.is_reachable(self.me.number, node);
        let (now, has_sessions) = (env.now, env.session_ms().is_some());
        let link = self.link(env, node);
        if generation != link.generation || link.is_up {
            return;
        }
        if !is_reachable {
            let delay = link.reconnect_delay();
            self.plan(env, now + delay, Due::Reconnect { node: node as u8, generation });
            return;
        }
        link.open(now, has_sessions);
        if !has_sessions {
            self.report_up(env, node);
        } else if self.me.handshakes.is_some() {
            self.handshake(env, node);
        } else {
            self.attach(env, node);
        }
    }

    /// Begins a session.
    fn attach(&mut self, env: &mut Env, node: usize) {
        let session = self.link(env, node).session;
        let sender = Sender { client: self.me.id, session };
        let command = Command::Attach { sender, terms: self.session_terms(env, node) };
        let whose = Whose::Link(self.now(env));
        self.send(env, node, Waiting { whose, command });
    }

    /// The terms of a session with this node.
    fn session_terms(&mut self, env: &Env, node: usize) -> SessionTerms {
        let lifetime_ms = env.session_ms().unwrap_or(0);
        let now = env.now;
        self.me
            .handshakes
            .as_mut()
            .map_or_else(|| SessionTerms::without_membership(lifetime_ms), |it| it.terms(node, now))
    }

    /// Closes a connection, if it is open.
    fn close(&mut self, env: &mut Env, node: usize, is_forgotten: bool) {
        if self.link(env, node).is_up {
            let (number, now) = (self.me.number, env.now);
            let late = env.stragglers_for();
            let Env { net, queue, .. } = env;
            net.break_link(queue, now, (number, node), late);
            let generation = net.link(number, node).generation;
            self.handle_break(env, node, generation, is_forgotten);
        }
    }

    /// A new connection to a node with quarantine begins with a membership handshake.
    fn handshake(&mut self, env: &mut Env, node: usize) {
        let moment = self.now(env);
        let Some(handshakes) = self.me.handshakes.as_mut() else { return };
        let handshake = handshakes.handshake(node, env.now, moment);
        self.send_membership(env, node, membership::Command::Handshake(handshake));
    }

    fn send_membership(&self, env: &mut Env, node: usize, it: membership::Command) {
        let whose = Whose::Handshake(self.now(env));
        self.send(env, node, Waiting { whose, command: it.into() });
    }

    fn handle_handshake(
        &mut self,
        env: &mut Env,
        node: usize,
        sent_at: Moment,
        answer: Option<&Reply>,
    ) {
        match answer {
            Some(Reply::Membership(reply)) => match reply {
                membership::Reply::Info(info) => self.handle_info(env, node, sent_at, info),
                membership::Reply::Enrolled | membership::Reply::Changed => {
                    self.handshake(env, node);
                }
                _ => self.close(env, node, false),
            },
            // Without a usable answer the caller closes the connection.
            Some(Reply::Stale) | None => {}
            Some(_) => self.close(env, node, false),
        }
    }

    fn handle_info(&mut self, env: &mut Env, node: usize, sent_at: Moment, info: &NodeInfo) {
        let now = env.now;
        let Some(handshakes) = self.me.handshakes.as_mut() else { return };
        let (opinion, is_changed) = handshakes.record(node, sent_at, info);
        let others = (0..handshakes.nodes()).filter(|other| is_changed && *other != node);
        self.note_opinion(env, node, &opinion);
        // Their handshakes are repeated.
        others.for_each(|other| self.close(env, other, true));
        let Some(handshakes) = self.me.handshakes.as_mut() else { return };
        match handshakes.decide(node, opinion, info, now) {
            NextStep::Votes => self.attach(env, node),
            NextStep::Send(command) => self.send_membership(env, node, command),
            NextStep::Leave => self.close(env, node, false),
        }
    }
}

impl Driver for Client {
    type Source = Names;
    type Context = Env;

    fn machine(&mut self) -> &mut Machine {
        &mut self.me.machine
    }

    fn driving(&mut self) -> &mut Driving {
        &mut self.me.driving
    }

    /// A link that waits for several answers leaves more work to the machine until it gets one, so
    /// that it takes all of it together.
    fn is_busy(&mut self, env: &mut Env, node: usize) -> bool {
        let is_pulling = self.me.driving.pulling == Some(node);
        let idle_max = env.settings.idle_max;
        let link = self.link(env, node);
        !is_pulling && link.is_attached && link.waiting.len() > idle_max
    }

    /// As on a link to a server, commands of one kind leave in one batch. In some runs all commands
    /// do; to a recovering node all commands that do not ask for locks.
    fn joins(&mut self, env: &mut Env, node: usize) -> Joins {
        match (env.settings.idle_max == 0, self.link(env, node).is_recovering) {
            (false, _) => Command::shares_call,
            (true, true) => |first, command| !first.is_acquire() && !command.is_acquire(),
            (true, false) => |_, _| true,
        }
    }

    fn transmit(&mut self, env: &mut Env, node: usize, transmit: Transmit) {
        self.note_sending(env, &transmit);
        let link = self.link(env, node);
        let mut command = transmit.command.clone();
        command.set_session(link.session);
        let is_open = if command.is_acquire() { link.votes() } else { link.is_attached };
        let whose = Whose::Machine(transmit.about.clone());
        if !is_open || !self.send(env, node, Waiting { whose, command }) {
            self.count(node, &transmit, None);
            let now = self.now(env);
            self.machine().handle_unsent(node, (&transmit.about, &transmit.command), now);
        }
    }

    fn handle_event(&mut self, env: &mut Env, event: client::Event) {
        match event {
            client::Event::Closed(_) => {}
            client::Event::Ended(call, _) => self.handle_ended(env, call),
            client::Event::Lease(event) => self.handle_lease_event(env, event),
        }
    }

    fn arm(&mut self, env: &mut Env, at: Moment) {
        self.plan_at(env, at, Due::Machine);
    }
}
