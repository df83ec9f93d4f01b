//! Schedules for nodes that are full.

use quorate_core::{command::Command, line::Extend};

use super::{
    at,
    line::{Nodes, Party, TTL_MS},
    name,
};

/// A holds the lock and B waits when the nodes become full. B loses its connections one after
/// another, gets them back one after another, and looks in between. Then A goes.
///
/// # Errors
///
/// If B has given up its places, which full nodes do not give it again, and does not get the lock.
pub fn a_waiter_comes_back_to_full_nodes_one_by_one() -> Result<(), String> {
    let mut nodes = Nodes::new(0);
    let mut a = Party::start(&mut nodes, 1, 1, &[0, 1, 2], 0);
    a.settle(&mut nodes, &[0, 1, 2], 0);
    let mut b = Party::start(&mut nodes, 2, 2, &[0, 1, 2], 1);
    b.settle(&mut nodes, &[0, 1, 2], 1);
    nodes.stores.iter_mut().for_each(|store| store.set_full(true));

    for (ms, lost) in [(34, [0, 1].as_slice()), (67, &[2]), (101, &[])] {
        lost.iter().for_each(|node| b.machine.handle_down(*node));
        b.machine.handle_timeout(at(ms));
        b.pull(ms);
    }
    for node in 0..3 {
        extend(&mut nodes, &a, node, 90)?;
    }
    for (ms, node) in [(110, 0), (140, 1), (150, 2)] {
        b.machine.handle_up(node, at(ms));
        b.pull(ms);
        b.settle(&mut nodes, &[node], ms);
        b.machine.handle_timeout(at(ms + 25));
        b.pull(ms + 25);
    }
    for node in 0..3 {
        nodes.release(node, &a.owner(), 180);
        b.listen(&mut nodes, node, 180)?;
    }
    b.held().map(drop)
}

fn extend(nodes: &mut Nodes, holder: &Party, node: usize, ms: u64) -> Result<(), String> {
    let (owner, fence) = (holder.owner(), holder.held()?);
    let entry = Extend { name: name(), owner, fence, ttl_ms: TTL_MS, may_heal: true };
    nodes.apply(node, ms, &Command::Extend { speaker: holder.speaker(), entries: [entry].into() });
    Ok(())
}
