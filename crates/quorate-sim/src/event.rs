//! Events of a simulated run, in the order of true time.

use std::{cmp::Reverse, collections::BinaryHeap};

use crate::clock::Nanos;

/// One event. Events of a client carry the number of its process: after a crash they are dropped.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Event {
    /// The next message of a connection arrives.
    Arrive { link: u16, generation: u32, way: Direction },
    /// A connection that must break on the next request breaks.
    Snap { link: u16, generation: u32 },
    /// A late request of a broken connection reaches its node.
    Straggle { slot: u32 },
    /// A task of a client is due.
    Client { client: u8, restarts: u32, what: Due },
    /// A node notices that a connection is closed.
    HangUp { link: u16, generation: u32 },
    /// A fault that paused a client ends.
    Resume { client: u8 },
    /// A new process replaces a crashed client.
    Restart { client: u8 },
    /// A planned fault.
    Fault { index: u16, part: Part },
    /// The end of a claim, as known when this event was planned.
    Audit { claim: u32 },
    /// A new phase of the run begins.
    Phase(Phase),
}

/// A task of a client.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Due {
    /// Check whether a link has been silent for too long.
    Silence { node: u8, generation: u32 },
    /// The connection is broken.
    Broken { node: u8, generation: u32 },
    /// Try to connect again.
    Reconnect { node: u8, generation: u32 },
    /// Renew the session with a node.
    Ping { node: u8, generation: u32 },
    /// A node on which holders could renew their leases can be asked for locks.
    Recovered { node: u8, generation: u32 },
    /// The next deadline of its machine.
    Machine,
    /// The next step of a task.
    Work { task: u8, step: u32 },
    /// The caller cancels, if it still waits.
    Cancel { task: u8, operation: u32 },
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Direction {
    ToNode,
    ToClient,
    /// Pushes, where these are not ordered with replies.
    Push,
}

/// The parts of a fault.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Part {
    /// The node's state is saved for later.
    Remember,
    Begin,
    End,
}

/// The phases of a run.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Phase {
    /// Faults have stopped; clients continue.
    Healed,
    /// No client asks for a lock any more.
    Resting,
    /// All releases have been executed.
    Settled,
    /// Everything that was not released has expired.
    Expired,
}

/// Events to come.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    heap: BinaryHeap<Reverse<(Nanos, u32, Event)>>,
    added: u32,
}

impl Queue {
    pub(crate) fn add(&mut self, at: Nanos, event: Event) {
        self.added += 1;
        self.heap.push(Reverse((at, self.added, event)));
    }

    /// Takes out the next event, if it happens at `end` at the latest.
    pub(crate) fn next_by(&mut self, end: Nanos) -> Option<(Nanos, Event)> {
        let Reverse((at, ..)) = self.heap.peek()?;
        if *at <= end { self.next() } else { None }
    }

    /// Takes out the next event. Events at the same time keep the order in which they were added.
    pub(crate) fn next(&mut self) -> Option<(Nanos, Event)> {
        self.heap.pop().map(|Reverse((at, _, event))| (at, event))
    }
}
