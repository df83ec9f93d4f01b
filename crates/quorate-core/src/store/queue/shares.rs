//! What a node does for those who hold a lock together: readers, or the entries of one identity in
//! a reentrant lock.
//!
//! The key of such a lock lists them. Whoever wants it alone stands in line like everybody, and
//! readers who come later wait behind it: nobody is passed for ever. An entry joins those of its
//! identity at once. Were it to wait, the one behind which it waits would wait for its own holder.

use super::{SessionRecord, Store, Whose, end};
use crate::{
    command::{Owner, Reply, Value},
    fence::Fence,
    moment::NodeTime,
    name::Name,
    queue::{AcquireRequest, Extend, Extended, Group, Position, Push, PushKind, group},
    share::{Share, Shares},
};

/// So many are looked at with every release: more would keep the node busy.
const FEW: usize = 32;

/// So many of a hundred who join look for those who are gone.
const PURGES_OF_100: u64 = 2;

/// So many of those in line are looked at for entries of the identity that gets the lock. Others
/// join with their next heartbeat.
const ADMITTED_MAX: usize = 128;

impl Store {
    /// Those who hold the lock together, if anybody does.
    pub(in crate::store) fn shares(&self, name: &Name) -> Option<&Shares> {
        match self.keys.get(name) {
            Some(Value::Shared(shares)) => Some(shares),
            Some(Value::Text(_) | Value::OtherType(_)) | None => None,
        }
    }

