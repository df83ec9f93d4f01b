//! Outcomes of a round for every combination of votes of three nodes.

use std::time::Duration;

use super::*;
use crate::terms::Drift;

fn round(kind: RoundKind, nodes: usize) -> Round {
    let ms = Duration::from_millis;
    let terms = Terms::new(ms(100), ms(5), Drift::default()).expect("valid");
    Round::start(kind, terms, nodes, Moment::ZERO)
}

#[test]
fn release_goes_to_all_nodes() {
    for nodes in 1..=5 {
        let all = Output::Send { nodes: NodeSet::all(nodes), kind: RoundKind::Release };
        assert_eq!(round(RoundKind::Release, nodes).poll_output(), all);
    }
}

#[test]
fn every_combination_of_votes_matches_the_oracle() {
    let votes = [Vote::Grant, Vote::Refuse, Vote::Unknown];
    for code in 0..27_usize {
        let cast = [code % 3, code / 3 % 3, code / 9];
        let mut round = round(RoundKind::Release, 3);
        for (node, digit) in cast.into_iter().enumerate() {
            round.handle_vote(node, votes[digit]);
        }
        let count = |wanted| cast.iter().filter(|digit| **digit == wanted).count();
        let oracle = match () {
            () if count(0) >= 2 => RoundOutcome::Agreed,
            () if count(1) >= 2 => RoundOutcome::Refused,
            () => RoundOutcome::Unsure,
        };
        assert_eq!(round.outcome(), Some(oracle), "{cast:?}");
    }
}

#[test]
fn two_of_three_nodes_decide_and_silent_nodes_do_not() {
    let outcome_of = |votes: [Option<Vote>; 3]| {
        let mut round = round(RoundKind::Check, 3);
        assert!(matches!(round.poll_output(), Output::Send { kind: RoundKind::Check, .. }));
        let votes = votes.into_iter().enumerate();
        votes.filter_map(|(node, vote)| Some((node, vote?))).for_each(|(node, vote)| {
            round.handle_vote(node, vote);
        });
        round.handle_timeout(Moment::ZERO.saturating_add(Duration::from_millis(5)));
        round.outcome()
    };
    let (yes, no, unknown) = (Some(Vote::Grant), Some(Vote::Refuse), Some(Vote::Unknown));
    assert_eq!(outcome_of([yes, yes, None]), Some(RoundOutcome::Agreed));
    assert_eq!(outcome_of([no, None, no]), Some(RoundOutcome::Refused));
    assert_eq!(outcome_of([yes, no, None]), Some(RoundOutcome::Unsure));
    assert_eq!(outcome_of([unknown, no, yes]), Some(RoundOutcome::Unsure));
}

#[test]
fn round_stops_waiting_for_a_silent_node_at_the_vote_timeout() {
    let mut round = round(RoundKind::Release, 1);
    let _ = round.poll_output();
    let until = Moment::ZERO.saturating_add(Duration::from_millis(5));
    assert_eq!(round.poll_output(), Output::Wait { until });
    round.handle_timeout(until);
    assert_eq!(round.outcome(), Some(RoundOutcome::Unsure));
    assert_eq!(round.poll_output(), Output::Idle);
}
