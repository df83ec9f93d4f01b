//! What can happen, and when.

use super::{link::Phase, member::Doing, product::ProductModel, state::State};

/// One step. Clients and nodes are numbers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Step {
    /// All clocks tick.
    Tick,
    /// A client asks for the lock, with this ticket.
    Start(usize, u8),
    /// A caller learns that it has won the lock.
    Accept(usize),
    /// The timer of a client fires.
    Timeout(usize),
    /// A holder releases its lease, expired or not.
    Release(usize),
    /// A holder sends a renewal.
    Renew(usize),
    /// An exclusive holder asks to become a reader.
    Downgrade(usize),
    /// A caller cancels while it waits.
    Cancel(usize),
    /// A client crashes. Its requests in flight may still run.
    Die(usize),
    /// A node runs the next request of a client.
    Run(usize, usize),
    /// A node runs the next request of a connection that broke.
    RunStale(usize, usize, usize),
    /// A client reads the next message from a node.
    Receive(usize, usize),
    /// A client reads the next push, where these are not ordered with replies.
    ReceivePush(usize, usize),
    /// The connection of a client to a node breaks, and the client sees it.
    Break(usize, usize),
    /// The node notices that older connections are closed.
    CloseOld(usize, usize),
    /// A client reconnects.
    Connect(usize, usize),
    /// The session of a client expires on a node.
    Lapse(usize, usize),
    /// The key on a node vanishes before it expires.
    Vanish(usize),
    /// A node forgets everything.
    Forget(usize),
    /// The key of a crashed client expires; only where time stands still.
    Expire(usize),
}

impl ProductModel {
    /// What a client may do next, and its timers that are due.
    pub(super) fn client_steps(&self, state: &State, number: usize, steps: &mut Vec<Step>) {
        let client = &state.clients[number];
        let now = state.client_now();
        match client.doing {
            Doing::Nothing if client.attempts_left > 0 && self.may_start(state, number) => {
                let tickets = self.settings.tickets_of(number, client.attempt + 1, client.ticket);
                steps.extend(tickets.into_iter().map(|ticket| Step::Start(number, ticket)));
            }
            Doing::Asking(_) => {
                if client.has_won() {
                    steps.push(Step::Accept(number));
                }
                if state.left.cancels > 0 {
                    steps.push(Step::Cancel(number));
                }
            }
            Doing::Holding(_) => {
                if self.settings.releases {
                    steps.push(Step::Release(number));
                }
                if state.left.renewals > 0 && client.can_renew(now) {
                    steps.push(Step::Renew(number));
                }
                if self.settings.downgrades.contains(&number) && client.can_downgrade(now) {
                    steps.push(Step::Downgrade(number));
                }
            }
            Doing::Downgrading(..) => {
                if state.left.cancels > 0 {
                    steps.push(Step::Cancel(number));
                }
            }
            Doing::Nothing | Doing::Dead => {}
        }
        let is_still = self.settings.clocks.is_none();
        let is_due = client.due(is_still).is_some_and(|due| is_still || due <= now);
        if client.timeouts_left > 0 && is_due {
            steps.push(Step::Timeout(number));
        }
        let is_at_rest = match self.settings.is_classic() {
            true => client.is_idle(),
            false => client.is_done(),
        };
        if state.left.deaths > 0 && !client.is_dead() && !is_at_rest {
            steps.push(Step::Die(number));
        }
    }

    /// In classic mode clients are interchangeable if all have equally many attempts. Then the
    /// first client starts first: every other order is this one with the clients renumbered, and no
    /// claim names a client.
    fn may_start(&self, state: &State, client: usize) -> bool {
        let attempts = &self.settings.attempts;
        let are_alike =
            self.settings.is_classic() && attempts.iter().all(|number| *number == attempts[0]);
        let has_started = |client: usize| {
            let it = &state.clients[client];
            it.attempts_left < attempts[client]
        };
        !are_alike || (0..client).all(has_started)
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
        if self.settings.is_classic() {
            // A break of an idle connection has no effect.
            let is_idle = link.requests.is_empty() && link.answers.is_empty();
            if state.left.breaks > 0 && !is_idle && !it.is_dead() {
                steps.push(Step::Break(client, node));
            }
            return;
        }
        if link.is_half_open || !link.stale.is_empty() {
            steps.push(Step::CloseOld(client, node));
        }
        let is_owing = it.owes(node, state.client_now());
        let is_wanted = !it.is_dead() && (!it.is_done() || is_owing);
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

    /// What may happen to a node.
    pub(super) fn node_steps(&self, state: &State, number: usize, steps: &mut Vec<Step>) {
        let Some(key) = state.nodes[number].keys.first() else { return };
        let is_still = self.settings.clocks.is_none();
        if state.left.vanishings > 0 {
            steps.push(Step::Vanish(number));
        } else if is_still && state.clients[key.client].is_dead() {
            steps.push(Step::Expire(number));
        }
        if state.left.restarts > 0 {
            steps.push(Step::Forget(number));
        }
    }
}
