//! What a node does for those who wait in line: sessions, hand-off, fences.
//!
//! A key that is freed while somebody waits is never seen free by others: the release itself hands
//! it to the next in line. Every grant bumps the fence, so owner and fence together name one grant.

mod details;
mod inspect;
mod shares;

pub use self::details::LockDetails;
use self::shares::is_entry;

use std::collections::BTreeSet;

use super::{Expiring, Store, Whose, end, text};
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

/// Everything besides the keys of the locks themselves.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct QueueState {
    pub(super) sessions: Expiring<ClientId, SessionRecord>,
    /// Who the clients are, in words for people.
    pub(super) whos: Expiring<ClientId, Box<str>>,
    pub(super) fences: Expiring<Name, LastGrant>,
    /// By ticket, and those with the same ticket by owner.
    pub(super) waiting: Expiring<Name, BTreeSet<(u64, Owner)>>,
    /// Who would hear a push.
    pub(super) listeners: BTreeSet<ClientId>,
    pub(super) pushes: Vec<Push>,
}

/// A session, and what a ticket counts for in it: the node's time when it was last heard of, more
/// or less.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct SessionRecord {
    /// How the client is known.
    pub session: Session,
    /// A ticket counts for no less where no fence is stored, in microseconds.
    pub least_us: u64,
    /// A ticket counts for no more.
    pub most_us: u64,
}

/// What a node remembers of the last grant of a lock.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct LastGrant {
    /// Its fence.
    pub fence: Fence,
    /// When it was, in milliseconds of the node's time. If an extension has brought the fence, when
    /// that was.
    pub since_ms: u64,
}

impl SessionRecord {
    const fn new(now: NodeTime, session: Session, slack_us: u64) -> Self {
        let time_us = now.as_micros();
        let least_us = time_us.saturating_sub(slack_us);
        Self { session, least_us, most_us: time_us.saturating_add(slack_us) }
    }
}

impl QueueState {
    pub(super) const fn new() -> Self {
        Self {
            sessions: Expiring::new(),
            whos: Expiring::new(),
            fences: Expiring::new(),
            waiting: Expiring::new(),
            listeners: BTreeSet::new(),
            pushes: Vec::new(),
        }
    }

    pub(super) fn expire(&mut self, now_ms: u64) {
        self.sessions.expire(now_ms);
        self.whos.expire(now_ms);
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
        who: &str,
        lifetime_ms: u64,
    ) {
        self.whos.put(&client, who.into(), end(now, lifetime_ms));
    }

