//! The queue of one node.

use super::*;
use crate::{command::Command, fence::SLACK_US, queue::FencedLease};

/// When every test begins, in milliseconds of the node's time.
const T0: u64 = 1_800_000_000_000;

/// How long a session lasts, in milliseconds.
const SESSION: u64 = 5_000;

/// The ttl of keys, in milliseconds.
const TTL: u64 = 100;

fn name() -> Name {
    Name::parse("a", "").expect("valid")
}

fn ms(after: u64) -> NodeTime {
    NodeTime::from_micros((T0 + after) * 1_000)
}

/// The fence for a ticket that was drawn `after_us` microseconds after [`T0`].
fn fence(after_us: u64) -> Fence {
    Fence::new(T0 * 1_000 + after_us)
}

fn client(number: u8) -> ClientId {
    ClientId::from_random([number; 20])
}

fn sender(number: u8) -> Sender {
    Sender { client: client(number), session: Session::from_random(number.into()) }
}

/// The client of an owner, with its session.
fn sender_of(owner: &Owner) -> Sender {
    let position = Position::of(owner.as_bytes()).expect("an owner of the default mode");
    sender(u8::from_str_radix(&position.client.to_string()[..2], 16).expect("hex"))
}

fn position(number: u8, after_us: u64) -> Position {
    Position { ticket: fence(after_us).get(), ttl_ms: TTL, client: client(number) }
}

fn owner(number: u8, after_us: u64) -> Owner {
    position(number, after_us).owner(1)
}

fn request(owner: &Owner, is_waiting: bool) -> AcquireRequest {
    AcquireRequest { name: name(), owner: owner.clone(), is_waiting, is_known: true }
}

/// A node on which these clients have a session and are subscribed.
fn node_with(clients: impl IntoIterator<Item = u8>) -> Store {
    let mut node = Store::new();
    for number in clients {
        node.subscribe(client(number));
        node.apply(
            ms(0),
            &Command::Attach {
                sender: sender(number),
                terms: SessionTerms::without_membership(SESSION),
            },
        );
    }
    node
}

/// Short forms of commands.
impl Store {
    fn acquire_at(&mut self, now: u64, owner: &Owner, is_waiting: bool) -> Reply {
        let (sender, request) = (sender_of(owner), request(owner, is_waiting));
        self.apply(ms(now), &Command::Acquire { sender, request })
    }

    fn wait_at(&mut self, now: u64, owner: &Owner) -> Reply {
        self.acquire_at(now, owner, true)
    }

    fn release_at(&mut self, now: u64, owner: &Owner, yields: Option<Fence>) -> Reply {
        let yields = yields.map(|fence| Yield { fence, sender: sender_of(owner) });
        self.apply(ms(now), &Command::Release { name: name(), owner: owner.clone(), yields })
    }

    /// Client 1 sends the extension, whatever the owner is.
    fn extend_at(&mut self, now: u64, owner: &Owner, fence: Fence, may_heal: bool) -> Extended {
        let entry = Extend { name: name(), owner: owner.clone(), fence, ttl_ms: TTL, may_heal };
        let command = Command::Extend { sender: sender(1), entries: [entry].into() };
        match self.apply(ms(now), &command) {
            Reply::ExtendedLeases(results) => results[0],
            other => panic!("{other:?}"),
        }
    }

    fn holder_at(&mut self, now: u64) -> Option<Owner> {
        match self.apply(ms(now), &Command::ReadKey { name: name() }) {
            Reply::Key(Some(seen)) => match seen.value {
                Value::Text(text) => Some(Owner::from_bytes(&text)),
                Value::Shared(_) | Value::OtherType(_) => None,
            },
            _ => None,
        }
    }

    fn pushed(&mut self) -> Vec<(ClientId, Owner, Fence, PushKind)> {
        let parts = |push: Push| (push.client, push.owner, push.fence, push.kind);
        self.take_pushes().into_iter().map(parts).collect()
    }
}

fn granted(fence: Fence) -> Reply {
    Reply::Granted { fence, is_earlier: false }
}

fn queued(fence: Fence, expires_in_ms: u64, rank: impl Into<Option<u64>>) -> Reply {
    let (expires_in_ms, rank) = (Some(expires_in_ms), rank.into());
    Reply::Queued { fence, expires_in_ms, rank, is_foreign: false }
}

