//! What the checker and the trace record about the links of a client, and what the links need to
//! know about their run.

use quorate_core::{
    client::{About, Transmit},
    command::Command,
    membership::Opinion,
    queue::{Push, PushKind},
};

use super::Client;
use crate::{
    clock::{MS, Nanos},
    run::Env,
    trace::{self, Position, Scene},
};

impl Client {
    pub(super) fn note_sending(&mut self, env: &mut Env, transmit: &Transmit) {
        for (about, ..) in transmit.about.entries(&transmit.command, None) {
            if let About::Waiter(question) = about {
                self.enter_queue(env, question.call);
            }
        }
    }

    pub(super) fn note_unanswered(&self, env: &mut Env, seat: usize, command: &Command) {
        let (lock, node) = (env.lock_of(command), self.link(env, seat).node);
        env.trace.add(env.now, lock, || Scene::Unanswered {
            client: self.me.number,
            node,
            ask: trace::ask(command),
        });
    }

    pub(super) fn note_push(&self, env: &mut Env, seat: usize, push: &Push, counts: bool) {
        let lock = env.locks.iter().position(|name| *name == push.name);
        let node = self.link(env, seat).node;
        env.trace.add(env.now, lock, || Scene::Pushed {
            client: self.me.number,
            node,
            text: format!("{:?} {} {}", push.kind, trace::owner_name(&push.owner), push.fence),
        });
        if counts && push.kind == PushKind::Granted {
            env.check.order.hand_off(&push.owner);
        }
    }

    pub(super) fn note_break(&mut self, env: &mut Env, is_planned: bool) {
        if !is_planned && self.me.dice.below(4) == 0 {
            self.grow_impatient(env);
        }
    }

    pub(super) fn note_opinion(&mut self, env: &mut Env, node: usize, opinion: &Opinion) {
        env.count.waits += u64::from(matches!(opinion, Opinion::Quarantined(_)));
        env.count.differs += u64::from(matches!(opinion, Opinion::Differs(_)));
        self.opinion = env.settings.is_changing().then(|| opinion.clone());
        env.note(self.me.number, node, || format!("handshake: {}", opinion_text(opinion)));
    }
}

impl Env {
    /// How long sessions last; `None` if there are none.
    pub(crate) fn session_ms(&self) -> Option<u64> {
        self.settings.has_sessions().then_some(self.settings.session_ms)
    }

    /// Whether the client can connect to this node of its list now.
    pub(crate) fn is_reachable(&mut self, client: usize, seat: usize) -> bool {
        let node = self.net.link(client, seat).node;
        let is_apart = self.apart_until(client, node).is_some();
        self.nodes[node].is_up() && self.net.is_open(client, seat) && !is_apart
    }

    /// How late requests may still arrive after their connection was closed.
    pub(crate) fn stragglers_for(&mut self) -> Nanos {
        match self.is_rough {
            true => self.dice.pick(&[0, 30 * MS, 400 * MS, self.late_max()]),
            false => 0,
        }
    }

    pub(crate) fn note(&mut self, client: usize, seat: usize, text: impl FnOnce() -> String) {
        let place = Position::Link(client, self.net.link(client, seat).node);
        self.trace.add(self.now, None, || Scene::Note { place, text: text() });
    }
}

fn opinion_text(opinion: &Opinion) -> String {
    match opinion {
        Opinion::Votes(_) => "it votes".into(),
        Opinion::Quarantined(it) => format!("it waits for {} ms: {}", it.left_ms, it.reason),
        Opinion::Enrol(_) => "it must be enrolled".into(),
        Opinion::Update { .. } => "it must be notified of a change".into(),
        Opinion::Differs(why) => format!("it differs: {why}"),
    }
}
