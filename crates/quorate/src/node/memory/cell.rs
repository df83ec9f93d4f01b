//! A node in memory, with all of its clients.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use quorate_core::{
    command::{Command, Reply, Value},
    moment::Moment,
    name::Name,
    store::Store,
};

use super::{
    Behaviour,
    member::{Member, MemoryNode, View},
};
use crate::{
    clock::{Clock, node_time},
    error::NodeError,
    node::{Answered, NodeEvent, Request, deliver_answers},
};

#[derive(Debug)]
pub(super) struct Cell {
    number: usize,
    label: String,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    store: Store,
    behaviour: Behaviour,
    /// Requests that a hanging node has not executed, or that a mute node has executed and not
    /// answered.
    unanswered: VecDeque<Unanswered>,
    /// The clock of all clients of the node. Keys cannot be compared by another clock.
    clock: Option<Clock>,
    members: Vec<Weak<Member>>,
    /// When the last command was executed.
    latest: Moment,
}

/// A request without an answer.
#[derive(Debug)]
struct Unanswered {
    member: Arc<Member>,
    command: Command,
    /// Absent when the client does not wait for the answer any more.
    request: Option<Request>,
    queued_at: Moment,
    has_run: bool,
}

impl Cell {
    pub(super) fn new(number: usize) -> Self {
        let state = State {
            store: Store::new(),
            behaviour: Behaviour::Answer,
            unanswered: VecDeque::new(),
            clock: None,
            members: Vec::new(),
            latest: Moment::ZERO,
        };
        Self { number, label: format!("memory:{number}"), state: Mutex::new(state) }
    }

    /// The node for another client. `None` if clients with another kind of clock use the node.
    pub(super) fn join(self: &Arc<Self>, view: &View) -> Option<MemoryNode> {
        let mut state = self.lock();
        if *state.clock.get_or_insert(view.clock) != view.clock {
            return None;
        }
        let member = Member::new(self.number, view, self);
        match state.behaviour {
            Behaviour::Fail => member.detach(NodeError::ConnectionRefused),
            Behaviour::Answer | Behaviour::Hang | Behaviour::Mute => {
                member.attach(&mut state.store);
            }
        }
        state.members.retain(|member| member.strong_count() > 0);
        state.members.push(Arc::downgrade(&member));
        drop(state);
        Some(MemoryNode { cell: self.clone(), member })
    }

    /// Removes a client, which receives no more pushes.
    pub(super) fn leave(&self, member: &Member) {
        self.lock().store.unsubscribe(member.view.client);
    }

    /// Executes a request and returns it with the answer. `None` if the node does not answer now.
    pub(super) fn send(&self, member: &Arc<Member>, request: Request) -> Option<Answered> {
        let mut state = self.lock();
        if let Some(node_error) = member.node_error() {
            return Some((request, Err(node_error)));
        }
        let mut command = request.command.clone();
        member.set_session(&mut state.store, &mut command);
        let queued_at = member.view.clock.now();
        let has_run = match state.behaviour {
            Behaviour::Answer => {
                let reply = state.run(&command, queued_at);
                if !reply.is_stale() {
                    return Some((request, Ok(reply)));
                }
                // The node has forgotten the session, so another one begins, as on a link.
                member.attach(&mut state.store);
                return Some((request, Err(NodeError::SessionLost)));
            }
            Behaviour::Fail => return Some((request, Err(NodeError::ConnectionRefused))),
            Behaviour::Hang => false,
            Behaviour::Mute => {
                state.run(&command, queued_at);
                true
            }
        };
        let (request, member) = (Some(request), member.clone());
        let is_first = !state.unanswered.iter().any(|it| it.is_of(&member));
        state.unanswered.push_back(Unanswered {
            member: member.clone(),
            command,
            request,
            queued_at,
            has_run,
        });
        drop(state);
        if is_first {
            member.watch(queued_at.saturating_add(LINK_TIMEOUT));
        }
        None
    }

    /// Disconnects a client that has waited too long for an answer.
    pub(super) fn check_timeout(&self, member: &Arc<Member>, now: Moment) {
        let mut state = self.lock();
        let mut waiting = state.unanswered.iter_mut().filter(|it| it.is_of(member)).peekable();
        let Some(first) = waiting.peek() else { return };
        let due_at = first.queued_at.saturating_add(LINK_TIMEOUT);
        if now < due_at {
            drop(state);
            member.watch(due_at);
            return;
        }
        let requests: Vec<Request> = waiting.filter_map(|it| it.request.take()).collect();
        state.unanswered.retain(|it| !(it.has_run && it.request.is_none()));
        // Under the mutex: otherwise the node could answer again in between, and would not reattach
        // the client.
        member.detach(NodeError::TimedOut);
        drop(state);
        let answers = requests.into_iter().map(|request| (request, Err(NodeError::TimedOut)));
        deliver_answers(self.number, answers, now);
        member.view.idle.notify();
    }

