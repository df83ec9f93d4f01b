//! Readers, and exclusive owners that wait for them.

use std::slice;

use super::*;
use crate::quorum::Vote;

fn reader(number: u8, after_us: u64) -> Owner {
    position(number, after_us).shared_owner(1)
}

fn holders(node: &mut Store, now: u64) -> Vec<Owner> {
    let command = Command::Inspect { name: name(), shown: 0 };
    let Reply::Inspected(inspected) = node.apply(ms(now), &command) else {
        panic!("an unexpected reply to an inspection");
    };
    inspected.shares.iter().map(|share| share.owner.clone()).collect()
}

fn grant_to(owner: &Owner, fence: Fence) -> (ClientId, Owner, Fence, PushKind) {
    (sender_of(owner).client, owner.clone(), fence, PushKind::Granted)
}

#[test]
fn readers_hold_the_lock_together_and_expire_independently() {
    let mut node = node_with([1, 2, 3]);
    let (one, two, alone) = (reader(1, 1), reader(2, 2), owner(3, 3));
    assert_eq!(node.wait_at(0, &one), granted(fence(1)));
    assert_eq!(node.wait_at(60, &two), granted(fence(2)), "each grant has its own fence");
    assert_eq!(holders(&mut node, 60), [one.clone(), two.clone()]);
    assert_eq!(
        node.acquire_at(60, &alone, false),
        queued(fence(2), TTL - 60, None),
        "the first end"
    );
    // The first reader has expired, the second has not.
    assert_eq!(holders(&mut node, TTL + 1), slice::from_ref(&two));
    assert_eq!(node.acquire_at(TTL + 1, &alone, false), queued(fence(2), 59, None));
    assert_eq!(
        node.acquire_at(60 + TTL, &alone, false),
        queued(fence(2), 0, None),
        "the last millisecond"
    );
    assert_eq!(node.acquire_at(61 + TTL, &alone, false), granted(fence(3)));
    assert_eq!(node.wait_at(61 + TTL, &two), queued(fence(3), TTL, 0));
}

#[test]
fn exclusive_waiter_waits_for_the_last_reader() {
    let mut node = node_with([1, 2, 3]);
    let (one, two, alone) = (reader(1, 1), reader(2, 2), owner(3, 3));
    node.wait_at(0, &one);
    node.wait_at(0, &two);
    assert_eq!(node.wait_at(0, &alone), queued(fence(2), TTL, 0));
    assert_eq!(node.pushed(), [], "no inquiry to readers with earlier tickets");
    assert_eq!(node.release_at(1, &one, None), Reply::Released { is_ours: true });
    assert_eq!(node.pushed(), [], "a reader still holds the lock");
    assert_eq!(node.release_at(2, &two, None), Reply::Released { is_ours: true });
    assert_eq!(node.pushed(), [grant_to(&alone, fence(3))]);
    assert_eq!(node.holder_at(2), Some(alone));
}

#[test]
fn expired_reader_does_not_delay_the_hand_off() {
    let mut node = node_with([1, 2, 3]);
    let (crashed, two, alone) = (reader(1, 1), reader(2, 2), owner(3, 3));
    node.wait_at(0, &crashed);
    node.wait_at(50, &two);
    node.wait_at(50, &alone);
    node.release_at(TTL + 1, &two, None);
    assert_eq!(node.pushed(), [grant_to(&alone, fence(3))]);
}

#[test]
fn readers_behind_an_exclusive_waiter_wait_and_then_join_together() {
    let mut node = node_with([1, 2, 3, 4, 5]);
    let (first, alone, last) = (reader(1, 1), owner(2, 2), owner(5, 5));
    let late = [reader(3, 3), reader(4, 4)];
    node.wait_at(0, &first);
    node.wait_at(0, &alone);
    assert_eq!(node.wait_at(0, &late[0]), queued(fence(1), TTL, 1), "a reader queues");
    assert_eq!(
        node.acquire_at(0, &late[1], false),
        queued(fence(1), TTL, None),
        "a single try is refused"
    );
    node.wait_at(0, &late[1]);
    node.wait_at(0, &last);
    node.release_at(1, &first, None);
    assert_eq!(node.pushed(), [grant_to(&alone, fence(2))]);
    node.release_at(2, &alone, None);
    assert_eq!(node.pushed(), [grant_to(&late[0], fence(3)), grant_to(&late[1], fence(4))]);
    assert_eq!(holders(&mut node, 2), late);
    late.iter().for_each(|owner| _ = node.release_at(3, owner, None));
    assert_eq!(node.pushed(), [grant_to(&last, fence(5))]);
}

#[test]
fn readers_join_when_the_exclusive_waiter_before_them_leaves() {
    let mut node = node_with([1, 2, 3]);
    let (first, alone, late) = (reader(1, 1), owner(2, 2), reader(3, 3));
    node.wait_at(0, &first);
    node.wait_at(0, &alone);
    node.wait_at(0, &late);
    assert_eq!(node.release_at(1, &alone, None), Reply::Released { is_ours: false });
    assert_eq!(node.pushed(), [grant_to(&late, fence(3))]);
    assert_eq!(holders(&mut node, 1), [first, late]);
}

