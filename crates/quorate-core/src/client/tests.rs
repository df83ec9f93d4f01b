//! A complete client: calls, replies, pushes, deadlines and shutdown.

use std::collections::VecDeque;

use super::{owners::OwnerKind, watchdog::Renewal, *};
use crate::{
    acquire::{self, Wait},
    command::Owner,
    dialect::{Adoption, Dialect},
    fence::Fence,
    lease::LostReason,
    queue::{Position, PushKind},
    round::{Round, RoundKind, RoundOutcome},
    terms::{Drift, Terms},
};

mod downgrade;
mod sets;

const NODES: usize = 3;
const WALL: Duration = Duration::from_secs(1_700_000_000);

#[derive(Clone, Debug, Default)]
struct Numbers(u64);

impl OwnerSource for Numbers {
    fn next_owner(&mut self, place: &Position, kind: &OwnerKind) -> Owner {
        self.0 += 1;
        match kind.is_shared {
            true => place.shared_owner(self.0),
            false => place.owner(self.0),
        }
    }

    fn next_plain_owner(&mut self, _kind: &OwnerKind) -> Owner {
        self.0 += 1;
        Owner::new(&id(), self.0, "me")
    }
}

fn at(ms: u64) -> Moment {
    Moment::ZERO.saturating_add(Duration::from_millis(ms))
}

fn patience(ttl: Duration) -> Duration {
    ttl / 10
}

fn id() -> ClientId {
    ClientId::from_random([7; 20])
}

/// A client of three nodes that are up and have reported their time.
fn client() -> Client<Numbers> {
    let config =
        Config { client: id(), nodes: NODES, has_sessions: true, max_ttl: Duration::from_secs(60) };
    let mut client = Client::new(config, Numbers::default(), Jitter::new(1));
    for node in 0..NODES {
        client.handle_time(node, 1_000_000, at(0));
        client.handle_up(node, at(0));
    }
    client
}

fn want(name: &str, wait: Wait) -> Want {
    let none = Drift { ppm: 0, fixed: Duration::ZERO };
    let terms = Terms::new(Duration::from_secs(3), Duration::from_millis(50), none).unwrap();
    let name = Name::parse(name, "").unwrap();
    Want { name, terms, kind: None, wait, dialect: Dialect::Queue, adopts: None }
}

const WAIT: Wait = Wait::Patiently(Duration::from_secs(60));

fn sent(client: &mut Client<Numbers>, node: usize) -> Vec<Transmit> {
    std::iter::from_fn(|| client.poll_transmit(node, |_, _| true)).collect()
}

fn events(client: &mut Client<Numbers>) -> Vec<Event> {
    std::iter::from_fn(|| client.poll_event()).collect()
}

/// Sends everything that waits, and answers it with this reply.
fn answer_all(client: &mut Client<Numbers>, reply: &Reply, now: Moment) {
    let mut all: VecDeque<(usize, Transmit)> = VecDeque::new();
    for node in 0..NODES {
        all.extend(sent(client, node).into_iter().map(|transmit| (node, transmit)));
    }
    for (node, Transmit { about, command }) in all {
        let reply = to_each(&command, reply);
        client.handle_answer(node, (&about, &command), Some(&reply), now);
    }
}

/// This reply to each entry.
fn to_each(command: &Command, reply: &Reply) -> Reply {
    match command {
        Command::Batch(entries) => Reply::Batch(vec![Some(reply.clone()); entries.len()].into()),
        _ => reply.clone(),
    }
}

fn granted(fence: u64) -> Reply {
    Reply::Granted { fence: Fence::new(fence), is_earlier: false }
}

fn queued() -> Reply {
    let fence = Fence::new(1);
    Reply::Queued { fence, expires_in_ms: Some(3_000), rank: Some(9), is_foreign: false }
}

/// A lease that all nodes have granted.
fn hold(client: &mut Client<Numbers>, name: &str) -> (CallId, LeaseId) {
    let call = client.acquire(want(name, WAIT), at(0));
    answer_all(client, &granted(5), at(1));
    assert!(matches!(
        client.take_outcome(call),
        Some(Ended::Acquire(acquire::Outcome::Held { .. }))
    ));
    let hold = Hold { renewal: Renewal::On, until: Moment::from_nanos(u64::MAX) };
    let lease = client.keep(call, hold, at(1)).expect("it is held");
    client.close_call(call);
    (call, lease)
}

#[test]
fn call_ends_with_the_majority_and_closes_with_the_last_reply() {
    let mut client = client();
    let call = client.acquire(want("a", WAIT), at(0));
    let questions: Vec<Transmit> = (0..NODES).flat_map(|node| sent(&mut client, node)).collect();
    let answer = |client: &mut Client<Numbers>, node: usize| {
        let Transmit { about, command } = &questions[node];
        client.handle_answer(node, (about, command), Some(&granted(5)), at(1));
    };
    answer(&mut client, 0);
    assert_eq!(events(&mut client), []);
    answer(&mut client, 1);
    let ended = client.take_outcome(call).expect("two of three have granted it");
    assert_eq!(events(&mut client), [Event::Ended(call, ended)]);
    client.close_call(call);
    assert!(client.call(call).is_some(), "one reply is outstanding");
    answer(&mut client, 2);
    assert_eq!(events(&mut client), [Event::Closed(call)]);
}

