//! The heartbeats of all who wait, gathered into one request for each node.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quorate_core::{
    command::{Command, Owner, PROLONG_MAX, Reply},
    line::{Ask, Standing},
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
    gathered: Box<[Mutex<Gathered>]>,
}

impl Heartbeats {
    pub(super) fn new(nodes: usize) -> Self {
        Self { gathered: (0..nodes).map(|_| Mutex::default()).collect() }
    }

    /// Asks `node` with the next request.
    pub(super) fn add(&self, node: usize, standing: Standing, spoken: Spoken) {
        self.lock(node).push((standing, spoken));
    }

    /// The owner leaves: it must not be asked for any more.
    pub(super) fn remove(&self, node: usize, owner: &Owner) {
        self.lock(node).retain(|(standing, _)| standing.owner != *owner);
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
            let all = std::mem::take(&mut *gathered);
            for chunk in all.chunks(PROLONG_MAX) {
                let (command, spoken) = request(engine, chunk);
                let inbox = Arc::new(Heartbeat { spoken });
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

    fn lock(&self, node: usize) -> MutexGuard<'_, Gathered> {
        self.gathered[node].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who is to be asked for, and who wants to know.
type Gathered = Vec<(Standing, Spoken)>;

/// One request for all; one who is alone asks alone.
fn request(engine: &Engine, chunk: &[(Standing, Spoken)]) -> (Command, Vec<Spoken>) {
    let speaker = engine.speaker();
    let command = match chunk {
        [(Standing { name, owner }, _)] => {
            let (name, owner) = (name.clone(), owner.clone());
            Command::Acquire { speaker, ask: Ask { name, owner, is_waiting: true, is_known: true } }
        }
        _ => Command::Heartbeat {
            speaker,
            standing: chunk.iter().map(|(standing, _)| standing.clone()).collect(),
        },
    };
    (command, chunk.iter().map(|(_, spoken)| spoken.clone()).collect())
}

/// Takes in the answer for all who asked.
#[derive(Debug)]
struct Heartbeat {
    spoken: Vec<Spoken>,
}

impl Inbox for Heartbeat {
    fn handle_answer(
        self: Arc<Self>,
        node: usize,
        command: Command,
        answer: Result<Reply, Trouble>,
        now: Moment,
    ) {
        for (index, spoken) in self.spoken.iter().enumerate() {
            let answer = match (&command, &answer) {
                (_, Err(trouble)) => Err(trouble.clone()),
                (Command::Heartbeat { .. }, Ok(Reply::EachHeard(each))) => match each.get(index) {
                    Some(Some(reply)) if each.len() == self.spoken.len() => Ok(reply.clone()),
                    _ => Err(Trouble::Server("it could not tell about this lock".into())),
                },
                (_, Ok(reply)) => Ok(reply.clone()),
            };
            spoken.contender.handle_said(node, spoken, answer, now);
        }
    }
}
