//! Which commands are sent together, and in which order.

use super::*;
use crate::{
    command::{ClientId, KeyExtension, Owner},
    name::Name,
    queue::{AcquireRequest, Position, Sender, Session},
};

fn name(number: usize) -> Name {
    Name::parse(&format!("lock-{number}"), "").unwrap()
}

fn owner(number: u64) -> Owner {
    Position { ticket: 1, ttl_ms: 1, client: ClientId::from_random([7; 20]) }.owner(number)
}

fn acquire(lock: usize, number: u64, is_known: bool) -> Command {
    let sender = Sender { client: ClientId::from_random([7; 20]), session: Session::UNSET };
    let (name, owner) = (name(lock), owner(number));
    Command::Acquire { sender, request: AcquireRequest { name, owner, is_waiting: true, is_known } }
}

fn release(lock: usize, number: u64) -> Command {
    Command::Release { name: name(lock), owner: owner(number), yields: None }
}

fn extend_keys(locks: &[usize]) -> Command {
    let entry = |lock: &usize| KeyExtension { name: name(*lock), owner: owner(1), ttl_ms: 1 };
    Command::ExtendKeys { entries: locks.iter().map(entry).collect(), sender: None }
}

/// The commands as they are sent. Each belongs to a call with the number of its position.
fn popped(commands: &[Command], joins: Joins) -> Vec<Transmit> {
    let mut outgoing = Outgoing::default();
    for (call, command) in commands.iter().enumerate() {
        outgoing.push(About::Round(CallId::after(call as u64)), command.clone());
    }
    std::iter::from_fn(|| outgoing.pop(joins)).collect()
}

/// The number of entries in each command that is sent. Checks that all are sent, and those about
/// one lock in order.
fn lengths_of(commands: &[Command], joins: Joins) -> Vec<usize> {
    let popped = popped(commands, joins);
    let entries = popped.iter().flat_map(|it| it.about.entries(&it.command, None));
    let mut calls: Vec<usize> = Vec::new();
    for (about, command, _) in entries {
        let About::Round(call) = about else { panic!("{about:?}") };
        calls.push(usize::try_from(call.number()).unwrap() - 1);
        assert_eq!(&commands[calls[calls.len() - 1]], command);
    }
    for (at, call) in calls.iter().enumerate() {
        let name = commands[*call].entry_name();
        let later = calls[at + 1..].iter().filter(|it| commands[**it].entry_name() == name);
        assert!(name.is_none() || later.into_iter().all(|it| it > call), "{calls:?}");
    }
    calls.sort_unstable();
    assert!(calls.into_iter().eq(0..commands.len()));
    popped.iter().map(|it| it.command.entries().len()).collect()
}

fn lengths(commands: &[Command]) -> Vec<usize> {
    lengths_of(commands, |_, _| true)
}

#[test]
fn single_command_is_sent_without_a_batch() {
    let popped = popped(&[acquire(1, 1, true)], |_, _| true);
    let [Transmit { about: About::Round(_), command: Command::Acquire { .. } }] = &popped[..]
    else {
        panic!("{popped:?}")
    };
}

#[test]
fn commands_about_different_locks_are_sent_together_in_order() {
    let check = Command::Check { name: name(4), owner: owner(1) };
    let commands =
        [acquire(1, 1, false), release(2, 2), acquire(3, 3, true), check, extend_keys(&[5])];
    assert_eq!(lengths(&commands), [5]);
}

#[test]
fn batch_is_bounded() {
    let many = 2 * EXTEND_MAX + 1;
    let first: Vec<Command> = (0..many).map(|lock| acquire(lock, 1, false)).collect();
    assert_eq!(lengths(&first[..2 * BATCH_MAX + 1]), [BATCH_MAX, BATCH_MAX, 1]);
    let heartbeats: Vec<Command> = (0..many).map(|lock| acquire(lock, 1, true)).collect();
    assert_eq!(lengths(&heartbeats), [EXTEND_MAX, EXTEND_MAX, 1]);
    // A release must not wait behind more heartbeats than other commands.
    let mixed = [&heartbeats[..BATCH_MAX + 1], &[release(many, 1)]].concat();
    assert_eq!(lengths(&mixed), [BATCH_MAX + 1, 1]);
}

#[test]
fn no_command_overtakes_an_earlier_one_about_the_same_lock() {
    let commands = [acquire(1, 1, false), acquire(2, 2, false), release(1, 1), acquire(3, 3, true)];
    assert_eq!(lengths(&commands), [3, 1]);
    assert_eq!(lengths(&[acquire(1, 1, true), release(1, 1)]), [1, 1]);
    assert_eq!(lengths(&[release(1, 1), acquire(1, 2, true), acquire(1, 3, true)]), [1, 2]);
}

#[test]
fn heartbeats_of_one_lock_are_sent_together() {
    let commands = [acquire(1, 1, true), acquire(1, 2, true), release(2, 3), acquire(1, 4, true)];
    assert_eq!(lengths(&commands), [4]);
}

#[test]
fn renewals_of_several_leases_are_sent_separately() {
    let commands = [release(1, 1), extend_keys(&[2, 3]), release(4, 4), release(5, 5)];
    assert_eq!(lengths(&commands), [1, 1, 2]);
}

#[test]
fn only_commands_that_the_node_joins_are_sent_in_a_batch() {
    let commands = [
        acquire(1, 1, true),
        acquire(1, 2, true),
        release(2, 3),
        release(3, 4),
        acquire(4, 5, true),
        acquire(5, 6, false),
    ];
    let heartbeats: Joins = |first, next| first.is_heartbeat() && next.is_heartbeat();
    assert_eq!(lengths_of(&commands, heartbeats), [3, 1, 1, 1]);
    assert_eq!(lengths_of(&commands, Command::shares_call), [4, 2]);
    assert_eq!(lengths_of(&commands, |_, _| false), [1; 6]);
}

#[test]
fn each_entry_gets_its_own_reply_or_none() {
    let popped = popped(&[release(1, 1), release(2, 2)], |_, _| true);
    let [Transmit { about, command }] = &popped[..] else { panic!("{popped:?}") };
    let answers = |reply| -> Vec<_> { about.entries(command, reply).map(|it| it.2).collect() };
    let released = Reply::Released { is_ours: true };
    let each = Reply::Batch([None, Some(released.clone())].into());
    assert_eq!(answers(Some(&each)), [None, Some(&released)]);
    let short = Reply::Batch([Some(released.clone())].into());
    for no_answer in [None, Some(&released), Some(&short)] {
        assert_eq!(answers(no_answer), [None, None], "{no_answer:?}");
    }
}
