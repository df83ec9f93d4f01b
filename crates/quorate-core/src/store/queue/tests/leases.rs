//! What lives on, what is taken again, and what goes by itself.

use super::*;

#[test]
fn an_extension_lets_the_key_live_on_and_raises_the_fence() {
    let mut node = node_with([1, 2]);
    let holder = owner(1, 1);
    node.wait_at(0, &holder);
    assert_eq!(node.extend_at(50, &holder, fence(1), true), Extended::Renewed(fence(1)));
    assert_eq!(node.holder_at(50 + TTL), Some(holder.clone()));
    assert_eq!(node.extend_at(60, &holder, fence(9), false), Extended::Renewed(fence(9)));
    assert_eq!(node.extend_at(61, &holder, fence(4), true), Extended::Renewed(fence(9)));
    assert_eq!(node.extend_at(61, &owner(2, 2), fence(99), true), Extended::Refused(fence(9)));
    node.release_at(62, &holder, None);
    assert_eq!(node.wait_at(63, &owner(2, 2)), granted(fence(10)), "above what was raised");
}

#[test]
fn an_extension_never_lets_a_key_go_earlier() {
    let mut node = node_with([1]);
    let holder = owner(1, 1);
    node.wait_at(0, &holder);
    let ttl_ms = 10 * TTL;
    let long =
        Extend { name: name(), owner: holder.clone(), fence: fence(1), ttl_ms, may_heal: true };
    let command = Command::Extend { sender: sender(1), entries: [long].into() };
    node.apply(ms(1), &command);
    assert_eq!(node.extend_at(2, &holder, fence(1), true), Extended::Renewed(fence(1)));
    assert_eq!(node.wait_at(3, &holder), granted(fence(1)), "nor does a heartbeat");
    assert_eq!(node.holder_at(1 + ttl_ms), Some(holder));
}

#[test]
fn a_holder_takes_a_lost_key_again_while_nobody_else_was_granted_it() {
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
    assert_eq!(node.holder_at(4), None, "the fence has moved on");
}

#[test]
fn a_key_that_is_taken_again_leaves_no_place_in_line() {
    let mut node = node_with([1, 2]);
    let holder = owner(1, 5);
    node.wait_at(0, &owner(2, 2));
    node.wait_at(0, &holder);
    node.forget(&name());
    assert_eq!(node.extend_at(1, &holder, fence(5), true), Extended::Renewed(fence(5)));
    assert_eq!(node.lines(ms(1)), []);
}

#[test]
fn a_confirmation_never_takes_a_lost_key_again() {
    let mut node = node_with([1]);
    let asker = owner(1, 5);
    assert_eq!(node.extend_at(0, &asker, fence(5), false), Extended::Refused(Fence::ZERO));
    node.wait_at(0, &asker);
    node.forget(&name());
    for fence in [fence(5), fence(50)] {
        assert_eq!(node.extend_at(1, &asker, fence, false), Extended::Refused(self::fence(5)));
        assert_eq!(node.holder_at(1), None);
    }
}

/// Such a lease may have been released by another process, and nobody else was granted the key.
#[test]
fn adopted_lease_never_heals() {
    let mut node = node_with([1]);
    let holder = owner(1, 5);
    let mut extend = |lease: FencedLease, now| {
        let entries = [lease.extend(name(), holder.clone(), TTL)].into();
        node.apply(ms(now), &Command::Extend { sender: sender(1), entries })
    };
    let refused = Reply::ExtendedLeases([Extended::Refused(Fence::ZERO)].into());
    let lives_on = Reply::ExtendedLeases([Extended::Renewed(fence(5))].into());
    assert_eq!(extend(FencedLease::adopted(fence(5)), 0), refused);
    assert_eq!(extend(FencedLease::won(fence(5)), 1), lives_on);
    assert_eq!(extend(FencedLease::adopted(fence(5)), 2), lives_on, "the key is there");
    assert_eq!(FencedLease::adopted(fence(5)).fence(), fence(5));
}

