//! A full node: what it keeps, and what it rejects.

use super::*;

fn reader(number: u8, after_us: u64) -> Owner {
    let ticket = fence(after_us).get();
    Position { ticket, ttl_ms: TTL, client: client(number) }.shared_owner(1)
}

fn full_node(clients: impl IntoIterator<Item = u8>) -> Store {
    let mut node = node_with(clients);
    node.set_full(true);
    node
}

#[test]
fn full_node_accepts_attach_and_ping() {
    let mut node = Store::new();
    node.set_full(true);
    let terms = SessionTerms::without_membership(SESSION);
    for now in [0, SESSION, 2 * SESSION] {
        let command = match now {
            0 => Command::Attach { sender: sender(1), terms },
            _ => Command::Ping { sender: sender(1), terms },
        };
        let time_us = ms(now).as_micros();
        assert_eq!(node.apply(ms(now), &command), Reply::Attached { time_us });
    }
}

#[test]
fn full_node_rejects_new_owners() {
    let mut node = full_node([1]);
    for (owner, is_waiting) in [(owner(1, 1), true), (owner(1, 2), false), (reader(1, 3), true)] {
        assert_eq!(node.acquire_at(0, &owner, is_waiting), Reply::Full);
    }
    let classic = Owner::new(&client(1), 1, "classic");
    let set = Command::SetKey { name: name(), owner: classic, ttl_ms: TTL, sender: None };
    assert_eq!(node.apply(ms(0), &set), Reply::Full);
    assert_eq!(node.owners(ms(0)), 0);
    node.set_full(false);
    assert_eq!(node.wait_at(1, &owner(1, 1)), granted(fence(1)));
}

#[test]
fn single_try_on_a_full_node_is_refused_if_the_lock_is_held() {
    let mut node = node_with([1, 2]);
    node.wait_at(0, &owner(1, 1));
    node.set_full(true);
    for trying in [owner(2, 2), reader(2, 3)] {
        assert_eq!(node.acquire_at(1, &trying, false), queued(fence(1), TTL - 1, None));
        assert_eq!(node.wait_at(1, &trying), Reply::Full, "it cannot be queued");
    }
    assert_eq!(node.owners(ms(1)), 1);
}

#[test]
fn new_owner_in_a_heartbeat_is_rejected_on_a_full_node() {
    let mut node = node_with([1, 2]);
    let (holder, waiter, new) = (owner(1, 1), owner(1, 2), owner(1, 3));
    node.wait_at(0, &holder);
    node.wait_at(0, &waiter);
    node.set_full(true);
    let heartbeats = [&holder, &new, &waiter]
        .map(|owner| Command::Acquire { sender: sender(1), request: request(owner, true) });
    let replies = [granted(fence(1)), Reply::Full, queued(fence(1), TTL, 0)].map(Some);
    let reply = node.apply(ms(1), &Command::Batch(heartbeats.into()));
    assert_eq!(reply, Reply::Batch(replies.into()));
}

#[test]
fn full_node_keeps_holders_and_waiters_and_hands_the_lock_off() {
    let mut node = node_with([1, 2]);
    let (holder, waiter) = (owner(1, 1), owner(2, 2));
    node.wait_at(0, &holder);
    node.wait_at(0, &waiter);
    node.set_full(true);
    for now in (TTL / 2..20 * TTL).step_by(50) {
        assert_eq!(node.wait_at(now, &holder), granted(fence(1)));
        assert_eq!(node.extend_at(now, &holder, fence(1), true), Extended::Renewed(fence(1)));
        assert_eq!(node.wait_at(now, &waiter), queued(fence(1), TTL, 0));
    }
    assert_eq!(node.release_at(20 * TTL, &holder, None), Reply::Released { is_ours: true });
    assert_eq!(node.holder_at(20 * TTL), Some(waiter));
}

#[test]
fn waiter_that_finds_the_key_free_on_a_full_node_leaves_the_queue() {
    for waiter in [owner(2, 2), reader(2, 2)] {
        let mut node = node_with([1, 2]);
        node.wait_at(0, &owner(1, 1));
        node.wait_at(0, &waiter);
        node.set_full(true);
        // The holder has crashed.
        assert_eq!(node.wait_at(TTL + 1, &waiter), granted(fence(2)));
        assert_eq!((node.queued_names(ms(TTL + 1)), node.owners(ms(TTL + 1))), (vec![], 1));
    }
}

#[test]
fn full_node_renews_readers_and_rejects_new_ones() {
    let mut node = node_with([1, 2, 3]);
    let (one, new, writer) = (reader(1, 1), reader(2, 2), owner(3, 0));
    node.wait_at(0, &one);
    node.wait_at(0, &writer);
    node.set_full(true);
    assert_eq!(node.extend_at(50, &one, fence(1), true), Extended::Renewed(fence(1)));
    assert_eq!(node.wait_at(60, &new), Reply::Full);
    let yields = node.release_at(70, &one, Some(fence(1)));
    assert_eq!(yields, Reply::Released { is_ours: true }, "it yields, and stays in the queue");
    assert_eq!(node.holder_at(70), Some(writer));
    assert_eq!(node.queued_names(ms(70)), [name()]);
}

/// A lease that was acquired on other nodes while this one was full is new here.
#[test]
fn full_node_heals_a_lost_key_only_if_it_has_the_fence() {
    for holder in [owner(1, 5), reader(1, 5)] {
        let mut node = full_node([1]);
        assert_eq!(node.extend_at(0, &holder, fence(5), true), Extended::Failed, "{holder:?}");
        assert_eq!(node.extend_at(0, &holder, fence(5), false), Extended::Refused(Fence::ZERO));
        node.set_full(false);
        assert_eq!(node.extend_at(0, &holder, fence(5), true), Extended::Renewed(fence(5)));
        node.forget(&name());
        node.set_full(true);
        assert_eq!(node.extend_at(1, &holder, fence(6), true), Extended::Failed, "a later lease");
        assert_eq!(node.extend_at(1, &holder, fence(5), true), Extended::Renewed(fence(5)));
        assert_eq!(node.owners(ms(1)), 1);
    }
}

#[test]
fn full_node_stays_full_after_losing_its_data() {
    let mut node = full_node([1]);
    node.clear();
    let mut copy = full_node([1]);
    copy.copy(&node_with([1]));
    for node in [&mut node, &mut copy] {
        node.apply(
            ms(0),
            &Command::Attach {
                sender: sender(1),
                terms: SessionTerms::without_membership(SESSION),
            },
        );
        assert_eq!(node.wait_at(0, &owner(1, 1)), Reply::Full);
    }
}

#[test]
fn full_node_renews_only_existing_descriptions() {
    let mut node = Store::new();
    let introduce = |number, lifetime_ms| Command::Introduce {
        client: client(number),
        who: "me".into(),
        lifetime_ms,
    };
    node.apply(ms(0), &introduce(1, 10));
    node.set_full(true);
    assert_eq!(node.apply(ms(5), &introduce(1, 10)), Reply::Introduced);
    assert_eq!(node.apply(ms(5), &introduce(2, 10)), Reply::Full);
    let who = |number| Command::Who { client: client(number) };
    assert_eq!(node.apply(ms(15), &who(1)), Reply::Known(Some("me".into())));
    assert_eq!(node.apply(ms(15), &who(2)), Reply::Known(None));
}
