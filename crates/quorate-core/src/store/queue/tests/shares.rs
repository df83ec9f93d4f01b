//! Those who hold a lock together, and those who want it alone.

use std::slice;

use super::*;
use crate::quorum::Vote;

fn reader(number: u8, after_us: u64) -> Owner {
    place(number, after_us).shared_owner(1)
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

#[test]
fn those_who_share_hold_it_together_and_each_for_its_own_time() {
    let mut node = node_with([1, 2, 3]);
    let (one, two, alone) = (reader(1, 1), reader(2, 2), owner(3, 3));
    assert_eq!(node.wait_at(0, &one), granted(fence(1)));
    assert_eq!(node.wait_at(60, &two), granted(fence(2)), "each grant has a fence of its own");
    assert_eq!(holders(&mut node, 60), [one.clone(), two.clone()]);
    assert_eq!(node.ask_at(60, &alone, false), queued(fence(2), TTL - 60, None), "the first end");
    // The first has gone without a word; the second lives on.
    assert_eq!(holders(&mut node, TTL + 1), slice::from_ref(&two));
    assert_eq!(node.ask_at(TTL + 1, &alone, false), queued(fence(2), 59, None));
    assert_eq!(node.ask_at(60 + TTL, &alone, false), queued(fence(2), 0, None), "to the last");
    assert_eq!(node.ask_at(61 + TTL, &alone, false), granted(fence(3)));
    assert_eq!(node.wait_at(61 + TTL, &two), queued(fence(3), TTL, 0));
}

#[test]
fn one_who_wants_it_alone_waits_for_the_last_of_them() {
    let mut node = node_with([1, 2, 3]);
    let (one, two, alone) = (reader(1, 1), reader(2, 2), owner(3, 3));
    node.wait_at(0, &one);
    node.wait_at(0, &two);
    assert_eq!(node.wait_at(0, &alone), queued(fence(2), TTL, 0));
    assert_eq!(node.told(), [], "they came earlier, and are not asked to give it back");
    assert_eq!(node.release_at(1, &one, None), Reply::Released { is_ours: true });
    assert_eq!(node.told(), [], "one of them has it still");
    assert_eq!(node.release_at(2, &two, None), Reply::Released { is_ours: true });
    assert_eq!(node.told(), [given_to(&alone, fence(3))]);
    assert_eq!(node.holder_at(2), Some(alone));
}

#[test]
fn one_who_is_gone_without_a_word_holds_up_nobody_when_the_last_goes() {
    let mut node = node_with([1, 2, 3]);
    let (dead, two, alone) = (reader(1, 1), reader(2, 2), owner(3, 3));
    node.wait_at(0, &dead);
    node.wait_at(50, &two);
    node.wait_at(50, &alone);
    node.release_at(TTL + 1, &two, None);
    assert_eq!(node.told(), [given_to(&alone, fence(3))]);
}

#[test]
fn those_who_come_behind_one_who_wants_it_alone_wait_and_then_come_in_together() {
    let mut node = node_with([1, 2, 3, 4, 5]);
    let (first, alone, last) = (reader(1, 1), owner(2, 2), owner(5, 5));
    let late = [reader(3, 3), reader(4, 4)];
    node.wait_at(0, &first);
    node.wait_at(0, &alone);
    assert_eq!(node.wait_at(0, &late[0]), queued(fence(1), TTL, 1), "nobody is passed");
    assert_eq!(node.ask_at(0, &late[1], false), queued(fence(1), TTL, None), "also not once");
    node.wait_at(0, &late[1]);
    node.wait_at(0, &last);
    node.release_at(1, &first, None);
    assert_eq!(node.told(), [given_to(&alone, fence(2))]);
    node.release_at(2, &alone, None);
    assert_eq!(node.told(), [given_to(&late[0], fence(3)), given_to(&late[1], fence(4))]);
    assert_eq!(holders(&mut node, 2), late);
    late.iter().for_each(|owner| _ = node.release_at(3, owner, None));
    assert_eq!(node.told(), [given_to(&last, fence(5))]);
}

#[test]
fn one_who_gives_up_waiting_for_it_alone_clears_the_way() {
    let mut node = node_with([1, 2, 3]);
    let (first, alone, late) = (reader(1, 1), owner(2, 2), reader(3, 3));
    node.wait_at(0, &first);
    node.wait_at(0, &alone);
    node.wait_at(0, &late);
    assert_eq!(node.release_at(1, &alone, None), Reply::Released { is_ours: false });
    assert_eq!(node.told(), [given_to(&late, fence(3))]);
    assert_eq!(holders(&mut node, 1), [first, late]);
}

#[test]
fn one_whose_session_has_lapsed_is_in_nobodys_way() {
    let mut node = node_with([1, 3]);
    let (first, late) = (reader(1, 1), reader(3, 3));
    node.wait_at(0, &first);
    let gone = Position { ticket: fence(2).get(), ttl_ms: 60_000, client: client(2) }.owner(1);
    let brief = SessionTerms::without_membership(10);
    node.apply(ms(0), &Command::Attach { sender: sender(2), terms: brief });
    node.wait_at(0, &gone);
    assert_eq!(node.wait_at(10, &late), queued(fence(1), 0, 1), "that is told");
    assert_eq!(node.wait_at(11, &late), granted(fence(3)), "its session is over");
    assert_eq!(node.details(ms(11), &name()).waiting, []);
}

#[test]
fn a_later_comer_is_asked_to_give_its_part_back_and_names_it() {
    let mut node = node_with([1, 2, 3]);
    let (early, two, three) = (owner(1, 1), reader(2, 2), reader(3, 3));
    node.wait_at(0, &two);
    node.wait_at(0, &three);
    assert_eq!(node.wait_at(0, &early), queued(fence(3), TTL, 0));
    let inquired = |owner: &Owner, number: u8, its: u64| {
        (client(number), owner.clone(), fence(its), PushKind::Inquired)
    };
    assert_eq!(node.told(), [inquired(&two, 2, 2), inquired(&three, 3, 3)]);
    assert_eq!(
        node.wait_at(0, &two),
        Reply::Granted { fence: fence(2), is_earlier: true },
        "and is told so when it asks"
    );
    assert_eq!(node.release_at(1, &two, Some(fence(3))), Reply::Released { is_ours: false });
    assert_eq!(node.release_at(1, &two, Some(fence(2))), Reply::Released { is_ours: true });
    assert_eq!(holders(&mut node, 1), slice::from_ref(&three));
    assert_eq!(node.release_at(1, &three, Some(fence(3))), Reply::Released { is_ours: true });
    assert_eq!(node.told(), [given_to(&early, fence(4))]);
    assert_eq!(node.details(ms(1), &name()).waiting, [two, three], "they stay in line");
}

#[test]
fn a_part_lives_on_and_comes_back_unless_somebody_has_it_alone() {
    let mut node = node_with([1, 2]);
    let (one, two, alone) = (reader(1, 1), reader(2, 2), owner(2, 3));
    node.wait_at(0, &one);
    assert_eq!(node.extend_at(50, &one, fence(1), false), Extended::Renewed(fence(1)));
    assert_eq!(holders(&mut node, 50 + TTL), slice::from_ref(&one));
    // Others came meanwhile, so that the node's fence is larger than that of the lease.
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
fn a_part_is_taken_over_by_another_and_looked_for() {
    let mut node = node_with([1, 2, 3]);
    let (one, two, heir) = (reader(1, 1), reader(2, 2), reader(3, 3));
    node.wait_at(0, &one);
    node.wait_at(0, &two);
    let adopt = |from: &Owner, owner: &Owner| Command::Adopt {
        name: name(),
        from: from.clone(),
        owner: owner.clone(),
        ttl_ms: TTL,
        sender: Some(sender(3)),
    };
    assert_eq!(node.apply(ms(9), &adopt(&one, &heir)), Reply::Stored);
    assert_eq!(node.apply(ms(9), &adopt(&one, &heir)), Reply::NotOwner, "it is gone by now");
    assert_eq!(holders(&mut node, 9), [two.clone(), heir.clone()]);
    let check = |owner: &Owner| Command::Check { name: name(), owner: owner.clone() };
    for (owner, vote) in [(&heir, Vote::Grant), (&two, Vote::Grant), (&one, Vote::Refuse)] {
        let reply = node.apply(ms(10), &check(owner));
        assert_eq!(check(owner).vote(&reply), vote);
    }
    assert_eq!(node.release_at(11, &heir, None), Reply::Released { is_ours: true });
    assert_eq!(node.release_at(11, &two, None), Reply::Released { is_ours: true });
    assert_eq!(node.apply(ms(12), &adopt(&two, &heir)), Reply::Absent);
}

#[test]
fn whoever_finds_it_free_lets_those_in_who_share_it_with_them() {
    let mut node = node_with([1, 2, 3, 4]);
    let (dead, alone) = (owner(1, 1), owner(4, 4));
    let together = [reader(2, 2), reader(3, 3)];
    node.wait_at(0, &dead);
    together.iter().for_each(|owner| _ = node.wait_at(0, owner));
    node.wait_at(0, &alone);
    assert_eq!(node.wait_at(TTL + 1, &together[0]), granted(fence(2)));
    assert_eq!(node.told(), [given_to(&together[1], fence(3))]);
    assert_eq!(holders(&mut node, TTL + 1), together);
}

#[test]
fn a_table_of_another_library_is_nobodys_part() {
    let mut node = node_with([1]);
    node.plant(ms(0), &name(), Value::OtherType("hash".into()), None);
    let foreign =
        Reply::Queued { fence: Fence::ZERO, expires_in_ms: None, rank: Some(0), is_foreign: true };
    assert_eq!(node.wait_at(0, &reader(1, 1)), foreign);
}

#[test]
fn a_table_lives_for_as_long_as_the_last_of_them() {
    let brief = |number: u8, ttl_ms: u64| {
        let ticket = fence(number.into()).get();
        Position { ticket, ttl_ms, client: client(number) }.shared_owner(1)
    };
    let mut node = node_with([1, 2, 3]);
    let (short, long, heir) = (brief(1, 10), brief(2, 1_000), brief(3, 1_000));
    node.wait_at(0, &short);
    node.wait_at(0, &long);
    assert_eq!(node.names(ms(11)), [name()], "the second one has it");
    assert_eq!(holders(&mut node, 1_000), slice::from_ref(&long));
    // What is asked for late and for less takes nothing back.
    assert_eq!(node.extend_at(12, &long, fence(2), false), Extended::Renewed(fence(2)));
    assert_eq!(holders(&mut node, 1_000), slice::from_ref(&long));
    let adopt = Command::Adopt {
        name: name(),
        from: long,
        owner: heir.clone(),
        ttl_ms: 5_000,
        sender: Some(sender(3)),
    };
    assert_eq!(node.apply(ms(900), &adopt), Reply::Stored);
    assert_eq!(holders(&mut node, 5_900), [heir]);
}

#[test]
fn nothing_is_left_of_a_table_but_what_is_alive() {
    let mut node = node_with([1, 2, 3]);
    let long =
        Position { ticket: fence(2).get(), ttl_ms: 60_000, client: client(2) }.shared_owner(1);
    node.wait_at(0, &reader(1, 1));
    node.wait_at(0, &long);
    node.release_at(1, &long, None);
    assert_eq!(node.names(ms(TTL + 1)), [], "others must not wait for what was given back");
    // Of a hundred who come some look for those who are gone.
    for ticket in 0..100 {
        node.wait_at(1_000 + 2 * TTL * ticket, &reader(3, 1_000 + ticket));
    }
    let left = node.details(ms(1_000 + 200 * TTL - 1), &name()).shares.len();
    assert!(left <= 1, "{left} of those who are gone");
}

#[test]
fn one_who_reads_is_not_asked_to_make_way_for_readers() {
    let mut node = node_with([1, 2, 3]);
    let (dead, early, late) = (owner(1, 1), reader(2, 2), reader(3, 3));
    node.wait_at(0, &dead);
    node.hang_up(client(2));
    node.wait_at(0, &early);
    assert_eq!(node.wait_at(TTL + 1, &late), granted(fence(3)));
    node.wait_at(TTL + 1, &early);
    let owner = reader(2, 1);
    node.apply(ms(TTL + 1), &Command::Release { name: name(), owner, yields: None });
    assert_eq!(node.wait_at(TTL + 2, &late), granted(fence(3)), "nobody wants it alone");
}

#[test]
fn only_the_next_of_those_who_want_it_alone_looks_at_the_table() {
    let mut node = node_with([1, 2, 3]);
    let (later, first, second) = (reader(1, 9), owner(2, 2), owner(3, 3));
    let brief = Position { ticket: fence(8).get(), ttl_ms: 10, client: client(1) }.shared_owner(2);
    node.wait_at(0, &later);
    node.wait_at(0, &brief);
    assert_eq!(node.wait_at(0, &first), queued(fence(10), 10, 0));
    assert_eq!(node.told().len(), 2, "both are asked");
    assert_eq!(node.wait_at(0, &second), queued(fence(10), TTL, 1), "it is not its turn");
    assert_eq!(node.told(), []);
}

#[test]
fn one_behind_somebody_who_may_be_gone_is_told_when_that_is_known() {
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
