//! Entries of a reentrant lock on one node.

use super::*;

fn entry(number: u8, after_us: u64, identity: &str) -> Owner {
    place(number, after_us).reentrant_owner(1, identity)
}

fn x(number: u8, after_us: u64) -> Owner {
    entry(number, after_us, "x")
}

fn y(number: u8, after_us: u64) -> Owner {
    entry(number, after_us, "y")
}

fn holders(node: &mut Store, now: u64) -> Vec<Owner> {
    let Reply::Inspected(told) = node.apply(ms(now), &Command::Inspect { name: name(), shown: 0 })
    else {
        panic!("an inspection is answered");
    };
    told.shares.iter().map(|share| share.owner.clone()).collect()
}

fn given_to(owner: &Owner, fence: Fence) -> (ClientId, Owner, Fence, PushKind) {
    let client = Position::of(owner.as_bytes()).expect("a place").client;
    (client, owner.clone(), fence, PushKind::Granted)
}

fn asked_of(owner: &Owner, fence: Fence) -> (ClientId, Owner, Fence, PushKind) {
    let client = Position::of(owner.as_bytes()).expect("a place").client;
    (client, owner.clone(), fence, PushKind::Inquired)
}

fn passed(fence: Fence) -> Reply {
    Reply::Granted { fence, is_earlier: true }
}

const RELEASED: Reply = Reply::Released { is_ours: true };

#[test]
fn entries_of_one_identity_have_one_fence_and_the_next_holder_a_larger_one() {
    let mut node = node_with([1, 2, 3]);
    assert_eq!(node.wait_at(0, &x(1, 1)), granted(fence(1)), "the first one bumps");
    assert_eq!(node.wait_at(0, &x(2, 20)), granted(fence(1)), "the others take what is stored");
    assert_eq!(node.ask_at(0, &x(3, 30), false), granted(fence(1)), "also one that only tries");
    assert_eq!(holders(&mut node, 0), [x(1, 1), x(2, 20), x(3, 30)]);
    node.release_at(1, &x(1, 1), None);
    assert_eq!(node.wait_at(1, &x(1, 40)), granted(fence(1)), "whoever was the first");
    for owner in [x(1, 40), x(2, 20), x(3, 30)] {
        assert_eq!(node.release_at(2, &owner, None), RELEASED);
    }
    assert_eq!(node.names(ms(2)), []);
    assert_eq!(node.wait_at(3, &x(1, 1)), granted(fence(2)), "nobody held it in between");
}

#[test]
fn an_entry_takes_a_fence_that_was_raised_since() {
    let mut node = node_with([1, 2]);
    node.wait_at(0, &x(1, 1));
    assert_eq!(node.extend_at(1, &x(1, 1), fence(9), false), Extended::Renewed(fence(9)));
    assert_eq!(node.wait_at(2, &x(2, 20)), granted(fence(9)));
    assert_eq!(node.wait_at(2, &x(1, 1)), granted(fence(9)), "and the first one hears of it");
}

#[test]
fn an_entry_passes_all_who_wait() {
    let mut node = node_with(1..=5);
    let waiting = [owner(2, 2), y(3, 3), place(4, 4).shared_owner(1)];
    node.wait_at(0, &x(1, 1));
    for (rank, owner) in (0..).zip(&waiting) {
        assert_eq!(node.wait_at(0, owner), queued(fence(1), TTL, rank));
    }
    assert_eq!(node.wait_at(0, &x(5, 5)), granted(fence(1)));
    assert_eq!(node.details(ms(0), &name()).waiting, waiting, "nobody has lost its place");
    assert_eq!(node.release_at(1, &x(1, 1), None), RELEASED);
    assert_eq!(node.told(), [], "one of them has it still");
    assert_eq!(node.release_at(1, &x(5, 5), None), RELEASED);
    assert_eq!(node.told(), [given_to(&waiting[0], fence(2))]);
}

#[test]
fn another_identity_a_reader_and_one_alone_wait() {
    let mut node = node_with(1..=4);
    node.wait_at(0, &x(1, 1));
    for other in [y(2, 2), place(3, 3).shared_owner(1), owner(4, 4)] {
        assert_eq!(node.ask_at(0, &other, false), queued(fence(1), TTL, None), "{other:?}");
    }
    node.release_at(0, &x(1, 1), None);
    for holder in [owner(4, 4), place(3, 3).shared_owner(1), y(2, 2)] {
        assert!(matches!(node.wait_at(1, &holder), Reply::Granted { .. }));
        assert!(matches!(node.ask_at(1, &x(1, 1), false), Reply::Queued { .. }), "{holder:?}");
        node.release_at(1, &holder, None);
    }
}

