//! What a node reports to people about locks.

use super::*;
use crate::{
    command::KeyObservation,
    inspect::{Cursor, GrantRecord, Inspected, Listed, WAITING_SHOWN_MAX},
};

fn inspect(node: &mut Store, now: NodeTime, shown: u32) -> Inspected {
    match node.apply(now, &Command::Inspect { name: name(), shown }) {
        Reply::Inspected(inspected) => *inspected,
        other => panic!("{other:?}"),
    }
}

/// The names of one page, and the cursor of the next one.
fn list(
    node: &mut Store,
    now: u64,
    prefix: &str,
    (cursor, count): (Option<Cursor>, u32),
) -> (Vec<String>, Option<Cursor>) {
    match node.apply(ms(now), &Command::List { prefix: prefix.into(), cursor, count }) {
        Reply::Listed(Listed { names, next }) => {
            (names.iter().map(ToString::to_string).collect(), next)
        }
        other => panic!("{other:?}"),
    }
}

fn acquire(node: &mut Store, now: u64, text: &str, owner: &Owner) -> Reply {
    let name = Name::parse(text, "").expect("valid");
    let request = AcquireRequest { name, owner: owner.clone(), is_waiting: true, is_known: false };
    node.apply(ms(now), &Command::Acquire { sender: sender(1), request })
}

#[test]
fn inspection_reports_holder_fence_and_waiters() {
    let mut node = node_with([1, 2, 3]);
    let nothing = Inspected {
        observation: None,
        fence: None,
        waiting: [].into(),
        waiting_total: 0,
        time_us: T0 * 1_000,
        shares: [].into(),
    };
    assert_eq!(inspect(&mut node, ms(0), 9), nothing);
    let (holder, second, third) = (owner(1, 1), owner(2, 2), owner(3, 3));
    node.wait_at(10, &holder);
    node.wait_at(20, &third);
    node.wait_at(30, &second);
    let inspected = inspect(&mut node, ms(40), 9);
    let value = Value::Text(holder.as_bytes().into());
    assert_eq!(
        inspected.observation,
        Some(KeyObservation { value, expires_in_ms: Some(TTL - 30) })
    );
    assert_eq!(inspected.fence, Some(GrantRecord { fence: fence(1), age_ms: 30 }));
    assert_eq!(*inspected.waiting, [second.clone(), third], "in the order of the queue");
    assert_eq!((inspected.waiting_total, inspected.time_us), (2, (T0 + 40) * 1_000));
    let inspected = inspect(&mut node, ms(40), 1);
    assert_eq!((&*inspected.waiting, inspected.waiting_total), (&[second][..], 2));
    let inspected = inspect(&mut node, ms(41 + TTL), 0);
    assert_eq!((inspected.observation, inspected.waiting_total), (None, 2), "the key has expired");
}

#[test]
fn inspection_reports_the_first_hundred_waiters() {
    let mut node = node_with([1]);
    (0..150).for_each(|number| drop(node.wait_at(0, &owner(1, number))));
    let inspected = inspect(&mut node, ms(0), u32::MAX);
    assert_eq!(inspected.waiting.len(), usize::try_from(WAITING_SHOWN_MAX).expect("it is small"));
    assert_eq!((inspected.waiting_total, &inspected.waiting[99]), (149, &owner(1, 100)));
}

/// The lock is extended for most of a year, at different intervals.
#[test]
fn age_of_a_grant_is_known_after_months_of_extensions() {
    const MINUTES_5: u64 = 300_000;
    for every_ms in [36 * MINUTES_5, FENCE_LIFETIME_MS / 2 - 1, FENCE_LIFETIME_MS / 2] {
        let mut node = node_with([1]);
        let holder = owner(1, 1);
        node.wait_at(0, &holder);
        let (name, ttl_ms) = (name(), 3 * every_ms);
        let entry = Extend { name, owner: holder, fence: fence(1), ttl_ms, may_heal: true };
        let terms = SessionTerms::without_membership(u64::MAX);
        node.apply(ms(0), &Command::Attach { sender: sender(1), terms });
        let extend = Command::Extend { sender: sender(1), entries: [entry].into() };
        node.apply(ms(1), &extend);
        let (mut now, mut left_min_ms) = (1, FENCE_LIFETIME_MS);
        while now < 250 * FENCE_LIFETIME_MS {
            now += every_ms;
            node.apply(ms(now), &extend);
            let last = inspect(&mut node, ms(now + 7), 0).fence;
            assert_eq!(last, Some(GrantRecord { fence: fence(1), age_ms: now + 7 }));
            let (_, left_ms) =
                node.details(ms(now), &self::name()).fence.expect("the fence is kept");
            left_min_ms = left_min_ms.min(left_ms);
        }
        assert!(left_min_ms > FENCE_LIFETIME_MS / 2, "more than half is left after an extension");
    }
}

