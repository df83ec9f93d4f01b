//! Schedules for nodes that are full.

use quorate_core::mutant::Mutant;

use super::{
    Schedule,
    fixture::{ALL, Fixture, TestClient},
};

pub(super) const SCHEDULES: &[(Mutant, Schedule)] =
    &[(Mutant::HastyWithdraw, a_waiter_comes_back_to_full_nodes_one_by_one)];

/// A holds the lock and B waits when the nodes become full. B loses its connections one after
/// another, gets them back one after another, and its timer fires in between. Then A releases.
///
/// Fails if B has given up its positions, which full nodes do not store again, and does not get the
/// lock.
fn a_waiter_comes_back_to_full_nodes_one_by_one() -> Result<(), String> {
    let mut fixture = Fixture::bare(0);
    let mut a = TestClient::start(&mut fixture, 1, 1, &ALL, 0);
    a.settle(&mut fixture, &ALL, 0);
    let mut b = TestClient::start(&mut fixture, 2, 2, &ALL, 1);
    b.settle(&mut fixture, &ALL, 1);
    fixture.stores.iter_mut().for_each(|store| store.set_full(true));

    for (ms, lost) in [(34, [0, 1].as_slice()), (67, &[2]), (101, &[])] {
        lost.iter().for_each(|node| b.machine.handle_down(*node));
        b.time_out(ms);
    }
    let lease = a.lease(a.held()?);
    ALL.into_iter().for_each(|node| _ = a.extend(&mut fixture, node, &lease, 90));
    for (ms, node) in [(110, 0), (140, 1), (150, 2)] {
        b.come_up(&[node], ms);
        b.settle(&mut fixture, &[node], ms);
        b.time_out(ms + 25);
    }
    for node in ALL {
        fixture.release(&[node], &a.owner(), 180);
        b.listen(&mut fixture, node, 180)?;
    }
    b.held().map(drop)
}
