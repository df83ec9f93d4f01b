//! What another program has put in the place of the record of a lock's last grant.

use quorate_core::{
    command::{Command, Owner, Reply},
    fence::{Fence, SLACK_US},
    queue::{Extend, Extended, Position, Sender, Yield},
};
use quorate_testkit::{Server, redis::cmd};

use super::{
    super::{
        Pace,
        batch::Step,
        keys::{digits, fence_key},
        on_every_flavour,
    },
    directed::{Fixture, TTL_MS},
};

/// For the store nothing is there. So no script fails, and no fence goes back.
#[test]
fn malformed_record_counts_as_none() {
    on_every_flavour(Pace::Set, |server| {
        let mut fixture = Fixture::new(server);
        let [caller, ..] = fixture.callers();
        for (odd, is_shared) in ODD.into_iter().flat_map(|odd| [(odd, false), (odd, true)]) {
            // A ticket that counts unchanged, and one that is too early.
            for ticket in [fixture.ticket(1), 7] {
                fixture.clear();
                plant(server, &fixture, odd);
                let place = Position { ticket, ttl_ms: TTL_MS, client: caller.client };
                let owner = if is_shared { place.shared_owner(1) } else { place.owner(1) };
                fixture.run([inspect(&fixture), fixture.ask(caller, &owner)]);
            }
            fixture.clear();
            plant(server, &fixture, odd);
            let owner = fixture.owner(caller, 1, is_shared);
            let fence = Fence::new(fixture.ticket(1));
            fixture.run([Step::Ask(extend(&fixture, caller, &owner, fence))]);
        }
    });
}

/// The store has no such state: only the server is asked.
#[test]
fn lock_with_a_damaged_record_is_held_and_handed_off() {
    on_every_flavour(Pace::Set, |server| {
        for odd in ODD {
            let mut fixture = Fixture::new(server);
            let [caller, other, _] = fixture.callers();
            let (holder, next) = (fixture.owner(caller, 1, false), fixture.owner(other, 2, false));
            let fence = Fence::new(fixture.ticket(1));
            fixture.run([fixture.ask(caller, &holder)]);
            plant(server, &fixture, odd);
            let again = Reply::Granted { fence: Fence::ZERO, is_earlier: false };
            assert_eq!(answer(&mut fixture, |it| it.ask(caller, &holder)), again, "{odd}");
            let report = answer(&mut fixture, inspect);
            assert!(matches!(report, Reply::Inspected(report) if report.fence.is_none()), "{odd}");
            let queued = answer(&mut fixture, |it| it.ask(other, &next));
            assert!(matches!(queued, Reply::Queued { fence: Fence::ZERO, .. }), "{queued:?}");
            let yielded = fixture.answer(release(&fixture, &holder, Some((fence, caller))));
            assert_eq!(yielded, Reply::Released { is_ours: false }, "{odd}");
            let extended = fixture.answer(extend(&fixture, caller, &holder, fence));
            assert_eq!(extended, Reply::ExtendedLeases([Extended::Renewed(fence)].into()));
            assert_eq!(stored(server, &fixture), Some(fence), "the extension puts it right");

            plant(server, &fixture, odd);
            let released = fixture.answer(release(&fixture, &holder, None));
            assert_eq!(released, Reply::Released { is_ours: true });
            assert_eq!(stored(server, &fixture), Some(Fence::new(fixture.ticket(2))), "{odd}");
        }
    });
}

/// More or fewer digits than the time of a grant has, and a time in the future.
#[test]
fn digits_behind_a_fence_do_not_spoil_it() {
    on_every_flavour(Pace::Set, |server| {
        let mut fixture = Fixture::new(server);
        let [caller, ..] = fixture.callers();
        for behind in ["12", &"9".repeat(16), &"9".repeat(400)] {
            fixture.clear();
            let fence = Fence::new(fixture.ticket(9));
            plant(server, &fixture, &format!("{:016}{behind}", fence.get()));
            let report = answer(&mut fixture, inspect);
            let Reply::Inspected(report) = report else { panic!("{report:?}") };
            assert_eq!(report.fence.map(|it| it.fence), Some(fence), "{behind}");
            let owner = fixture.owner(caller, 1, false);
            let granted = Reply::Granted { fence: fence.next(), is_earlier: false };
            assert_eq!(answer(&mut fixture, |it| it.ask(caller, &owner)), granted, "{behind}");
            plant(server, &fixture, &format!("{:016}{behind}", fence.get()));
            let extended = fixture.answer(extend(&fixture, caller, &owner, fence));
            assert_eq!(extended, Reply::ExtendedLeases([Extended::Renewed(fence)].into()));
        }
    });
}

fn plant(server: &Server, fixture: &Fixture<'_>, record: &str) {
    let mut set = cmd("SET");
    set.arg(fence_key(fixture.name())).arg(record).arg("PX").arg(SLACK_US);
    set.exec(&mut server.connection()).expect("it is stored");
}

/// The fence that is stored, if it is a new one.
fn stored(server: &Server, fixture: &Fixture<'_>) -> Option<Fence> {
    digits(&server.get(fence_key(fixture.name()))?).map(Fence::new)
}

/// The reply of the server alone.
fn answer(fixture: &mut Fixture<'_>, step: impl FnOnce(&Fixture<'_>) -> Step) -> Reply {
    match step(fixture) {
        Step::Ask(command) => fixture.answer(command),
        other => panic!("{other:?} has no answer"),
    }
}

fn inspect(fixture: &Fixture<'_>) -> Step {
    Step::Ask(Command::Inspect { name: fixture.name().clone(), shown: 9 })
}

fn extend(fixture: &Fixture<'_>, sender: Sender, owner: &Owner, fence: Fence) -> Command {
    let (name, owner) = (fixture.name().clone(), owner.clone());
    let entry = Extend { name, owner, fence, ttl_ms: TTL_MS, may_heal: true };
    Command::Extend { sender, entries: [entry].into() }
}

fn release(fixture: &Fixture<'_>, owner: &Owner, yields: Option<(Fence, Sender)>) -> Command {
    let yields = yields.map(|(fence, sender)| Yield { fence, sender });
    Command::Release { name: fixture.name().clone(), owner: owner.clone(), yields }
}

/// Less than any fence, or more; too short, or not a number.
const ODD: [&str; 7] = [
    "",
    "!",
    "123",
    "zzzzzzzzzzzzzzzzz",
    "999999999999999",
    "-000000000000001",
    "0x00000000000fff",
];