/// The fence comes from another node, or was lost with the key.
#[test]
fn age_of_a_grant_counts_from_the_extension_that_stored_its_fence() {
    let mut node = node_with([1]);
    let holder = owner(1, 1);
    node.wait_at(0, &holder);
    node.extend_at(10, &holder, fence(9), false);
    let grant = |node: &mut Store, now| inspect(node, ms(now), 0).fence;
    assert_eq!(grant(&mut node, 30), Some(GrantRecord { fence: fence(9), age_ms: 20 }));
    node.extend_at(40, &holder, fence(9), false);
    node.extend_at(50, &holder, fence(4), false);
    assert_eq!(grant(&mut node, 60), Some(GrantRecord { fence: fence(9), age_ms: 50 }));
    node.clear();
    let terms = SessionTerms::without_membership(SESSION);
    node.apply(ms(70), &Command::Attach { sender: sender(1), terms });
    node.extend_at(70, &holder, fence(9), true);
    assert_eq!(grant(&mut node, 71), Some(GrantRecord { fence: fence(9), age_ms: 1 }));
}

#[test]
fn locks_are_listed_page_by_page_in_the_order_of_names() {
    let mut node = node_with([1]);
    for text in ["b*", "a", "b", "c", "b[x]", "ba"] {
        acquire(&mut node, 0, text, &owner(1, 1));
    }
    let all = list(&mut node, 1, "", (None, 99));
    assert_eq!(all, (["a", "b", "b*", "b[x]", "ba", "c"].map(String::from).into(), None));
    assert_eq!(list(&mut node, 1, "b*", (None, 99)).0, ["b*"], "names are not patterns");
    let (first, next) = list(&mut node, 1, "b", (None, 3));
    assert_eq!(first, ["b", "b*", "b[x]"]);
    let (second, next) = list(&mut node, 1, "b", (next, 3));
    assert_eq!((second, next), (vec!["ba".to_owned()], None));
    assert_eq!(list(&mut node, 1, "zz", (None, 3)), (vec![], None));
    assert_eq!(list(&mut node, 1, "", (None, 0)).0, ["a"], "at least one");
}

#[test]
fn lock_that_is_neither_held_nor_waited_for_is_not_listed() {
    let mut node = node_with([1, 2]);
    let (holder, second) = (owner(1, 1), owner(2, 2));
    node.wait_at(0, &holder);
    assert_eq!(list(&mut node, TTL, "", (None, 9)).0, ["a"]);
    assert_eq!(list(&mut node, TTL + 1, "", (None, 9)), (vec![], None), "the key has expired");
    node.plant(ms(TTL + 2), &name(), Value::OtherType("hash".into()), None);
    assert_eq!(list(&mut node, TTL + 2, "", (None, 9)).0, ["a"], "another library holds it now");
    node.clear();
    assert_eq!(list(&mut node, TTL + 3, "", (None, 9)).0.len(), 0);
    let mut node = node_with([1, 2]);
    node.plant(ms(0), &name(), Value::Text(b"another's".as_slice().into()), Some(5));
    assert_eq!(list(&mut node, 0, "", (None, 9)).0.len(), 0, "a lock of another library");
    node.wait_at(0, &second);
    assert_eq!(list(&mut node, 0, "", (None, 9)).0, ["a"], "a waiter is queued");
    assert_eq!(list(&mut node, 6, "", (None, 9)).0, ["a"], "even if the lock is free");
}
