//! Sessions, queues, hand-off and fences of one node.
//!
//! A release grants the key to the next waiter in the same step, so other clients never see it free
//! while a waiter is queued. Every grant has a larger fence, so owner and fence together identify
//! one grant.

mod details;
mod inspect;
mod shares;

pub use self::details::LockDetails;
use self::shares::is_entry;

use std::collections::BTreeSet;

use super::{Expiring, Ownership, Store, end, text};
use crate::{
    command::{ClientId, Owner, Reply, SessionTerms, Value},
    fence::{FENCE_LIFETIME_MS, FENCE_RENEW_MS, Fence, bump},
    moment::NodeTime,
    name::Name,
    queue::{
        AcquireRequest, Extend, Extended, Position, Push, PushKind, QUEUE_LIFETIME_TTLS, Sender,
        Session, Yield, group,
    },
};

/// The data of a node besides the keys of the locks.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct QueueState {
    pub(super) sessions: Expiring<ClientId, SessionRecord>,
    /// The descriptions of clients for people.
    pub(super) descriptions: Expiring<ClientId, Box<str>>,
    pub(super) fences: Expiring<Name, LastGrant>,
    /// The queues, by ticket and then by owner.
    pub(super) waiting: Expiring<Name, BTreeSet<(u64, Owner)>>,
    /// The clients that receive pushes.
    pub(super) subscribers: BTreeSet<ClientId>,
    pub(super) pushes: Vec<Push>,
}

/// A session, and the range to which its tickets are limited: the node's time at its last attach or
/// ping, minus and plus the slack.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct SessionRecord {
    /// The session.
    pub session: Session,
    /// The minimum that a ticket counts for if no fence is stored, in microseconds.
    pub ticket_min: u64,
    /// The maximum that a ticket counts for.
    pub ticket_max: u64,
}

/// The last grant of a lock on a node.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct LastGrant {
    /// Its fence.
    pub fence: Fence,
    /// When it was granted, in milliseconds of the node's time; or when an extension stored its
    /// fence.
    pub since_ms: u64,
}

impl SessionRecord {
    const fn new(now: NodeTime, session: Session, slack_us: u64) -> Self {
        let time_us = now.as_micros();
        let ticket_min = time_us.saturating_sub(slack_us);
        Self { session, ticket_min, ticket_max: time_us.saturating_add(slack_us) }
    }
}

impl QueueState {
    pub(super) const fn new() -> Self {
        Self {
            sessions: Expiring::new(),
            descriptions: Expiring::new(),
            fences: Expiring::new(),
            waiting: Expiring::new(),
            subscribers: BTreeSet::new(),
            pushes: Vec::new(),
        }
    }

    pub(super) fn expire(&mut self, now_ms: u64) {
        self.sessions.expire(now_ms);
        self.descriptions.expire(now_ms);
        self.fences.expire(now_ms);
        self.waiting.expire(now_ms);
    }

    pub(super) fn names(&self) -> Vec<Name> {
        self.waiting.keys().cloned().collect()
    }

    pub(super) fn introduce(
        &mut self,
        now: NodeTime,
        client: ClientId,
        description: &str,
        lifetime_ms: u64,
    ) {
        self.descriptions.put(&client, description.into(), end(now, lifetime_ms));
    }

    pub(super) fn who(&self, client: &ClientId) -> Option<Box<str>> {
        self.descriptions.get(client).cloned()
    }

    fn fence(&self, name: &Name) -> Fence {
        self.fences.get(name).map_or(Fence::ZERO, |last| last.fence)
    }

    fn set_fence(&mut self, now: NodeTime, name: &Name, fence: Fence) {
        let lifetime_ms = FENCE_LIFETIME_MS;
        mutate!(BriefFence => let lifetime_ms = FENCE_LIFETIME_MS / 2);
        let last = LastGrant { fence, since_ms: now.as_millis() };
        self.fences.put(name, last, end(now, lifetime_ms));
    }

    /// Keeps the fence of a held lock for another day if less than half of that is left.
    fn keep_fence(&mut self, now: NodeTime, name: &Name) {
        let left_ms = self.fences.end_of(name).map(|end| end.saturating_sub(now.as_millis()));
        mutate!(FenceNotKept => let left_ms = None);
        let is_late = left_ms.is_some_and(|left_ms| left_ms <= FENCE_RENEW_MS);
        if let Some(ends_at_ms) = end(now, FENCE_LIFETIME_MS).filter(|_| is_late) {
            self.fences.set_end(name, ends_at_ms);
        }
    }

    /// Stores and returns the fence of a new grant.
    fn bump(&mut self, now: NodeTime, name: &Name, ticket: u64, record: SessionRecord) -> Fence {
        let stored = self.fences.get(name).map(|last| last.fence);
        let fence = bump(ticket, stored, record.ticket_min..=record.ticket_max);
        mutate!(NoClamp
            => let fence = stored.map_or(Fence::ZERO, Fence::next).max(Fence::new(ticket)));
        self.set_fence(now, name, fence);
        fence
    }

