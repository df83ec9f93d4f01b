//! Entries of a reentrant lock on one node.

use super::*;

fn entry(number: u8, after_us: u64, identity: &str) -> Owner {
    position(number, after_us).reentrant_owner(1, identity)
}

fn x(number: u8, after_us: u64) -> Owner {
    entry(number, after_us, "x")
}

fn y(number: u8, after_us: u64) -> Owner {
    entry(number, after_us, "y")
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

fn inquiry_to(owner: &Owner, fence: Fence) -> (ClientId, Owner, Fence, PushKind) {
    (sender_of(owner).client, owner.clone(), fence, PushKind::Inquired)
}

fn granted_with_earlier_waiter(fence: Fence) -> Reply {
    Reply::Granted { fence, is_earlier: true }
}

const RELEASED: Reply = Reply::Released { is_ours: true };

#[test]
fn entries_of_an_identity_have_one_fence_and_the_next_holder_a_larger_one() {
    let mut node = node_with([1, 2, 3]);
    assert_eq!(node.wait_at(0, &x(1, 1)), granted(fence(1)), "the first entry sets the fence");
    assert_eq!(node.wait_at(0, &x(2, 20)), granted(fence(1)), "other entries get the stored fence");
    assert_eq!(node.acquire_at(0, &x(3, 30), false), granted(fence(1)), "even a single try");
    assert_eq!(holders(&mut node, 0), [x(1, 1), x(2, 20), x(3, 30)]);
    node.release_at(1, &x(1, 1), None);
    assert_eq!(node.wait_at(1, &x(1, 40)), granted(fence(1)), "even if the first entry has left");
    for owner in [x(1, 40), x(2, 20), x(3, 30)] {
        assert_eq!(node.release_at(2, &owner, None), RELEASED);
    }
    assert_eq!(node.names(ms(2)), []);
    assert_eq!(node.wait_at(3, &x(1, 1)), granted(fence(2)), "even without a holder in between");
}

#[test]
fn entry_gets_a_fence_that_was_raised_since() {
    let mut node = node_with([1, 2]);
    node.wait_at(0, &x(1, 1));
    assert_eq!(node.extend_at(1, &x(1, 1), fence(9), false), Extended::Renewed(fence(9)));
    assert_eq!(node.wait_at(2, &x(2, 20)), granted(fence(9)));
    assert_eq!(node.wait_at(2, &x(1, 1)), granted(fence(9)), "the first entry gets it too");
}

#[test]
fn entry_joins_its_identity_before_all_waiters() {
    let mut node = node_with(1..=5);
    let waiting = [owner(2, 2), y(3, 3), position(4, 4).shared_owner(1)];
    node.wait_at(0, &x(1, 1));
    for (rank, owner) in (0..).zip(&waiting) {
        assert_eq!(node.wait_at(0, owner), queued(fence(1), TTL, rank));
    }
    assert_eq!(node.wait_at(0, &x(5, 5)), granted(fence(1)));
    assert_eq!(node.details(ms(0), &name()).waiting, waiting, "all waiters stay queued");
    assert_eq!(node.release_at(1, &x(1, 1), None), RELEASED);
    assert_eq!(node.pushed(), [], "an entry still holds the lock");
    assert_eq!(node.release_at(1, &x(5, 5), None), RELEASED);
    assert_eq!(node.pushed(), [grant_to(&waiting[0], fence(2))]);
}

#[test]
fn other_identities_readers_and_exclusive_owners_wait_for_entries() {
    let mut node = node_with(1..=4);
    node.wait_at(0, &x(1, 1));
    for other in [y(2, 2), position(3, 3).shared_owner(1), owner(4, 4)] {
        assert_eq!(node.acquire_at(0, &other, false), queued(fence(1), TTL, None), "{other:?}");
    }
    node.release_at(0, &x(1, 1), None);
    for holder in [owner(4, 4), position(3, 3).shared_owner(1), y(2, 2)] {
        assert!(matches!(node.wait_at(1, &holder), Reply::Granted { .. }));
        assert!(matches!(node.acquire_at(1, &x(1, 1), false), Reply::Queued { .. }), "{holder:?}");
        node.release_at(1, &holder, None);
    }
}

#[test]
fn identities_are_compared_byte_by_byte() {
    let texts = ["a", "a:r", "a!b", "b", "!", "%61", "a%", ":r", "é", "A", " a", "a\n"];
    for held in texts {
        let mut node = node_with([1, 2]);
        node.wait_at(0, &entry(1, 1, held));
        for wanted in texts {
            let reply = node.acquire_at(0, &entry(2, 2, wanted), false);
            let is_granted = reply == granted(fence(1));
            assert_eq!(is_granted, wanted == held, "{held:?} and {wanted:?}");
            node.release_at(0, &entry(2, 2, wanted), None);
        }
    }
}

#[test]
fn waiting_entries_of_an_identity_are_granted_together() {
    let mut node = node_with(1..=6);
    node.wait_at(0, &owner(1, 1));
    for owner in [x(2, 2), y(3, 3), x(4, 4), owner(5, 5), x(6, 6)] {
        node.wait_at(0, &owner);
    }
    node.release_at(1, &owner(1, 1), None);
    let all = [x(2, 2), x(4, 4), x(6, 6)];
    assert_eq!(node.pushed(), all.each_ref().map(|owner| grant_to(owner, fence(2))));
    assert_eq!(holders(&mut node, 1), all);
    assert_eq!(node.details(ms(1), &name()).waiting, [y(3, 3), owner(5, 5)]);
    all.iter().for_each(|owner| _ = node.release_at(2, owner, None));
    assert_eq!(node.pushed(), [grant_to(&y(3, 3), fence(3))]);
}

#[test]
fn waiting_entry_without_a_subscription_is_not_granted_with_the_others() {
    let mut node = node_with(1..=4);
    node.wait_at(0, &owner(1, 1));
    [x(2, 2), x(3, 3), x(4, 4)].iter().for_each(|owner| _ = node.wait_at(0, owner));
    node.unsubscribe(client(3));
    node.release_at(1, &owner(1, 1), None);
    assert_eq!(node.pushed().len(), 2);
    assert_eq!(holders(&mut node, 1), [x(2, 2), x(4, 4)]);
    // Its heartbeat acquires the lock.
    assert_eq!(node.wait_at(2, &x(3, 3)), granted(fence(2)));
    assert_eq!(node.details(ms(2), &name()).waiting, []);
}

#[test]
fn hand_off_searches_a_bounded_number_of_waiters_for_entries() {
    let mut node = node_with([1, 2]);
    node.wait_at(0, &owner(1, 1));
    (0..200).for_each(|number| _ = node.wait_at(0, &x(2, 2 + number)));
    node.release_at(1, &owner(1, 1), None);
    let grants = node.pushed().len();
    assert_eq!(grants, 129, "the first entry, and 128 behind it");
    assert_eq!(node.wait_at(1, &x(2, 201)), granted(fence(2)), "a heartbeat joins");
}

#[test]
fn only_a_single_entry_gets_an_inquiry() {
    let mut node = node_with(1..=3);
    node.wait_at(0, &x(2, 2));
    node.wait_at(0, &owner(1, 1));
    assert_eq!(node.pushed(), [inquiry_to(&x(2, 2), fence(2))]);
    node.wait_at(0, &x(3, 3));
    node.wait_at(0, &owner(1, 1));
    assert_eq!(node.pushed(), [], "two would join each other again and again");
    assert_eq!(
        node.wait_at(0, &x(2, 2)),
        granted_with_earlier_waiter(fence(2)),
        "the reply reports the waiter"
    );
    assert_eq!(node.wait_at(0, &x(3, 3)), granted_with_earlier_waiter(fence(2)));
    node.release_at(1, &x(3, 3), None);
    node.pushed();
    node.wait_at(1, &owner(1, 1));
    assert_eq!(node.pushed(), [inquiry_to(&x(2, 2), fence(2))], "a single entry again");
    node.wait_at(1, &owner(2, 5));
    assert_eq!(node.pushed(), [], "no inquiry for a later waiter");
}

#[test]
fn expired_entries_do_not_prevent_an_inquiry() {
    let mut node = node_with(1..=3);
    node.wait_at(0, &x(2, 2));
    node.wait_at(60, &x(3, 3));
    node.wait_at(60, &owner(1, 1));
    assert_eq!(node.pushed(), []);
    node.wait_at(TTL + 1, &owner(1, 1));
    assert_eq!(node.pushed(), [inquiry_to(&x(3, 3), fence(2))]);
}

#[test]
fn earlier_waiter_is_reported_only_if_it_came_before_all_entries() {
    let mut node = node_with(1..=4);
    node.wait_at(0, &x(1, 1));
    node.wait_at(0, &owner(2, 2));
    assert_eq!(node.wait_at(0, &x(3, 3)), granted(fence(1)), "its identity came earlier");
    assert_eq!(node.wait_at(0, &x(3, 3)), granted(fence(1)));
    node.release_at(1, &x(1, 1), None);
    assert_eq!(
        node.wait_at(1, &x(3, 3)),
        granted_with_earlier_waiter(fence(1)),
        "the earlier entry has left"
    );
    assert_eq!(node.wait_at(1, &x(4, 4)), granted(fence(1)), "a joining entry is not compared");
    assert_eq!(
        node.wait_at(1, &x(4, 4)),
        granted_with_earlier_waiter(fence(1)),
        "its next request is"
    );
    assert_eq!(node.release_at(1, &owner(2, 2), None), Reply::Released { is_ours: false });
    assert_eq!(node.wait_at(1, &x(3, 3)), granted(fence(1)), "the waiter has left");
}

#[test]
fn expired_entry_does_not_count_as_the_earliest_of_its_identity() {
    let mut node = node_with(1..=3);
    node.wait_at(0, &x(1, 1));
    node.wait_at(0, &owner(2, 2));
    node.wait_at(60, &x(3, 3));
    assert_eq!(
        node.wait_at(TTL, &x(3, 3)),
        granted(fence(1)),
        "the last millisecond of the first entry"
    );
    assert_eq!(node.wait_at(TTL + 1, &x(3, 3)), granted_with_earlier_waiter(fence(1)));
}

#[test]
fn waiter_of_the_same_identity_is_not_reported_as_earlier() {
    let mut node = node_with(1..=3);
    node.wait_at(0, &owner(3, 3));
    node.wait_at(0, &x(1, 1));
    node.unsubscribe(client(1));
    node.release_at(1, &owner(3, 3), None);
    assert_eq!(node.wait_at(2, &x(2, 2)), granted(fence(5)), "client 1 is not subscribed");
    node.subscribe(client(1));
    assert_eq!(node.wait_at(2, &x(1, 1)), granted(fence(5)));
    assert_eq!(node.wait_at(2, &x(2, 2)), granted(fence(5)));
}

#[test]
fn lost_entry_heals_unless_another_owner_was_granted_the_lock_since() {
    let mut node = node_with([1, 2]);
    node.wait_at(0, &x(1, 1));
    assert!(node.forget(&name()));
    let refused = Extended::Refused(fence(1));
    assert_eq!(node.extend_at(1, &x(1, 1), fence(1), false), refused, "a confirm never heals");
    assert_eq!(node.extend_at(1, &x(1, 1), fence(1), true), Extended::Renewed(fence(1)));
    assert_eq!(holders(&mut node, 1), [x(1, 1)]);
    // Another owner held the lock and released it.
    assert!(node.forget(&name()));
    node.wait_at(2, &owner(2, 2));
    assert_eq!(node.extend_at(2, &x(1, 1), fence(1), true), Extended::Refused(fence(2)));
    node.release_at(2, &owner(2, 2), None);
    assert_eq!(node.extend_at(3, &x(1, 1), fence(1), true), Extended::Refused(fence(2)));
    assert_eq!(node.names(ms(3)), []);
}

#[test]
fn lost_entry_heals_only_beside_entries_of_its_identity() {
    let mut node = node_with([1, 2, 3]);
    node.wait_at(0, &x(1, 1));
    assert!(node.forget(&name()));
    assert_eq!(node.wait_at(1, &x(2, 9)), granted(fence(9)));
    assert_eq!(node.extend_at(1, &x(1, 1), fence(1), true), Extended::Renewed(fence(9)));
    assert_eq!(holders(&mut node, 1), [x(1, 1), x(2, 9)]);
    assert!(node.forget(&name()));
    node.wait_at(2, &y(3, 10));
    assert_eq!(node.extend_at(2, &x(1, 1), fence(1), true), Extended::Refused(fence(10)));
    assert_eq!(holders(&mut node, 2), [y(3, 10)]);
}

#[test]
fn each_entry_expires_independently() {
    let mut node = node_with(1..=3);
    node.wait_at(0, &x(1, 1));
    node.wait_at(60, &x(2, 2));
    assert_eq!(holders(&mut node, TTL), [x(1, 1), x(2, 2)]);
    assert_eq!(holders(&mut node, TTL + 1), [x(2, 2)]);
    assert_eq!(node.release_at(TTL + 1, &x(1, 1), None), Reply::Released { is_ours: false });
    assert_eq!(node.acquire_at(TTL + 1, &owner(3, 3), false), queued(fence(1), 59, None));
    assert_eq!(node.acquire_at(TTL + 61, &owner(3, 3), false), granted(fence(3)));
}

#[test]
fn adopted_entry_belongs_to_its_identity() {
    let mut node = node_with(1..=3);
    node.wait_at(0, &x(1, 1));
    let adopt = Command::Adopt {
        name: name(),
        from: x(1, 1),
        owner: x(2, 1),
        ttl_ms: TTL,
        sender: Some(sender(2)),
    };
    assert_eq!(node.apply(ms(1), &adopt), Reply::Stored);
    assert_eq!(holders(&mut node, 1), [x(2, 1)]);
    assert_eq!(node.wait_at(1, &x(3, 3)), granted(fence(1)));
    assert_eq!(node.acquire_at(1, &y(1, 4), false), queued(fence(1), TTL, None));
    node.release_at(2, &x(2, 1), None);
    node.release_at(2, &x(3, 3), None);
    assert_eq!(node.names(ms(2)), []);
}

#[test]
fn entry_that_finds_the_key_free_admits_waiting_entries_of_its_identity() {
    let mut node = node_with(1..=4);
    node.wait_at(0, &owner(1, 1));
    [x(2, 2), x(3, 3), owner(4, 4)].iter().for_each(|owner| _ = node.wait_at(0, owner));
    assert_eq!(node.wait_at(TTL + 1, &x(2, 2)), granted(fence(2)));
    assert_eq!(node.pushed(), [grant_to(&x(3, 3), fence(2))]);
    assert_eq!(holders(&mut node, TTL + 1), [x(2, 2), x(3, 3)]);
}
