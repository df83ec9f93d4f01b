//! Sets: several locks for one caller, all of them or none.
//!
//! Each lock is acquired by a call of its own. The calls have the same ticket and end together:
//! when all are ready, or when one of them fails.

use super::{CallId, Client, owners::OwnerSource, waiter::Want};
use crate::{command::BATCH_MAX, moment::Moment};

/// The largest number of locks in a set. Their requests fit into one batch.
pub const SET_MAX: usize = BATCH_MAX;

impl<S: OwnerSource> Client<S> {
    /// Starts to acquire several locks with different names, with a call for each. Either all
    /// become held at the same moment, or none does.
    pub fn acquire_all(&mut self, wants: Vec<Want>, now: Moment) -> Box<[CallId]> {
        let calls: Box<[CallId]> = wants.iter().map(|_| self.next_call()).collect();
        let Some(set) = calls.first().copied() else { return calls };
        for (id, want) in calls.iter().zip(wants) {
            self.begin_waiter(*id, want, Some(set), now);
        }
        // Only now may the set end. There are no replies yet, but the client may be closed.
        self.sets.insert(set, calls.clone());
        self.advance_set(set, now);
        calls
    }

    /// Ends the calls of a set if all are ready or one has failed.
    pub(super) fn advance_set(&mut self, set: CallId, now: Moment) {
        // Removed for now, so that driving a member does not call this again.
        let Some(members) = self.sets.remove(&set) else { return };
        self.pause_together(&members, now);
        if self.has_failed(&members) {
            self.give_up_set(set, &members, now);
        } else if self.is_set_ready(&members, now) {
            self.naming.of_sets.remove(&set);
            members.iter().for_each(|id| self.conclude(*id, now));
        } else {
            self.sets.insert(set, members);
        }
    }

    /// In classic mode a failed try of one member fails for all, and they try again together.
    fn pause_together(&mut self, members: &[CallId], now: Moment) {
        let pauses = |id: &CallId| self.calls.get(id).and_then(|it| it.waiter()?.retry_at(now));
        let pauses: Vec<Option<Moment>> = members.iter().map(pauses).collect();
        let Some(last) = pauses.iter().flatten().max() else { return };
        for (id, _) in members.iter().zip(&pauses).filter(|(_, at)| *at != &Some(*last)) {
            if let Some(waiter) = self.waiter_mut(*id) {
                waiter.back_off_until(*last);
            }
            self.drive(*id, now);
        }
    }

    /// Gives up all members, because one has failed or the caller has left.
    fn give_up_set(&mut self, set: CallId, members: &[CallId], now: Moment) {
        self.naming.of_sets.remove(&set);
        mutate!(MembersKept => return);
        for id in members {
            if self.calls.get(id).is_some_and(|call| call.ended().is_none()) {
                self.give_up(*id, now);
            }
        }
    }

    fn has_failed(&self, members: &[CallId]) -> bool {
        members.iter().any(|id| self.calls.get(id).is_none_or(|call| call.ended().is_some()))
    }

    /// Whether every member could hold its lock now.
    fn is_set_ready(&mut self, members: &[CallId], now: Moment) -> bool {
        let is_ready = |id: &CallId| {
            self.waiter_mut(*id).is_some_and(|it| it.has_majority() && it.is_ready(now))
        };
        mutate!(MemberHoldsAlone => return members.iter().any(is_ready));
        members.iter().all(is_ready)
    }

    fn conclude(&mut self, id: CallId, now: Moment) {
        if let Some(waiter) = self.waiter_mut(id) {
            waiter.conclude(now);
        }
        self.drive(id, now);
    }
}
