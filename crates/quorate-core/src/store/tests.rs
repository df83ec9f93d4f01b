//! The semantics of commands on one node.

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

fn set(number: u64, ttl_ms: u64) -> Command {
    Command::SetKey { name: name("a"), owner: owner(number), ttl_ms, sender: None }
}

fn delete(number: u64) -> Command {
    Command::DeleteKey { name: name("a"), owner: owner(number) }
}

fn extend(number: u64, ttl_ms: u64) -> Command {
    let entry = KeyExtension { name: name("a"), owner: owner(number), ttl_ms };
    Command::ExtendKeys { entries: [entry].into(), sender: None }
}

fn extended(result: ExtendedKey) -> Reply {
    Reply::ExtendedKeys([result].into())
}

fn read() -> Command {
    Command::ReadKey { name: name("a") }
}

fn ms(millis: u64) -> NodeTime {
    NodeTime::from_micros(millis * 1_000)
}

#[test]
fn existing_key_is_never_replaced() {
    let mut store = Store::new();
    assert_eq!(store.apply(ms(0), &set(1, 100)), Reply::Stored);
    assert_eq!(store.apply(ms(0), &set(2, 100)), Reply::NotOwner);
    assert_eq!(store.apply(ms(0), &set(1, 100)), Reply::NotOwner, "not even by its owner");
    assert_eq!(store.apply(ms(0), &delete(1)), Reply::Deleted);
    assert_eq!(store.apply(ms(0), &set(2, 100)), Reply::Stored);
}

/// In classic mode commands name a session only if the node has quarantine.
#[test]
fn command_of_another_session_is_stale() {
    let client = ClientId::from_random([7; 20]);
    let [known, unknown] =
        [1, 2].map(|bits| Some(Sender { client, session: Session::from_random(bits) }));
    let attach = |store: &mut Store, at| {
        let sender = known.expect("it has a session");
        let terms = SessionTerms::without_membership(50);
        store.apply(ms(at), &Command::Attach { sender, terms });
    };
    let set = |sender| Command::SetKey { name: name("a"), owner: owner(1), ttl_ms: 100, sender };
    let adopt = |sender| Command::Adopt {
        name: name("a"),
        from: owner(1),
        owner: owner(2),
        ttl_ms: 100,
        sender,
    };
    let extend = |sender| {
        let entry = KeyExtension { name: name("a"), owner: owner(1), ttl_ms: 100 };
        Command::ExtendKeys { entries: [entry].into(), sender }
    };
    let mut store = Store::new();
    assert_eq!(store.apply(ms(0), &set(known)), Reply::Stale, "no session yet");
    attach(&mut store, 0);
    assert_eq!(store.apply(ms(1), &set(unknown)), Reply::Stale);
    assert_eq!(store.names(ms(1)), [], "nothing was done");
    assert_eq!(store.apply(ms(1), &set(known)), Reply::Stored);
    assert_eq!(store.apply(ms(1), &set(known)), Reply::NotOwner);
    assert_eq!(store.apply(ms(50), &extend(known)), extended(ExtendedKey::Renewed));
    for stale in [set(known), extend(known), adopt(known)] {
        assert_eq!(store.apply(ms(51), &stale), Reply::Stale, "its session has expired: {stale:?}");
    }
    attach(&mut store, 52);
    assert_eq!(store.apply(ms(52), &extend(unknown)), Reply::Stale);
    assert_eq!(store.apply(ms(52), &adopt(unknown)), Reply::Stale);
    assert_eq!(store.apply(ms(52), &adopt(known)), Reply::Stored);
}

#[test]
fn owner_of_an_expired_key_can_neither_delete_nor_extend_the_next_key() {
    let mut store = Store::new();
    store.apply(ms(0), &set(1, 10));
    assert_eq!(store.apply(ms(11), &set(2, 10)), Reply::Stored);
    assert_eq!(store.apply(ms(12), &delete(1)), Reply::NotOwner);
    assert_eq!(store.apply(ms(12), &extend(1, 99)), extended(ExtendedKey::NotOwner));
    let Reply::Key(Some(seen)) = store.apply(ms(12), &read()) else { panic!("no key") };
    assert_eq!(seen.value, Value::Text(owner(2).as_bytes().into()));
    assert_eq!(seen.expires_in_ms, Some(9));
}

#[test]
fn key_expires_after_its_last_millisecond() {
    let mut store = Store::new();
    store.apply(NodeTime::from_micros(500), &set(1, 10));
    assert_eq!(store.apply(NodeTime::from_micros(10_999), &set(2, 10)), Reply::NotOwner);
    assert_eq!(store.apply(NodeTime::from_micros(11_000), &set(2, 10)), Reply::Stored);
}

#[test]
fn extension_never_creates_a_key() {
    let mut store = Store::new();
    assert_eq!(store.apply(ms(0), &extend(1, 100)), extended(ExtendedKey::Absent));
    store.apply(ms(0), &set(1, 10));
    assert_eq!(store.apply(ms(11), &extend(1, 100)), extended(ExtendedKey::Absent));
    assert_eq!(store.apply(ms(11), &read()), Reply::Key(None));
}

