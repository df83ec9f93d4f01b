//! What can happen, and when.

use super::{client::Doing, link::Phase, state::State, world::World};

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

impl World {
    /// What a client may do of its own accord, or because its time has come.
    pub(super) fn client_steps(&self, state: &State, number: usize, steps: &mut Vec<Step>) {
        let client = &state.clients[number];
        match &client.doing {
            Doing::Nothing if client.attempts_left > 0 => {
                let tickets = self.settings.tickets_of(number, client.attempt + 1, client.ticket);
                steps.extend(tickets.into_iter().map(|ticket| Step::Start(number, ticket)));
            }
            Doing::Waiting(waiter) => {
                let is_due = self.settings.ticks.is_none() || waiter.due <= state.client_now();
                if client.beats_left > 0 && is_due {
                    steps.push(Step::Beat(number));
                }
                if state.left.cancels > 0 {
                    steps.push(Step::Cancel(number));
                }
            }
            Doing::Holding(hand) => {
                steps.push(Step::Release(number));
                let is_valid = hand.lease.check(state.client_now()).is_ok();
                if is_valid && hand.renewals_left > 0 && hand.renewal.is_none() {
                    steps.push(Step::Renew(number));
                }
            }
            Doing::Nothing | Doing::Dead => {}
        }
        if state.left.deaths > 0 && !client.is_dead() && !client.is_done() {
            steps.push(Step::Die(number));
        }
    }

    /// What may happen between a client and a node.
    pub(super) fn link_steps(
        &self,
        state: &State,
        client: usize,
        node: usize,
        steps: &mut Vec<Step>,
    ) {
        let link = state.link(client, node);
        let it = &state.clients[client];
        if !link.requests.is_empty() {
            steps.push(Step::Run(client, node));
        }
        if !link.answers.is_empty() {
            steps.push(Step::Receive(client, node));
        }
        if !link.pushes.is_empty() {
            steps.push(Step::ReceivePush(client, node));
        }
        let queues = 0..link.stale.len();
        steps.extend(queues.map(|queue| Step::RunStale(client, node, queue)));
        if link.is_half_open || !link.stale.is_empty() {
            steps.push(Step::CloseOld(client, node));
        }
        let is_wanted = !it.is_dead() && (!it.is_done() || !link.owed.is_empty());
        match link.phase {
            Phase::Down if is_wanted => steps.push(Step::Connect(client, node)),
            Phase::Up | Phase::Attaching if state.left.breaks > 0 && !it.is_done() => {
                steps.push(Step::Break(client, node));
            }
            Phase::Down | Phase::Up | Phase::Attaching => {}
        }
        if link.is_known && (it.is_dead() || (state.left.lapses > 0 && !it.is_done())) {
            steps.push(Step::Lapse(client, node));
        }
    }
}
