//! Extensions, heals and expiry.

use super::*;

#[test]
fn extension_keeps_the_key_and_raises_the_fence() {
    let mut node = node_with([1, 2]);
    let holder = owner(1, 1);
    node.wait_at(0, &holder);
    assert_eq!(node.extend_at(50, &holder, fence(1), true), Extended::Renewed(fence(1)));
    assert_eq!(node.holder_at(50 + TTL), Some(holder.clone()));
    assert_eq!(node.extend_at(60, &holder, fence(9), false), Extended::Renewed(fence(9)));
    assert_eq!(node.extend_at(61, &holder, fence(4), true), Extended::Renewed(fence(9)));
    assert_eq!(node.extend_at(61, &owner(2, 2), fence(99), true), Extended::Refused(fence(9)));
    node.release_at(62, &holder, None);
    assert_eq!(node.wait_at(63, &owner(2, 2)), granted(fence(10)), "larger than the raised fence");
}

#[test]
fn extension_and_heartbeat_never_make_a_key_expire_earlier() {
    let mut node = node_with([1]);
    let holder = owner(1, 1);
    node.wait_at(0, &holder);
    let ttl_ms = 10 * TTL;
    let long =
        Extend { name: name(), owner: holder.clone(), fence: fence(1), ttl_ms, may_heal: true };
    let command = Command::Extend { sender: sender(1), entries: [long].into() };
    node.apply(ms(1), &command);
    assert_eq!(node.extend_at(2, &holder, fence(1), true), Extended::Renewed(fence(1)));
    assert_eq!(node.wait_at(3, &holder), granted(fence(1)), "a heartbeat");
    assert_eq!(node.holder_at(1 + ttl_ms), Some(holder));
}

#[test]
fn lost_key_heals_unless_another_owner_was_granted_it_since() {
    let mut node = node_with([1, 2]);
    let holder = owner(1, 5);
    node.wait_at(0, &holder);
    node.forget(&name());
    assert_eq!(node.extend_at(1, &holder, fence(5), true), Extended::Renewed(fence(5)));
    assert_eq!(node.holder_at(1 + TTL), Some(holder.clone()));
    node.forget(&name());
    node.wait_at(2, &owner(2, 2));
    assert_eq!(node.extend_at(2, &holder, fence(5), true), Extended::Refused(fence(6)));
    node.release_at(3, &owner(2, 2), None);
    assert_eq!(node.extend_at(4, &holder, fence(5), true), Extended::Refused(fence(6)));
    assert_eq!(node.holder_at(4), None, "the node's fence is larger");
}

#[test]
fn heal_removes_the_owner_from_the_queue() {
    let mut node = node_with([1, 2]);
    let holder = owner(1, 5);
    node.wait_at(0, &owner(2, 2));
    node.wait_at(0, &holder);
    node.forget(&name());
    assert_eq!(node.extend_at(1, &holder, fence(5), true), Extended::Renewed(fence(5)));
    assert_eq!(node.queued_names(ms(1)), []);
}

#[test]
fn confirm_never_heals() {
    let mut node = node_with([1]);
    let waiter = owner(1, 5);
    assert_eq!(node.extend_at(0, &waiter, fence(5), false), Extended::Refused(Fence::ZERO));
    node.wait_at(0, &waiter);
    node.forget(&name());
    for fence in [fence(5), fence(50)] {
        assert_eq!(node.extend_at(1, &waiter, fence, false), Extended::Refused(self::fence(5)));
        assert_eq!(node.holder_at(1), None);
    }
}

/// Another process may have released such a lease, without a later grant.
#[test]
fn adopted_lease_never_heals() {
    let mut node = node_with([1]);
    let holder = owner(1, 5);
    let mut extend = |lease: FencedLease, now| {
        let entries = [lease.extend(name(), holder.clone(), TTL)].into();
        node.apply(ms(now), &Command::Extend { sender: sender(1), entries })
    };
    let refused = Reply::ExtendedLeases([Extended::Refused(Fence::ZERO)].into());
    let renewed = Reply::ExtendedLeases([Extended::Renewed(fence(5))].into());
    assert_eq!(extend(FencedLease::adopted(fence(5)), 0), refused);
    assert_eq!(extend(FencedLease::acquired(fence(5)), 1), renewed);
    assert_eq!(extend(FencedLease::adopted(fence(5)), 2), renewed, "the key exists");
    assert_eq!(FencedLease::adopted(fence(5)).fence(), fence(5));
}

/// On a node that granted the lock to another owner, the owner that is replaced is still queued.
#[test]
fn adopted_owner_leaves_the_queue() {
    for leaver in [owner(1, 1), position(1, 1).shared_owner(1)] {
        let mut node = node_with([1, 2, 3]);
        let (first, next) = (owner(2, 2), owner(3, 3));
        for owner in [&first, &leaver, &next] {
            node.wait_at(0, owner);
        }
        let (from, sender) = (leaver.clone(), Some(sender(1)));
        let adopt = Command::Adopt { name: name(), from, owner: owner(1, 9), ttl_ms: TTL, sender };
        assert_eq!(node.apply(ms(1), &adopt), Reply::NotOwner);
        node.release_at(2, &first, None);
        assert_eq!(node.holder_at(3), Some(next));
    }
}

