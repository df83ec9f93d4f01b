//! Every assignment of votes against one-line oracles, and the edges in time.

use std::time::Duration;

use super::*;
use crate::terms::Drift;

/// What a node does in a test: it votes, or it stays silent until the vote timeout.
const ANSWERS: [Option<Vote>; 4] =
    [Some(Vote::Grant), Some(Vote::Refuse), Some(Vote::Unknown), None];

fn terms() -> Terms {
    let ms = Duration::from_millis;
    Terms::new(ms(100), ms(5), Drift::default()).expect("valid")
}

fn at(ms: u64) -> Moment {
    Moment::ZERO.saturating_add(Duration::from_millis(ms))
}

/// Drains the machine into the sets of nodes that were sent `Take` and `Free`.
fn drain(machine: &mut Acquire, sent: &mut Sent) -> Option<Moment> {
    loop {
        match machine.poll_output() {
            Output::Send { nodes, verb: Verb::Take } => sent.taken.extend(nodes.iter()),
            Output::Send { nodes, verb: Verb::Free } => sent.freed.extend(nodes.iter()),
            Output::Send { verb, .. } => panic!("an acquire never sends {verb:?}"),
            Output::Wait { until } => return Some(until),
            Output::Idle => return None,
        }
    }
}

#[derive(Default)]
struct Sent {
    taken: Vec<usize>,
    freed: Vec<usize>,
}

fn every_assignment(nodes: usize) -> impl Iterator<Item = Vec<Option<Vote>>> {
    let power = |exponent: usize| 4_usize.pow(u32::try_from(exponent).unwrap());
    (0..power(nodes))
        .map(move |code| (0..nodes).map(|node| ANSWERS[code / power(node) % 4]).collect())
}

fn count(votes: &[Option<Vote>], wanted: Vote) -> usize {
    votes.iter().filter(|vote| **vote == Some(wanted)).count()
}

/// Runs one assignment to its end, with the voices in node order and then the timeout.
fn run(votes: &[Option<Vote>]) -> (Outcome, Sent) {
    let mut sent = Sent::default();
    let mut machine = Acquire::start(terms(), votes.len(), at(0));
    drain(&mut machine, &mut sent);
    for (node, vote) in votes.iter().enumerate() {
        if let Some(vote) = vote {
            machine.handle_vote(node, *vote, at(1));
            drain(&mut machine, &mut sent);
        }
    }
    machine.handle_timeout(at(4));
    drain(&mut machine, &mut sent);
    machine.handle_timeout(at(5));
    assert_eq!(drain(&mut machine, &mut sent), None, "nothing to wait for: {votes:?}");
    (machine.outcome().expect("decided at the vote timeout"), sent)
}

#[test]
fn every_assignment_of_votes_has_the_outcome_of_the_oracle() {
    for votes in (1..=5).flat_map(every_assignment) {
        let quorum = votes.len() / 2 + 1;
        let (grants, refusals) = (count(&votes, Vote::Grant), count(&votes, Vote::Refuse));
        let (outcome, sent) = run(&votes);
        let oracle = match () {
            () if grants >= quorum => Outcome::Held { valid_until: at(97) },
            () if grants + refusals >= quorum => Outcome::Contended,
            () => Outcome::NoQuorum,
        };
        assert_eq!(outcome, oracle, "{votes:?}");
        assert_eq!(sent.taken, (0..votes.len()).collect::<Vec<_>>(), "every node is asked once");
    }
}

#[test]
fn a_lost_attempt_is_undone_on_every_node_that_did_not_plainly_refuse() {
    for votes in (1..=5).flat_map(every_assignment) {
        let (outcome, mut sent) = run(&votes);
        sent.freed.sort_unstable();
        let oracle: Vec<usize> = match outcome {
            Outcome::Held { .. } => Vec::new(),
            _ => (0..votes.len()).filter(|node| votes[*node] != Some(Vote::Refuse)).collect(),
        };
        assert_eq!(sent.freed, oracle, "{votes:?}");
    }
}

