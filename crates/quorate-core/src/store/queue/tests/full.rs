//! A node without memory: what it keeps, and what it does not take in.

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
fn a_full_node_lets_sessions_begin_and_go_on() {
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
fn a_full_node_gives_a_new_owner_nothing() {
    let mut node = full_node([1]);
    for (owner, is_waiting) in [(owner(1, 1), true), (owner(1, 2), false), (reader(1, 3), true)] {
        assert_eq!(node.ask_at(0, &owner, is_waiting), Reply::Full);
    }
    let taker = Owner::new(&client(1), 1, "classic");
    let take = Command::SetKey { name: name(), owner: taker, ttl_ms: TTL, sender: None };
    assert_eq!(node.apply(ms(0), &take), Reply::Full);
    assert_eq!(node.owners(ms(0)), 0);
    node.set_full(false);
    assert_eq!(node.wait_at(1, &owner(1, 1)), granted(fence(1)));
}

#[test]
fn whoever_tries_on_a_full_node_is_told_that_another_has_the_lock() {
    let mut node = node_with([1, 2]);
    node.wait_at(0, &owner(1, 1));
    node.set_full(true);
    for trying in [owner(2, 2), reader(2, 3)] {
        assert_eq!(node.ask_at(1, &trying, false), queued(fence(1), TTL - 1, None));
        assert_eq!(node.wait_at(1, &trying), Reply::Full, "there is no place for it");
    }
    assert_eq!(node.owners(ms(1)), 1);
}

#[test]
fn nobody_gets_in_behind_others_who_are_heard_of() {
    let mut node = node_with([1, 2]);
    let (holder, waiter, new) = (owner(1, 1), owner(1, 2), owner(1, 3));
    node.wait_at(0, &holder);
    node.wait_at(0, &waiter);
    node.set_full(true);
    let heartbeats = [&holder, &new, &waiter]
        .map(|owner| Command::Acquire { sender: sender(1), request: ask(owner, true) });
    let each = [granted(fence(1)), Reply::Full, queued(fence(1), TTL, 0)].map(Some);
    let reply = node.apply(ms(1), &Command::Batch(heartbeats.into()));
    assert_eq!(reply, Reply::Batch(each.into()));
}

#[test]
fn a_full_node_keeps_holders_and_waiters_and_hands_the_lock_on() {
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
fn a_waiter_finds_the_key_free_on_a_full_node_and_leaves_the_queue() {
    for waiter in [owner(2, 2), reader(2, 2)] {
        let mut node = node_with([1, 2]);
        node.wait_at(0, &owner(1, 1));
        node.wait_at(0, &waiter);
        node.set_full(true);
        // The holder has gone without a word.
        assert_eq!(node.wait_at(TTL + 1, &waiter), granted(fence(2)));
        assert_eq!((node.lines(ms(TTL + 1)), node.owners(ms(TTL + 1))), (vec![], 1));
    }
}

#[test]
fn readers_live_on_on_a_full_node_and_no_new_one_joins() {
    let mut node = node_with([1, 2, 3]);
    let (one, new, writer) = (reader(1, 1), reader(2, 2), owner(3, 0));
    node.wait_at(0, &one);
    node.wait_at(0, &writer);
    node.set_full(true);
    assert_eq!(node.extend_at(50, &one, fence(1), true), Extended::Renewed(fence(1)));
    assert_eq!(node.wait_at(60, &new), Reply::Full);
    let yields = node.release_at(70, &one, Some(fence(1)));
    assert_eq!(yields, Reply::Released { is_ours: true }, "it gives way, and stays in the queue");
    assert_eq!(node.holder_at(70), Some(writer));
    assert_eq!(node.lines(ms(70)), [name()]);
}

/// A lease that was won on other nodes while this one was full is new here.
#[test]
fn a_full_node_takes_a_lost_key_again_only_where_it_knows_the_fence() {
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
fn a_full_node_stays_full_whatever_it_forgets() {
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
fn a_full_node_goes_on_to_know_who_its_clients_are() {
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
