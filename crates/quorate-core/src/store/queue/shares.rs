//! Locks that several owners hold together: readers, or the entries of one identity in a reentrant
//! lock.
//!
//! The key of such a lock is a table of its holders. Readers queue behind an exclusive waiter with
//! an earlier ticket, so that it gets the lock eventually. An entry joins the other entries of its
//! identity immediately. If it queued, it could wait for a waiter that waits for its own identity.

use super::{Ownership, SessionRecord, Store, end};
use crate::{
    command::{Owner, Reply, Value},
    fence::Fence,
    moment::NodeTime,
    name::Name,
    queue::{AcquireRequest, Extend, Extended, Group, Position, Push, PushKind, group},
    share::{Share, Shares},
};

/// A release examines all shares if there are at most this many. More would keep the node busy.
const PURGED_LEN_MAX: usize = 32;

/// The percentage of joining readers that remove expired shares.
const PURGES_PERCENT: u64 = 2;

/// The first waiters that are searched for entries of the identity that gets the lock. Others join
/// with their next heartbeat.
const SEARCHED_MAX: usize = 128;

impl Store {
    /// The shares of the lock, if its key is a table.
    pub(in crate::store) fn shares(&self, name: &Name) -> Option<&Shares> {
        match self.keys.get(name) {
            Some(Value::Shared(shares)) => Some(shares),
            Some(Value::Text(_) | Value::OtherType(_)) | None => None,
        }
    }

    /// Whether owners of the same group as the owner hold the lock.
    pub(super) fn shares_match(&self, name: &Name, owner: &Owner) -> bool {
        let holder = self.shares(name).and_then(|shares| shares.iter().next()).map(|(it, _)| it);
        let (held, wanted) = (holder.and_then(group), group(owner));
        mutate!(JoinAnyIdentity if matches!((held, wanted), (
            Some(Group::Identity(_)),
            Some(Group::Identity(_)),
        )) => return true);
        held.is_some() && held == wanted
    }

    fn shares_mut(&mut self, name: &Name) -> Option<&mut Shares> {
        match self.keys.get_mut(name) {
            Some(Value::Shared(shares)) => Some(shares),
            Some(Value::Text(_) | Value::OtherType(_)) | None => None,
        }
    }

    /// Removes expired shares, and the key with the last of them.
    pub(super) fn purge_shares(&mut self, now: NodeTime, name: &Name) {
        mutate!(ExpiredSharesStay => return);
        let now_ms = now.as_millis();
        let Some(shares) = self.shares_mut(name) else { return };
        let last_end = shares.purge(now_ms);
        mutate!(ExclusiveIgnoresShares => let last_end = None);
        match last_end {
            // A server deletes a key immediately if its end is not in the future.
            Some(end) => self.keys.set_end(name, end.max(now_ms.saturating_add(1))),
            None => _ = self.keys.remove(name),
        }
    }

    pub(super) fn acquire_share(
        &mut self,
        now: NodeTime,
        request: &AcquireRequest,
        (position, record): (Position, SessionRecord),
        lacks_memory: bool,
    ) -> Reply {
        let AcquireRequest { name, owner, is_waiting, is_known } = request;
        let is_open = self.shares_match(name, owner);
        let is_free = !self.keys.contains(name);
        let shares = self.shares(name);
        if let Some(share) = shares.and_then(|shares| shares.alive(owner, now.as_millis())) {
            self.lengthen_share(now, name, owner, share, position.ttl_ms);
            let is_earlier = self.has_earlier_waiter(now, name, owner);
            mutate!(NoEarlierFlag => let is_earlier = false);
            let fence = if is_entry(owner) { self.queue.fence(name) } else { share.fence };
            return Reply::Granted { fence, is_earlier };
        }
        mutate!(ShareWithExclusive if !is_entry(owner) => let is_open = true);
        // A free key is granted even if waiters are queued, as to an exclusive owner.
        if is_free || is_open && self.may_join(now, name, owner) {
            if lacks_memory {
                return Reply::Full;
            }
            if *is_known {
                self.queue.dequeue(name, position.ticket, owner);
            }
            let fence = self.queue.grant_fence(now, name, (owner, !is_free), (position, record));
            self.put_share(now, name, owner, fence, position.ttl_ms);
            // If there are readers only, no exclusive waiter removes expired shares.
            if position.ticket % 100 < PURGES_PERCENT {
                self.purge_shares(now, name);
            }
            self.hand_off(now, name);
            // Comparing all entries for each one that joins would keep the node busy. An entry that
            // has to give way finds out with its next request.
            return Reply::Granted { fence, is_earlier: false };
        }
        if *is_waiting {
            self.queue.enqueue(now, name, &position, owner);
        }
        self.queued(now, name, owner, position)
    }

