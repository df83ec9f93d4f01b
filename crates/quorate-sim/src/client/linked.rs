//! How a simulated client drives its machine, and what the judge sees of its links.

use quorate_core::{
    client::{About, Event, Transmit},
    command::{Command, Reply},
    guard::Opinion,
    line::{News, Push},
};

use super::Client;
use crate::{
    clock::{MS, Nanos},
    event::Queue,
    links::{Linked, Process, Surroundings},
    net::Net,
    trace::{self, Place, Scene},
    world::Env,
};

impl Linked for Client {
    type World = Env;

    fn me(&self) -> &Process {
        &self.me
    }

    fn me_mut(&mut self) -> &mut Process {
        &mut self.me
    }

    fn handle_event(&mut self, env: &mut Env, event: Event) {
        match event {
            Event::Closed(_) => {}
            Event::Ended(call, _) => self.handle_ended(env, call),
            Event::Lease(event) => self.handle_lease_event(env, event),
        }
    }

    fn is_dead(&self) -> bool {
        self.is_dead
    }

    fn handle_work(&mut self, env: &mut Env, task: usize, step: u32) {
        self.work(env, task, step);
    }

    fn cancel(&mut self, env: &mut Env, task: usize, operation: u32) {
        self.cancel_operation(env, task, operation);
    }

    fn note_sending(&mut self, env: &mut Env, transmit: &Transmit) {
        for (about, ..) in transmit.about.entries(&transmit.command, None) {
            if let About::Waiter(question) = about {
                self.stand(env, question.call);
            }
        }
    }

    fn note_answer(&mut self, node: usize, transmit: &Transmit, reply: Option<&Reply>) {
        self.count(node, transmit, reply);
    }

    fn note_unanswered(&mut self, env: &mut Env, seat: usize, command: &Command) {
        let (lock, node) = (env.lock_of(command), self.link(env, seat).node);
        env.trace.add(env.now, lock, || Scene::Unanswered {
            client: self.me.number,
            node,
            ask: trace::ask(command),
        });
    }

    fn note_push(&mut self, env: &mut Env, seat: usize, push: &Push, counts: bool) {
        let lock = env.locks.iter().position(|name| *name == push.name);
        let node = self.link(env, seat).node;
        env.trace.add(env.now, lock, || Scene::Pushed {
            client: self.me.number,
            node,
            text: format!("{:?} {} {}", push.news, trace::owner_name(&push.owner), push.fence),
        });
        if counts && push.news == News::Granted {
            env.check.order.hand_on(&push.owner);
        }
    }

    fn note_break(&mut self, env: &mut Env, is_planned: bool) {
        if !is_planned && self.me.dice.below(4) == 0 {
            self.grow_impatient(env);
        }
    }

    fn note_opinion(&mut self, env: &mut Env, node: usize, opinion: &Opinion) {
        env.count.waits += u64::from(matches!(opinion, Opinion::Waits { .. }));
        env.count.differs += u64::from(matches!(opinion, Opinion::Differs(_)));
        self.opinion = env.settings.is_changing().then(|| opinion.clone());
        env.note(self.me.number, node, || format!("is judged: {}", told(opinion)));
    }
}

impl Surroundings for Env {
    fn true_time(&self) -> Nanos {
        self.now
    }

    fn wire(&mut self) -> (&mut Net, &mut Queue) {
        (&mut self.net, &mut self.queue)
    }

    fn session_ms(&self) -> Option<u64> {
        self.settings.has_sessions().then_some(self.settings.session_ms)
    }

    fn idle_max(&self) -> usize {
        self.settings.idle_max
    }

    fn takes_batches(&self) -> bool {
        self.settings.idle_max == 0
    }

    fn is_reachable(&mut self, client: usize, seat: usize) -> bool {
        let node = self.net.link(client, seat).node;
        let is_apart = self.apart_until(client, node).is_some();
        self.nodes[node].is_up() && self.net.is_open(client, seat) && !is_apart
    }

    fn stragglers_for(&mut self) -> Nanos {
        match self.is_rough {
            true => self.dice.pick(&[0, 30 * MS, 400 * MS, self.late_max()]),
            false => 0,
        }
    }

    fn note(&mut self, client: usize, seat: usize, text: impl FnOnce() -> String) {
        let place = Place::Link(client, self.net.link(client, seat).node);
        self.trace.add(self.now, None, || Scene::Note { place, text: text() });
    }
}

fn told(opinion: &Opinion) -> String {
    match opinion {
        Opinion::Votes(_) => "it votes".into(),
        Opinion::Waits { why, left_ms } => format!("it waits for {left_ms} ms: {why}"),
        Opinion::Enrol(_) => "it is to be enrolled".into(),
        Opinion::Tell { .. } => "it is to be told of a change".into(),
        Opinion::Differs(why) => format!("it differs: {why}"),
    }
}