/// A client whose connection broke during a yield may count that grant again by now.
#[test]
fn yield_of_an_older_session_is_a_no_op() {
    let mut node = node_with([1, 2]);
    let (one, two) = (owner(1, 2), owner(2, 1));
    node.wait_at(0, &one);
    node.wait_at(1, &two);
    let sender = Sender { session: Session::from_random(99), ..sender(1) };
    node.apply(
        ms(2),
        &Command::Attach { sender, terms: SessionTerms::without_membership(SESSION) },
    );
    let late = node.release_at(3, &one, Some(fence(2)));
    assert_eq!((late, node.holder_at(3)), (Reply::Released { is_ours: false }, Some(one.clone())));
    let yields = Some(Yield { fence: fence(2), sender });
    let current = Command::Release { name: name(), owner: one, yields };
    assert_eq!(node.apply(ms(4), &current), Reply::Released { is_ours: true });
    assert_eq!(node.holder_at(4), Some(two));
}

#[test]
fn commands_of_an_older_session_are_stale() {
    let mut node = Store::new();
    let (old, new) = (sender(1), Sender { session: Session::from_random(99), ..sender(1) });
    let attach =
        |sender| Command::Attach { sender, terms: SessionTerms::without_membership(SESSION) };
    let ping = |sender| Command::Ping { sender, terms: SessionTerms::without_membership(SESSION) };
    let acquire = |sender| Command::Acquire { sender, request: request(&owner(1, 0), true) };
    let extend = |sender| Command::Extend { sender, entries: [].into() };

    assert_eq!(node.apply(ms(0), &ping(old)), Reply::Stale, "never attached");
    assert_eq!(node.apply(ms(0), &attach(old)), Reply::Attached { time_us: T0 * 1_000 });
    assert_eq!(node.apply(ms(7), &ping(old)), Reply::Attached { time_us: (T0 + 7) * 1_000 });
    node.apply(ms(8), &attach(new));
    for command in [ping(old), acquire(old), extend(old)] {
        assert_eq!(node.apply(ms(9), &command), Reply::Stale, "{command:?}");
    }
    assert_eq!(node.names(ms(9)), [], "nothing was done");
    assert_eq!(node.apply(ms(9), &acquire(new)), granted(fence(0)));
    assert_eq!(node.apply(ms(9), &extend(new)), Reply::ExtendedLeases([].into()));
}

#[test]
fn session_expires_without_a_ping() {
    let mut node = node_with([1]);
    let ping =
        Command::Ping { sender: sender(1), terms: SessionTerms::without_membership(SESSION) };
    assert!(matches!(node.apply(ms(SESSION), &ping), Reply::Attached { .. }));
    assert!(matches!(node.apply(ms(2 * SESSION), &ping), Reply::Attached { .. }));
    assert_eq!(node.apply(ms(3 * SESSION + 1), &ping), Reply::Stale);
    assert_eq!(node.wait_at(3 * SESSION + 1, &owner(1, 0)), Reply::Stale);
}

#[test]
fn acquire_of_a_classic_owner_is_stale() {
    let mut node = node_with([1]);
    let request = request(&Owner::new(&client(1), 1, "classic"), true);
    let acquire = Command::Acquire { sender: sender(1), request };
    assert_eq!(node.apply(ms(1), &acquire), Reply::Stale);
}

#[test]
fn every_grant_has_a_larger_fence_and_a_refusal_keeps_it() {
    let mut node = node_with([1, 2]);
    let (first, second) = (owner(1, 10), owner(2, 20));
    assert_eq!(node.wait_at(1, &first), granted(fence(10)), "the ticket is the fence");
    for now in 2..5 {
        let refused = queued(fence(10), TTL + 1 - now, None);
        assert_eq!(node.acquire_at(now, &second, false), refused);
    }
    let released = Reply::Released { is_ours: true };
    assert_eq!(node.release_at(5, &first, None), released);
    assert_eq!(node.wait_at(6, &owner(1, 3)), granted(fence(11)), "an early ticket is not enough");
    node.release_at(7, &owner(1, 3), None);
    assert_eq!(node.wait_at(8, &second), granted(fence(20)));
}