#[test]
fn exclusive_waiter_without_a_session_blocks_no_readers() {
    let mut node = node_with([1, 3]);
    let (first, late) = (reader(1, 1), reader(3, 3));
    node.wait_at(0, &first);
    let lapsed = Position { ticket: fence(2).get(), ttl_ms: 60_000, client: client(2) }.owner(1);
    let brief = SessionTerms::without_membership(10);
    node.apply(ms(0), &Command::Attach { sender: sender(2), terms: brief });
    node.wait_at(0, &lapsed);
    assert_eq!(node.wait_at(10, &late), queued(fence(1), 0, 1), "the session ends now");
    assert_eq!(node.wait_at(11, &late), granted(fence(3)), "the session has expired");
    assert_eq!(node.details(ms(11), &name()).waiting, []);
}

#[test]
fn later_readers_get_an_inquiry_and_yield_their_own_share() {
    let mut node = node_with([1, 2, 3]);
    let (early, two, three) = (owner(1, 1), reader(2, 2), reader(3, 3));
    node.wait_at(0, &two);
    node.wait_at(0, &three);
    assert_eq!(node.wait_at(0, &early), queued(fence(3), TTL, 0));
    let inquired = |owner: &Owner, number: u8, its: u64| {
        (client(number), owner.clone(), fence(its), PushKind::Inquired)
    };
    assert_eq!(node.pushed(), [inquired(&two, 2, 2), inquired(&three, 3, 3)]);
    assert_eq!(
        node.wait_at(0, &two),
        Reply::Granted { fence: fence(2), is_earlier: true },
        "the reply reports the waiter"
    );
    assert_eq!(node.release_at(1, &two, Some(fence(3))), Reply::Released { is_ours: false });
    assert_eq!(node.release_at(1, &two, Some(fence(2))), Reply::Released { is_ours: true });
    assert_eq!(holders(&mut node, 1), slice::from_ref(&three));
    assert_eq!(node.release_at(1, &three, Some(fence(3))), Reply::Released { is_ours: true });
    assert_eq!(node.pushed(), [grant_to(&early, fence(4))]);
    assert_eq!(node.details(ms(1), &name()).waiting, [two, three], "they stay queued");
}

#[test]
fn share_is_extended_and_heals_unless_an_exclusive_owner_has_the_key() {
    let mut node = node_with([1, 2]);
    let (one, two, alone) = (reader(1, 1), reader(2, 2), owner(2, 3));
    node.wait_at(0, &one);
    assert_eq!(node.extend_at(50, &one, fence(1), false), Extended::Renewed(fence(1)));
    assert_eq!(holders(&mut node, 50 + TTL), slice::from_ref(&one));
    // Another reader joins, so the node's fence is larger than that of the lease.
    node.wait_at(60, &two);
    assert!(node.forget(&name()));
    node.wait_at(61, &two);
    assert_eq!(node.extend_at(62, &one, fence(1), false), Extended::Refused(fence(3)), "lost");
    assert_eq!(node.extend_at(62, &one, fence(1), true), Extended::Renewed(fence(3)), "healed");
    assert_eq!(holders(&mut node, 62), [one.clone(), two]);
    assert!(node.forget(&name()));
    node.wait_at(63, &alone);
    assert!(matches!(node.extend_at(64, &one, fence(1), true), Extended::Refused(_)));
    assert_eq!(node.holder_at(64), Some(alone));
}

#[test]
fn share_is_adopted_once_and_check_finds_its_owner() {
    let mut node = node_with([1, 2, 3]);
    let (one, two, adopter) = (reader(1, 1), reader(2, 2), reader(3, 3));
    node.wait_at(0, &one);
    node.wait_at(0, &two);
    let adopt = |from: &Owner, owner: &Owner| Command::Adopt {
        name: name(),
        from: from.clone(),
        owner: owner.clone(),
        ttl_ms: TTL,
        sender: Some(sender(3)),
    };
    assert_eq!(node.apply(ms(9), &adopt(&one, &adopter)), Reply::Stored);
    assert_eq!(node.apply(ms(9), &adopt(&one, &adopter)), Reply::NotOwner, "already adopted");
    assert_eq!(holders(&mut node, 9), [two.clone(), adopter.clone()]);
    let check = |owner: &Owner| Command::Check { name: name(), owner: owner.clone() };
    for (owner, vote) in [(&adopter, Vote::Grant), (&two, Vote::Grant), (&one, Vote::Refuse)] {
        let reply = node.apply(ms(10), &check(owner));
        assert_eq!(check(owner).vote(&reply), vote);
    }
    assert_eq!(node.release_at(11, &adopter, None), Reply::Released { is_ours: true });
    assert_eq!(node.release_at(11, &two, None), Reply::Released { is_ours: true });
    assert_eq!(node.apply(ms(12), &adopt(&two, &adopter)), Reply::Absent);
}