    /// The fence of a grant. All entries of an identity that hold the lock have the same fence.
    fn grant_fence(
        &mut self,
        now: NodeTime,
        name: &Name,
        (owner, is_joining): (&Owner, bool),
        (position, record): (Position, SessionRecord),
    ) -> Fence {
        let held = self.fences.get(name).map(|last| last.fence);
        let held = held.filter(|_| is_joining && is_entry(owner));
        held.unwrap_or_else(|| self.bump(now, name, position.ticket, record))
    }

    /// Adds a waiter to the queue. The queue exists for two more ttls of this waiter, or longer if
    /// its end was later. Waiters repeat their requests every third of their ttl.
    fn enqueue(&mut self, now: NodeTime, name: &Name, position: &Position, owner: &Owner) {
        let previous_end = self.waiting.end_of(name);
        let mut waiting = self.waiting.remove(name).unwrap_or_default();
        waiting.insert((position.ticket, owner.clone()));
        let ends_at_ms =
            end(now, position.ttl_ms.saturating_mul(QUEUE_LIFETIME_TTLS.into())).max(previous_end);
        self.waiting.put(name, waiting, ends_at_ms);
    }

    fn dequeue(&mut self, name: &Name, ticket: u64, owner: &Owner) {
        if let Some(waiting) = self.waiting.get_mut(name) {
            waiting.remove(&(ticket, owner.clone()));
            if waiting.is_empty() {
                self.waiting.remove(name);
            }
        }
    }

    /// Removes an owner from the queue if it is a waiter.
    pub(super) fn remove_waiter(&mut self, name: &Name, owner: &Owner) {
        if let Some(position) = Position::of(owner.as_bytes()) {
            self.dequeue(name, position.ticket, owner);
        }
    }

    /// The waiter that is granted the lock next, and its ticket.
    fn next(&self, name: &Name) -> Option<(u64, Owner)> {
        mutate!(LastFirst => return self.waiting.get(name)?.last().cloned());
        self.waiting.get(name)?.first().cloned()
    }

    fn first(&self, name: &Name) -> Option<&Owner> {
        self.waiting.get(name).and_then(|waiting| waiting.first()).map(|(_, owner)| owner)
    }

    pub(super) fn rank(&self, name: &Name, ticket: u64, owner: &Owner) -> Option<u64> {
        let mut waiting = self.waiting.get(name)?.iter();
        let before = waiting.position(|waiter| *waiter == (ticket, owner.clone()))?;
        u64::try_from(before).ok()
    }

    /// Sends a push. Returns false if the client is not subscribed.
    fn push(&mut self, push: Push) -> bool {
        let is_subscribed = self.subscribers.contains(&push.client);
        if is_subscribed {
            self.pushes.push(push);
        }
        is_subscribed
    }

    /// Notifies a waiter's client of its grant. Returns false if the client is not subscribed.
    fn push_granted(
        &mut self,
        name: &Name,
        owner: &Owner,
        fence: Fence,
        (position, record): (Position, SessionRecord),
    ) -> bool {
        let (name, owner, session) = (name.clone(), owner.clone(), Some(record.session));
        let (client, kind) = (position.client, PushKind::Granted);
        self.push(Push { client, name, owner, fence, kind, session })
    }

    pub(super) fn has_session(&self, sender: Sender) -> bool {
        mutate!(NoSession => return true);
        self.sessions.get(&sender.client).is_some_and(|it| it.session == sender.session)
    }
}

impl Store {
    pub(super) fn attach(&mut self, now: NodeTime, sender: Sender, terms: &SessionTerms) -> Reply {
        match self.membership.lets_begin(now, terms) {
            true => self.keep_session(now, sender, terms),
            false => Reply::Stale,
        }
    }

    pub(super) fn ping(&mut self, now: NodeTime, sender: Sender, terms: &SessionTerms) -> Reply {
        match self.queue.has_session(sender) {
            true => self.keep_session(now, sender, terms),
            false => Reply::Stale,
        }
    }

    /// Starts or continues a session.
    fn keep_session(&mut self, now: NodeTime, sender: Sender, terms: &SessionTerms) -> Reply {
        if !self.membership.lets_go_on(terms) {
            return if terms.mark.is_some() { Reply::Stale } else { Reply::MembershipRequired };
        }
        mutate!(FullEndsSessions if self.is_full => return Reply::Full);
        let record = SessionRecord::new(now, sender.session, terms.slack_us);
        self.queue.sessions.put(&sender.client, record, end(now, terms.lifetime_ms));
        self.membership.see(now, terms.wall_ms);
        Reply::Attached { time_us: now.as_micros() }
    }