#[test]
fn single_try_is_never_queued() {
    let mut node = node_with([1, 2]);
    node.wait_at(1, &owner(1, 1));
    assert_eq!(node.acquire_at(1, &owner(2, 2), false), queued(fence(1), TTL, None));
    assert_eq!(node.queued_names(ms(1)), []);
    assert_eq!(node.wait_at(1, &owner(2, 2)), queued(fence(1), TTL, 0));
    assert_eq!(
        node.acquire_at(1, &owner(2, 2), false),
        queued(fence(1), TTL, 0),
        "it stays queued"
    );
    assert_eq!(node.queued_names(ms(1)), [name()]);
}

#[test]
fn queue_is_ordered_by_ticket_and_then_by_owner() {
    let mut node = node_with(1..=5);
    node.wait_at(1, &owner(1, 1));
    assert_eq!(node.wait_at(1, &owner(5, 7)), queued(fence(1), TTL, 0));
    assert_eq!(node.wait_at(1, &owner(4, 9)), queued(fence(1), TTL, 1));
    assert_eq!(node.wait_at(1, &owner(3, 7)), queued(fence(1), TTL, 0), "a tie");
    assert_eq!(node.wait_at(1, &owner(2, 8)), queued(fence(1), TTL, 2));
    let mut before = owner(1, 1);
    for next in [owner(3, 7), owner(5, 7), owner(2, 8), owner(4, 9)] {
        node.release_at(2, &before, None);
        assert_eq!(node.holder_at(2), Some(next.clone()));
        before = next;
    }
}

#[test]
fn every_request_of_an_earlier_waiter_sends_an_inquiry() {
    let mut node = node_with([1, 2, 3]);
    let (early, holder, late) = (owner(1, 1), owner(2, 2), owner(3, 3));
    node.wait_at(1, &holder);
    node.wait_at(1, &late);
    assert_eq!(node.pushed(), [], "no inquiry for a later waiter");
    for _ in 0..3 {
        node.wait_at(1, &early);
        assert_eq!(node.pushed(), [(client(2), holder.clone(), fence(2), PushKind::Inquired)]);
    }
    node.unsubscribe(client(2));
    node.wait_at(1, &early);
    assert_eq!(node.pushed(), [], "the holder is not subscribed");
}

#[test]
fn repeated_acquire_keeps_the_key_and_reports_an_earlier_waiter() {
    let mut node = node_with([1, 2, 3]);
    let (early, holder, late) = (owner(1, 1), owner(2, 2), owner(3, 3));
    node.wait_at(0, &holder);
    node.wait_at(0, &late);
    assert_eq!(node.wait_at(60, &holder), granted(fence(2)), "the fence stays");
    node.wait_at(60, &early);
    let reply = Reply::Granted { fence: fence(2), is_earlier: true };
    assert_eq!(node.wait_at(90, &holder), reply);
    assert_eq!(node.holder_at(90 + TTL), Some(holder), "for a ttl from the last request");
    assert_eq!(node.holder_at(91 + TTL), None);
}

#[test]
fn release_grants_the_lock_to_the_next_waiter_only() {
    let mut node = node_with([1, 2, 3]);
    let owners = [owner(1, 1), owner(2, 20), owner(3, 30)];
    owners.iter().for_each(|owner| assert_ne!(node.wait_at(1, owner), Reply::Stale));
    let released = Reply::Released { is_ours: true };
    assert_eq!(node.release_at(50, &owners[0], None), released);
    assert_eq!(node.pushed(), [(client(2), owners[1].clone(), fence(20), PushKind::Granted)]);
    assert_eq!(node.holder_at(50 + TTL), Some(owners[1].clone()), "for its whole ttl");
    assert_eq!(node.wait_at(51, &owners[2]), queued(fence(20), TTL - 1, 0));
}

#[test]
fn removed_waiter_is_not_granted_the_lock() {
    let mut node = node_with([1, 2, 3]);
    let owners = [owner(1, 1), owner(2, 2), owner(3, 3)];
    owners.iter().for_each(|owner| assert_ne!(node.wait_at(1, owner), Reply::Stale));
    let left = Reply::Released { is_ours: false };
    assert_eq!(node.release_at(2, &owners[1], None), left);
    assert_eq!(node.holder_at(2), Some(owners[0].clone()), "the holder stays");
    node.release_at(3, &owners[0], None);
    assert_eq!(node.holder_at(3), Some(owners[2].clone()));
    assert_eq!(node.queued_names(ms(3)), []);
}