    pub(super) fn is_busy(&self) -> bool {
        let state = self.lock();
        state.unanswered.iter().any(|it| it.request.is_some() && !it.has_run)
    }

    pub(super) fn set(&self, behaviour: Behaviour) {
        let mut state = self.lock();
        let before = std::mem::replace(&mut state.behaviour, behaviour);
        let is_back = behaviour == Behaviour::Answer && before != behaviour;
        let mut answered = state.lose_answers();
        match behaviour {
            Behaviour::Answer => answered.extend(state.resume()),
            Behaviour::Fail => {
                state.store.unsubscribe_all();
                let refused = || NodeError::ConnectionRefused;
                state.members().iter().for_each(|member| member.detach(refused()));
            }
            Behaviour::Hang | Behaviour::Mute => {}
        }
        let members = state.members();
        drop(state);
        for (request, answer, now) in answered {
            deliver_answers(self.number, [(request, answer)], now);
        }
        for member in members {
            if is_back {
                // Commands that could not be sent are sent now.
                member.view.events.deliver_queued();
            }
            member.view.idle.notify();
        }
    }

    /// Forgets everything. Clients notice immediately, where a link would need a ping.
    pub(super) fn forget(&self) {
        let mut state = self.lock();
        state.store.clear();
        for member in state.members().iter().filter(|member| member.node_error().is_none()) {
            member.attach(&mut state.store);
            member.notify(NodeEvent::Up);
        }
    }

    pub(super) fn plant(&self, name: &Name, value: &[u8]) {
        let value = Value::Text(value.into());
        self.lock().store.plant(node_time(Moment::ZERO), name, value, None);
    }

    pub(super) fn names(&self) -> Vec<String> {
        let mut state = self.lock();
        let now = node_time(state.latest);
        state.store.names(now).iter().map(ToString::to_string).collect()
    }

    pub(super) fn label(&self) -> &str {
        &self.label
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Executes one command and delivers its pushes. The pushes of a mute node are lost.
    fn run(&mut self, command: &Command, now: Moment) -> Reply {
        self.latest = now;
        let reply = self.store.apply(node_time(now), command);
        for push in self.store.take_pushes() {
            let members = self.members.iter().filter_map(Weak::upgrade);
            let mut receivers = members.filter(|member| member.view.client == push.client);
            if self.behaviour == Behaviour::Answer
                && let Some(member) = receivers.next()
            {
                member.notify(NodeEvent::Push(push));
            }
        }
        reply
    }

    /// Fails the requests that a mute node has not answered.
    fn lose_answers(&mut self) -> Vec<(Request, Result<Reply, NodeError>, Moment)> {
        let mut lost = Vec::new();
        for it in self.unanswered.iter_mut().filter(|it| it.has_run) {
            let node_error = NodeError::ConnectionLost("the answer was lost".into());
            let now = it.member.view.clock.now();
            lost.extend(it.request.take().map(|request| (request, Err(node_error), now)));
        }
        self.unanswered.retain(|it| !it.has_run);
        lost
    }

    /// Executes the requests that were held back, in order, and attaches clients again that had
    /// disconnected.
    fn resume(&mut self) -> Vec<(Request, Result<Reply, NodeError>, Moment)> {
        let mut answered = Vec::new();
        for it in std::mem::take(&mut self.unanswered) {
            let now = it.member.view.clock.now();
            let reply = self.run(&it.command, now);
            answered.extend(it.request.map(|request| (request, Ok(reply), now)));
        }
        for member in self.members() {
            if member.node_error().is_some() {
                member.attach(&mut self.store);
            }
            member.notify(NodeEvent::Up);
        }
        answered
    }

    fn members(&self) -> Vec<Arc<Member>> {
        self.members.iter().filter_map(Weak::upgrade).collect()
    }
}

impl Unanswered {
    fn is_of(&self, member: &Arc<Member>) -> bool {
        self.request.is_some() && Arc::ptr_eq(&self.member, member)
    }
}

/// After this time without any answer a client disconnects, as on a link.
const LINK_TIMEOUT: Duration = Duration::from_secs(1);
