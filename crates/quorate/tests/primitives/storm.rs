//! What goes wrong, and in which order.
//!
//! Responsible for faults that leave somebody who can get on: one worker that is killed or stopped,
//! and with it one node that is away, or the links of one side. Not for what the workers do.

use quorate_testkit::{Fault, history::Moment};

use super::{
    dice::Dice,
    fixture::{Fixture, Memory, NODES, SIDES},
    say,
};

/// What happens to a process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fate {
    Killed,
    /// It believes that it still holds, until it looks at its clock.
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
        // All of them vote again, and one that was there all the time is away.
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

/// Lets both happen, waits until others got on all the same, mends it, and waits for everybody.
fn strike(fixture: &mut Fixture, dice: &mut Dice, fate: Fate, blow: &Blow) {
    let victim = match fate {
        Fate::Killed => {
            let mut workers = fixture.workers();
            workers.swap_remove(dice.below(workers.len()))
        }
        Fate::HolderStopped => fixture.stop_holder(),
    };
    say(&format!("  {victim}: {fate:?}, {blow:?}"));
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
