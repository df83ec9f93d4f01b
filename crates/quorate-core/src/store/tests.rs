//! The reference semantics, one sentence at a time.

use super::*;
use crate::{
    command::{ClientId, SessionTerms},
    fence::Fence,
    queue::{AcquireRequest, Extend, Position, Sender, Session},
};

fn name(text: &str) -> Name {
    Name::parse(text, "").expect("valid")
}

fn owner(number: u64) -> Owner {
    Owner::new(&ClientId::from_random([7; 20]), number, "test")
}

fn take(number: u64, ttl_ms: u64) -> Command {
    Command::SetKey { name: name("a"), owner: owner(number), ttl_ms, sender: None }
}

fn free(number: u64) -> Command {
    Command::DeleteKey { name: name("a"), owner: owner(number) }
}

fn prolong(number: u64, ttl_ms: u64) -> Command {
    let entry = KeyExtension { name: name("a"), owner: owner(number), ttl_ms };
    Command::ExtendKeys { entries: [entry].into(), sender: None }
}

fn each(result: ExtendedKey) -> Reply {
    Reply::ExtendedKeys([result].into())
}

fn look() -> Command {
    Command::ReadKey { name: name("a") }
}

fn ms(millis: u64) -> NodeTime {
    NodeTime::from_micros(millis * 1_000)
}

#[test]
fn a_key_is_taken_once_until_it_is_freed() {
    let mut store = Store::new();
    assert_eq!(store.apply(ms(0), &take(1, 100)), Reply::Stored);
    assert_eq!(store.apply(ms(0), &take(2, 100)), Reply::NotOwner);
    assert_eq!(store.apply(ms(0), &take(1, 100)), Reply::NotOwner, "not even by its owner");
    assert_eq!(store.apply(ms(0), &free(1)), Reply::Deleted);
    assert_eq!(store.apply(ms(0), &take(2, 100)), Reply::Stored);
}

/// Classic mode on guarded nodes; elsewhere nobody speaks.
#[test]
fn a_vote_by_a_session_that_is_not_of_today_is_none() {
    let client = ClientId::from_random([7; 20]);
    let [known, unknown] =
        [1, 2].map(|bits| Some(Sender { client, session: Session::from_random(bits) }));
    let attach = |store: &mut Store, at| {
        let (sender, terms) = (known.expect("it speaks"), SessionTerms::without_membership(50));
        store.apply(ms(at), &Command::Attach { sender, terms });
    };
    let take = |sender| Command::SetKey { name: name("a"), owner: owner(1), ttl_ms: 100, sender };
    let adopt = |sender| Command::Adopt {
        name: name("a"),
        from: owner(1),
        owner: owner(2),
        ttl_ms: 100,
        sender,
    };
    let prolong = |sender| {
        let entry = KeyExtension { name: name("a"), owner: owner(1), ttl_ms: 100 };
        Command::ExtendKeys { entries: [entry].into(), sender }
    };
    let mut store = Store::new();
    assert_eq!(store.apply(ms(0), &take(known)), Reply::Stale, "nobody is known");
    attach(&mut store, 0);
    assert_eq!(store.apply(ms(1), &take(unknown)), Reply::Stale);
    assert_eq!(store.names(ms(1)), [], "nothing was done");
    assert_eq!(store.apply(ms(1), &take(known)), Reply::Stored);
    assert_eq!(store.apply(ms(1), &take(known)), Reply::NotOwner);
    assert_eq!(store.apply(ms(50), &prolong(known)), each(ExtendedKey::Renewed));
    for stale in [take(known), prolong(known), adopt(known)] {
        assert_eq!(store.apply(ms(51), &stale), Reply::Stale, "its session has lapsed: {stale:?}");
    }
    attach(&mut store, 52);
    assert_eq!(store.apply(ms(52), &prolong(unknown)), Reply::Stale);
    assert_eq!(store.apply(ms(52), &adopt(unknown)), Reply::Stale);
    assert_eq!(store.apply(ms(52), &adopt(known)), Reply::Stored);
}

