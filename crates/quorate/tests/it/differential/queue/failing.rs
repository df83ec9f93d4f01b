//! Batches in which some entries fail: their errors do not affect the other entries.

use quorate::{error::NodeError, simulation::Decoded};
use quorate_core::{
    command::{ClientId, Command, KeyExtension, Owner, Reply},
    fence::Fence,
    name::Name,
    queue::{AcquireRequest, Extend, Extended, Sender},
};
use quorate_testkit::{Server, redis::cmd};

use super::{
    super::{
        Pace,
        batch::Step,
        keys::{fence_key, queue_key},
        on_every_flavour,
    },
    directed::{Fixture, TTL_MS},
    refusing::refuse_writes,
};

/// Another program has stored a list in the place of a fence or of a queue. The store has no such
/// state: it executes the other entries.
#[test]
fn lock_with_a_damaged_queue_or_fence_does_not_affect_others() {
    on_every_flavour(Pace::Set, |server| {
        let mut fixture = Fixture::new(server);
        for case in CASES {
            for at in [0, 3, OTHERS] {
                check_damaged(server, &mut fixture, case, at);
            }
        }
    });
}

/// A case: the command about the damaged lock, and what is damaged.
#[derive(Clone, Copy, Debug)]
enum Case {
    /// A new exclusive owner of a free lock, whose fence is damaged.
    Acquire,
    /// The same for a new reader.
    AcquireShared,
    /// A waiter finds the lock free, and its queue is damaged.
    AcquireKnown,
    /// An owner would be queued.
    Enqueue,
    /// The holder releases a lock whose queue is damaged.
    Release,
    /// The same for a reader.
    ReleaseShared,
    /// An owner that does not hold such a lock releases it.
    ReleaseNothing,
    /// A lost lease is stored again, and the queue is damaged.
    Heal,
}

const CASES: [Case; 8] = [
    Case::Acquire,
    Case::AcquireShared,
    Case::AcquireKnown,
    Case::Enqueue,
    Case::Release,
    Case::ReleaseShared,
    Case::ReleaseNothing,
    Case::Heal,
];

fn check_damaged(server: &Server, fixture: &mut Fixture<'_>, case: Case, at: usize) {
    fixture.clear();
    let [caller, other, _] = fixture.callers();
    let names: Vec<Name> = (0..OTHERS).map(|number| name(&format!("other {number}"))).collect();
    // Some of the others are held, and waited for.
    let holder = fixture.owner(caller, 1, false);
    let waiter = fixture.owner(other, 2, false);
    let before = names.iter().step_by(2).flat_map(|name| {
        let ask = |sender, owner| fixture.ask_for(name, sender, owner);
        [ask(caller, &holder), ask(other, &waiter)]
    });
    fixture.run(before.collect::<Vec<_>>());
    let damaged = name("damaged");
    for (key, is_shared) in [("held", false), ("shared", true)] {
        // The same owners hold it on the server.
        let held = name(key);
        let owner = fixture.owner(caller, 3, is_shared);
        fixture.run([fixture.ask_for(&held, caller, &owner)]);
    }
    let (failing, is_fence) = failing(fixture, case, caller, &damaged);
    let lock = failing.entry_name().expect("a lock").clone();
    damage(server, &if is_fence { fence_key(&lock) } else { queue_key(&lock) });

    let entries: Vec<Command> =
        names.iter().map(|name| like(&failing, name, &holder, caller)).collect();
    let mut with_failing = entries.clone();
    with_failing.insert(at, failing);
    let batch = Command::Batch(with_failing.into());
    let Decoded { reply, errors } = fixture.decoded(&batch).expect("each has its own reply");
    let Reply::Batch(replies) = reply else { panic!("{reply:?} to a batch") };
    let mut replies = Vec::from(replies);
    match (case, replies.remove(at)) {
        (Case::Heal, Some(Reply::ExtendedLeases(results))) => {
            assert_eq!((&results[..], &errors[..]), (&[Extended::Failed][..], &[][..]));
        }
        (_, None) => assert_eq!(errors, [NodeError::WrongType], "{case:?} {at}"),
        (_, reply) => panic!("{reply:?} for {case:?} at {at}"),
    }
    fixture.expect_batch(&names, &entries, &replies);
}

