//! The connections of a client: made, kept alive, and made anew.

use quorate_core::{
    command::{Command, Reply, Stay},
    line::Speaker,
    moment::Moment,
};

use super::Client;
use crate::{
    clock::MS,
    event::Due,
    net::{Waiting, Whose},
    trace::{Place, Scene},
    world::Env,
};

impl Client {
    /// The node knows our session, and tells its time.
    pub(super) fn handle_link_answer(
        &mut self,
        env: &mut Env,
        node: usize,
        sent_at: Moment,
        answer: Option<&Reply>,
    ) {
        let Some(Reply::Attached { time_us }) = answer else { return };
        self.machine.handle_time(node, *time_us, sent_at);
        if let Some(meetings) = &mut self.meetings {
            meetings.know(node, *time_us, sent_at);
            meetings.hear_again(node);
        }
        let generation = env.net.link(self.number, node).generation;
        let next = env.now + env.settings.session_ms * MS / 4;
        self.plan(env, next, Due::Ping { node: node as u8, generation });
        let recovers_in = self.meetings.as_ref().map_or(0, |meetings| meetings.recovers_in(node));
        let link = env.net.link(self.number, node);
        if !std::mem::replace(&mut link.is_attached, true) {
            link.is_recovering = recovers_in > 0;
            if recovers_in > 0 {
                self.with_patience(env, |machine, patience, now| {
                    machine.handle_recovering(node, patience, now);
                });
                self.drive(env);
                let what = Due::Recovered { node: node as u8, generation };
                self.plan(env, env.now + recovers_in, what);
            } else {
                self.tell_up(env, node);
            }
        }
    }

    /// The node can be asked for locks.
    fn tell_up(&mut self, env: &mut Env, node: usize) {
        let now = self.now(env);
        self.machine.handle_up(node, now);
        self.drive(env);
    }

    pub(super) fn handle_recovered(&mut self, env: &mut Env, node: usize, generation: u32) {
        let link = env.net.link(self.number, node);
        if link.generation == generation && link.is_recovering {
            link.is_recovering = false;
            self.tell_up(env, node);
        }
    }

    pub(super) fn ping(&mut self, env: &mut Env, node: usize, generation: u32) {
        let link = env.net.link(self.number, node);
        if link.generation == generation && link.is_attached {
            let speaker = Speaker { client: self.id, session: link.session };
            let command = Command::Ping { speaker, stay: self.stay(env, node) };
            let whose = Whose::Link(self.now(env));
            self.send(env, node, Waiting { whose, command });
        }
    }

    /// The connection to a node is gone: what was asked on it will never be answered.
    pub(super) fn handle_break(&mut self, env: &mut Env, node: usize, generation: u32) {
        let link = env.net.link(self.number, node);
        if self.is_dead || generation != link.generation {
            return;
        }
        let (waiting, delay) = (std::mem::take(&mut link.waiting), link.reconnect_delay());
        let (delay, is_planned) = match self.meetings.as_mut().and_then(|it| it.leave(node)) {
            Some(away) => (delay + away, true),
            None => (delay, false),
        };
        let what = Due::Reconnect { node: node as u8, generation };
        self.plan(env, env.now + delay, what);
        if !is_planned && self.dice.below(4) == 0 {
            self.grow_impatient(env);
        }
        for waiting in waiting {
            self.handle_answer(env, node, waiting, None);
        }
        let now = self.now(env);
        self.machine.handle_down(node, false, now);
        self.drive(env);
    }

    pub(super) fn look(&mut self, env: &mut Env, node: usize, generation: u32) {
        let link = env.net.link(self.number, node);
        if generation != link.generation {
            return;
        }
        match link.look() {
            None => {}
            Some(then) if env.now < then => {
                self.plan(env, then, Due::Silence { node: node as u8, generation });
            }
            Some(_) => {
                env.trace.add(env.now, None, || Scene::Note {
                    place: Place::Link(self.number, node),
                    text: "is silent for too long and made anew".into(),
                });
                self.close(env, node);
            }
        }
    }

    pub(super) fn reconnect(&mut self, env: &mut Env, node: usize, generation: u32) {
        let is_reachable = env.nodes[node].is_up() && env.net.is_open(self.number, node);
        let link = env.net.link(self.number, node);
        if generation != link.generation || link.is_up {
            return;
        }
        if !is_reachable {
            let delay = link.reconnect_delay();
            self.plan(env, env.now + delay, Due::Reconnect { node: node as u8, generation });
            return;
        }
        link.open(env.now, &env.settings);
        if !env.settings.has_sessions() {
            self.tell_up(env, node);
            return;
        }
        if self.meetings.is_some() {
            self.meet(env, node);
        } else {
            self.attach(env, node);
        }
    }

    /// Begins a session.
    pub(super) fn attach(&mut self, env: &mut Env, node: usize) {
        let session = env.net.link(self.number, node).session;
        let speaker = Speaker { client: self.id, session };
        let command = Command::Attach { speaker, stay: self.stay(env, node) };
        let whose = Whose::Link(self.now(env));
        self.send(env, node, Waiting { whose, command });
    }

    /// The terms of a session with this node.
    fn stay(&mut self, env: &Env, node: usize) -> Stay {
        let life_ms = env.settings.session_ms;
        if let Some(meetings) = &mut self.meetings {
            meetings.ask(node);
        }
        match (&mut self.meetings, &env.settings.guard) {
            (Some(meetings), Some(guard)) => Stay {
                life_ms,
                mark: meetings.mark(node),
                slack_us: guard.slack_us(),
                wall_ms: meetings.wall_ms(env.now),
            },
            _ => Stay::unguarded(life_ms),
        }
    }

    /// Closes a connection that is of no use, if it is there.
    pub(super) fn close(&mut self, env: &mut Env, node: usize) {
        if env.net.link(self.number, node).is_up {
            env.break_link(self.number, node, 0);
            let generation = env.net.link(self.number, node).generation;
            self.handle_break(env, node, generation);
        }
    }
}
