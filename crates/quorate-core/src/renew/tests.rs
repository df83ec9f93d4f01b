//! Every combination of votes, and the two deadlines.

use std::time::Duration;

use super::*;
use crate::terms::Drift;

fn terms() -> Terms {
    let ms = Duration::from_millis;
    Terms::new(ms(100), ms(5), Drift::default()).expect("valid")
}

fn at(ms: u64) -> Moment {
    Moment::ZERO.saturating_add(Duration::from_millis(ms))
}

#[test]
fn every_combination_of_votes_matches_the_oracle() {
    for nodes in 1..=5_u32 {
        for code in 0..4_usize.pow(nodes) {
            let digit = |node: u32| code / 4_usize.pow(node) % 4;
            let mut machine = Renew::start(terms(), nodes as usize, at(50), at(10));
            for node in 0..nodes {
                let vote = match digit(node) {
                    0 => Vote::Grant,
                    1 => Vote::Refuse,
                    2 => Vote::Unknown,
                    _ => continue,
                };
                machine.handle_vote(node as usize, vote, at(11));
            }
            machine.handle_timeout(at(15));
            let quorum = nodes as usize / 2 + 1;
            let count = |wanted| (0..nodes).filter(|node| digit(*node) == wanted).count();
            let oracle = match () {
                () if count(0) >= quorum => Outcome::Extended { valid_until: at(107) },
                () if count(1) > nodes as usize - quorum => Outcome::Gone,
                () => Outcome::Unsure,
            };
            assert_eq!(machine.outcome(), Some(oracle), "{nodes} nodes, code {code}");
        }
    }
}

#[test]
fn extension_counts_only_before_the_old_deadline() {
    let in_time = Outcome::Extended { valid_until: at(107) };
    for (arrival, outcome) in [(at(49), in_time), (at(50), Outcome::TooLate)] {
        let mut machine = Renew::start(terms(), 3, at(50), at(10));
        machine.handle_vote(0, Vote::Grant, at(11));
        machine.handle_vote(1, Vote::Grant, arrival);
        assert_eq!(machine.outcome(), Some(outcome));
    }
}

#[test]
fn extension_counts_only_before_its_own_end() {
    let mut machine = Renew::start(terms(), 1, at(5_000), at(10));
    machine.handle_vote(0, Vote::Grant, at(107));
    assert_eq!(machine.outcome(), Some(Outcome::TooLate));
}

#[test]
fn each_node_is_asked_once_and_failure_undoes_nothing() {
    let mut machine = Renew::start(terms(), 3, at(50), at(10));
    let Output::Send { nodes, kind: RoundKind::Extend } = machine.poll_output() else {
        panic!("expected a request")
    };
    assert_eq!(nodes.len(), 3);
    assert_eq!(machine.poll_output(), Output::Wait { until: at(15) });
    for node in 0..3 {
        machine.handle_vote(node, Vote::Refuse, at(11));
    }
    assert_eq!(machine.outcome(), Some(Outcome::Gone));
    assert_eq!(machine.poll_output(), Output::Idle);
}