#[test]
fn extension_never_makes_a_key_expire_earlier() {
    let mut store = Store::new();
    store.apply(ms(0), &set(1, 100));
    assert_eq!(store.apply(ms(1), &extend(1, 10)), extended(ExtendedKey::Renewed));
    assert_eq!(store.apply(ms(100), &set(2, 1)), Reply::NotOwner, "it does not shorten");
    assert_eq!(store.apply(ms(100), &extend(1, 50)), extended(ExtendedKey::Renewed));
    assert_eq!(store.apply(ms(150), &set(3, 1)), Reply::NotOwner, "it lengthens");
    assert_eq!(store.apply(ms(151), &set(3, 1)), Reply::Stored);
    store.plant(ms(151), &name("a"), Value::Text(owner(4).as_bytes().into()), None);
    store.apply(ms(151), &extend(4, 10));
    assert_eq!(store.apply(ms(162), &set(5, 1)), Reply::Stored, "a key without an end gets one");
}

#[test]
fn only_one_of_several_adopters_succeeds() {
    let mut store = Store::new();
    let adopt = |from, to| Command::Adopt {
        name: name("a"),
        from: owner(from),
        owner: owner(to),
        ttl_ms: 50,
        sender: None,
    };
    assert_eq!(store.apply(ms(0), &adopt(1, 2)), Reply::Absent);
    store.apply(ms(0), &set(1, 10));
    assert_eq!(store.apply(ms(5), &adopt(1, 2)), Reply::Stored);
    assert_eq!(store.apply(ms(5), &adopt(1, 3)), Reply::NotOwner, "owner 2 was first");
    assert_eq!(
        store.apply(ms(5), &extend(1, 99)),
        extended(ExtendedKey::NotOwner),
        "the old owner does not have the key"
    );
    assert_eq!(store.apply(ms(55), &delete(2)), Reply::Deleted);
}

#[test]
fn only_the_beginning_of_a_long_value_is_returned() {
    let mut store = Store::new();
    store.plant(ms(0), &name("a"), Value::Text(vec![7; 10_000].into()), None);
    let Reply::Key(Some(seen)) = store.apply(ms(0), &read()) else { panic!("no key") };
    assert_eq!(seen.value, Value::Text([7; SHOWN_LEN_MAX].into()));
}

#[test]
fn foreign_key_is_reported_and_never_changed() {
    let mut store = Store::new();
    let binary: Value = Value::Text([0, 159, 255].into());
    for value in [binary, Value::OtherType("hash".into())] {
        store.plant(ms(0), &name("a"), value.clone(), None);
        assert_eq!(store.apply(ms(1), &set(1, 10)), Reply::NotOwner);
        assert_eq!(store.apply(ms(1), &delete(1)), Reply::NotOwner);
        assert_eq!(store.apply(ms(1), &extend(1, 10)), extended(ExtendedKey::NotOwner));
        let observation = KeyObservation { value, expires_in_ms: None };
        assert_eq!(store.apply(ms(1_000_000), &read()), Reply::Key(Some(observation)));
    }
}

#[test]
fn expired_keys_do_not_pile_up() {
    let mut store = Store::new();
    for number in 0..1_000 {
        let name = name(&format!("lock {number}"));
        store.apply(
            ms(number),
            &Command::SetKey { name, owner: owner(number), ttl_ms: 5, sender: None },
        );
        assert!(store.keys.keys().count() <= 6, "{store:?}");
    }
    assert!(store.keys.is_consistent());
    assert_eq!(store.names(ms(10_000)), []);
}

#[test]
fn cleared_node_has_no_keys() {
    let mut store = Store::new();
    store.apply(ms(0), &set(1, 100));
    assert_eq!(store.names(ms(1)), [name("a")]);
    store.clear();
    assert_eq!(store.apply(ms(1), &delete(1)), Reply::Absent);
}

#[test]
fn batch_is_equal_to_its_commands_one_by_one() {
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
    let renew = |lock, number| {
        let (name, owner, fence) = (name(lock), waiter(number), Fence::new(9));
        let entry = Extend { name, owner, fence, ttl_ms: 70, may_heal: true };
        Command::Extend { sender, entries: [entry].into() }
    };
    let entries: [Command; 10] = [
        set(1, 100),
        acquire("b", 1),
        extend(1, 200),
        acquire("b", 2),
        release("b", 1),
        renew("b", 2),
        renew("c", 3),
        Command::Check { name: name("c"), owner: waiter(3) },
        delete(2),
        delete(1),
    ];
    let attach = Command::Attach { sender, terms: SessionTerms::without_membership(1_000) };
    let mut stores = [Store::new(), Store::new()];
    for store in &mut stores {
        store.subscribe(client);
        store.apply(ms(0), &attach);
    }
    let [together, one_by_one] = &mut stores;
    let replies = entries.iter().map(|entry| Some(one_by_one.apply(ms(1), entry))).collect();
    assert_eq!(together.apply(ms(1), &Command::Batch(entries.into())), Reply::Batch(replies));
    assert_eq!(together, one_by_one);
    assert_eq!(together.take_pushes(), one_by_one.take_pushes());
}

#[test]
fn ttl_beyond_the_largest_time_does_not_overflow() {
    let mut store = Store::new();
    store.apply(NodeTime::from_micros(u64::MAX), &set(1, u64::MAX));
    assert_eq!(store.apply(NodeTime::from_micros(u64::MAX), &set(2, 1)), Reply::NotOwner);
}
