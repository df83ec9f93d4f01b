//! Classic mode: every combination of votes against one-line oracles, the edges in time, and
//! waiters that retry.

use super::*;
use crate::quorum::Vote;

/// The vote of a node, or `None` if it is silent until the vote timeout.
const ANSWERS: [Option<Vote>; 4] =
    [Some(Vote::Grant), Some(Vote::Refuse), Some(Vote::Unknown), None];

const ASK: NodeAction = NodeAction::Acquire { is_waiting: false, is_known: false };
const HELD: Option<Outcome> = Some(Outcome::Held { valid_until: at_97(), fence: Fence::new(1) });

const fn at_97() -> Moment {
    Moment::from_nanos(97_000_000)
}

/// An acquire, and the calls that it made so far.
struct Fixture {
    attempt: Acquire,
    asked: Vec<usize>,
    released: Vec<usize>,
}

impl Fixture {
    fn start(nodes: usize, wait: Wait) -> Self {
        let attempt = Acquire::start(terms(), nodes, NodeSet::all(nodes), wait, at(0)).classic(7);
        let mut fixture = Self { attempt, asked: Vec::new(), released: Vec::new() };
        fixture.drain();
        fixture
    }

    fn drain(&mut self) {
        for (node, action) in self.attempt.call() {
            match action {
                NodeAction::Acquire { .. } => self.asked.push(node),
                NodeAction::Release => self.released.push(node),
                other => panic!("unexpected call in classic mode: {other:?}"),
            }
        }
    }

    fn vote(&mut self, node: usize, vote: Vote, sent_at: u64, now: u64) {
        let call = NodeCall { incarnation: self.attempt.incarnation, action: ASK };
        self.attempt.handle_vote(node, call, at(sent_at), vote, at(now));
        self.drain();
    }

    fn timeout(&mut self, now: Moment) {
        self.attempt.handle_timeout(now);
        self.drain();
    }

    fn abandon(&mut self) {
        self.attempt.handle_abandon();
        self.drain();
    }
}

fn all_votes(nodes: usize) -> impl Iterator<Item = Vec<Option<Vote>>> {
    let power = |exponent: usize| 4_usize.pow(u32::try_from(exponent).unwrap());
    (0..power(nodes))
        .map(move |code| (0..nodes).map(|node| ANSWERS[code / power(node) % 4]).collect())
}

fn count(votes: &[Option<Vote>], wanted: Vote) -> usize {
    votes.iter().filter(|vote| **vote == Some(wanted)).count()
}

/// Runs one combination to its end, with the votes in node order and then the timeout. Returns how
/// many votes had arrived when it was decided.
fn run(votes: &[Option<Vote>]) -> (Fixture, usize) {
    let mut fixture = Fixture::start(votes.len(), Wait::Never);
    let mut decided_after = votes.len();
    for (node, vote) in votes.iter().enumerate() {
        if let Some(vote) = vote {
            fixture.vote(node, *vote, 0, 1);
        }
        if fixture.attempt.outcome().is_some() {
            decided_after = decided_after.min(node + 1);
        }
    }
    fixture.timeout(at(4));
    fixture.timeout(at(5));
    assert_eq!(fixture.attempt.waits_until(), None, "no timer is left: {votes:?}");
    (fixture, decided_after)
}

#[test]
fn every_combination_of_votes_matches_the_oracle() {
    for votes in (1..=5).flat_map(all_votes) {
        let quorum = votes.len() / 2 + 1;
        let (grants, refusals) = (count(&votes, Vote::Grant), count(&votes, Vote::Refuse));
        let (fixture, _) = run(&votes);
        let oracle = match () {
            () if grants >= quorum => HELD,
            () if grants + refusals >= quorum => Some(Outcome::Contended),
            () => Some(Outcome::NoQuorum),
        };
        assert_eq!(fixture.attempt.outcome(), oracle, "{votes:?}");
        assert_eq!(fixture.asked, (0..votes.len()).collect::<Vec<_>>(), "each node is asked once");
    }
}

