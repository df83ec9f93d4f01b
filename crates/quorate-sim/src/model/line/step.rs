//! What can happen.

/// One step. Clients and nodes are numbers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Step {
    /// Time passes, on all clocks.
    Tick,
    /// A client wants the lock, with this ticket.
    Start(usize, u8),
    /// The timer of a waiter strikes.
    Beat(usize),
    /// A holder gives back what it has, whether that has ended or not.
    Release(usize),
    /// A holder sends a renewal.
    Renew(usize),
    /// A caller goes away while it waits.
    Cancel(usize),
    /// A client dies. What it has sent may still run.
    Die(usize),
    /// A node runs the next request of a client.
    Run(usize, usize),
    /// A node runs the next request of a connection that broke.
    RunStale(usize, usize, usize),
    /// A client reads what comes next from a node.
    Receive(usize, usize),
    /// A client reads the next push, where these are not ordered with replies.
    ReceivePush(usize, usize),
    /// The connection of a client to a node breaks, and the client sees it.
    Break(usize, usize),
    /// The node sees that older connections have ended.
    CloseOld(usize, usize),
    /// A client connects again.
    Connect(usize, usize),
    /// A node has not heard of a client for the life of its session.
    Lapse(usize, usize),
    /// The key on a node goes before its time.
    Vanish(usize),
    /// The key of a client that died goes at its time; only where time stands still.
    Expire(usize),
}
