//! Several locks for one caller: all of them or none.
//!
//! Each lock is acquired by a call of its own. They have one ticket, and end together: at the
//! moment when all are ready, or when one of them cannot be had.

use super::{CallId, Client, owners::OwnerSource, waiter::Want};
use crate::{command::BATCH_MAX, moment::Moment};

/// The most locks of one set: their requests fit into one batch.
pub const SET_MAX: usize = BATCH_MAX;

impl<S: OwnerSource> Client<S> {
    /// Starts to acquire several locks, all or none: a call for each of them. Either all are held
    /// when the first is, or none ever will be. No two have the same name.
    pub fn acquire_all(&mut self, wants: Vec<Want>, now: Moment) -> Box<[CallId]> {
        let calls: Box<[CallId]> = wants.iter().map(|_| self.next_call()).collect();
        let Some(set) = calls.first().copied() else { return calls };
        for (id, want) in calls.iter().zip(wants) {
            self.begin_waiter(*id, want, Some(set), now);
        }
        // From now on they may end. No answer has come yet, but the client may have ended.
        self.sets.insert(set, calls.clone());
        self.look_at_set(set, now);
        calls
    }

    /// Ends the calls of a set, if it is time.
    pub(super) fn look_at_set(&mut self, set: CallId, now: Moment) {
        // Taken out, so that driving a member does not look again.
        let Some(members) = self.sets.remove(&set) else { return };
        self.rest_together(&members, now);
        if self.has_failed(&members) {
            self.dissolve(set, &members, now);
        } else if self.is_set_ready(&members, now) {
            self.naming.of_sets.remove(&set);
            members.iter().for_each(|id| self.conclude(*id, now));
        } else {
            self.sets.insert(set, members);
        }
    }

    /// Without a queue the try of one member fails for all, and they try again together.
    fn rest_together(&mut self, members: &[CallId], now: Moment) {
        let rests = |id: &CallId| self.calls.get(id).and_then(|it| it.waiter()?.retry_at(now));
        let rests: Vec<Option<Moment>> = members.iter().map(rests).collect();
        let Some(last) = rests.iter().flatten().max() else { return };
        for (id, _) in members.iter().zip(&rests).filter(|(_, at)| *at != &Some(*last)) {
            if let Some(waiter) = self.waiter_mut(*id) {
                waiter.back_off_until(*last);
            }
            self.drive(*id, now);
        }
    }

    /// One lock cannot be had, or its caller has gone: none is.
    fn dissolve(&mut self, set: CallId, members: &[CallId], now: Moment) {
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

    /// Whether every lock could be taken now.
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