    /// The number of keys on the node besides its record.
    pub(super) fn key_count(&self) -> u64 {
        let QueueState { sessions, descriptions, fences, waiting, .. } = &self.queue;
        let kinds =
            [self.keys.len(), sessions.len(), descriptions.len(), fences.len(), waiting.len()];
        kinds.into_iter().fold(0, |sum: u64, len| sum.saturating_add(len as u64))
    }

    pub(super) fn acquire(
        &mut self,
        now: NodeTime,
        sender: Sender,
        request: &AcquireRequest,
    ) -> Reply {
        let AcquireRequest { name, owner, is_waiting, is_known } = request;
        let record = self.queue.sessions.get(&sender.client).copied();
        let (Some(record), Some(position)) = (record, Position::of(owner.as_bytes())) else {
            return Reply::Stale;
        };
        if !self.queue.has_session(sender) {
            return Reply::Stale;
        }
        // A `try_lock` still gets a refusal if another owner holds the lock.
        let lacks_memory = self.lacks_memory_to_acquire(now, request, position);
        if lacks_memory && *is_waiting {
            return Reply::Full;
        }
        let is_blocked_by_shares = self.shares(name).is_some() && !self.shares_match(name, owner);
        if is_blocked_by_shares && self.is_next(name, owner) {
            self.purge_shares(now, name);
        }
        if group(owner).is_some() {
            return self.acquire_share(now, request, (position, record), lacks_memory);
        }
        match self.ownership(name, owner) {
            // Grant even if waiters are queued: the key is free then because it has expired. So
            // other requests need not read the queue.
            Ownership::Absent if lacks_memory => Reply::Full,
            Ownership::Absent => {
                let fence = self.queue.bump(now, name, position.ticket, record);
                self.keys.put(name, text(owner), end(now, position.ttl_ms));
                if *is_known {
                    self.queue.dequeue(name, position.ticket, owner);
                }
                Reply::Granted { fence, is_earlier: false }
            }
            Ownership::Own => {
                self.lengthen_key(now, name, position.ttl_ms);
                let is_earlier = self.queue.first(name).is_some_and(|first| first < owner);
                mutate!(NoEarlierFlag => let is_earlier = false);
                Reply::Granted { fence: self.queue.fence(name), is_earlier }
            }
            Ownership::Other => {
                if *is_waiting {
                    self.queue.enqueue(now, name, &position, owner);
                }
                self.queued(now, name, owner, position)
            }
        }
    }

    /// Replies to a request while another owner has the key, and inquires if that owner has a later
    /// ticket.
    fn queued(&mut self, now: NodeTime, name: &Name, owner: &Owner, position: Position) -> Reply {
        let fence = self.queue.fence(name);
        let holder = match self.keys.get(name) {
            Some(Value::Text(value)) => {
                Position::of(value).map(|position| (position, Owner::from_bytes(value)))
            }
            Some(Value::Shared(_) | Value::OtherType(_)) | None => None,
        };
        let is_foreign = holder.is_none() && self.shares(name).is_none();
        // A reader behind readers waits for the exclusive waiter between them, not for the shares.
        let is_blocked_by_shares = self.shares(name).is_some() && !self.shares_match(name, owner);
        let is_next = is_blocked_by_shares && self.is_next(name, owner);
        if is_next {
            self.inquire_shares(now, name, owner);
        }
        mutate!(NoInquire => let holder = None);
        if let Some((at, holder)) = holder
            && *owner < holder
        {
            let name = name.clone();
            let kind = PushKind::Inquired;
            let (client, session) = (at.client, None);
            self.queue.push(Push { client, name, owner: holder, fence, kind, session });
        }
        let ends_at_ms = self.retry_at_ms(name, owner, is_next);
        Reply::Queued {
            fence,
            expires_in_ms: ends_at_ms.map(|end| end.saturating_sub(now.as_millis())),
            rank: self.queue.rank(name, position.ticket, owner),
            is_foreign,
        }
    }

    pub(super) fn release(
        &mut self,
        now: NodeTime,
        name: &Name,
        owner: &Owner,
        yields: Option<Yield>,
    ) -> Reply {
        let is_current = yields.is_none_or(|it| self.queue.has_session(it.sender));
        mutate!(YieldWithoutSession => let is_current = true);
        if !is_current {
            return Reply::Released { is_ours: false };
        }
        let yields = yields.map(|it| it.fence);
        if self.shares(name).is_some() {
            return self.release_share(now, name, owner, yields);
        }
        let ownership = self.ownership(name, owner);
        let (is_ours, is_free) = (ownership == Ownership::Own, ownership == Ownership::Absent);
        let position = Position::of(owner.as_bytes());
        if let Some(yielded) = yields {
            let is_named = yielded == self.queue.fence(name);
            mutate!(YieldAnyGrant => let is_named = true);
            if !is_ours || !is_named {
                return Reply::Released { is_ours: false };
            }
            if let Some(position) = position {
                self.queue.enqueue(now, name, &position, owner);
            }
        } else if !is_ours && let Some(position) = position {
            self.queue.dequeue(name, position.ticket, owner);
        }
        let reply = Reply::Released { is_ours };
        mutate!(DeleteNotOwned => let is_ours = !is_free);
        if is_ours {
            self.keys.remove(name);
        }
        if is_ours || is_free {
            self.hand_off(now, name);
        }
        reply
    }