    /// Whether a waiter with an earlier ticket, which cannot join the owner, is queued. An entry
    /// counts as early as the first holding entry of its identity.
    fn has_earlier_waiter(&self, now: NodeTime, name: &Name, owner: &Owner) -> bool {
        let first_share = || self.shares(name)?.first_alive(now.as_millis());
        let earliest = if is_entry(owner) { first_share().unwrap_or(owner) } else { owner };
        let first = self.queue.first(name).filter(|first| group(first) != group(owner));
        first.is_some_and(|first| first < earliest)
    }

    /// Whether an owner may join the holders of its group. An entry always may. A reader may if no
    /// exclusive waiter is queued before it, and readers that are queued before it join first.
    fn may_join(&mut self, now: NodeTime, name: &Name, owner: &Owner) -> bool {
        let is_entry = is_entry(owner);
        mutate!(EntryQueues => let is_entry = false);
        if is_entry {
            return true;
        }
        self.hand_off_before(now, name, Some(owner));
        mutate!(ShareOvertakes => return true);
        self.queue.first(name).is_none_or(|first| first >= owner)
    }

    /// Adds a share, and creates the table if it is the first one.
    pub(super) fn put_share(
        &mut self,
        now: NodeTime,
        name: &Name,
        owner: &Owner,
        fence: Fence,
        ttl_ms: u64,
    ) {
        let now_ms = now.as_millis();
        let share = Share { fence, ends_at_ms: now_ms.saturating_add(ttl_ms), since_ms: now_ms };
        if let Some(shares) = self.shares_mut(name) {
            shares.put(owner, share);
            self.lengthen_table(now, name, ttl_ms);
        } else {
            let shares = Shares::from_iter([(owner.clone(), share)]);
            self.keys.put(name, Value::Shared(shares), end(now, ttl_ms));
        }
    }

    /// Keeps a share for another ttl. It never expires earlier than before.
    fn lengthen_share(
        &mut self,
        now: NodeTime,
        name: &Name,
        owner: &Owner,
        share: Share,
        ttl_ms: u64,
    ) {
        let ends_at_ms = share.ends_at_ms.max(now.as_millis().saturating_add(ttl_ms));
        self.lengthen_table(now, name, ttl_ms);
        if let Some(shares) = self.shares_mut(name) {
            shares.put(owner, Share { ends_at_ms, ..share });
        }
    }

    /// Keeps the key for at least this long. It must not expire before its last share.
    fn lengthen_table(&mut self, now: NodeTime, name: &Name, ttl_ms: u64) {
        mutate!(ShareKeyShort => return);
        self.lengthen_key(now, name, ttl_ms);
    }

    /// Whether no other waiter is queued before the owner. Removes waiters without a session that
    /// are queued before it. Only the next waiter removes expired shares and sends inquiries: if
    /// all waiters did, they would keep the node busy.
    pub(super) fn is_next(&mut self, name: &Name, owner: &Owner) -> bool {
        while let Some((ticket, first)) = self.queue.next(name).filter(|(_, first)| first < owner) {
            let position = Position::of(first.as_bytes());
            if position.is_some_and(|it| self.queue.sessions.contains(&it.client)) {
                return false;
            }
            self.queue.dequeue(name, ticket, &first);
        }
        true
    }