#[test]
fn failed_try_is_undone_on_every_node_that_did_not_refuse() {
    for votes in (1..=5).flat_map(all_votes) {
        let (mut fixture, decided_after) = run(&votes);
        fixture.released.sort_unstable();
        // Only refusals that arrived before the decision spare a node the undo.
        let spared = |node: &usize| *node < decided_after && votes[*node] == Some(Vote::Refuse);
        let oracle: Vec<usize> = match fixture.attempt.outcome() {
            HELD => Vec::new(),
            _ => (0..votes.len()).filter(|node| !spared(node)).collect(),
        };
        assert_eq!(fixture.released, oracle, "{votes:?}");
    }
}

#[test]
fn abandoned_try_is_undone_at_any_time() {
    for votes in (1..=4).flat_map(all_votes) {
        for gone_after in 0..=votes.len() {
            let mut fixture = Fixture::start(votes.len(), Wait::Never);
            for (node, vote) in votes.iter().take(gone_after).enumerate() {
                vote.iter().for_each(|vote| fixture.vote(node, *vote, 0, 1));
            }
            let decided = fixture.attempt.outcome();
            fixture.abandon();
            fixture.timeout(at(5));
            assert_eq!(fixture.attempt.outcome(), Some(Outcome::Abandoned), "even if it succeeded");
            fixture.released.sort_unstable();
            fixture.released.dedup();
            let spared = |node: &usize| *node < gone_after && votes[*node] == Some(Vote::Refuse);
            let all: Vec<usize> = (0..votes.len()).collect();
            let needed: Vec<usize> = all.into_iter().filter(|node| !spared(node)).collect();
            let is_covered = needed.iter().all(|node| fixture.released.contains(node));
            assert!(is_covered, "{votes:?}, gone after {gone_after} ({decided:?})");
        }
    }
}

#[test]
fn first_majority_decides_without_the_slow_nodes() {
    let mut fixture = Fixture::start(5, Wait::Never);
    for node in [4, 0] {
        fixture.vote(node, Vote::Grant, 0, 1);
        assert_eq!(fixture.attempt.outcome(), None);
    }
    fixture.vote(2, Vote::Grant, 0, 1);
    assert_eq!(fixture.attempt.outcome(), HELD);
    assert_eq!(fixture.attempt.waits_until(), None, "no timer runs for a held lock");
}

#[test]
fn two_nodes_down_and_one_refusal_is_not_yet_contention() {
    let mut fixture = Fixture::start(5, Wait::Never);
    fixture.vote(0, Vote::Unknown, 0, 1);
    fixture.vote(1, Vote::Unknown, 0, 1);
    fixture.vote(2, Vote::Refuse, 0, 1);
    assert_eq!(fixture.attempt.outcome(), None, "failed, but the reason is open");
    let mut silent = fixture.attempt.clone();
    fixture.vote(3, Vote::Refuse, 0, 2);
    fixture.vote(4, Vote::Grant, 0, 2);
    assert_eq!(fixture.attempt.outcome(), Some(Outcome::Contended));
    silent.handle_timeout(at(5));
    assert_eq!(silent.outcome(), Some(Outcome::NoQuorum));
}

#[test]
fn majority_after_the_end_of_the_lease_is_undone() {
    for (arrival, is_held) in [(96, true), (97, false), (1_000_000, false)] {
        let mut fixture = Fixture::start(3, Wait::Never);
        fixture.vote(0, Vote::Grant, 0, 1);
        fixture.vote(1, Vote::Grant, 0, arrival);
        if is_held {
            assert_eq!(fixture.attempt.outcome(), HELD);
        } else {
            fixture.timeout(at(arrival));
            assert_eq!(fixture.attempt.outcome(), Some(Outcome::NoQuorum));
            assert_eq!(fixture.released, [0, 1, 2]);
        }
    }
}

