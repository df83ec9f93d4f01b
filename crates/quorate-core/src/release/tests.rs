//! How a release ends, for every assignment of votes of three nodes.

use std::time::Duration;

use super::*;
use crate::{quorum::NodeSet, terms::Drift};

fn machine(nodes: usize) -> Release {
    let ms = Duration::from_millis;
    let terms = Terms::new(ms(100), ms(5), Drift::default()).expect("valid");
    Release::start(terms, nodes, Moment::ZERO)
}

#[test]
fn a_release_goes_to_all_nodes() {
    for nodes in 1..=5 {
        let all = Output::Send { nodes: NodeSet::all(nodes), verb: Verb::Free };
        assert_eq!(machine(nodes).poll_output(), all);
    }
}

#[test]
fn every_assignment_of_votes_has_the_outcome_of_the_oracle() {
    let votes = [Vote::Grant, Vote::Refuse, Vote::Unknown];
    for code in 0..27_usize {
        let cast = [code % 3, code / 3 % 3, code / 9];
        let mut machine = machine(3);
        for (node, digit) in cast.into_iter().enumerate() {
            machine.handle_vote(node, votes[digit]);
        }
        let count = |wanted| cast.iter().filter(|digit| **digit == wanted).count();
        let oracle = match () {
            () if count(0) >= 2 => Outcome::Released,
            () if count(1) >= 2 => Outcome::WasGone,
            () => Outcome::Unsure,
        };
        assert_eq!(machine.outcome(), Some(oracle), "{cast:?}");
    }
}

#[test]
fn a_silent_node_is_not_waited_for_beyond_the_vote_timeout() {
    let mut machine = machine(1);
    let _ = machine.poll_output();
    let until = Moment::ZERO.saturating_add(Duration::from_millis(5));
    assert_eq!(machine.poll_output(), Output::Wait { until });
    machine.handle_timeout(until);
    assert_eq!(machine.outcome(), Some(Outcome::Unsure));
    assert_eq!(machine.poll_output(), Output::Idle);
}
