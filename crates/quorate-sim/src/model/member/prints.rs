//! The fingerprints of clients and of inputs to them.

use std::hash::Hash;

use quorate_core::{client::Observer, moment::Moment};

use super::{Input, Member, Rules};
use crate::model::{
    link::Message,
    print::{Print, Reading, plain},
};

impl Input {
    /// A number that only this input has.
    pub(in crate::model) fn print(&self) -> u64 {
        let tag = std::mem::discriminant(self);
        match self {
            Self::Start(ticket, floor) => plain(&(tag, ticket, floor)),
            Self::Up(node) => plain(&(tag, node)),
            Self::Cut(node, unanswered) => {
                let unanswered: Vec<u64> = unanswered.iter().map(|it| it.exact()).collect();
                plain(&(tag, node, unanswered))
            }
            Self::Receive(node, Message::Reply(request, reply)) => {
                plain(&(tag, node, request.exact(), reply))
            }
            Self::Receive(node, Message::Push(push)) => plain(&(tag, node, push)),
            Self::Accept
            | Self::Cancel
            | Self::Renew
            | Self::Downgrade
            | Self::Release
            | Self::Timeout
            | Self::Die
            | Self::Tick => plain(&tag),
        }
    }
}

impl Member {
    /// Stores the client's fingerprints: an exact one, and one that ignores time and node numbers.
    /// Done once for each different client, since most steps leave most clients as they are.
    pub(in crate::model) fn finish(&mut self, rules: &Rules, clock: Reading, now: Moment) {
        self.notes.has_ended |= self.lease().is_some_and(|it| it.lease().check(now).is_err());
        self.exact = plain(&self.print(rules, Reading::EXACT, true, Moment::ZERO).split());
        // A timer that will not fire has no effect, nor how late it is.
        let has_timer = !rules.is_still && self.timeouts_left > 0;
        (self.whole, self.columns) = self.print(rules, clock, has_timer, now).split();
    }

    pub(in crate::model) const fn exact(&self) -> u64 {
        self.exact
    }

    pub(in crate::model) fn prints(&self) -> (u64, &[u64]) {
        (self.whole, &self.columns)
    }

    fn print(&self, rules: &Rules, clock: Reading, has_timer: bool, now: Moment) -> Print {
        let Self {
            machine,
            driving: _,
            doing,
            attempts_left,
            attempt,
            ticket,
            timeouts_left,
            renewals_left,
            floor,
            notes,
            exact: _,
            whole: _,
            columns: _,
        } = self;
        let mut print = Print::new(rules.nodes);
        print.add(clock, &(attempts_left, attempt, ticket, timeouts_left, renewals_left));
        print.add(clock, &(floor, notes, std::mem::discriminant(doing)));
        let is_exact = clock == Reading::EXACT;
        machine.observe(&mut Observed { print: &mut print, clock, has_timer, is_exact, now });
        print
    }
}

struct Observed<'a> {
    print: &'a mut Print,
    clock: Reading,
    has_timer: bool,
    is_exact: bool,
    now: Moment,
}

impl Observer for Observed<'_> {
    fn whole(&mut self, part: &impl Hash) {
        self.print.add(self.clock, part);
    }

    fn of_node(&mut self, node: usize, part: &impl Hash) {
        self.print.add_of_node(node, self.clock, part);
    }

    fn detail(&mut self, part: &impl Hash) {
        if self.is_exact {
            self.whole(part);
        }
    }

    fn due(&mut self, at: Option<Moment>) {
        if self.has_timer {
            self.print.add(self.clock, &at.map(|at| at.max(self.now)));
        }
    }
}
