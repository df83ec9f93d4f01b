//! How the model drives the machine of a client.

use std::sync::Arc;

use quorate_core::{
    acquire,
    client::{
        self, Ended, Event, Hold, Transmit,
        owners::{OwnerKind, OwnerSource},
        watchdog::{self, Renewal},
    },
    command::Owner,
    fence::Fence,
    moment::Moment,
    queue::Position,
    renew,
};

use super::{Doing, Member, Rules};
use crate::{
    driver::{Driver, Driving},
    model::{link::Request, node, settings::ANY_NUMBER},
};

/// One input to a client, and its result.
#[derive(Debug)]
pub(in crate::model) struct Act {
    pub(super) rules: Rules,
    pub(super) now: Moment,
    /// The node whose connection broke.
    pub(super) down: Option<usize>,
    pub(super) out: Out,
}

/// What a client sends, and the fence of the lease that it has won.
#[derive(Clone, Debug, Default)]
pub(in crate::model) struct Out {
    pub(in crate::model) sent: Vec<(usize, Arc<Request>)>,
    pub(in crate::model) won: Option<Fence>,
}

impl Member {
    /// The caller is notified that it holds the lock.
    pub(super) fn accept(&mut self, act: &mut Act) {
        let Doing::Asking(call) = self.doing else { return };
        self.machine.take_outcome(call);
        let hold = Hold { renewal: Renewal::Off, until: Moment::from_nanos(u64::MAX) };
        let lease = self.machine.keep(call, hold, act.now).expect("it was won");
        self.machine.close_call(call);
        self.doing = Doing::Holding(lease);
        self.renewals_left = act.rules.renewals;
        if act.rules.timeouts != ANY_NUMBER {
            self.timeouts_left = 0;
        }
        act.out.won = self.fence();
    }
}

impl Driver for Member {
    type Source = Names;
    type Context = Act;

    fn machine(&mut self) -> &mut client::Client<Names> {
        &mut self.machine
    }

    fn driving(&mut self) -> &mut Driving {
        &mut self.driving
    }

    fn transmit(&mut self, act: &mut Act, node: usize, transmit: Transmit) {
        if self.machine.up().contains(node) && act.down != Some(node) {
            act.out.sent.push((node, Arc::new(Request::new(transmit))));
        } else {
            self.machine.handle_unsent(node, (&transmit.about, &transmit.command), act.now);
        }
    }

    fn handle_event(&mut self, act: &mut Act, event: Event) {
        match event {
            Event::Ended(call, ended) if self.doing == Doing::Asking(call) => match ended {
                Ended::Acquire(acquire::Outcome::Held { valid_until, .. }) => {
                    self.notes.is_dated_late |= valid_until <= act.now;
                    // The time of the notification matters only if the caller may cancel before.
                    if !act.rules.learns_late {
                        self.accept(act);
                    }
                }
                ended => {
                    self.notes.was_beaten |= ended == Ended::Acquire(acquire::Outcome::Contended);
                    self.machine.close_call(call);
                    self.finish_attempt();
                }
            },
            Event::Ended(call, _)
                if let Doing::Downgrading(lease, of) = self.doing
                    && call == of =>
            {
                self.finish_downgrade(lease, call, act.now);
            }
            Event::Lease(watchdog::Event::Renewed { outcome, held_until, .. }) => {
                let is_extended = matches!(outcome, renew::Outcome::Extended { .. });
                self.notes.is_dated_late |= is_extended && held_until <= act.now;
            }
            Event::Ended(..) | Event::Closed(_) | Event::Lease(_) => {}
        }
    }

    /// The search checks in every state whether the timer is due.
    fn arm(&mut self, _act: &mut Act, _at: Moment) {}
}

/// Names the owners of one client: one for each attempt, and a new one after each withdrawal.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::model) struct Names {
    pub(super) client: usize,
    pub(super) ticket: u64,
    pub(super) number: u64,
}

impl OwnerSource for Names {
    fn next_owner(&mut self, place: &Position, kind: &OwnerKind) -> Owner {
        let number = self.number;
        self.number += 1;
        match &kind.identity {
            Some(identity) => place.reentrant_owner(number, identity),
            None if kind.is_shared => place.shared_owner(number),
            None => place.owner(number),
        }
    }

    fn next_plain_owner(&mut self, _kind: &OwnerKind) -> Owner {
        let number = self.number;
        self.number += 1;
        node::classic_owner(self.client, number)
    }

    fn ticket(&mut self, _drawn: u64) -> u64 {
        self.ticket
    }
}
