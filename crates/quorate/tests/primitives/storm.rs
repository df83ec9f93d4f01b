//! What goes wrong, and in which order.
//!
//! Responsible for faults that leave somebody who can get on: one worker that is killed or stopped,
//! and with it one node that is away, or the links of one side. Not for what the workers do.

use quorate_testkit::{Fault, history::Moment};
use rustix::process::Signal;

use super::{
    dice::Dice,
    rig::{NODES, Rig, SIDES},
    say,
};

/// What happens to a process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fate {
    Killed,
    Stopped,
}

/// Strikes round by round. A node is killed in the first and in the last one. In between it does
/// not vote at first, and the links of one side are cut.
pub(crate) fn run(rig: &mut Rig, seed: u64) {
    let mut dice = Dice::new(seed);
    let mut fates = [Fate::Killed, Fate::Stopped].repeat(ROUNDS / 2);
    dice.shuffle(&mut fates);
    let mut faults = [Fault::BlackHole, Fault::DropReplies, Fault::Reset, Fault::Refuse];
    dice.shuffle(&mut faults);
    let mut is_emptied = dice.is_one_in(2);
    let mut away = None;
    for (round, fate) in fates.into_iter().enumerate() {
        if round == 0 || round + 1 == ROUNDS {
            if let Some(node) = away.take() {
                rig.wait_until_voting(node);
            }
            let node = dice.below(NODES);
            strike(rig, &mut dice, fate, &Blow::Node { node, is_emptied });
            (away, is_emptied) = (Some(node), !is_emptied);
        } else {
            let side = dice.below(SIDES);
            let mut nodes: Vec<usize> = (0..NODES).collect();
            dice.shuffle(&mut nodes);
            nodes.truncate(1 + dice.below(NODES));
            let fault = faults[round - 1];
            strike(rig, &mut dice, fate, &Blow::Links { side, nodes, fault });
        }
    }
}

/// What happens to the nodes, or on the way to them.
#[derive(Debug)]
enum Blow {
    Node { node: usize, is_emptied: bool },
    Links { side: usize, nodes: Vec<usize>, fault: Fault },
}

/// Lets both happen, waits until others got on all the same, mends it, and waits for everybody.
fn strike(rig: &mut Rig, dice: &mut Dice, fate: Fate, blow: &Blow) {
    let workers = rig.workers();
    let victim = &workers[dice.below(workers.len())];
    say(&format!("  {victim}: {fate:?}, {blow:?}"));
    match blow {
        Blow::Node { node, .. } => rig.server(*node).kill(),
        Blow::Links { side, nodes, fault } => {
            nodes.iter().for_each(|node| rig.link(*side, *node).set(*fault));
        }
    }
    match fate {
        Fate::Killed => {
            rig.signal(victim, Signal::KILL);
            rig.add_worker();
        }
        Fate::Stopped => rig.signal(victim, Signal::STOP),
    }
    rig.wait_for_others(Moment::now());

    match blow {
        Blow::Node { node, is_emptied: true } => rig.server(*node).restart_empty(),
        Blow::Node { node, is_emptied: false } => rig.server(*node).restart(),
        Blow::Links { side, nodes, .. } => {
            nodes.iter().for_each(|node| rig.link(*side, *node).set(Fault::Pass));
        }
    }
    if fate == Fate::Stopped {
        rig.signal(victim, Signal::CONT);
    }
    rig.wait_for_everybody(Moment::now());
}

const ROUNDS: usize = 6;