#[test]
fn each_lease_of_an_extension_has_its_own_result() {
    let mut node = node_with([1]);
    let (ours, other) = (owner(1, 1), Name::parse("b", "").expect("valid"));
    node.wait_at(0, &ours);
    let entry = |name: &Name| Extend {
        name: name.clone(),
        owner: ours.clone(),
        fence: fence(1),
        ttl_ms: TTL,
        may_heal: false,
    };
    let entries = [entry(&other), entry(&name()), entry(&other)].into();
    let reply = node.apply(ms(1), &Command::Extend { sender: sender(1), entries });
    let refused = Extended::Refused(Fence::ZERO);
    let results = [refused, Extended::Renewed(fence(1)), refused];
    assert_eq!(reply, Reply::ExtendedLeases(results.into()));
}

#[test]
fn fences_expire_after_a_day_and_never_decrease() {
    let mut node = node_with([1]);
    let (lifetime, slack_ms) = (FENCE_LIFETIME_MS, SLACK_US / 1_000);
    let attach =
        Command::Attach { sender: sender(1), terms: SessionTerms::without_membership(SESSION) };
    node.wait_at(0, &owner(1, 1));
    node.apply(ms(lifetime), &attach);
    assert_eq!(
        node.wait_at(lifetime, &owner(1, 0)),
        granted(fence(2)),
        "the fence is still stored"
    );
    node.release_at(lifetime, &owner(1, 0), None);
    node.apply(ms(2 * lifetime + 1), &attach);
    let floor = fence((2 * lifetime + 1 - slack_ms) * 1_000);
    assert_eq!(node.wait_at(2 * lifetime + 1, &owner(1, 3)), granted(floor), "an old ticket");
}

#[test]
fn client_with_a_broken_clock_cannot_use_up_the_fences() {
    let mut node = node_with([1]);
    let broken = Position { ticket: u64::MAX, ttl_ms: TTL, client: client(1) }.owner(1);
    assert_eq!(
        node.wait_at(1, &broken),
        granted(fence(SLACK_US)),
        "limited by the time of the attach"
    );
}

#[test]
fn queue_expires_without_requests() {
    let mut node = node_with([1, 2]);
    node.plant(ms(0), &name(), Value::OtherType("hash".into()), None);
    node.wait_at(0, &owner(1, 1));
    assert_eq!(node.queued_names(ms(2 * TTL)), [name()]);
    assert_eq!(node.queued_names(ms(2 * TTL + 1)), []);

    node.wait_at(300, &owner(1, 1));
    let brief = Position { ticket: 9, ttl_ms: 1, client: client(2) }.owner(1);
    node.wait_at(301, &brief);
    assert_eq!(
        node.queued_names(ms(300 + 2 * TTL)),
        [name()],
        "a short ttl does not end it earlier"
    );
    node.wait_at(300 + 2 * TTL, &owner(1, 1));
    assert_eq!(node.queued_names(ms(300 + 4 * TTL)), [name()], "a request keeps it");
    assert_eq!(node.queued_names(ms(301 + 4 * TTL)), []);
}

#[test]
fn cleared_node_keeps_its_subscribers() {
    let mut node = node_with([1, 2]);
    node.wait_at(0, &owner(1, 1));
    node.wait_at(0, &owner(2, 2));
    node.clear();
    assert_eq!((node.names(ms(1)), node.queued_names(ms(1))), (vec![], vec![]));
    assert_eq!(node.wait_at(1, &owner(1, 1)), Reply::Stale, "sessions are lost");
    for number in [1, 2] {
        node.apply(
            ms(1),
            &Command::Attach {
                sender: sender(number),
                terms: SessionTerms::without_membership(SESSION),
            },
        );
    }
    assert_eq!(node.wait_at(1, &owner(1, 1)), granted(fence(1)), "fences are lost");
    node.wait_at(1, &owner(2, 2));
    node.release_at(2, &owner(1, 1), None);
    assert_eq!(node.pushed(), [(client(2), owner(2, 2), fence(2), PushKind::Granted)]);
}

#[test]
fn released_locks_leave_only_their_fence() {
    let mut node = node_with([1, 2]);
    for round in 0..200_u64 {
        let (first, second) = (owner(1, 2 * round), owner(2, 2 * round + 1));
        node.wait_at(round, &first);
        node.wait_at(round, &second);
        node.release_at(round, &first, None);
        node.release_at(round, &second, None);
        node.take_pushes();
    }
    assert_eq!((node.names(ms(200)), node.queued_names(ms(200))), (vec![], vec![]));
    let QueueState { sessions, fences, waiting, .. } = &node.queue;
    assert!(sessions.is_consistent() && fences.is_consistent() && waiting.is_consistent());
    assert_eq!(fences.keys().count(), 1);
}