#[test]
fn reader_that_finds_the_key_free_admits_the_readers_behind_it() {
    let mut node = node_with([1, 2, 3, 4]);
    let (crashed, alone) = (owner(1, 1), owner(4, 4));
    let together = [reader(2, 2), reader(3, 3)];
    node.wait_at(0, &crashed);
    together.iter().for_each(|owner| _ = node.wait_at(0, owner));
    node.wait_at(0, &alone);
    assert_eq!(node.wait_at(TTL + 1, &together[0]), granted(fence(2)));
    assert_eq!(node.pushed(), [grant_to(&together[1], fence(3))]);
    assert_eq!(holders(&mut node, TTL + 1), together);
}

#[test]
fn table_of_another_library_is_foreign() {
    let mut node = node_with([1]);
    node.plant(ms(0), &name(), Value::OtherType("hash".into()), None);
    let foreign =
        Reply::Queued { fence: Fence::ZERO, expires_in_ms: None, rank: Some(0), is_foreign: true };
    assert_eq!(node.wait_at(0, &reader(1, 1)), foreign);
}

#[test]
fn table_expires_with_its_last_share() {
    let with_ttl = |number: u8, ttl_ms: u64| {
        let ticket = fence(number.into()).get();
        Position { ticket, ttl_ms, client: client(number) }.shared_owner(1)
    };
    let mut node = node_with([1, 2, 3]);
    let (short, long, adopter) = (with_ttl(1, 10), with_ttl(2, 1_000), with_ttl(3, 1_000));
    node.wait_at(0, &short);
    node.wait_at(0, &long);
    assert_eq!(node.names(ms(11)), [name()], "the second reader holds the lock");
    assert_eq!(holders(&mut node, 1_000), slice::from_ref(&long));
    // An extension with a shorter ttl does not make the share expire earlier.
    assert_eq!(node.extend_at(12, &long, fence(2), false), Extended::Renewed(fence(2)));
    assert_eq!(holders(&mut node, 1_000), slice::from_ref(&long));
    let adopt = Command::Adopt {
        name: name(),
        from: long,
        owner: adopter.clone(),
        ttl_ms: 5_000,
        sender: Some(sender(3)),
    };
    assert_eq!(node.apply(ms(900), &adopt), Reply::Stored);
    assert_eq!(holders(&mut node, 5_900), [adopter]);
}

#[test]
fn expired_shares_do_not_pile_up() {
    let mut node = node_with([1, 2, 3]);
    let long =
        Position { ticket: fence(2).get(), ttl_ms: 60_000, client: client(2) }.shared_owner(1);
    node.wait_at(0, &reader(1, 1));
    node.wait_at(0, &long);
    node.release_at(1, &long, None);
    assert_eq!(node.names(ms(TTL + 1)), [], "the table must not outlive its last share");
    // Two of a hundred joining readers remove expired shares.
    for ticket in 0..100 {
        node.wait_at(1_000 + 2 * TTL * ticket, &reader(3, 1_000 + ticket));
    }
    let left = node.details(ms(1_000 + 200 * TTL - 1), &name()).shares.len();
    assert!(left <= 1, "{left} expired shares");
}

#[test]
fn waiting_reader_is_not_reported_to_readers() {
    let mut node = node_with([1, 2, 3]);
    let (crashed, early, late) = (owner(1, 1), reader(2, 2), reader(3, 3));
    node.wait_at(0, &crashed);
    node.unsubscribe(client(2));
    node.wait_at(0, &early);
    assert_eq!(node.wait_at(TTL + 1, &late), granted(fence(3)));
    node.wait_at(TTL + 1, &early);
    let owner = reader(2, 1);
    node.apply(ms(TTL + 1), &Command::Release { name: name(), owner, yields: None });
    assert_eq!(node.wait_at(TTL + 2, &late), granted(fence(3)), "no exclusive waiter");
}

#[test]
fn only_the_next_exclusive_waiter_sends_inquiries() {
    let mut node = node_with([1, 2, 3]);
    let (later, first, second) = (reader(1, 9), owner(2, 2), owner(3, 3));
    let brief = Position { ticket: fence(8).get(), ttl_ms: 10, client: client(1) }.shared_owner(2);
    node.wait_at(0, &later);
    node.wait_at(0, &brief);
    assert_eq!(node.wait_at(0, &first), queued(fence(10), 10, 0));
    assert_eq!(node.pushed().len(), 2, "an inquiry to each reader");
    assert_eq!(node.wait_at(0, &second), queued(fence(10), TTL, 1), "not the next");
    assert_eq!(node.pushed(), []);
}

#[test]
fn reader_behind_an_exclusive_waiter_gets_the_end_of_its_session() {
    let mut node = node_with([1, 2, 3]);
    let long = |number: u8, after_us: u64| Position {
        ticket: fence(after_us).get(),
        ttl_ms: 60_000,
        client: client(number),
    };
    node.wait_at(0, &long(1, 1).shared_owner(1));
    node.wait_at(0, &long(2, 2).owner(1));
    let behind = node.wait_at(100, &long(3, 3).shared_owner(1));
    assert_eq!(behind, queued(fence(1), SESSION - 100, 1));
}
