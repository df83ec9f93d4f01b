//! Passes the replies and events of nodes to the client's state machine.

use std::sync::{Arc, Weak};

use quorate_core::{
    client::About,
    command::{Command, Reply},
    moment::Moment,
};

use super::{
    Engine,
    shared::{Order, Rest},
};
use crate::{
    error::NodeError,
    node::{Listener, NodeEvent, NodeEvents, Pull},
};

impl Engine {
    /// Receives the events of nodes from now on.
    pub(crate) fn listen_to(self: &Arc<Self>, events: &NodeEvents) {
        let weak: Weak<Self> = Arc::downgrade(self);
        events.set_listener(weak, &self.timers);
        // Under the mutex: the event of a node that comes up in the meantime arrives before or
        // after.
        self.work(|shared, now| shared.update_reachable(self, now));
    }
}

impl Listener for Engine {
    fn handle_answers(
        self: Arc<Self>,
        node: usize,
        answers: &mut dyn Iterator<Item = (About, Command, Result<Reply, NodeError>)>,
        now: Moment,
    ) {
        let mut rest = Rest::default();
        let mut shared = self.lock();
        for (about, command, answer) in answers {
            // A renewal must count by the present time, which may be later than when the batch of
            // replies was read.
            let may_renew = matches!(about, About::Renewals(_) | About::Batch(_));
            let now = if may_renew { self.now() } else { now };
            shared.handle_answer(&self, node, (&about, &command), answer, &mut rest, now);
        }
        self.finish(shared, rest, Order::Next, now);
    }

    fn handle_event(self: Arc<Self>, node: usize, kind: NodeEvent) {
        match kind {
            // This causes no output.
            NodeEvent::Time { time_us, at } => self.lock().machine.handle_time(node, time_us, at),
            NodeEvent::Up => self.work(|shared, now| shared.machine.handle_up(node, now)),
            NodeEvent::Down { is_forgotten } => self.work(|shared, now| {
                shared.machine.handle_down(node, is_forgotten, now);
                shared.give_up_where_denied(&self, now);
            }),
            NodeEvent::Recovering => self.work(|shared, now| {
                shared.machine.handle_recovering(node, &|ttl| self.vote_timeout(ttl), now);
            }),
            NodeEvent::Push(push) => {
                self.work(|shared, now| shared.machine.handle_push(node, push, now));
            }
        }
    }

    fn serve(self: Arc<Self>, node: usize) {
        let (now, mut rest) = (self.now(), Rest::default());
        let mut shared = self.lock();
        shared.send(&self, node, Pull::All, &mut rest, now);
        rest.is_written(node);
        self.finish(shared, rest, Order::Next, now);
    }
}