#[test]
fn push_that_arrives_before_the_reply_counts() {
    let mut client = client();
    let call = client.acquire(want("a", WAIT), at(0));
    let owner = client.call(call).and_then(Call::waiter).unwrap().owner().clone();
    for node in [0, 1] {
        let (name, fence) = (Name::parse("a", "").unwrap(), Fence::new(5));
        let (owner, kind) = (owner.clone(), PushKind::Granted);
        client.handle_push(
            node,
            Push { client: id(), name, owner, kind, fence, session: None },
            at(1),
        );
    }
    assert!(matches!(
        client.take_outcome(call),
        Some(Ended::Acquire(acquire::Outcome::Held { .. }))
    ));
}

#[test]
fn heartbeats_that_are_due_together_share_a_batch_with_separate_replies() {
    let mut client = client();
    let calls = [client.acquire(want("a", WAIT), at(0)), client.acquire(want("b", WAIT), at(0))];
    answer_all(&mut client, &queued(), at(1));
    let due = client.poll_timeout().expect("they repeat their requests");
    client.handle_timeout(WALL, &patience, due);
    for node in 0..NODES {
        let [Transmit { about, command }] = &sent(&mut client, node)[..] else {
            panic!("one command")
        };
        assert!(command.entries().iter().all(Command::is_heartbeat), "{command:?}");
        let asked = about.entries(command, None).map(|(about, ..)| match about {
            About::Waiter(question) => question.call,
            other => panic!("{other:?}"),
        });
        assert_eq!(asked.collect::<Vec<_>>(), calls);
        let reply = Reply::Batch([Some(granted(5)), None].into());
        client.handle_answer(node, (about, command), Some(&reply), due);
    }
    assert!(matches!(
        client.take_outcome(calls[0]),
        Some(Ended::Acquire(acquire::Outcome::Held { .. }))
    ));
    assert_eq!(client.take_outcome(calls[1]), None, "it still waits");
}

#[test]
fn release_never_overtakes_the_request_of_its_owner() {
    let mut client = client();
    let call = client.acquire(want("a", WAIT), at(0));
    client.abandon(call, at(1));
    for node in 0..NODES {
        let commands: Vec<Command> =
            sent(&mut client, node).into_iter().map(|transmit| transmit.command).collect();
        assert!(
            matches!(&commands[..], [Command::Acquire { .. }, Command::Release { .. }]),
            "{commands:?}"
        );
    }
}

#[test]
fn release_without_a_reply_is_repeated() {
    let mut client = client();
    let (_, lease) = hold(&mut client, "a");
    client.release(lease, &patience, at(10));
    events(&mut client);
    for node in 0..NODES {
        for Transmit { about, command } in sent(&mut client, node) {
            client.handle_answer(node, (&about, &command), None, at(11));
        }
    }
    assert!(client.is_owing(at(12)), "until the keys have expired");
    let debts = |client: &mut Client<Numbers>| -> Vec<usize> {
        (0..NODES).map(|node| sent(client, node).len()).collect()
    };
    client.handle_timeout(Duration::ZERO, &patience, at(12));
    assert_eq!(debts(&mut client), [0, 0, 0], "the releases are repeated only later");
    client.handle_down(2, false, at(12));
    let retry_at = client.poll_timeout().expect("the releases are repeated");
    client.handle_timeout(Duration::ZERO, &patience, retry_at);
    assert_eq!(debts(&mut client), [1, 1, 0], "one node cannot be reached");
    client.handle_up(2, retry_at);
    assert_eq!(debts(&mut client), [0, 0, 1]);
    assert!(!client.is_owing(retry_at), "all are in transit");
}

#[test]
fn failed_entry_of_a_batch_affects_no_other() {
    let mut client = client();
    let leases = ["a", "b"].map(|name| hold(&mut client, name).1);
    let calls = leases.map(|lease| client.release(lease, &patience, at(10)).unwrap());
    for node in 0..NODES {
        let [Transmit { about, command }] = &sent(&mut client, node)[..] else {
            panic!("both are sent together")
        };
        let each = [Some(Reply::Released { is_ours: true }), None];
        client.handle_answer(node, (about, command), Some(&Reply::Batch(each.into())), at(11));
    }
    let ended = calls.map(|call| client.take_outcome(call));
    let findings = [RoundOutcome::Agreed, RoundOutcome::Unsure];
    assert_eq!(ended, findings.map(|finding| Some(Ended::Round(RoundKind::Release, finding))));
    let retry_at = client.poll_timeout().expect("one release is sent again");
    client.handle_timeout(WALL, &patience, retry_at);
    for node in 0..NODES {
        let [Transmit { about: About::Debt(_), command: Command::Release { name, .. } }] =
            &sent(&mut client, node)[..]
        else {
            panic!("there is one debt")
        };
        assert_eq!(name.as_str(), "b");
    }
}