/// On a node where another was first, the holder that leaves its lease still waits.
#[test]
fn adopted_owner_leaves_the_queue() {
    for leaver in [owner(1, 1), place(1, 1).shared_owner(1)] {
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
fn each_lease_is_judged_by_itself() {
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
    let fates = node.apply(ms(1), &Command::Extend { sender: sender(1), entries });
    let no = Extended::Refused(Fence::ZERO);
    assert_eq!(fates, Reply::ExtendedLeases([no, Extended::Renewed(fence(1)), no].into()));
}

#[test]
fn fences_are_forgotten_after_a_day_and_do_not_go_back() {
    let mut node = node_with([1]);
    let (life, slack_ms) = (FENCE_LIFETIME_MS, SLACK_US / 1_000);
    let attach =
        Command::Attach { sender: sender(1), terms: SessionTerms::without_membership(SESSION) };
    node.wait_at(0, &owner(1, 1));
    node.apply(ms(life), &attach);
    assert_eq!(node.wait_at(life, &owner(1, 0)), granted(fence(2)), "it is remembered");
    node.release_at(life, &owner(1, 0), None);
    node.apply(ms(2 * life + 1), &attach);
    let floor = fence((2 * life + 1 - slack_ms) * 1_000);
    assert_eq!(node.wait_at(2 * life + 1, &owner(1, 3)), granted(floor), "an old ticket");
}

#[test]
fn a_broken_clock_does_not_use_up_the_fences() {
    let mut node = node_with([1]);
    let broken = Position { ticket: u64::MAX, ttl_ms: TTL, client: client(1) }.owner(1);
    assert_eq!(node.wait_at(1, &broken), granted(fence(SLACK_US)), "the time of the attach counts");
}

#[test]
fn a_line_that_nobody_asks_about_goes() {
    let mut node = node_with([1, 2]);
    node.plant(ms(0), &name(), Value::OtherType("hash".into()), None);
    node.wait_at(0, &owner(1, 1));
    assert_eq!(node.lines(ms(2 * TTL)), [name()]);
    assert_eq!(node.lines(ms(2 * TTL + 1)), []);

    node.wait_at(300, &owner(1, 1));
    let brief = Position { ticket: 9, ttl_ms: 1, client: client(2) }.owner(1);
    node.wait_at(301, &brief);
    assert_eq!(node.lines(ms(300 + 2 * TTL)), [name()], "a short ttl does not end it earlier");
    node.wait_at(300 + 2 * TTL, &owner(1, 1));
    assert_eq!(node.lines(ms(300 + 4 * TTL)), [name()], "whoever asks keeps it");
    assert_eq!(node.lines(ms(301 + 4 * TTL)), []);
}

#[test]
fn a_node_that_forgets_everything_still_knows_who_listens() {
    let mut node = node_with([1, 2]);
    node.wait_at(0, &owner(1, 1));
    node.wait_at(0, &owner(2, 2));
    node.clear();
    assert_eq!((node.names(ms(1)), node.lines(ms(1))), (vec![], vec![]));
    assert_eq!(node.wait_at(1, &owner(1, 1)), Reply::Stale, "sessions are state");
    for number in [1, 2] {
        node.apply(
            ms(1),
            &Command::Attach {
                sender: sender(number),
                terms: SessionTerms::without_membership(SESSION),
            },
        );
    }
    assert_eq!(node.wait_at(1, &owner(1, 1)), granted(fence(1)), "and so are fences");
    node.wait_at(1, &owner(2, 2));
    node.release_at(2, &owner(1, 1), None);
    assert_eq!(node.told(), [(client(2), owner(2, 2), fence(2), PushKind::Granted)]);
}

#[test]
fn what_has_gone_does_not_pile_up() {
    let mut node = node_with([1, 2]);
    for round in 0..200_u64 {
        let (first, second) = (owner(1, 2 * round), owner(2, 2 * round + 1));
        node.wait_at(round, &first);
        node.wait_at(round, &second);
        node.release_at(round, &first, None);
        node.release_at(round, &second, None);
        node.take_pushes();
    }
    assert_eq!((node.names(ms(200)), node.lines(ms(200))), (vec![], vec![]));
    let QueueState { sessions, fences, waiting, .. } = &node.queue;
    assert!(sessions.is_tidy() && fences.is_tidy() && waiting.is_tidy());
    assert_eq!(fences.keys().count(), 1);
}