#[test]
fn a_late_owner_can_neither_free_nor_prolong_the_next_ones_key() {
    let mut store = Store::new();
    store.apply(ms(0), &take(1, 10));
    assert_eq!(store.apply(ms(11), &take(2, 10)), Reply::Stored);
    assert_eq!(store.apply(ms(12), &free(1)), Reply::NotOwner);
    assert_eq!(store.apply(ms(12), &prolong(1, 99)), each(ExtendedKey::NotOwner));
    let Reply::Key(Some(seen)) = store.apply(ms(12), &look()) else { panic!("gone") };
    assert_eq!(seen.value, Value::Text(owner(2).as_bytes().into()));
    assert_eq!(seen.expires_in_ms, Some(9));
}

#[test]
fn a_key_lives_through_its_last_millisecond() {
    let mut store = Store::new();
    store.apply(NodeTime::from_micros(500), &take(1, 10));
    assert_eq!(store.apply(NodeTime::from_micros(10_999), &take(2, 10)), Reply::NotOwner);
    assert_eq!(store.apply(NodeTime::from_micros(11_000), &take(2, 10)), Reply::Stored);
}

#[test]
fn prolong_never_creates_a_key() {
    let mut store = Store::new();
    assert_eq!(store.apply(ms(0), &prolong(1, 100)), each(ExtendedKey::Absent));
    store.apply(ms(0), &take(1, 10));
    assert_eq!(store.apply(ms(11), &prolong(1, 100)), each(ExtendedKey::Absent));
    assert_eq!(store.apply(ms(11), &look()), Reply::Key(None));
}

#[test]
fn prolong_lengthens_and_never_shortens() {
    let mut store = Store::new();
    store.apply(ms(0), &take(1, 100));
    assert_eq!(store.apply(ms(1), &prolong(1, 10)), each(ExtendedKey::Renewed));
    assert_eq!(store.apply(ms(100), &take(2, 1)), Reply::NotOwner, "it does not shorten");
    assert_eq!(store.apply(ms(100), &prolong(1, 50)), each(ExtendedKey::Renewed));
    assert_eq!(store.apply(ms(150), &take(3, 1)), Reply::NotOwner, "it lengthens");
    assert_eq!(store.apply(ms(151), &take(3, 1)), Reply::Stored);
    store.plant(ms(151), &name("a"), Value::Text(owner(4).as_bytes().into()), None);
    store.apply(ms(151), &prolong(4, 10));
    assert_eq!(store.apply(ms(162), &take(5, 1)), Reply::Stored, "a key without end gets one");
}

#[test]
fn one_adopter_takes_the_place_of_the_owner_who_left() {
    let mut store = Store::new();
    let adopt = |from, to| Command::Adopt {
        name: name("a"),
        from: owner(from),
        owner: owner(to),
        ttl_ms: 50,
        sender: None,
    };
    assert_eq!(store.apply(ms(0), &adopt(1, 2)), Reply::Absent);
    store.apply(ms(0), &take(1, 10));
    assert_eq!(store.apply(ms(5), &adopt(1, 2)), Reply::Stored);
    assert_eq!(store.apply(ms(5), &adopt(1, 3)), Reply::NotOwner, "only one of them");
    assert_eq!(
        store.apply(ms(5), &prolong(1, 99)),
        each(ExtendedKey::NotOwner),
        "the old owner is out"
    );
    assert_eq!(store.apply(ms(55), &free(2)), Reply::Deleted);
}

#[test]
fn of_a_long_value_only_the_beginning_is_told() {
    let mut store = Store::new();
    store.plant(ms(0), &name("a"), Value::Text(vec![7; 10_000].into()), None);
    let Reply::Key(Some(seen)) = store.apply(ms(0), &look()) else { panic!("gone") };
    assert_eq!(seen.value, Value::Text([7; SHOWN_LEN_MAX].into()));
}