#[test]
fn replies_after_the_end_of_the_lease_count_as_replies() {
    let mut fixture = Fixture::start(5, Wait::Never);
    [0, 1].into_iter().for_each(|node| fixture.vote(node, Vote::Grant, 0, 200));
    [2, 3].into_iter().for_each(|node| fixture.vote(node, Vote::Refuse, 0, 200));
    fixture.timeout(at(200));
    assert_eq!(fixture.attempt.outcome(), Some(Outcome::Contended));
    let mut won = Fixture::start(5, Wait::Never);
    (0..3).for_each(|node| won.vote(node, Vote::Grant, 0, 200));
    [3, 4].into_iter().for_each(|node| won.vote(node, Vote::Refuse, 0, 200));
    won.timeout(at(200));
    assert_eq!(won.attempt.outcome(), Some(Outcome::NoQuorum), "granted, but too late");
}

#[test]
fn second_vote_of_a_node_is_ignored() {
    let mut fixture = Fixture::start(3, Wait::Never);
    for _ in 0..3 {
        fixture.vote(0, Vote::Grant, 0, 1);
    }
    assert_eq!(fixture.attempt.outcome(), None);
}

#[test]
fn vote_of_a_node_that_went_down_counts() {
    let mut fixture = Fixture::start(3, Wait::Never);
    fixture.attempt.handle_down(0);
    fixture.vote(0, Vote::Grant, 0, 2);
    fixture.vote(1, Vote::Grant, 0, 2);
    assert_eq!(fixture.attempt.outcome(), HELD);
}

#[test]
fn waiter_retries_as_a_new_owner_after_a_delay() {
    let mut fixture = Fixture::start(3, WAIT);
    fixture.vote(0, Vote::Grant, 0, 2);
    fixture.vote(1, Vote::Refuse, 0, 2);
    fixture.vote(2, Vote::Refuse, 0, 2);
    assert_eq!((fixture.attempt.outcome(), fixture.attempt.incarnation()), (None, 1));
    assert_eq!(fixture.released, [0], "the grant is released immediately");
    assert!(fixture.attempt.is_contended() && !fixture.attempt.lacks_quorum());
    let next = fixture.attempt.waits_until().expect("it waits");
    // The try took 2 ms, and the first random delay is at most 4 ms.
    assert!(next >= at(4) && next <= at(8), "{next:?}");
    fixture.asked.clear();
    fixture.attempt.handle_up(0, at(3));
    assert_eq!(fixture.attempt.call(), [], "a reachable node does not shorten the delay");
    fixture.timeout(next);
    assert_eq!(fixture.asked, [0, 1, 2]);
    let sent_at = next.as_nanos() / 1_000_000;
    [0, 1].into_iter().for_each(|node| fixture.vote(node, Vote::Grant, sent_at, sent_at + 1));
    assert!(matches!(fixture.attempt.outcome(), Some(Outcome::Held { .. })));
}

#[test]
fn reply_to_an_earlier_try_is_ignored() {
    let mut fixture = Fixture::start(3, WAIT);
    fixture.timeout(at(5));
    let next = fixture.attempt.waits_until().expect("it waits");
    fixture.timeout(next);
    let old = NodeCall { incarnation: 0, action: ASK };
    (0..3).for_each(|node| fixture.attempt.handle_vote(node, old, at(0), Vote::Grant, next));
    assert_eq!(fixture.attempt.outcome(), None);
}

#[test]
fn waiter_gives_up_on_silent_nodes_after_its_patience() {
    let mut fixture = Fixture::start(3, Wait::Patiently(Duration::from_millis(50)));
    let mut tries = 0;
    while let Some(until) = fixture.attempt.waits_until() {
        tries += 1;
        assert!(until <= at(56), "{until:?} exceeds its patience and one vote timeout");
        fixture.timeout(until);
    }
    assert_eq!(fixture.attempt.outcome(), Some(Outcome::NoQuorum));
    assert!(tries > 2, "it retries");
}

#[test]
fn refused_waiter_never_gives_up() {
    let mut fixture = Fixture::start(1, Wait::Patiently(Duration::from_millis(50)));
    let mut now = at(0);
    for _ in 0..100 {
        let call = NodeCall { incarnation: fixture.attempt.incarnation, action: ASK };
        fixture.attempt.handle_vote(0, call, now, Vote::Refuse, now);
        now = fixture.attempt.waits_until().expect("it continues");
        fixture.timeout(now);
    }
    assert!(now > at(1_000) && fixture.released.is_empty());
}
