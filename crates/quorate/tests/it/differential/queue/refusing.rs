//! Servers that reject some writes: each lease of a batch is checked separately.

use quorate_core::{
    command::{Command, ExtendedKey, KeyExtension, Owner, Reply},
    fence::Fence,
    name::Name,
    queue::{Extend, Extended, Sender},
};
use quorate_testkit::{Server, redis::cmd};

use super::{
    super::{Pace, on_every_flavour},
    directed::{Fixture, TTL_MS, set_memory},
};

/// A full server refuses a script that stores something before it has deleted or extended
/// anything.
#[test]
fn lease_that_a_full_server_cannot_store_does_not_affect_others() {
    on_every_flavour(Pace::Set, |server| {
        let mut fixture = Fixture::new(server);
        let [caller, ..] = fixture.callers();
        let [held, raised, free] = fixture.names();
        let holder = fixture.owner(caller, 1, false);
        let fence = fence_of(1, &fixture);
        for locked in [&held, &raised] {
            fixture.run([fixture.ask_for(locked, caller, &holder)]);
        }
        let [gone, gone_reader] =
            [false, true].map(|is_shared| fixture.owner(caller, 2, is_shared));
        let unaffected = extend(&held, &holder, fence, 2 * TTL_MS, false);
        for refused in [
            extend(&free, &gone, fence, TTL_MS, true),
            extend(&free, &gone_reader, fence, TTL_MS, true),
        ] {
            set_memory(server, 1);
            let results = extended(&mut fixture, caller, &[refused.clone(), unaffected.clone()]);
            assert_eq!(results, [Extended::Failed, Extended::Renewed(fence)], "{refused:?}");
            set_memory(server, 0);
        }
        // A larger fence of a key that is there needs no new key.
        set_memory(server, 1);
        let larger = extend(&raised, &holder, fence.next(), 1, false);
        let results = extended(&mut fixture, caller, &[larger, unaffected]);
        assert_eq!(results, [Extended::Renewed(fence.next()), Extended::Renewed(fence)]);
        set_memory(server, 0);
    });
}

#[test]
fn server_that_rejects_writes_still_reports_expired_leases() {
    on_every_flavour(Pace::Set, |server| {
        let mut fixture = Fixture::new(server);
        let [caller, other, _] = fixture.callers();
        let [held, shared, lost] = fixture.names();
        let [holder, reader] = [false, true].map(|is_shared| fixture.owner(caller, 1, is_shared));
        let stranger = fixture.owner(other, 2, false);
        let (fence, others) = (fence_of(1, &fixture), fence_of(2, &fixture));
        fixture.run([
            fixture.ask_for(&held, caller, &holder),
            fixture.ask_for(&shared, caller, &reader),
            fixture.ask_for(&lost, other, &stranger),
        ]);
        refuse_writes(server, true);
        let free = Name::parse("free", "").expect("a name");
        let entries = [
            extend(&free, &holder, fence, TTL_MS, true),
            extend(&held, &holder, fence, 2 * TTL_MS, true),
            extend(&shared, &reader, fence, 2 * TTL_MS, true),
            extend(&held, &holder, fence, TTL_MS, true),
            extend(&lost, &holder, fence, TTL_MS, true),
        ];
        let failed = Extended::Failed;
        let results = extended(&mut fixture, caller, &entries);
        assert_eq!(results, [failed, failed, failed, failed, Extended::Refused(others)]);

        let extend_key = |name: &Name, owner: &Owner, ttl_ms| KeyExtension {
            name: name.clone(),
            owner: owner.clone(),
            ttl_ms,
        };
        let entries = [
            extend_key(&held, &holder, 2 * TTL_MS),
            extend_key(&held, &holder, TTL_MS),
            extend_key(&free, &holder, TTL_MS),
            extend_key(&lost, &holder, TTL_MS),
        ];
        let command = Command::ExtendKeys { entries: entries.into(), sender: Some(caller) };
        let results =
            [ExtendedKey::Failed, ExtendedKey::Renewed, ExtendedKey::Absent, ExtendedKey::NotOwner];
        assert_eq!(fixture.answer(command), Reply::ExtendedKeys(results.into()));
        refuse_writes(server, false);
    });
}

/// The fence of the first grant to the owner with this number.
fn fence_of(number: u64, fixture: &Fixture<'_>) -> Fence {
    Fence::new(fixture.ticket(number))
}

fn extend(name: &Name, owner: &Owner, fence: Fence, ttl_ms: u64, may_heal: bool) -> Extend {
    Extend { name: name.clone(), owner: owner.clone(), fence, ttl_ms, may_heal }
}

fn extended(fixture: &mut Fixture<'_>, sender: Sender, entries: &[Extend]) -> Vec<Extended> {
    match fixture.answer(Command::Extend { sender, entries: entries.into() }) {
        Reply::ExtendedLeases(results) => results.into(),
        other => panic!("{other:?}"),
    }
}

/// A server that wants more replicas than it has refuses each write by itself.
pub(super) fn refuse_writes(server: &Server, is_on: bool) {
    let mut config = cmd("CONFIG");
    let set = config.arg("SET").arg("min-replicas-to-write").arg(u8::from(is_on));
    set.exec(&mut server.connection()).expect("it is a setting");
}