    pub(super) fn who(&self, client: &ClientId) -> Option<Box<str>> {
        self.whos.get(client).cloned()
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

    /// Keeps the fence of a lock that is held.
    fn keep_fence(&mut self, now: NodeTime, name: &Name) {
        let left_ms = self.fences.end_of(name).map(|end| end.saturating_sub(now.as_millis()));
        mutate!(FenceNotKept => let left_ms = None);
        let is_late = left_ms.is_some_and(|left_ms| left_ms <= FENCE_RENEW_MS);
        if let Some(ends_at_ms) = end(now, FENCE_LIFETIME_MS).filter(|_| is_late) {
            self.fences.set_end(name, ends_at_ms);
        }
    }

    /// A new grant gets a new fence.
    fn bump(&mut self, now: NodeTime, name: &Name, ticket: u64, spoken: SessionRecord) -> Fence {
        let stored = self.fences.get(name).map(|last| last.fence);
        let fence = bump(ticket, stored, spoken.least_us..=spoken.most_us);
        mutate!(NoClamp
            => let fence = stored.map_or(Fence::ZERO, Fence::next).max(Fence::new(ticket)));
        self.set_fence(now, name, fence);
        fence
    }

    /// The fence of a grant. What an identity holds has one, however many entries it has.
    fn grant_fence(
        &mut self,
        now: NodeTime,
        name: &Name,
        (owner, is_joining): (&Owner, bool),
        (place, spoken): (Position, SessionRecord),
    ) -> Fence {
        let held = self.fences.get(name).map(|last| last.fence);
        let held = held.filter(|_| is_joining && is_entry(owner));
        held.unwrap_or_else(|| self.bump(now, name, place.ticket, spoken))
    }

    /// Puts an owner in line. The line lives on for two ttls of whoever asks last, or longer if it
    /// was to: those who wait ask every third of theirs.
    fn enter(&mut self, now: NodeTime, name: &Name, place: &Position, owner: &Owner) {
        let known = self.waiting.end_of(name);
        let mut waiting = self.waiting.remove(name).unwrap_or_default();
        waiting.insert((place.ticket, owner.clone()));
        let ends_at_ms =
            end(now, place.ttl_ms.saturating_mul(QUEUE_LIFETIME_TTLS.into())).max(known);
        self.waiting.put(name, waiting, ends_at_ms);
    }

    fn leave(&mut self, name: &Name, ticket: u64, owner: &Owner) {
        if let Some(waiting) = self.waiting.get_mut(name) {
            waiting.remove(&(ticket, owner.clone()));
            if waiting.is_empty() {
                self.waiting.remove(name);
            }
        }
    }

    /// The owner has left its lease to another, and will never come for a place in line.
    pub(super) fn forget_place(&mut self, name: &Name, owner: &Owner) {
        if let Some(place) = Position::of(owner.as_bytes()) {
            self.leave(name, place.ticket, owner);
        }
    }

    /// Whose turn it is.
    fn next(&self, name: &Name) -> Option<(u64, Owner)> {
        mutate!(LastFirst => return self.waiting.get(name)?.last().cloned());
        self.waiting.get(name)?.first().cloned()
    }

    fn first(&self, name: &Name) -> Option<&Owner> {
        self.waiting.get(name).and_then(|waiting| waiting.first()).map(|(_, owner)| owner)
    }

    pub(super) fn rank(&self, name: &Name, ticket: u64, owner: &Owner) -> Option<u64> {
        let mut waiting = self.waiting.get(name)?.iter();
        let before = waiting.position(|known| *known == (ticket, owner.clone()))?;
        u64::try_from(before).ok()
    }

    /// Tells a client. Returns false if nobody listens.
    fn push(&mut self, push: Push) -> bool {
        let is_heard = self.listeners.contains(&push.client);
        if is_heard {
            self.pushes.push(push);
        }
        is_heard
    }

    /// Tells a client that its turn has come.
    fn tell_granted(
        &mut self,
        name: &Name,
        owner: &Owner,
        fence: Fence,
        (place, spoken): (Position, SessionRecord),
    ) -> bool {
        let (name, owner, session) = (name.clone(), owner.clone(), Some(spoken.session));
        let (client, kind) = (place.client, PushKind::Granted);
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
            true => self.go_on(now, sender, terms),
            false => Reply::Stale,
        }
    }

    pub(super) fn ping(&mut self, now: NodeTime, sender: Sender, terms: &SessionTerms) -> Reply {
        match self.queue.has_session(sender) {
            true => self.go_on(now, sender, terms),
            false => Reply::Stale,
        }
    }

    /// Lets a session begin, or go on.
    fn go_on(&mut self, now: NodeTime, sender: Sender, terms: &SessionTerms) -> Reply {
        if !self.membership.lets_go_on(terms) {
            return if terms.mark.is_some() { Reply::Stale } else { Reply::MembershipRequired };
        }
        mutate!(FullEndsSessions if self.is_full => return Reply::Full);
        let spoken = SessionRecord::new(now, sender.session, terms.slack_us);
        self.queue.sessions.put(&sender.client, spoken, end(now, terms.lifetime_ms));
        self.membership.see(now, terms.wall_ms);
        Reply::Attached { time_us: now.as_micros() }
    }

    /// How many keys there are besides the record.
    pub(super) fn held(&self) -> u64 {
        let QueueState { sessions, whos, fences, waiting, .. } = &self.queue;
        let kinds = [self.keys.len(), sessions.len(), whos.len(), fences.len(), waiting.len()];
        kinds.into_iter().fold(0, |sum: u64, len| sum.saturating_add(len as u64))
    }