#[test]
fn batch_that_cannot_be_sent_fails_for_each_entry() {
    let mut client = client();
    let leases = ["a", "b"].map(|name| hold(&mut client, name).1);
    for lease in leases {
        client.release(lease, &patience, at(10));
    }
    for node in 0..NODES {
        for Transmit { about, command } in sent(&mut client, node) {
            client.handle_unsent(node, (&about, &command), at(11));
        }
    }
    client.handle_up(0, at(12));
    let [Transmit { about, .. }] = &sent(&mut client, 0)[..] else { panic!("one batch of debts") };
    let About::Batch(owed) = about else { panic!("{about:?}") };
    assert!(matches!(**owed, [About::Debt(_), About::Debt(_)]), "{owed:?}");
}

#[test]
fn extension_counts_even_if_its_caller_has_gone() {
    let mut client = client();
    let (_, lease) = hold(&mut client, "a");
    let terms = client.lease(lease).unwrap().terms();
    let call = client.extend(lease, terms, at(100)).expect("it is held");
    client.abandon(call, at(101));
    let reply = Reply::ExtendedLeases([crate::queue::Extended::Renewed(Fence::new(5))].into());
    answer_all(&mut client, &reply, at(102));
    assert_eq!(client.lease(lease).unwrap().lease().valid_until(), at(3_100));
}

#[test]
fn shutdown_releases_held_and_lost_leases() {
    let mut client = client();
    let (_, held) = hold(&mut client, "held");
    let (_, lost) = hold(&mut client, "lost");
    client.lose(lost, LostReason::Gone);
    let waiting = client.acquire(want("waiting", WAIT), at(2));
    answer_all(&mut client, &queued(), at(3));
    client.close(at(4));
    client.release_all(&patience, at(4));
    for node in 0..NODES {
        let sent = sent(&mut client, node);
        let entries = sent.iter().flat_map(|it| it.command.entries());
        let released = entries.filter_map(|entry| match entry {
            Command::Release { name, .. } => Some(name.as_str()),
            _ => None,
        });
        let mut released: Vec<&str> = released.collect();
        released.sort_unstable();
        assert_eq!(released, ["held", "lost", "waiting"]);
    }
    let abandoned = Some(Ended::Acquire(acquire::Outcome::Abandoned));
    assert_eq!(client.take_outcome(waiting), abandoned);
    assert_eq!(client.check(held, at(5)), Err(LostReason::ShutDown));
    let late = client.acquire(want("late", WAIT), at(6));
    assert_eq!(client.take_outcome(late), abandoned, "no lock is acquired after the end");
}

/// An adoption replaces the holder of a lease by another owner.
fn rename(client: &mut Client<Numbers>, lease: LeaseId) -> (CallId, Owner) {
    let held = client.lease(lease).expect("it is held");
    let (from, fenced, owner) = (held.owner().clone(), held.fenced(), Owner::new(&id(), 99, "me"));
    let adopts = Some(Box::new(Adoption { from, owner: owner.clone(), fenced }));
    client.retire(lease);
    let call = client.acquire(Want { adopts, ..want("a", Wait::Never) }, at(2));
    answer_all(client, &Reply::Stored, at(3));
    let ended = client.take_outcome(call);
    assert!(matches!(ended, Some(Ended::Acquire(acquire::Outcome::Held { .. }))), "{ended:?}");
    (call, owner)
}

#[test]
fn client_that_leaves_an_adopted_lease_forgets_both_owners() {
    let mut client = client();
    let (_, lease) = hold(&mut client, "a");
    let (call, owner) = rename(&mut client, lease);
    client.leave_as(lease, &owner).expect("it is held");
    client.close_call(call);
    assert!(!client.knows_owners());
    let released = |it: &Transmit| matches!(it.command, Command::Release { .. });
    assert!((0..NODES).all(|node| sent(&mut client, node).iter().any(released)));
}

#[test]
fn client_that_releases_an_adopted_lease_forgets_both_owners() {
    let mut client = client();
    let (_, lease) = hold(&mut client, "a");
    let (call, owner) = rename(&mut client, lease);
    let held = client.lease(lease).expect("it is held");
    let claim = Claim { owner, ..held.claim(held.terms()) };
    let round = Round::start(RoundKind::Release, claim.terms, NODES, at(4));
    client.ask(claim, Machine::Round(round), at(4));
    client.close_call(call);
    client.release(lease, &patience, at(4)).expect("it is held");
    assert!(!client.knows_owners());
}

#[test]
fn waiter_ends_at_shutdown_without_a_timer() {
    let mut client = client();
    let (_, lease) = hold(&mut client, "a");
    let call = client.verify(lease, &patience, at(10)).expect("it is held");
    client.handle_end(at(11));
    let unsure = Ended::Round(RoundKind::Check, RoundOutcome::Unsure);
    assert_eq!(client.take_outcome(call), Some(unsure));
}