#[test]
fn identities_are_the_same_only_byte_by_byte() {
    let texts = ["a", "a:r", "a!b", "b", "!", "%61", "a%", ":r", "é", "A", " a", "a\n"];
    for held in texts {
        let mut node = node_with([1, 2]);
        node.wait_at(0, &entry(1, 1, held));
        for wanted in texts {
            let got = node.ask_at(0, &entry(2, 2, wanted), false);
            let is_in = got == granted(fence(1));
            assert_eq!(is_in, wanted == held, "{held:?} and {wanted:?}");
            node.release_at(0, &entry(2, 2, wanted), None);
        }
    }
}

#[test]
fn those_of_one_identity_come_in_together_with_the_first_of_them() {
    let mut node = node_with(1..=6);
    node.wait_at(0, &owner(1, 1));
    for owner in [x(2, 2), y(3, 3), x(4, 4), owner(5, 5), x(6, 6)] {
        node.wait_at(0, &owner);
    }
    node.release_at(1, &owner(1, 1), None);
    let all = [x(2, 2), x(4, 4), x(6, 6)];
    assert_eq!(node.told(), all.each_ref().map(|owner| given_to(owner, fence(2))));
    assert_eq!(holders(&mut node, 1), all);
    assert_eq!(node.details(ms(1), &name()).waiting, [y(3, 3), owner(5, 5)]);
    all.iter().for_each(|owner| _ = node.release_at(2, owner, None));
    assert_eq!(node.told(), [given_to(&y(3, 3), fence(3))]);
}

#[test]
fn one_whose_client_has_gone_is_not_let_in_with_the_others() {
    let mut node = node_with(1..=4);
    node.wait_at(0, &owner(1, 1));
    [x(2, 2), x(3, 3), x(4, 4)].iter().for_each(|owner| _ = node.wait_at(0, owner));
    node.hang_up(client(3));
    node.release_at(1, &owner(1, 1), None);
    assert_eq!(node.told().len(), 2);
    assert_eq!(holders(&mut node, 1), [x(2, 2), x(4, 4)]);
    // It asks again with its heartbeat.
    assert_eq!(node.wait_at(2, &x(3, 3)), granted(fence(2)));
    assert_eq!(node.details(ms(2), &name()).waiting, []);
}

#[test]
fn no_more_are_let_in_than_are_looked_at() {
    let mut node = node_with([1, 2]);
    node.wait_at(0, &owner(1, 1));
    (0..200).for_each(|number| _ = node.wait_at(0, &x(2, 2 + number)));
    node.release_at(1, &owner(1, 1), None);
    let together = node.told().len();
    assert_eq!(together, 129, "the first, and 128 of those behind it");
    assert_eq!(node.wait_at(1, &x(2, 201)), granted(fence(2)), "the others join");
}

#[test]
fn only_one_that_is_alone_is_asked_to_make_way() {
    let mut node = node_with(1..=3);
    node.wait_at(0, &x(2, 2));
    node.wait_at(0, &owner(1, 1));
    assert_eq!(node.told(), [asked_of(&x(2, 2), fence(2))]);
    node.wait_at(0, &x(3, 3));
    node.wait_at(0, &owner(1, 1));
    assert_eq!(node.told(), [], "two would join each other again and again");
    assert_eq!(node.wait_at(0, &x(2, 2)), passed(fence(2)), "they are told when they ask");
    assert_eq!(node.wait_at(0, &x(3, 3)), passed(fence(2)));
    node.release_at(1, &x(3, 3), None);
    node.told();
    node.wait_at(1, &owner(1, 1));
    assert_eq!(node.told(), [asked_of(&x(2, 2), fence(2))], "it is alone again");
    node.wait_at(1, &owner(2, 5));
    assert_eq!(node.told(), [], "one that came later asks for nothing");
}

#[test]
fn one_beside_the_dead_is_alone() {
    let mut node = node_with(1..=3);
    node.wait_at(0, &x(2, 2));
    node.wait_at(60, &x(3, 3));
    node.wait_at(60, &owner(1, 1));
    assert_eq!(node.told(), []);
    node.wait_at(TTL + 1, &owner(1, 1));
    assert_eq!(node.told(), [asked_of(&x(3, 3), fence(2))]);
}

