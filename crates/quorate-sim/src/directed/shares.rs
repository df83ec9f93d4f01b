//! Schedules for those who hold a lock together, on one node.

use quorate_core::{command::Owner, mutant::Mutant, queue::Position, store::Store};

use super::{Schedule, ask, attach, has, place, release};

pub(super) const SCHEDULES: &[(Mutant, Schedule)] = &[
    (Mutant::ExpiredSharesStay, those_whose_time_is_over_keep_nobody_out),
    (Mutant::DepartedWriterBlocks, one_who_gives_up_clears_the_way),
    (Mutant::ShareOneByOne, those_who_wait_to_share_are_let_in_together),
];

/// One who shares the lock for 100 ms dies, another shares it for a second, and somebody waits who
/// wants it alone. After 150 ms the second one goes.
///
/// Fails if the one who waits does not have the lock then: nobody holds it any more.
fn those_whose_time_is_over_keep_nobody_out() -> Result<(), String> {
    let mut node = Store::new();
    come(&mut node, 1, 100, Position::shared_owner);
    let second = come(&mut node, 2, 1_000, Position::shared_owner);
    let alone = come(&mut node, 3, 1_000, Position::owner);
    release(&mut node, 150, second, None);
    has_it(&mut node, 151, alone, "a part that is over keeps the lock from one who waits")
}

/// One shares the lock, a second one wants it alone, and a third one waits behind that to share it.
/// The second one gives up.
///
/// Fails if the third one is not let in then: nobody is in its way any more.
fn one_who_gives_up_clears_the_way() -> Result<(), String> {
    let mut node = Store::new();
    come(&mut node, 1, 1_000, Position::shared_owner);
    let alone = come(&mut node, 2, 1_000, Position::owner);
    let third = come(&mut node, 3, 1_000, Position::shared_owner);
    release(&mut node, 2, alone, None);
    has_it(&mut node, 3, third, "one who has gone is still waited for")
}

/// One has the lock alone, and two wait to share it. The first one goes.
///
/// Fails if not both of them are let in.
fn those_who_wait_to_share_are_let_in_together() -> Result<(), String> {
    let mut node = Store::new();
    let alone = come(&mut node, 1, 1_000, Position::owner);
    let readers = [2, 3].map(|number| come(&mut node, number, 1_000, Position::shared_owner));
    release(&mut node, 2, alone, None);
    let mut each = readers.into_iter();
    each.try_for_each(|reader| has_it(&mut node, 3, reader, "one who could share it waits"))
}

/// Asks for the lock, in the order of the numbers.
fn come(node: &mut Store, number: u8, ttl_ms: u64, kind: fn(&Position, u64) -> Owner) -> Owner {
    let sender = attach(node, number, 5_000);
    let owner = kind(&Position { ttl_ms, ..place(sender, number.into()) }, 1);
    ask(node, 1, sender, &owner);
    owner
}

fn has_it(node: &mut Store, ms: u64, owner: Owner, wrong: &str) -> Result<(), String> {
    has(node, ms, owner).then_some(()).ok_or_else(|| wrong.to_owned())
}
