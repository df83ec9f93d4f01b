//! What goes wrong, and in which order.
//!
//! Responsible for faults after which some workers can still acquire locks: one worker is killed or
//! stopped, and at the same time one node is down, or the links of one side are cut. Not for what
//! the workers do.

use quorate_testkit::{Fault, history::Moment, processes::print_line};

use super::{
    dice::Dice,
    fixture::{Fixture, Memory, NODES, SIDES},
};

/// What happens to a process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fate {
    Killed,
    /// It believes that it still holds, until it reads its clock.
    HolderStopped,
}

/// Strikes round by round. Nodes that keep their data are killed in every other round, and vote
/// again at once. One that forgets is killed in the first round, does not vote for some time, and
/// is killed again in the last one. In between the links of one side are cut.
pub(crate) fn run(fixture: &mut Fixture, seed: u64, is_full: bool) {
    let mut dice = Dice::new(seed);
    let mut fates = [Fate::Killed, Fate::HolderStopped].repeat(ROUNDS / 2);
    dice.shuffle(&mut fates);
    let mut faults = [Fault::BlackHole, Fault::DropReplies, Fault::Reset, Fault::Refuse];
    dice.shuffle(&mut faults);
    let mut faults = faults.into_iter();
    let forgetful = dice.below(NODES);
    for (round, fate) in fates.into_iter().enumerate() {
        let is_node = match fixture.memory() {
            Memory::Kept => round % 2 == 0,
            Memory::Lost => round == 0 || round + 1 == ROUNDS,
        };
        let fault = if is_node { None } else { faults.next() };
        let blow = match (fault, fixture.memory()) {
            (None, Memory::Kept) => Blow::Node { node: dice.below(NODES) },
            (None, Memory::Lost) => Blow::Node { node: forgetful },
            (Some(fault), _) => {
                let side = dice.below(SIDES);
                let mut nodes: Vec<usize> = (0..NODES).collect();
                dice.shuffle(&mut nodes);
                nodes.truncate(1 + dice.below(NODES));
                Blow::Links { side, nodes, fault }
            }
        };
        strike(fixture, &mut dice, fate, &blow);
    }
    if is_full {
        // All of them vote again, and a node that was never down is killed.
        fixture.wait_until_voting(forgetful);
        strike(fixture, &mut dice, Fate::Killed, &Blow::Node { node: (forgetful + 1) % NODES });
    }
}

/// What happens to the nodes, or on the way to them.
#[derive(Debug)]
enum Blow {
    Node { node: usize },
    Links { side: usize, nodes: Vec<usize>, fault: Fault },
}

/// Lets both happen, waits until others acquire locks anyway, ends the fault, and waits for every
/// worker.
fn strike(fixture: &mut Fixture, dice: &mut Dice, fate: Fate, blow: &Blow) {
    let victim = match fate {
        Fate::Killed => {
            let mut workers = fixture.workers();
            workers.swap_remove(dice.below(workers.len()))
        }
        Fate::HolderStopped => fixture.stop_holder(),
    };
    print_line(&format!("  {victim}: {fate:?}, {blow:?}"));
    match blow {
        Blow::Node { node } => fixture.server(*node).kill(),
        Blow::Links { side, nodes, fault } => {
            nodes.iter().for_each(|node| fixture.link(*side, *node).set(*fault));
        }
    }
    if fate == Fate::Killed {
        fixture.end_worker(&victim);
        fixture.add_worker();
    }
    fixture.wait_for_others(Moment::now());

    match blow {
        Blow::Node { node } => fixture.restart(*node),
        Blow::Links { side, nodes, .. } => {
            nodes.iter().for_each(|node| fixture.link(*side, *node).set(Fault::Pass));
        }
    }
    if fate == Fate::HolderStopped {
        fixture.resume(&victim);
    }
    fixture.wait_for_everybody(Moment::now());
}

pub(crate) const ROUNDS: usize = 6;