/// The command that fails, and whether it needs the fence.
fn failing(fixture: &Fixture<'_>, case: Case, sender: Sender, damaged: &Name) -> (Command, bool) {
    let [exclusive, shared] = [false, true].map(|it| fixture.owner(sender, 3, it));
    let acquire = |name: &Name, owner: &Owner, is_known| {
        let (name, owner) = (name.clone(), owner.clone());
        let request = AcquireRequest { name, owner, is_waiting: true, is_known };
        Command::Acquire { sender, request }
    };
    let release = |name: &str, owner: &Owner| Command::Release {
        name: self::name(name),
        owner: owner.clone(),
        yields: None,
    };
    match case {
        Case::Acquire => (acquire(damaged, &exclusive, false), true),
        Case::AcquireShared => (acquire(damaged, &shared, false), true),
        Case::AcquireKnown => (acquire(damaged, &exclusive, true), false),
        Case::Enqueue => (acquire(&name("held"), &fixture.owner(sender, 9, false), false), false),
        Case::Release => (release("held", &exclusive), false),
        Case::ReleaseShared => (release("shared", &shared), false),
        Case::ReleaseNothing => (release("damaged", &exclusive), false),
        Case::Heal => {
            let fence = Fence::new(fixture.ticket(3));
            let (name, owner) = (damaged.clone(), exclusive);
            let entry = Extend { name, owner, fence, ttl_ms: TTL_MS, may_heal: true };
            (Command::Extend { sender, entries: [entry].into() }, false)
        }
    }
}

/// The same command about another lock, by an owner that may hold it.
fn like(command: &Command, name: &Name, holder: &Owner, sender: Sender) -> Command {
    let (name, owner) = (name.clone(), holder.clone());
    match command {
        Command::Acquire { .. } => {
            let request = AcquireRequest { name, owner, is_waiting: true, is_known: false };
            Command::Acquire { sender, request }
        }
        Command::Release { .. } => Command::Release { name, owner, yields: None },
        Command::Extend { entries, .. } => {
            let entry = Extend { name, owner, ..entries[0].clone() };
            Command::Extend { sender, entries: [entry].into() }
        }
        other => panic!("{other:?} never fails alone"),
    }
}

/// A server that wants more replicas than it has rejects each write by itself. An entry that writes
/// nothing still has its reply.
#[test]
fn entries_that_write_fail_on_a_server_that_rejects_writes() {
    on_every_flavour(Pace::Set, |server| {
        let mut fixture = Fixture::new(server);
        let [caller, ..] = fixture.callers();
        let owner = |number| Owner::new(&ClientId::from_random([7; 20]), number, "me");
        let set = |name: &Name| Command::SetKey {
            name: name.clone(),
            owner: owner(1),
            ttl_ms: TTL_MS,
            sender: Some(caller),
        };
        let delete =
            |name: &Name, number| Command::DeleteKey { name: name.clone(), owner: owner(number) };
        let extend = |name: &Name, ttl_ms| {
            let entry = KeyExtension { name: name.clone(), owner: owner(1), ttl_ms };
            Command::ExtendKeys { entries: [entry].into(), sender: Some(caller) }
        };
        let [held, also_held, free] = fixture.names();
        fixture.run([&held, &also_held].map(|name| Step::Ask(set(name))));
        let (deletion, extension) = (
            [delete(&held, 1), delete(&free, 1), delete(&also_held, 2)],
            [extend(&held, 2 * TTL_MS), extend(&free, TTL_MS), extend(&also_held, TTL_MS)],
        );
        let acquires = [&held, &free].map(|name| {
            let (name, owner) = (name.clone(), fixture.owner(caller, 5, false));
            let request = AcquireRequest { name, owner, is_waiting: true, is_known: false };
            Command::Acquire { sender: caller, request }
        });
        refuse_writes(server, true);
        for (batch, expected) in [
            (&[set(&free), set(&held)][..], "None None"),
            (&deletion, "None Absent NotOwner"),
            (&extension, "ExtendedKeys([Failed]) ExtendedKeys([Absent]) ExtendedKeys([Renewed])"),
            (&acquires, "None None"),
        ] {
            let decoded = fixture.decoded(&Command::Batch(batch.into()));
            let Decoded { reply, errors } = decoded.expect("each has its own reply");
            let Reply::Batch(each) = reply else { panic!("{reply:?} to a batch") };
            let shown = |reply: &Option<Reply>| match reply {
                Some(reply) => format!("{reply:?}"),
                None => "None".into(),
            };
            assert_eq!(each.iter().map(shown).collect::<Vec<_>>().join(" "), expected);
            for error in errors {
                assert!(error.to_string().contains("NOREPLICAS"), "{error}");
            }
        }
        refuse_writes(server, false);
        fixture.run(deletion.map(Step::Ask));
    });
}

/// Puts a list in the place of a key.
fn damage(server: &Server, key: &str) {
    let mut connection = server.connection();
    cmd("DEL").arg(key).exec(&mut connection).expect("it is deleted");
    cmd("RPUSH").arg(key).arg("item").exec(&mut connection).expect("it is stored");
}

fn name(text: &str) -> Name {
    Name::parse(text, "quorate:").expect("a name")
}

const OTHERS: usize = 6;