    /// Grants a free key to the first waiter whose client has a session and is subscribed. If this
    /// is a reader, the readers behind it join, up to the first exclusive waiter. If readers hold
    /// the key already, the readers at the head of the queue join in the same way.
    fn hand_off(&mut self, now: NodeTime, name: &Name) {
        self.hand_off_before(now, name, None);
    }

    /// Hands off only to waiters that are queued before `before`.
    fn hand_off_before(&mut self, now: NodeTime, name: &Name, before: Option<&Owner>) {
        while let Some((ticket, owner)) = self.queue.next(name) {
            if before.is_some_and(|before| owner >= *before) {
                return;
            }
            let position = Position::of(owner.as_bytes());
            let record = position.and_then(|it| self.queue.sessions.get(&it.client).copied());
            mutate!(HandOffLapsed => let record = record.or_else(|| {
                Some(SessionRecord::new(now, Session::from_random(0), crate::fence::SLACK_US))
            }));
            let is_joining = self.shares_match(name, &owner);
            let is_open = !self.keys.contains(name) || is_joining;
            if record.is_some() && !is_open {
                return;
            }
            self.queue.dequeue(name, ticket, &owner);
            let (Some(position), Some(record)) = (position, record) else { continue };
            let fence = self.queue.grant_fence(now, name, (&owner, is_joining), (position, record));
            let is_notified = self.queue.push_granted(name, &owner, fence, (position, record));
            mutate!(HandOffUnsubscribed => let is_notified = true);
            if is_notified && group(&owner).is_some() {
                self.put_share(now, name, &owner, fence, position.ttl_ms);
                mutate!(ShareOneByOne => return);
                if is_entry(&owner) {
                    return self.grant_waiting_entries(now, name);
                }
            } else if is_notified {
                self.keys.put(name, text(&owner), end(now, position.ttl_ms));
                return;
            }
        }
    }

    pub(super) fn extend(&mut self, now: NodeTime, sender: Sender, entries: &[Extend]) -> Reply {
        let has_session = self.queue.has_session(sender);
        mutate!(HealInQuarantine if self.membership.is_quarantined() => let has_session = true);
        if !has_session {
            return Reply::Stale;
        }
        Reply::ExtendedLeases(entries.iter().map(|entry| self.extend_one(now, entry)).collect())
    }

    fn extend_one(&mut self, now: NodeTime, entry: &Extend) -> Extended {
        let Extend { name, owner, fence, ttl_ms, may_heal } = entry;
        let stored = self.queue.fence(name);
        let is_outdated = stored > *fence;
        mutate!(ConfirmHeals => let may_heal = &true);
        mutate!(HealAnyFence => let is_outdated = false);
        let has_fence = self.queue.fences.contains(name) && stored >= *fence;
        match self.ownership(name, owner) {
            _ if group(owner).is_some() => {
                if let Err(result) = self.extend_share(now, entry, (stored, has_fence)) {
                    return result;
                }
            }
            Ownership::Other => return Extended::Refused(stored),
            // With a larger fence, this node has granted the lock to another owner since.
            Ownership::Absent if !*may_heal || is_outdated => return Extended::Refused(stored),
            Ownership::Absent if self.lacks_memory_to_heal(has_fence) => return Extended::Failed,
            Ownership::Absent => {
                self.keys.put(name, text(owner), end(now, *ttl_ms));
                self.queue.remove_waiter(name, owner);
            }
            Ownership::Own => self.lengthen_key(now, name, *ttl_ms),
        }
        if has_fence {
            self.queue.keep_fence(now, name);
            return Extended::Renewed(stored);
        }
        self.queue.set_fence(now, name, *fence);
        Extended::Renewed(*fence)
    }

    /// Keeps a key for another ttl. It never expires earlier than before.
    fn lengthen_key(&mut self, now: NodeTime, name: &Name, ttl_ms: u64) {
        let Some(ends_at_ms) = end(now, ttl_ms) else { return };
        if self.keys.end_of(name).is_none_or(|previous| previous < ends_at_ms) {
            self.keys.set_end(name, ends_at_ms);
        }
    }
}

#[cfg(test)]
mod tests;
