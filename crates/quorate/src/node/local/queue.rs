//! The requests for the worker, and how it is woken.

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

/// The queue between a client and its worker.
#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    wakeup: OwnedFd,
    ended: Condvar,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    /// The number of changes of the phase.
    phases: u64,
    waiting: VecDeque<Request>,
    /// The number of requests that the worker has taken and not answered.
    taken: usize,
    /// Whether the worker checks the queue again before it sleeps.
    is_awake: bool,
    has_ended: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Phase {
    Up,
    Down(NodeError),
    Closed,
}

/// What the worker must do next.
#[derive(Debug)]
pub(super) enum Next {
    Work(Vec<Request>),
    /// Sleep until it is woken.
    Sleep,
    End,
}

impl Queue {
    pub(super) fn new() -> std::io::Result<Self> {
        let wakeup = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let state = State {
            phase: Phase::Down(NodeError::Connecting),
            phases: 0,
            waiting: VecDeque::new(),
            taken: 0,
            is_awake: true,
            has_ended: false,
        };
        Ok(Self { state: Mutex::new(state), wakeup, ended: Condvar::new() })
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
        while let Some(request) = work.next(|_, _| true) {
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
    pub(super) fn wake(&self) {
        let mut state = self.lock();
        if !std::mem::replace(&mut state.is_awake, true) {
            drop(state);
            self.signal();
        }
    }

    /// Takes the next requests.
    pub(super) fn take(&self) -> Next {
        let mut state = self.lock();
        if matches!(state.phase, Phase::Closed) {
            return Next::End;
        }
        if state.waiting.is_empty() {
            state.is_awake = false;
            return Next::Sleep;
        }
        // The first request is taken even if it is too large, so that the queue makes progress.
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

    /// Records that the requests which were taken are answered.
    pub(super) fn settle(&self) {
        self.lock().taken = 0;
    }

    pub(super) fn phase(&self) -> Phase {
        self.lock().phase.clone()
    }

    /// How often the phase has changed.
    pub(super) fn phases(&self) -> u64 {
        self.lock().phases
    }

    /// Changes the phase, unless the queue is closed. Returns the requests that can no longer be
    /// executed.
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

    /// Ends the worker.
    pub(super) fn close(&self) {
        self.lock().phase = Phase::Closed;
        self.wake();
    }

    pub(super) fn report_end(&self) {
        self.lock().has_ended = true;
        self.ended.notify_all();
    }

    /// Waits for the worker's end, for up to `bound`: it may be waiting for another process that
    /// was stopped.
    pub(super) fn wait_for_end(&self, bound: Duration) {
        let waited = self.ended.wait_timeout_while(self.lock(), bound, |state| !state.has_ended);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    pub(super) fn is_busy(&self) -> bool {
        let state = self.lock();
        state.taken > 0 || !state.waiting.is_empty()
    }

    pub(super) fn wakeup(&self) -> BorrowedFd<'_> {
        self.wakeup.as_fd()
    }

    /// Records that the worker is awake.
    pub(super) fn clear_wakeup(&self) {
        self.lock().is_awake = true;
        // There is nothing to read if something else woke the worker.
        let _ = read(&self.wakeup, &mut [0_u8; 8]);
    }

    fn signal(&self) {
        // It fails only if the counter is at its maximum, and then the worker is woken anyway.
        let _ = write(&self.wakeup, &1_u64.to_ne_bytes());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Why no request is accepted now, if so.
    fn obstacle(&self) -> Option<NodeError> {
        match &self.phase {
            Phase::Down(node_error) => Some(node_error.clone()),
            Phase::Closed => Some(NodeError::ShutDown),
            Phase::Up => (self.waiting.len() >= WAITING_MAX).then_some(NodeError::Overloaded),
        }
    }
}

/// The largest number of requests that wait.
const WAITING_MAX: usize = 1 << 20;

/// The largest number of commands in a transaction: other clients wait meanwhile.
const BATCH_MAX: usize = 256;