#[test]
fn a_foreign_key_is_shown_as_it_is_and_left_alone() {
    let mut store = Store::new();
    let binary: Value = Value::Text([0, 159, 255].into());
    for value in [binary, Value::OtherType("hash".into())] {
        store.plant(ms(0), &name("a"), value.clone(), None);
        assert_eq!(store.apply(ms(1), &take(1, 10)), Reply::NotOwner);
        assert_eq!(store.apply(ms(1), &free(1)), Reply::NotOwner);
        assert_eq!(store.apply(ms(1), &prolong(1, 10)), each(ExtendedKey::NotOwner));
        let observation = KeyObservation { value, expires_in_ms: None };
        assert_eq!(store.apply(ms(1_000_000), &look()), Reply::Key(Some(observation)));
    }
}

#[test]
fn forgotten_keys_do_not_pile_up() {
    let mut store = Store::new();
    for number in 0..1_000 {
        let name = name(&format!("lock {number}"));
        store.apply(
            ms(number),
            &Command::SetKey { name, owner: owner(number), ttl_ms: 5, sender: None },
        );
        assert!(store.keys.keys().count() <= 6, "{store:?}");
    }
    assert!(store.keys.is_tidy());
    assert_eq!(store.names(ms(10_000)), []);
}

#[test]
fn a_node_that_forgets_has_nothing() {
    let mut store = Store::new();
    store.apply(ms(0), &take(1, 100));
    assert_eq!(store.names(ms(1)), [name("a")]);
    store.clear();
    assert_eq!(store.apply(ms(1), &free(1)), Reply::Absent);
}

#[test]
fn batch_does_what_its_entries_do_one_by_one() {
    let client = ClientId::from_random([7; 20]);
    let sender = Sender { client, session: Session::from_random(1) };
    let waiter = |number| Position { ticket: 5, ttl_ms: 50, client }.owner(number);
    let acquire = |lock, number| {
        let (name, owner) = (name(lock), waiter(number));
        Command::Acquire {
            sender,
            request: AcquireRequest { name, owner, is_waiting: true, is_known: true },
        }
    };
    let release = |lock, number| {
        let (name, owner) = (name(lock), waiter(number));
        Command::Release { name, owner, yields: None }
    };
    let extend = |lock, number| {
        let (name, owner, fence) = (name(lock), waiter(number), Fence::new(9));
        let entry = Extend { name, owner, fence, ttl_ms: 70, may_heal: true };
        Command::Extend { sender, entries: [entry].into() }
    };
    let entries: [Command; 10] = [
        take(1, 100),
        acquire("b", 1),
        prolong(1, 200),
        acquire("b", 2),
        release("b", 1),
        extend("b", 2),
        extend("c", 3),
        Command::Check { name: name("c"), owner: waiter(3) },
        free(2),
        free(1),
    ];
    let attach = Command::Attach { sender, terms: SessionTerms::without_membership(1_000) };
    let mut stores = [Store::new(), Store::new()];
    for store in &mut stores {
        store.listen(client);
        store.apply(ms(0), &attach);
    }
    let [together, one_by_one] = &mut stores;
    let replies = entries.iter().map(|entry| Some(one_by_one.apply(ms(1), entry))).collect();
    assert_eq!(together.apply(ms(1), &Command::Batch(entries.into())), Reply::Batch(replies));
    assert_eq!(together, one_by_one);
    assert_eq!(together.take_pushes(), one_by_one.take_pushes());
}

#[test]
fn a_ttl_beyond_the_end_of_time_is_kept() {
    let mut store = Store::new();
    store.apply(NodeTime::from_micros(u64::MAX), &take(1, u64::MAX));
    assert_eq!(store.apply(NodeTime::from_micros(u64::MAX), &take(2, 1)), Reply::NotOwner);
}
