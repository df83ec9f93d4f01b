//! Schedules for readers, on one node.

use quorate_core::{command::Owner, mutant::Mutant, queue::Position, store::Store};

use super::{Schedule, ask, attach, has, place, release};

pub(super) const SCHEDULES: &[(Mutant, Schedule)] = &[
    (Mutant::ExpiredSharesStay, expired_shares_do_not_block_a_writer),
    (Mutant::DepartedWriterBlocks, a_writer_that_leaves_does_not_block_readers),
    (Mutant::ShareOneByOne, waiting_readers_are_granted_the_lock_together),
];

/// A reader with a ttl of 100 ms crashes, another one has a ttl of a second, and a writer waits.
/// After 150 ms the second reader releases.
///
/// Fails if the writer does not hold the lock then.
fn expired_shares_do_not_block_a_writer() -> Result<(), String> {
    let mut node = Store::new();
    come(&mut node, 1, 100, Position::shared_owner);
    let second = come(&mut node, 2, 1_000, Position::shared_owner);
    let alone = come(&mut node, 3, 1_000, Position::owner);
    release(&mut node, 150, second, None);
    check_held(&mut node, 151, alone, "an expired share blocks a waiting writer")
}

/// A reader holds the lock, a writer waits, and another reader waits behind the writer. The writer
/// leaves.
///
/// Fails if the second reader does not hold the lock then.
fn a_writer_that_leaves_does_not_block_readers() -> Result<(), String> {
    let mut node = Store::new();
    come(&mut node, 1, 1_000, Position::shared_owner);
    let alone = come(&mut node, 2, 1_000, Position::owner);
    let third = come(&mut node, 3, 1_000, Position::shared_owner);
    release(&mut node, 2, alone, None);
    check_held(&mut node, 3, third, "a reader waits for a writer that has left")
}

/// A writer holds the lock, and two readers wait. The writer releases.
///
/// Fails if one of the readers does not hold the lock then.
fn waiting_readers_are_granted_the_lock_together() -> Result<(), String> {
    let mut node = Store::new();
    let alone = come(&mut node, 1, 1_000, Position::owner);
    let readers = [2, 3].map(|number| come(&mut node, number, 1_000, Position::shared_owner));
    release(&mut node, 2, alone, None);
    let mut each = readers.into_iter();
    each.try_for_each(|reader| {
        check_held(&mut node, 3, reader, "a reader waits although only readers hold the lock")
    })
}

/// Asks for the lock, in the order of the numbers.
fn come(node: &mut Store, number: u8, ttl_ms: u64, kind: fn(&Position, u64) -> Owner) -> Owner {
    let sender = attach(node, number, 5_000);
    let owner = kind(&Position { ttl_ms, ..place(sender, number.into()) }, 1);
    ask(node, 1, sender, &owner);
    owner
}

fn check_held(node: &mut Store, ms: u64, owner: Owner, wrong: &str) -> Result<(), String> {
    has(node, ms, owner).then_some(()).ok_or_else(|| wrong.to_owned())
}
