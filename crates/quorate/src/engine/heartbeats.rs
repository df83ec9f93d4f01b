//! The heartbeats of all who wait, gathered into one request for each node.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quorate_core::{
    client::heartbeats::{Heartbeat, Heartbeats as Gathered},
    command::{Command, Owner, Reply},
    line::Standing,
    moment::Moment,
};

use super::{Engine, contender::Spoken};
use crate::{
    error::Trouble,
    node::{Inbox, Request, Sent},
};

/// What is to be asked of each node with the next request.
#[derive(Debug)]
pub(super) struct Heartbeats {
    /// Held while the request is queued: an owner that leaves is taken out before its release is
    /// queued, or is asked for before it.
    gathered: Box<[Mutex<Gathered<Spoken>>]>,
}

impl Heartbeats {
    pub(super) fn new(nodes: usize) -> Self {
        Self { gathered: (0..nodes).map(|_| Mutex::default()).collect() }
    }

    /// Asks `node` with the next request.
    pub(super) fn add(&self, node: usize, standing: Standing, spoken: Spoken) {
        self.lock(node).add(standing, spoken);
    }

    /// The owner leaves: it must not be asked for any more.
    pub(super) fn remove(&self, node: usize, owner: &Owner) {
        self.lock(node).remove(owner);
    }

    /// Sends what was gathered. Every node is asked before any answer is heard: whoever holds the
    /// lock by then may release it at once, and must not be asked for behind that.
    pub(super) fn flush(&self, engine: &Engine, now: Moment) {
        let mut answered = Vec::new();
        for (number, node) in engine.nodes.iter().enumerate() {
            let mut gathered = self.lock(number);
            if gathered.is_empty() {
                continue;
            }
            for heartbeat in gathered.take(engine.speaker()) {
                let command = heartbeat.command.clone();
                let inbox = Arc::new(Asked(heartbeat));
                let request =
                    Request { command: command.clone(), node: number, inbox: inbox.clone() };
                if let Sent::Answered(answer) = node.send(request, now) {
                    answered.push((number, inbox, command, answer));
                }
            }
            drop(gathered);
            node.flush();
        }
        for (number, inbox, command, answer) in answered {
            inbox.handle_answer(number, command, answer, now);
        }
    }

    fn lock(&self, node: usize) -> MutexGuard<'_, Gathered<Spoken>> {
        self.gathered[node].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes in the answer for all who asked.
#[derive(Debug)]
struct Asked(Heartbeat<Spoken>);

impl Inbox for Asked {
    fn handle_answer(
        self: Arc<Self>,
        node: usize,
        _command: Command,
        answer: Result<Reply, Trouble>,
        now: Moment,
    ) {
        for (spoken, reply) in self.0.answers(answer.as_ref().ok()) {
            let answer = match (&answer, reply) {
                (Err(trouble), _) => Err(trouble.clone()),
                (Ok(_), Some(Reply::Full)) => Err(Trouble::OutOfMemory),
                (Ok(_), Some(reply)) => Ok(reply.clone()),
                (Ok(_), None) => Err(Trouble::Server("it could not tell about this lock".into())),
            };
            spoken.contender.handle_said(node, spoken, answer, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use quorate_core::{contend::Mode, name::Name};

    use crate::{
        Client,
        engine::{Contender, OwnerKind, Timed as _},
        memory::MemoryNodes,
    };

    /// A node that is asked behind the release would put it in line again.
    #[tokio::test(start_paused = true)]
    async fn one_who_leaves_is_not_asked_for_any_more() {
        let nodes = MemoryNodes::new(3);
        let client = || Client::builder().memory(&nodes).danger_engine_on_this_runtime().build();
        let (holder, client) = (client().expect("valid"), client().expect("valid"));
        let _held = holder.mutex("a").lock().await.expect("it is free");
        let (engine, ttl) = (&client.inner.engine, Duration::from_secs(10));
        let terms = client.inner.terms(ttl).expect("valid");
        let name = Name::parse("a", "").expect("valid");
        let mode = Mode::Wait(Duration::MAX);
        let waiter = Contender::start(engine, name, terms, OwnerKind::default(), mode);
        let outcome = waiter.clone().outcome(None);
        assert_eq!(waiting(&holder).await, 1);

        // Its heartbeat is gathered, but not sent yet.
        waiter.handle_timeout(engine.now().saturating_add(ttl));
        drop(outcome);
        engine.line.heartbeats.flush(engine, engine.now());
        assert_eq!(waiting(&holder).await, 0);
    }

    async fn waiting(client: &Client) -> u64 {
        client.inspect("a").await.expect("all nodes answer").waiting_total
    }
}