    pub(super) fn acquire(&mut self, now: NodeTime, sender: Sender, ask: &AcquireRequest) -> Reply {
        let AcquireRequest { name, owner, is_waiting, is_known } = ask;
        let spoken = self.queue.sessions.get(&sender.client).copied();
        let (Some(spoken), Some(place)) = (spoken, Position::of(owner.as_bytes())) else {
            return Reply::Stale;
        };
        if !self.queue.has_session(sender) {
            return Reply::Stale;
        }
        // Whoever only tries is told as usual that another has the lock.
        let lacks_memory = self.lacks_memory_for_ask(now, ask, place);
        if lacks_memory && *is_waiting {
            return Reply::Full;
        }
        let is_foreign = self.shares(name).is_some() && !self.joins(name, owner);
        if is_foreign && self.is_next(name, owner) {
            self.purge_shares(now, name);
        }
        if group(owner).is_some() {
            return self.acquire_share(now, ask, (place, spoken), lacks_memory);
        }
        match self.whose(name, owner) {
            // Whoever finds the key free gets it, also if others wait: that is so only after a key
            // has expired, and saves a look at the line in every other case.
            Whose::Nobodys if lacks_memory => Reply::Full,
            Whose::Nobodys => {
                let fence = self.queue.bump(now, name, place.ticket, spoken);
                self.keys.put(name, text(owner), end(now, place.ttl_ms));
                if *is_known {
                    self.queue.leave(name, place.ticket, owner);
                }
                Reply::Granted { fence, is_earlier: false }
            }
            Whose::Ours => {
                self.live_on(now, name, place.ttl_ms);
                let is_earlier = self.queue.first(name).is_some_and(|first| first < owner);
                mutate!(NoEarlierFlag => let is_earlier = false);
                Reply::Granted { fence: self.queue.fence(name), is_earlier }
            }
            Whose::Theirs => {
                if *is_waiting {
                    self.queue.enter(now, name, &place, owner);
                }
                self.queued(now, name, owner, place)
            }
        }
    }