#[test]
fn an_abandoned_attempt_is_undone_whenever_the_caller_goes() {
    for votes in (1..=4).flat_map(every_assignment) {
        for gone_after in 0..=votes.len() {
            let mut sent = Sent::default();
            let mut machine = Acquire::start(terms(), votes.len(), at(0));
            for (node, vote) in votes.iter().enumerate() {
                if node == gone_after {
                    machine.handle_abandon();
                }
                drain(&mut machine, &mut sent);
                if let Some(vote) = vote {
                    machine.handle_vote(node, *vote, at(1));
                }
            }
            machine.handle_abandon();
            drain(&mut machine, &mut sent);
            machine.handle_timeout(at(5));
            drain(&mut machine, &mut sent);
            sent.freed.sort_unstable();
            // Only a refusal that was known when the caller went spares a node the undo.
            let spared = |node: &usize| *node < gone_after && votes[*node] == Some(Vote::Refuse);
            let oracle: Vec<usize> = (0..votes.len()).filter(|node| !spared(node)).collect();
            assert_eq!(sent.freed, oracle, "{votes:?}, gone after {gone_after}");
            assert_eq!(machine.outcome(), Some(Outcome::Abandoned), "not held, even if won");
            assert_eq!(sent.taken, (0..votes.len()).collect::<Vec<_>>());
        }
    }
}

#[test]
fn the_first_majority_decides_without_the_slow_nodes() {
    let mut machine = Acquire::start(terms(), 5, at(0));
    for node in [4, 0] {
        machine.handle_vote(node, Vote::Grant, at(1));
        assert_eq!(machine.outcome(), None);
    }
    machine.handle_vote(2, Vote::Grant, at(1));
    assert_eq!(machine.outcome(), Some(Outcome::Held { valid_until: at(97) }));
    assert_eq!(drain(&mut machine, &mut Sent::default()), None, "no timer runs for a held lock");
}

#[test]
fn a_majority_of_refusals_decides_at_once_and_late_votes_are_undone_as_they_come() {
    let mut sent = Sent::default();
    let mut machine = Acquire::start(terms(), 5, at(0));
    machine.handle_vote(0, Vote::Grant, at(1));
    for node in [1, 2, 3] {
        machine.handle_vote(node, Vote::Refuse, at(1));
    }
    assert_eq!(machine.outcome(), Some(Outcome::Contended));
    assert_eq!(drain(&mut machine, &mut sent), Some(at(5)), "node 4 may have the key");
    assert_eq!(sent.freed, [0], "the undo does not wait for node 4");
    machine.handle_vote(4, Vote::Grant, at(3));
    drain(&mut machine, &mut sent);
    assert_eq!(sent.freed, [0, 4]);
}

#[test]
fn two_nodes_down_and_one_refusal_is_not_yet_contention() {
    let mut machine = Acquire::start(terms(), 5, at(0));
    machine.handle_vote(0, Vote::Unknown, at(1));
    machine.handle_vote(1, Vote::Unknown, at(1));
    machine.handle_vote(2, Vote::Refuse, at(1));
    assert_eq!(machine.outcome(), None, "lost, but contention or silence?");
    let mut silent = machine.clone();
    machine.handle_vote(3, Vote::Refuse, at(2));
    machine.handle_vote(4, Vote::Grant, at(2));
    assert_eq!(machine.outcome(), Some(Outcome::Contended));
    silent.handle_timeout(at(5));
    assert_eq!(silent.outcome(), Some(Outcome::NoQuorum));
}

#[test]
fn a_majority_that_comes_after_the_lease_is_worthless_and_undone() {
    for (arrival, held) in [(at(96), true), (at(97), false), (at(1_000_000), false)] {
        let mut sent = Sent::default();
        let mut machine = Acquire::start(terms(), 3, at(0));
        machine.handle_vote(0, Vote::Grant, at(1));
        machine.handle_vote(1, Vote::Grant, arrival);
        drain(&mut machine, &mut sent);
        if held {
            assert_eq!(machine.outcome(), Some(Outcome::Held { valid_until: at(97) }));
        } else {
            assert_eq!(machine.outcome(), Some(Outcome::TooLate));
            assert_eq!(sent.freed, [0, 1]);
        }
    }
}

#[test]
fn a_second_vote_of_the_same_node_changes_nothing() {
    let mut machine = Acquire::start(terms(), 3, at(0));
    for _ in 0..3 {
        machine.handle_vote(0, Vote::Grant, at(1));
    }
    assert_eq!(machine.outcome(), None);
}