    /// When a waiter should repeat its request at the latest.
    pub(super) fn retry_at_ms(&self, name: &Name, owner: &Owner, is_next: bool) -> Option<u64> {
        let end = self.keys.end_of(name);
        let sooner = match (self.shares(name), self.shares_match(name, owner)) {
            // The reader with the earliest end may have crashed, and the others may release the
            // lock before that end.
            (Some(shares), false) if is_next => shares.earliest_end(),
            // The exclusive waiter that is queued before this reader may have crashed.
            (Some(_), true) => {
                let first = self.queue.first(name).filter(|first| *first != owner);
                let client = first.and_then(|it| Position::of(it.as_bytes())).map(|it| it.client);
                client.and_then(|client| self.queue.sessions.end_of(&client))
            }
            (Some(_) | None, _) => None,
        };
        end.map(|end| sooner.map_or(end, |sooner| sooner.min(end)))
    }

    /// Inquires at every holder with a later ticket. Entries of an identity get an inquiry only if
    /// there is one: several would give way and join each other again and again. They are notified
    /// of the waiter in reply to their heartbeats.
    pub(super) fn inquire_shares(&mut self, now: NodeTime, name: &Name, owner: &Owner) {
        mutate!(NoInquire | SharesNotAsked => return);
        let shares = self.shares(name).into_iter().flatten();
        let alive = shares.filter(|(_, share)| share.is_alive(now.as_millis()));
        if alive.clone().next().is_some_and(|(first, _)| is_entry(first))
            && alive.clone().count() > 1
        {
            return;
        }
        let later = alive.filter(|(holder, _)| *owner < **holder);
        let pushes: Vec<Push> = later
            .filter_map(|(holder, share)| {
                let client = Position::of(holder.as_bytes())?.client;
                let (name, owner, kind) = (name.clone(), holder.clone(), PushKind::Inquired);
                Some(Push { client, name, owner, fence: share.fence, kind, session: None })
            })
            .collect();
        pushes.into_iter().for_each(|push| _ = self.queue.push(push));
    }

    /// Removes an owner from the table or from the queue of a lock with several holders.
    pub(super) fn release_share(
        &mut self,
        now: NodeTime,
        name: &Name,
        owner: &Owner,
        yields: Option<Fence>,
    ) -> Reply {
        let shares = self.shares(name);
        let share = shares.and_then(|shares| shares.alive(owner, now.as_millis()));
        let is_ours = share.is_some();
        let position = Position::of(owner.as_bytes());
        if let Some(yielded) = yields {
            let is_named = share.is_some_and(|share| share.fence == yielded);
            mutate!(YieldAnyShare => let is_named = is_ours);
            if !is_named {
                return Reply::Released { is_ours: false };
            }
        }
        if let Some(shares) = self.shares_mut(name) {
            shares.remove(owner);
        }
        match position {
            Some(position) if yields.is_some() => self.queue.enqueue(now, name, &position, owner),
            Some(position) if !is_ours => self.queue.dequeue(name, position.ticket, owner),
            Some(_) | None => {}
        }
        let left = self.shares(name).map_or(0, Shares::len);
        mutate!(ShareFreesAll => let left = 0);
        if left == 0 {
            self.keys.remove(name);
        } else if left <= PURGED_LEN_MAX {
            // Some of the others may have expired. If there are many, the next waiter removes them.
            self.purge_shares(now, name);
        }
        mutate!(DepartedWriterBlocks if !is_ours => return Reply::Released { is_ours });
        self.hand_off(now, name);
        Reply::Released { is_ours }
    }