#[test]
fn an_earlier_waiter_is_told_of_only_if_it_came_before_all_entries() {
    let mut node = node_with(1..=4);
    node.wait_at(0, &x(1, 1));
    node.wait_at(0, &owner(2, 2));
    assert_eq!(node.wait_at(0, &x(3, 3)), granted(fence(1)), "its identity was there before");
    assert_eq!(node.wait_at(0, &x(3, 3)), granted(fence(1)));
    node.release_at(1, &x(1, 1), None);
    assert_eq!(node.wait_at(1, &x(3, 3)), passed(fence(1)), "now none is left that was");
    assert_eq!(node.wait_at(1, &x(4, 4)), granted(fence(1)), "a new one is not looked at");
    assert_eq!(node.wait_at(1, &x(4, 4)), passed(fence(1)), "but is told when it asks again");
    assert_eq!(node.release_at(1, &owner(2, 2), None), Reply::Released { is_ours: false });
    assert_eq!(node.wait_at(1, &x(3, 3)), granted(fence(1)), "nobody waits any more");
}

#[test]
fn an_entry_that_is_dead_does_not_make_the_others_early() {
    let mut node = node_with(1..=3);
    node.wait_at(0, &x(1, 1));
    node.wait_at(0, &owner(2, 2));
    node.wait_at(60, &x(3, 3));
    assert_eq!(node.wait_at(TTL, &x(3, 3)), granted(fence(1)), "it lives for another moment");
    assert_eq!(node.wait_at(TTL + 1, &x(3, 3)), passed(fence(1)));
}

#[test]
fn one_of_the_same_identity_is_no_earlier_waiter() {
    let mut node = node_with(1..=3);
    node.wait_at(0, &owner(3, 3));
    node.wait_at(0, &x(1, 1));
    node.hang_up(client(1));
    node.release_at(1, &owner(3, 3), None);
    assert_eq!(node.wait_at(2, &x(2, 2)), granted(fence(5)), "the other one is not there");
    node.listen(client(1));
    assert_eq!(node.wait_at(2, &x(1, 1)), granted(fence(5)));
    assert_eq!(node.wait_at(2, &x(2, 2)), granted(fence(5)));
}

#[test]
fn a_lost_entry_is_taken_again_unless_another_was_granted_the_lock_since() {
    let mut node = node_with([1, 2]);
    node.wait_at(0, &x(1, 1));
    assert!(node.forget(&name()));
    let refused = Extended::Refused(fence(1));
    assert_eq!(node.extend_at(1, &x(1, 1), fence(1), false), refused, "not by one who waits");
    assert_eq!(node.extend_at(1, &x(1, 1), fence(1), true), Extended::Renewed(fence(1)));
    assert_eq!(holders(&mut node, 1), [x(1, 1)]);
    // Somebody had it, and is gone.
    assert!(node.forget(&name()));
    node.wait_at(2, &owner(2, 2));
    assert_eq!(node.extend_at(2, &x(1, 1), fence(1), true), Extended::Refused(fence(2)));
    node.release_at(2, &owner(2, 2), None);
    assert_eq!(node.extend_at(3, &x(1, 1), fence(1), true), Extended::Refused(fence(2)));
    assert_eq!(node.names(ms(3)), []);
}

#[test]
fn a_lost_entry_joins_those_of_its_identity_again_and_no_others() {
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
fn each_entry_lives_for_its_own_time() {
    let mut node = node_with(1..=3);
    node.wait_at(0, &x(1, 1));
    node.wait_at(60, &x(2, 2));
    assert_eq!(holders(&mut node, TTL), [x(1, 1), x(2, 2)]);
    assert_eq!(holders(&mut node, TTL + 1), [x(2, 2)]);
    assert_eq!(node.release_at(TTL + 1, &x(1, 1), None), Reply::Released { is_ours: false });
    assert_eq!(node.ask_at(TTL + 1, &owner(3, 3), false), queued(fence(1), 59, None));
    assert_eq!(node.ask_at(TTL + 61, &owner(3, 3), false), granted(fence(3)));
}

#[test]
fn an_adopted_entry_is_one_of_its_identity() {
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
    assert_eq!(node.ask_at(1, &y(1, 4), false), queued(fence(1), TTL, None));
    node.release_at(2, &x(2, 1), None);
    node.release_at(2, &x(3, 3), None);
    assert_eq!(node.names(ms(2)), []);
}

#[test]
fn one_who_finds_it_free_lets_in_those_of_its_identity() {
    let mut node = node_with(1..=4);
    node.wait_at(0, &owner(1, 1));
    [x(2, 2), x(3, 3), owner(4, 4)].iter().for_each(|owner| _ = node.wait_at(0, owner));
    assert_eq!(node.wait_at(TTL + 1, &x(2, 2)), granted(fence(2)));
    assert_eq!(node.told(), [given_to(&x(3, 3), fence(2))]);
    assert_eq!(holders(&mut node, TTL + 1), [x(2, 2), x(3, 3)]);
}