    /// Whether others of the owner's kind hold the lock.
    pub(super) fn joins(&self, name: &Name, owner: &Owner) -> bool {
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

    /// Throws out shares whose time is over. A key that nobody shares any more goes with them.
    pub(super) fn purge_shares(&mut self, now: NodeTime, name: &Name) {
        mutate!(DeadSharesStay => return);
        let now_ms = now.as_millis();
        let Some(shares) = self.shares_mut(name) else { return };
        let last_end = shares.purge(now_ms);
        mutate!(ExclusiveIgnoresShares => let last_end = None);
        match last_end {
            // A server deletes what is to go at once.
            Some(end) => self.keys.set_end(name, end.max(now_ms.saturating_add(1))),
            None => _ = self.keys.remove(name),
        }
    }

    pub(super) fn acquire_share(
        &mut self,
        now: NodeTime,
        ask: &AcquireRequest,
        (place, spoken): (Position, SessionRecord),
        lacks_memory: bool,
    ) -> Reply {
        let AcquireRequest { name, owner, is_waiting, is_known } = ask;
        let is_open = self.joins(name, owner);
        let is_free = !self.keys.contains(name);
        let shares = self.shares(name);
        if let Some(share) = shares.and_then(|shares| shares.alive(owner, now.as_millis())) {
            self.prolong_share(now, name, owner, share, place.ttl_ms);
            let is_earlier = self.is_passed(now, name, owner);
            mutate!(NoEarlierFlag => let is_earlier = false);
            let fence = if is_entry(owner) { self.queue.fence(name) } else { share.fence };
            return Reply::Granted { fence, is_earlier };
        }
        mutate!(ShareWithExclusive if !is_entry(owner) => let is_open = true);
        // As one who wants it alone: whoever finds the key free has it.
        if is_free || is_open && self.admits(now, name, owner) {
            if lacks_memory {
                return Reply::Full;
            }
            if *is_known {
                self.queue.leave(name, place.ticket, owner);
            }
            let fence = self.queue.grant_fence(now, name, (owner, !is_free), (place, spoken));
            self.put_share(now, name, owner, fence, place.ttl_ms);
            // Where many read and nobody writes, somebody has to see to those who are gone.
            if place.ticket % 100 < PURGES_OF_100 {
                self.purge_shares(now, name);
            }
            self.hand_on(now, name);
            // To look at all entries with every one that joins would keep the node busy. One that
            // needs to know whether somebody waits asks again.
            return Reply::Granted { fence, is_earlier: false };
        }
        if *is_waiting {
            self.queue.enter(now, name, &place, owner);
        }
        self.queued(now, name, owner, place)
    }

    /// Whether somebody waits who came before the owner, and cannot join it. An entry counts as
    /// early as the first one of its identity here.
    fn is_passed(&self, now: NodeTime, name: &Name, owner: &Owner) -> bool {
        let first_here = || self.shares(name)?.first_alive(now.as_millis());
        let came = if is_entry(owner) { first_here().unwrap_or(owner) } else { owner };
        let first = self.queue.first(name).filter(|first| group(first) != group(owner));
        first.is_some_and(|first| first < came)
    }

    /// Whether an owner may join those who hold the lock: an entry may, and a reader if nobody
    /// stands in line before it who wants the lock alone. Readers before it come in first.
    fn admits(&mut self, now: NodeTime, name: &Name, owner: &Owner) -> bool {
        let is_entry = is_entry(owner);
        mutate!(EntryQueues => let is_entry = false);
        if is_entry {
            return true;
        }
        self.hand_on_before(now, name, Some(owner));
        mutate!(ShareOvertakes => return true);
        self.queue.first(name).is_none_or(|first| first >= owner)
    }

    /// Adds an owner to those who hold the lock together; it may be the first of them.
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
            self.share_lives_on(now, name, ttl_ms);
        } else {
            let shares = Shares::from_iter([(owner.clone(), share)]);
            self.keys.put(name, Value::Shared(shares), end(now, ttl_ms));
        }
    }

    /// Lets a share live on; none is made to go earlier.
    fn prolong_share(
        &mut self,
        now: NodeTime,
        name: &Name,
        owner: &Owner,
        share: Share,
        ttl_ms: u64,
    ) {
        let ends_at_ms = share.ends_at_ms.max(now.as_millis().saturating_add(ttl_ms));
        self.share_lives_on(now, name, ttl_ms);
        if let Some(shares) = self.shares_mut(name) {
            shares.put(owner, Share { ends_at_ms, ..share });
        }
    }

    /// The key lives for as long as the last of them.
    fn share_lives_on(&mut self, now: NodeTime, name: &Name, ttl_ms: u64) {
        mutate!(ShareKeyShort => return);
        self.live_on(now, name, ttl_ms);
    }

    /// Whether one who wants the lock alone is the next to have it: then it looks whether those who
    /// share it are there still, and asks later ones to give it back. For everybody to do so would
    /// keep the node busy. Those in line who are gone are thrown out.
    pub(super) fn is_next(&mut self, name: &Name, owner: &Owner) -> bool {
        while let Some((ticket, first)) = self.queue.next(name).filter(|(_, first)| first < owner) {
            let place = Position::of(first.as_bytes());
            if place.is_some_and(|place| self.queue.sessions.contains(&place.client)) {
                return false;
            }
            self.queue.leave(name, ticket, &first);
        }
        true
    }

    /// When somebody who waits for those who share should look again at the latest.
    pub(super) fn look_at_ms(&self, name: &Name, owner: &Owner, is_next: bool) -> Option<u64> {
        let end = self.keys.end_of(name);
        let sooner = match (self.shares(name), self.joins(name, owner)) {
            // The first to go may be gone without a word, and the others may give it back before
            // its end.
            (Some(shares), false) if is_next => shares.earliest_end(),
            // So may the one who wants it alone and stands before it.
            (Some(_), true) => {
                let first = self.queue.first(name).filter(|first| *first != owner);
                let client = first.and_then(|it| Position::of(it.as_bytes())).map(|it| it.client);
                client.and_then(|client| self.queue.sessions.end_of(&client))
            }
            (Some(_) | None, _) => None,
        };
        end.map(|end| sooner.map_or(end, |sooner| sooner.min(end)))
    }

    /// Asks every later comer among those who share to give its grant back. Of the entries of an
    /// identity only one that is alone is asked: several would join each other again and again.
    /// They hear of the waiter with their heartbeats.
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
        let told: Vec<Push> = later
            .filter_map(|(holder, share)| {
                let client = Position::of(holder.as_bytes())?.client;
                let (name, owner, kind) = (name.clone(), holder.clone(), PushKind::Inquired);
                Some(Push { client, name, owner, fence: share.fence, kind, session: None })
            })
            .collect();
        told.into_iter().for_each(|push| _ = self.queue.push(push));
    }

    /// A lock that is held together loses one of those who hold it, or of those who wait.
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
        let place = Position::of(owner.as_bytes());
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
        match place {
            Some(place) if yields.is_some() => self.queue.enter(now, name, &place, owner),
            Some(place) if !is_ours => self.queue.leave(name, place.ticket, owner),
            Some(_) | None => {}
        }
        let left = self.shares(name).map_or(0, Shares::len);
        mutate!(ShareFreesAll => let left = 0);
        if left == 0 {
            self.keys.remove(name);
        } else if left <= FEW {
            // Of the others some may be gone. If there are many, whoever waits looks in time.
            self.purge_shares(now, name);
        }
        mutate!(DepartedWriterBlocks if !is_ours => return Reply::Released { is_ours });
        self.hand_on(now, name);
        Reply::Released { is_ours }
    }

    /// Lets a share live on, or takes a lost one again, or says why not. `stored` is the node's
    /// fence, and whether the lease's is known by it.
    ///
    /// Unlike one who holds alone a reader need not ask whether another was granted the key since:
    /// others of its kind are, all the time, and nobody who wants it alone has it while it is free
    /// or shared. An entry must ask if the key is free: it has a fence.
    pub(super) fn extend_share(
        &mut self,
        now: NodeTime,
        entry: &Extend,
        (stored, is_known): (Fence, bool),
    ) -> Result<(), Extended> {
        let Extend { name, owner, fence, ttl_ms, may_heal } = entry;
        let is_free = !self.keys.contains(name);
        let shares = self.shares(name);
        let is_past = is_entry(owner) && stored > *fence;
        mutate!(EntryHealsOutdated => let is_past = false);
        let is_open = is_free && !is_past || self.joins(name, owner);
        mutate!(ShareHealsExclusive if !is_entry(owner) => let is_open = true);
        match shares.and_then(|shares| shares.alive(owner, now.as_millis())) {
            Some(share) => self.prolong_share(now, name, owner, share, *ttl_ms),
            None if !*may_heal || !is_open => return Err(Extended::Refused(stored)),
            None if self.lacks_memory_to_heal(is_known) => return Err(Extended::Failed),
            None => {
                self.put_share(now, name, owner, *fence, *ttl_ms);
                self.queue.forget_place(name, owner);
            }
        }
        Ok(())
    }

    /// One who has the lock alone goes on as one who shares it. Those at the head of the line who
    /// share it come in, up to the first who wants it alone, as with a release; but the key is
    /// never free. Whoever says so twice is told the same.
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
            self.prolong_share(now, name, owner, share, ttl_ms);
            return Reply::Stored;
        }
        match self.whose(name, from) {
            Whose::Theirs => Reply::NotOwner,
            Whose::Nobodys => Reply::Absent,
            Whose::Ours => {
                self.keys.remove(name);
                mutate!(DowngradeFreesFirst => self.hand_on(now, name));
                // The grant is still the same one; everybody who comes in has a larger fence.
                let fence = self.queue.fence(name);
                self.put_share(now, name, owner, fence, ttl_ms);
                mutate!(DowngradeAdmitsWriter
                    if self.queue.first(name).is_some_and(|first| group(first).is_none())
                    => self.keys.remove(name));
                self.hand_on(now, name);
                Reply::Stored
            }
        }
    }

    /// Puts a new owner in the place of one who left its share.
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
        debug_assert!(share.is_alive(now_ms), "those whose time is over leave nothing");
        self.share_lives_on(now, name, ttl_ms);
        Reply::Stored
    }

    /// Lets in the entries that wait for what their identity holds now.
    pub(super) fn admit_entries(&mut self, now: NodeTime, name: &Name) {
        let waiting = self.queue.waiting.get(name).into_iter().flatten().take(ADMITTED_MAX);
        let entries = waiting.filter(|(_, owner)| self.joins(name, owner));
        let entries: Vec<(u64, Owner)> = entries.cloned().collect();
        let fence = self.queue.fence(name);
        for (ticket, owner) in entries {
            let place = Position::of(owner.as_bytes());
            let spoken = place.and_then(|place| self.queue.sessions.get(&place.client).copied());
            let (Some(place), Some(spoken)) = (place, spoken) else { continue };
            if self.queue.tell_granted(name, &owner, fence, (place, spoken)) {
                self.queue.leave(name, ticket, &owner);
                self.put_share(now, name, &owner, fence, place.ttl_ms);
            }
        }
    }
}

/// Whether the owner is an entry of a reentrant lock.
pub(super) fn is_entry(owner: &Owner) -> bool {
    matches!(group(owner), Some(Group::Identity(_)))
}