    /// The key is another's: asks a later comer to give it back, and says where the owner stands.
    fn queued(&mut self, now: NodeTime, name: &Name, owner: &Owner, place: Position) -> Reply {
        let fence = self.queue.fence(name);
        let holder = match self.keys.get(name) {
            Some(Value::Text(value)) => {
                Position::of(value).map(|place| (place, Owner::from_bytes(value)))
            }
            Some(Value::Shared(_) | Value::OtherType(_)) | None => None,
        };
        let is_foreign = holder.is_none() && self.shares(name).is_none();
        // One who shares waits for others of its kind only if somebody stands between them.
        let is_awaiting = self.shares(name).is_some() && !self.joins(name, owner);
        let is_next = is_awaiting && self.is_next(name, owner);
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
        let ends_at_ms = self.look_at_ms(name, owner, is_next);
        Reply::Queued {
            fence,
            expires_in_ms: ends_at_ms.map(|end| end.saturating_sub(now.as_millis())),
            rank: self.queue.rank(name, place.ticket, owner),
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
        let is_heard = yields.is_none_or(|it| self.queue.has_session(it.sender));
        mutate!(YieldWithoutSession => let is_heard = true);
        if !is_heard {
            return Reply::Released { is_ours: false };
        }
        let yields = yields.map(|it| it.fence);
        if self.shares(name).is_some() {
            return self.release_share(now, name, owner, yields);
        }
        let whose = self.whose(name, owner);
        let (is_ours, is_free) = (whose == Whose::Ours, whose == Whose::Nobodys);
        let place = Position::of(owner.as_bytes());
        if let Some(yielded) = yields {
            let is_named = yielded == self.queue.fence(name);
            mutate!(YieldAnyGrant => let is_named = true);
            if !is_ours || !is_named {
                return Reply::Released { is_ours: false };
            }
            if let Some(place) = place {
                self.queue.enter(now, name, &place, owner);
            }
        } else if !is_ours && let Some(place) = place {
            self.queue.leave(name, place.ticket, owner);
        }
        let reply = Reply::Released { is_ours };
        mutate!(DeleteNotOwned => let is_ours = !is_free);
        if is_ours {
            self.keys.remove(name);
        }
        if is_ours || is_free {
            self.hand_on(now, name);
        }
        reply
    }

    /// Gives a free key to the first in line whose process is there and listens. If that one shares
    /// it, so do those behind it, up to the first who wants it alone; and so it is with a key that
    /// is shared already.
    fn hand_on(&mut self, now: NodeTime, name: &Name) {
        self.hand_on_before(now, name, None);
    }

    /// The same, for those who stand before that one in line.
    fn hand_on_before(&mut self, now: NodeTime, name: &Name, before: Option<&Owner>) {
        while let Some((ticket, owner)) = self.queue.next(name) {
            if before.is_some_and(|before| owner >= *before) {
                return;
            }
            let place = Position::of(owner.as_bytes());
            let spoken = place.and_then(|place| self.queue.sessions.get(&place.client).copied());
            mutate!(HandOffLapsed => let spoken = spoken.or_else(|| {
                Some(SessionRecord::new(now, Session::from_random(0), crate::fence::SLACK_US))
            }));
            let is_joining = self.joins(name, &owner);
            let is_open = !self.keys.contains(name) || is_joining;
            if spoken.is_some() && !is_open {
                return;
            }
            self.queue.leave(name, ticket, &owner);
            let (Some(place), Some(spoken)) = (place, spoken) else { continue };
            let fence = self.queue.grant_fence(now, name, (&owner, is_joining), (place, spoken));
            let is_heard = self.queue.tell_granted(name, &owner, fence, (place, spoken));
            mutate!(HandOffUnsubscribed => let is_heard = true);
            if is_heard && group(&owner).is_some() {
                self.put_share(now, name, &owner, fence, place.ttl_ms);
                mutate!(ShareOneByOne => return);
                if is_entry(&owner) {
                    return self.admit_entries(now, name);
                }
            } else if is_heard {
                self.keys.put(name, text(&owner), end(now, place.ttl_ms));
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
        let is_past = stored > *fence;
        mutate!(ConfirmHeals => let may_heal = &true);
        mutate!(HealAnyFence => let is_past = false);
        let is_known = self.queue.fences.contains(name) && stored >= *fence;
        match self.whose(name, owner) {
            _ if group(owner).is_some() => {
                if let Err(result) = self.extend_share(now, entry, (stored, is_known)) {
                    return result;
                }
            }
            Whose::Theirs => return Extended::Refused(stored),
            // Another was granted the key here since: this lease is not the newest.
            Whose::Nobodys if !*may_heal || is_past => return Extended::Refused(stored),
            Whose::Nobodys if self.lacks_memory_to_heal(is_known) => return Extended::Failed,
            Whose::Nobodys => {
                self.keys.put(name, text(owner), end(now, *ttl_ms));
                if let Some(place) = Position::of(owner.as_bytes()) {
                    self.queue.leave(name, place.ticket, owner);
                }
            }
            Whose::Ours => self.live_on(now, name, *ttl_ms),
        }
        if is_known {
            self.queue.keep_fence(now, name);
            return Extended::Renewed(stored);
        }
        self.queue.set_fence(now, name, *fence);
        Extended::Renewed(*fence)
    }

    /// Lets a key that is the owner's live on; none is made to go earlier.
    fn live_on(&mut self, now: NodeTime, name: &Name, ttl_ms: u64) {
        let Some(ends_at_ms) = end(now, ttl_ms) else { return };
        if self.keys.end_of(name).is_none_or(|known| known < ends_at_ms) {
            self.keys.set_end(name, ends_at_ms);
        }
    }
}

#[cfg(test)]
mod tests;
