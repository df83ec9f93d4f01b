//! A writer that becomes a reader.

use super::*;
use crate::share::Share;

fn reader(number: u8, after_us: u64) -> Owner {
    position(number, after_us).shared_owner(2)
}

impl Store {
    fn downgrade_at(&mut self, now: u64, from: &Owner, owner: &Owner) -> Reply {
        let (name, from, owner) = (name(), from.clone(), owner.clone());
        let sender = Some(sender_of(&owner));
        self.apply(ms(now), &Command::Adopt { name, from, owner, ttl_ms: TTL, sender })
    }

    fn share_of(&mut self, now: u64, owner: &Owner) -> Option<Share> {
        self.details(ms(now), &name()).shares.alive(owner, T0 + now)
    }
}

#[test]
fn downgrade_keeps_the_fence_and_renews_the_ttl() {
    let mut node = node_with([1, 2, 3]);
    let (writer, mine, later) = (owner(1, 1), reader(1, 1), reader(2, 2));
    node.wait_at(0, &writer);
    assert_eq!(node.downgrade_at(60, &writer, &mine), Reply::Stored);
    let (ends_at_ms, since_ms) = (T0 + 60 + TTL, T0 + 60);
    assert_eq!(node.share_of(60, &mine), Some(Share { fence: fence(1), ends_at_ms, since_ms }));
    assert_eq!(node.wait_at(60, &later), granted(fence(2)), "a later reader has a larger fence");
    assert_eq!(node.acquire_at(60, &owner(3, 3), false), queued(fence(2), TTL, None));
    assert_eq!(node.downgrade_at(61 + TTL, &writer, &mine), Reply::Absent, "it has expired");
}

#[test]
fn downgrade_grants_to_readers_up_to_the_first_exclusive_waiter() {
    let mut node = node_with([1, 2, 3, 4, 5]);
    let writer = owner(1, 1);
    let (two, three, alone, last) = (reader(2, 2), reader(3, 3), owner(4, 4), reader(5, 5));
    for owner in [&writer, &two, &three, &alone, &last] {
        node.wait_at(0, owner);
    }
    assert_eq!(node.downgrade_at(1, &writer, &reader(1, 1)), Reply::Stored);
    let grants = [(&two, 2), (&three, 3)];
    let pushes = grants.map(|(owner, number)| {
        (sender_of(owner).client, owner.clone(), fence(number), PushKind::Granted)
    });
    assert_eq!(node.pushed(), pushes);
    assert_eq!(node.details(ms(1), &name()).waiting, [alone.clone(), last]);
    for owner in [&two, &reader(1, 1), &three] {
        assert_eq!(node.pushed(), [], "a reader still holds the lock");
        node.release_at(2, owner, None);
    }
    assert_eq!(node.holder_at(2), Some(alone));
}

#[test]
fn repeated_downgrade_gets_the_same_reply_and_extends_the_share() {
    let mut node = node_with([1, 2]);
    let (writer, mine) = (owner(1, 1), reader(1, 1));
    node.wait_at(0, &writer);
    node.downgrade_at(1, &writer, &mine);
    let first = node.share_of(1, &mine).expect("the share exists");
    assert_eq!(node.downgrade_at(9, &writer, &mine), Reply::Stored);
    let ends_at_ms = T0 + 9 + TTL;
    assert_eq!(node.share_of(9, &mine), Some(Share { ends_at_ms, ..first }));
    assert_eq!(node.downgrade_at(9, &writer, &reader(2, 2)), Reply::NotOwner, "another reader");
}

#[test]
fn only_the_holder_can_downgrade_and_no_reader_becomes_a_writer() {
    let mut node = node_with([1, 2, 3]);
    let (writer, waiter) = (owner(1, 1), owner(2, 2));
    assert_eq!(node.downgrade_at(0, &writer, &reader(1, 1)), Reply::Absent);
    node.wait_at(0, &writer);
    node.wait_at(0, &waiter);
    assert_eq!(node.downgrade_at(0, &waiter, &reader(2, 2)), Reply::NotOwner);
    assert_eq!(
        node.details(ms(0), &name()).waiting,
        [],
        "the old owner leaves the queue in any case"
    );
    assert_eq!(node.holder_at(0), Some(writer.clone()));
    node.downgrade_at(0, &writer, &reader(1, 1));
    assert_eq!(node.downgrade_at(0, &reader(1, 1), &owner(1, 3)), Reply::NotOwner);
    assert!(node.share_of(0, &reader(1, 1)).is_some(), "the reader keeps its share");
}

/// Classic mode without quarantine has no sessions, no queue and no readers.
#[test]
fn downgrade_needs_a_session() {
    let mut node = node_with([1]);
    let writer = owner(1, 1);
    node.wait_at(0, &writer);
    let adopt = |sender| {
        let (from, owner) = (writer.clone(), reader(1, 1));
        Command::Adopt { name: name(), from, owner, ttl_ms: TTL, sender }
    };
    assert_eq!(node.apply(ms(0), &adopt(None)), Reply::NotOwner);
    let other = Sender { session: Session::from_random(99), ..sender(1) };
    assert_eq!(node.apply(ms(0), &adopt(Some(other))), Reply::Stale);
    assert_eq!(node.holder_at(0), Some(writer));
}

#[test]
fn full_node_accepts_a_downgrade() {
    let mut node = node_with([1, 2]);
    let (writer, waiter) = (owner(1, 1), reader(2, 2));
    node.wait_at(0, &writer);
    node.wait_at(0, &waiter);
    node.set_full(true);
    assert_eq!(node.downgrade_at(0, &writer, &reader(1, 1)), Reply::Stored);
    assert!(node.share_of(0, &waiter).is_some(), "it was queued");
}