#[test]
fn release_by_a_waiter_hands_off_an_expired_key() {
    let mut node = node_with([1, 2, 3]);
    for owner in [owner(1, 1), owner(2, 2), owner(3, 3)] {
        node.wait_at(0, &owner);
    }
    let released = Reply::Released { is_ours: false };
    assert_eq!(node.release_at(TTL + 1, &owner(2, 2), None), released);
    assert_eq!(node.pushed(), [(client(3), owner(3, 3), fence(3), PushKind::Granted)]);
}

#[test]
fn yield_needs_the_fence_and_keeps_the_position() {
    let mut node = node_with([1, 2, 3]);
    let (early, holder, late) = (owner(1, 1), owner(2, 2), owner(3, 3));
    node.wait_at(1, &holder);
    node.wait_at(1, &late);
    node.wait_at(1, &early);
    for wrong in [fence(1), fence(3), Fence::ZERO] {
        let kept = Reply::Released { is_ours: false };
        assert_eq!(node.release_at(2, &holder, Some(wrong)), kept);
        assert_eq!(node.holder_at(2), Some(holder.clone()));
    }
    let elsewhere = Reply::Released { is_ours: false };
    assert_eq!(node.release_at(2, &late, Some(fence(2))), elsewhere, "not its own");
    let yielded = Reply::Released { is_ours: true };
    assert_eq!(node.release_at(2, &holder, Some(fence(2))), yielded);
    assert_eq!(node.holder_at(2), Some(early.clone()));
    assert_eq!(node.wait_at(3, &holder), queued(fence(3), TTL - 1, 0), "before the late waiter");
    node.release_at(4, &early, None);
    assert_eq!(node.holder_at(4), Some(holder));
}

#[test]
fn waiters_without_session_or_subscription_are_skipped() {
    let mut node = node_with(1..=4);
    let short = Command::Attach { sender: sender(2), terms: SessionTerms::without_membership(10) };
    node.apply(ms(0), &short);
    let owners = [owner(1, 1), owner(2, 2), owner(3, 3), owner(4, 4)];
    owners.iter().for_each(|owner| assert_ne!(node.wait_at(1, owner), Reply::Stale));
    node.unsubscribe(client(3));
    node.release_at(20, &owners[0], None);
    assert_eq!(node.holder_at(20), Some(owners[3].clone()));
    node.release_at(21, &owners[3], None);
    assert_eq!(node.holder_at(21), None, "both have lost their positions");
    for owner in &owners {
        node.wait_at(22, owner);
    }
    node.unsubscribe_all();
    node.release_at(23, &owners[0], None);
    assert_eq!(node.holder_at(23), None);
}

#[test]
fn foreign_holder_is_reported_and_gets_no_inquiry() {
    let mut node = node_with([1]);
    let texts = [b"q0:a lock of others".to_vec(), b"\xff".to_vec()];
    let values = texts.map(|text| Value::Text(text.into()));
    for value in values.into_iter().chain([Value::OtherType("hash".into())]) {
        for ttl_ms in [None, Some(50)] {
            node.plant(ms(1), &name(), value.clone(), ttl_ms);
            let reply = Reply::Queued {
                fence: Fence::ZERO,
                expires_in_ms: ttl_ms,
                rank: Some(0),
                is_foreign: true,
            };
            assert_eq!(node.wait_at(1, &owner(1, 1)), reply);
            let refused = Extended::Refused(Fence::ZERO);
            assert_eq!(node.extend_at(1, &owner(1, 1), fence(9), true), refused);
            let kept = Reply::Released { is_ours: false };
            assert_eq!(node.release_at(1, &owner(1, 1), None), kept);
            assert_eq!(node.pushed(), []);
        }
    }
    assert_eq!(node.names(ms(51)), [name()]);
    assert_eq!(node.wait_at(52, &owner(1, 1)), granted(fence(1)), "the foreign key has expired");
}

mod downgrade;
mod entries;
mod full;
mod inspect;
mod leases;
mod shares;
