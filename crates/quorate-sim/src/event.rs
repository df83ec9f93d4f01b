//! What can happen next, in the order of true time.

use std::{cmp::Reverse, collections::BinaryHeap};

use crate::clock::Nanos;

/// One thing that happens. Those of a client carry its life: a crash ends it, and what belonged to
/// it does not happen any more.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Event {
    /// The next message of a connection comes to its end.
    Arrive { link: u16, generation: u32, way: Direction },
    /// A connection that was to break on the next request breaks.
    Snap { link: u16, generation: u32 },
    /// A request of a broken connection reaches its node after all.
    Straggle { slot: u32 },
    /// Something that a client has to see to.
    Client { client: u8, life: u32, what: Due },
    /// A node notices that a connection is gone.
    HangUp { link: u16, generation: u32 },
    /// What let a client stand still is over.
    Resume { client: u8 },
    /// A crashed client's successor starts.
    Reborn { client: u8 },
    /// A planned fault.
    Fault { index: u16, part: Part },
    /// The end of a claim, as known when this was planned.
    Audit { claim: u32 },
    /// A new part of the simulation begins.
    Phase(Phase),
}

/// What a client has to see to.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Due {
    /// Is the link silent for too long?
    Silence { node: u8, generation: u32 },
    /// The connection is broken.
    Broken { node: u8, generation: u32 },
    /// Try to connect again.
    Reconnect { node: u8, generation: u32 },
    /// The session with a node is to go on.
    Ping { node: u8, generation: u32 },
    /// A node that its holders have found again can be asked for locks.
    Recovered { node: u8, generation: u32 },
    /// The next deadline of its machine.
    Machine,
    /// The next step of a task.
    Work { task: u8, step: u32 },
    /// The caller goes away, if it still waits.
    Cancel { task: u8, operation: u32 },
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Direction {
    ToNode,
    ToClient,
    /// Pushes, where they do not wait for replies.
    LockDetails,
}

/// The parts of a fault.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Part {
    /// The node's state is kept for later.
    Remember,
    Begin,
    End,
}

/// The parts of a simulation.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Phase {
    /// No more faults; work goes on.
    Healed,
    /// Nobody wants a lock any more.
    Resting,
    /// What was asked to be freed is free.
    Settled,
    /// What nobody freed has expired.
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

    /// The same, if it comes at `end` at the latest.
    pub(crate) fn next_by(&mut self, end: Nanos) -> Option<(Nanos, Event)> {
        let Reverse((at, ..)) = self.heap.peek()?;
        if *at <= end { self.next() } else { None }
    }

    /// Takes out the next event; those of the same time come in the order in which they were added.
    pub(crate) fn next(&mut self) -> Option<(Nanos, Event)> {
        self.heap.pop().map(|Reverse((at, _, event))| (at, event))
    }
}