    /// Extends or heals a share, or returns why it cannot. `stored` is the node's fence, and
    /// `has_fence` whether it is at least that of the lease.
    ///
    /// A heal of a reader does not compare fences: other readers raise them all the time, and no
    /// exclusive owner has the key while it is free or a table. An entry has a fence, so its heal
    /// compares them if the key is free.
    pub(super) fn extend_share(
        &mut self,
        now: NodeTime,
        entry: &Extend,
        (stored, has_fence): (Fence, bool),
    ) -> Result<(), Extended> {
        let Extend { name, owner, fence, ttl_ms, may_heal } = entry;
        let is_free = !self.keys.contains(name);
        let shares = self.shares(name);
        let is_outdated = is_entry(owner) && stored > *fence;
        mutate!(EntryHealsOutdated => let is_outdated = false);
        let is_open = is_free && !is_outdated || self.shares_match(name, owner);
        mutate!(ShareHealsExclusive if !is_entry(owner) => let is_open = true);
        match shares.and_then(|shares| shares.alive(owner, now.as_millis())) {
            Some(share) => self.lengthen_share(now, name, owner, share, *ttl_ms),
            None if !*may_heal || !is_open => return Err(Extended::Refused(stored)),
            None if self.lacks_memory_to_heal(has_fence) => return Err(Extended::Failed),
            None => {
                self.put_share(now, name, owner, *fence, *ttl_ms);
                self.queue.remove_waiter(name, owner);
            }
        }
        Ok(())
    }

    /// Replaces a writer by a reader. The readers at the head of the queue join, up to the first
    /// exclusive waiter, as after a release, but the key is never free. A repeated request gets the
    /// same reply.
    pub(in crate::store) fn downgrade(
        &mut self,
        now: NodeTime,
        name: &Name,
        from: &Owner,
        owner: &Owner,
        ttl_ms: u64,
    ) -> Reply {
        let shares = self.shares(name);
        if let Some(share) = shares.and_then(|shares| shares.alive(owner, now.as_millis())) {
            self.lengthen_share(now, name, owner, share, ttl_ms);
            return Reply::Stored;
        }
        match self.ownership(name, from) {
            Ownership::Other => Reply::NotOwner,
            Ownership::Absent => Reply::Absent,
            Ownership::Own => {
                self.keys.remove(name);
                mutate!(DowngradeFreesFirst => self.hand_off(now, name));
                // It is still the same grant. Readers that join get a larger fence.
                let fence = self.queue.fence(name);
                self.put_share(now, name, owner, fence, ttl_ms);
                mutate!(DowngradeAdmitsWriter
                    if self.queue.first(name).is_some_and(|first| group(first).is_none())
                    => self.keys.remove(name));
                self.hand_off(now, name);
                Reply::Stored
            }
        }
    }

    /// Replaces the owner of a share.
    pub(in crate::store) fn adopt_share(
        &mut self,
        now: NodeTime,
        name: &Name,
        from: &Owner,
        owner: &Owner,
        ttl_ms: u64,
    ) -> Reply {
        let now_ms = now.as_millis();
        let shares = self.shares_mut(name);
        let Some(share) = shares.and_then(|shares| {
            let share = shares.alive(from, now_ms)?;
            shares.remove(from);
            shares.put(owner, Share { ends_at_ms: now_ms.saturating_add(ttl_ms), ..share });
            Some(share)
        }) else {
            return if self.keys.contains(name) { Reply::NotOwner } else { Reply::Absent };
        };
        debug_assert!(share.is_alive(now_ms), "an expired share was adopted");
        self.lengthen_table(now, name, ttl_ms);
        Reply::Stored
    }

    /// Grants the lock to the waiting entries of the identity that holds it now.
    pub(super) fn grant_waiting_entries(&mut self, now: NodeTime, name: &Name) {
        let waiting = self.queue.waiting.get(name).into_iter().flatten().take(SEARCHED_MAX);
        let entries = waiting.filter(|(_, owner)| self.shares_match(name, owner));
        let entries: Vec<(u64, Owner)> = entries.cloned().collect();
        let fence = self.queue.fence(name);
        for (ticket, owner) in entries {
            let position = Position::of(owner.as_bytes());
            let record = position.and_then(|it| self.queue.sessions.get(&it.client).copied());
            let (Some(position), Some(record)) = (position, record) else { continue };
            if self.queue.push_granted(name, &owner, fence, (position, record)) {
                self.queue.dequeue(name, ticket, &owner);
                self.put_share(now, name, &owner, fence, position.ttl_ms);
            }
        }
    }
}

/// Whether the owner is an entry of a reentrant lock.
pub(super) fn is_entry(owner: &Owner) -> bool {
    matches!(group(owner), Some(Group::Identity(_)))
}
