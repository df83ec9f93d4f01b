//! What the worker has to do, and how it is woken.

use std::{
    collections::VecDeque,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rustix::{
    event::{EventfdFlags, eventfd},
    io::{read, write},
};

use crate::{
    error::NodeError,
    node::{Pulled, Request, Sent, Work},
};

/// The queue of one client.
#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    bell: OwnedFd,
    over: Condvar,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    /// How many there were.
    phases: u64,
    waiting: VecDeque<Request>,
    /// How many the worker has taken and not answered.
    taken: usize,
    /// The worker will look before it sleeps.
    is_awake: bool,
    has_ended: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Phase {
    Up,
    Down(NodeError),
    Closed,
}

/// What the worker is to do next.
#[derive(Debug)]
pub(super) enum Next {
    Work(Vec<Request>),
    /// There is nothing: it may sleep until it hears the bell.
    Sleep,
    End,
}

impl Queue {
    pub(super) fn new() -> std::io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let state = State {
            phase: Phase::Down(NodeError::Connecting),
            phases: 0,
            waiting: VecDeque::new(),
            taken: 0,
            is_awake: true,
            has_ended: false,
        };
        Ok(Self { state: Mutex::new(state), bell, over: Condvar::new() })
    }

    pub(super) fn push(&self, request: Request) -> Sent {
        let mut state = self.lock();
        match state.obstacle() {
            Some(node_error) => Sent::Answered(Err(node_error)),
            None => {
                state.waiting.push_back(request);
                Sent::Queued
            }
        }
    }

    pub(super) fn pull(&self, work: &mut dyn Work) -> Pulled {
        let mut state = self.lock();
        let mut pulled = Pulled::Answered;
        while let Some(request) = work.next(|_| true) {
            match state.obstacle() {
                Some(node_error) => work.answer(request, Err(node_error), state.phases),
                None => {
                    state.waiting.push_back(request);
                    pulled = Pulled::Queued;
                }
            }
        }
        pulled
    }

    /// Wakes the worker if there is something to do.
    pub(super) fn ring(&self) {
        let mut state = self.lock();
        if !std::mem::replace(&mut state.is_awake, true) {
            drop(state);
            self.strike();
        }
    }

    /// What is to be done now.
    pub(super) fn take(&self) -> Next {
        let mut state = self.lock();
        if matches!(state.phase, Phase::Closed) {
            return Next::End;
        }
        if state.waiting.is_empty() {
            state.is_awake = false;
            return Next::Sleep;
        }
        // The first request is taken whatever its size, so that the queue moves on.
        let mut commands = 0;
        let is_within = |request: &&Request| {
            commands += request.command.entries().len();
            commands <= BATCH_MAX
        };
        let len = state.waiting.iter().take_while(is_within).count().max(1);
        let requests: Vec<Request> = state.waiting.drain(..len).collect();
        state.taken = requests.len();
        Next::Work(requests)
    }

    /// What was taken is answered.
    pub(super) fn settle(&self) {
        self.lock().taken = 0;
    }

    pub(super) fn phase(&self) -> Phase {
        self.lock().phase.clone()
    }

    /// How often the phase was another one.
    pub(super) fn phases(&self) -> u64 {
        self.lock().phases
    }

    /// Changes the phase, unless it is the last one, and returns what cannot be done in it.
    pub(super) fn set_phase(&self, phase: Phase) -> Vec<Request> {
        let mut state = self.lock();
        if matches!(state.phase, Phase::Closed) {
            return state.waiting.drain(..).collect();
        }
        state.phase = phase;
        state.phases += 1;
        match &state.phase {
            Phase::Up => Vec::new(),
            Phase::Down(_) | Phase::Closed => state.waiting.drain(..).collect(),
        }
    }

    /// The worker is to end.
    pub(super) fn close(&self) {
        self.lock().phase = Phase::Closed;
        self.ring();
    }

    pub(super) fn note_end(&self) {
        self.lock().has_ended = true;
        self.over.notify_all();
    }

    /// Waits for the worker's end, but not for long: it may be waiting for its turn behind somebody
    /// who was stopped.
    pub(super) fn wait_for_end(&self, bound: Duration) {
        let waited = self.over.wait_timeout_while(self.lock(), bound, |state| !state.has_ended);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    pub(super) fn is_busy(&self) -> bool {
        let state = self.lock();
        state.taken > 0 || !state.waiting.is_empty()
    }

    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// The bell was heard.
    pub(super) fn quieten(&self) {
        self.lock().is_awake = true;
        // It has nothing to tell if somebody else woke us.
        let _ = read(&self.bell, &mut [0_u8; 8]);
    }

    fn strike(&self) {
        // It fails only if it was struck so often that it counts no further, and then it rings.
        let _ = write(&self.bell, &1_u64.to_ne_bytes());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Why nothing can be asked now, if so.
    fn obstacle(&self) -> Option<NodeError> {
        match &self.phase {
            Phase::Down(node_error) => Some(node_error.clone()),
            Phase::Closed => Some(NodeError::ShutDown),
            Phase::Up => (self.waiting.len() >= WAITING_MAX).then_some(NodeError::Overloaded),
        }
    }
}

/// The most requests that can be unanswered.
const WAITING_MAX: usize = 1 << 20;

/// The most commands of one transaction: others wait meanwhile.
const BATCH_MAX: usize = 256;
