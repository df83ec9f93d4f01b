//! The loop that drives the client machine of the core, for simulated runs and for the model. They
//! define how a command is sent and what an event means.

use quorate_core::{
    client::{self, Event, Joins, Transmit, owners::OwnerSource},
    moment::Moment,
    quorum::NodeSet,
};

/// What the loop remembers between two runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Driving {
    is_driving: bool,
    /// The earliest deadline for which a timer is set.
    pub(crate) armed_at: Option<Moment>,
    /// The link that has just received a message takes all commands for its node.
    pub(crate) pulling: Option<usize>,
}

/// A client that drives the machine.
pub(crate) trait Driver {
    /// The source of its owners' names.
    type Source: OwnerSource;
    /// Its environment.
    type Context;

    fn machine(&mut self) -> &mut client::Client<Self::Source>;

    fn driving(&mut self) -> &mut Driving;

    /// Whether commands for this node stay in the machine for now.
    fn is_busy(&mut self, _context: &mut Self::Context, _node: usize) -> bool {
        false
    }

    /// Which commands this node takes in a batch.
    fn joins(&mut self, _context: &mut Self::Context, _node: usize) -> Joins {
        |_, _| true
    }

    /// Sends a command, or reports to the machine that it cannot be sent.
    fn transmit(&mut self, context: &mut Self::Context, node: usize, transmit: Transmit);

    /// The machine reports something.
    fn handle_event(&mut self, context: &mut Self::Context, event: Event);

    /// `handle_timeout` is due at this moment.
    fn arm(&mut self, context: &mut Self::Context, at: Moment);

    /// Does what the machine wants until it waits for something.
    fn drive(&mut self, context: &mut Self::Context) {
        if std::mem::replace(&mut self.driving().is_driving, true) {
            return; // The outer call continues with this.
        }
        let mut busy = NodeSet::EMPTY;
        loop {
            if let Some(node) = self.machine().nodes_to_send().without(busy).iter().next() {
                if self.is_busy(context, node) {
                    busy.insert(node);
                    continue;
                }
                let joins = self.joins(context, node);
                while let Some(transmit) = self.machine().poll_transmit(node, joins) {
                    self.transmit(context, node, transmit);
                }
            } else if let Some(event) = self.machine().poll_event() {
                self.handle_event(context, event);
            } else {
                break;
            }
        }
        self.driving().is_driving = false;
        if let Some(next) = self.machine().poll_timeout()
            && self.driving().armed_at.is_none_or(|armed_at| next < armed_at)
        {
            self.driving().armed_at = Some(next);
            self.arm(context, next);
        }
    }
}
