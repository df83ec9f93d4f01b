//! Owners without queues and fences: every assignment of votes against one-line oracles, the edges
//! in time, and waiters that try again.

use super::*;
use crate::quorum::Vote;

/// What a node does in a test: it votes, or it stays silent until the vote timeout.
const ANSWERS: [Option<Vote>; 4] =
    [Some(Vote::Grant), Some(Vote::Refuse), Some(Vote::Unknown), None];

const ASK: NodeAction = NodeAction::Acquire { is_waiting: false, is_known: false };
const HELD: Option<Outcome> = Some(Outcome::Held { valid_until: at_97(), fence: Fence::new(1) });

const fn at_97() -> Moment {
    Moment::from_nanos(97_000_000)
}

/// An attempt, and what it has said to each node by now.
struct Tried {
    attempt: Acquire,
    asked: Vec<usize>,
    left: Vec<usize>,
}

impl Tried {
    fn start(nodes: usize, wait: Wait) -> Self {
        let attempt = Acquire::start(terms(), nodes, NodeSet::all(nodes), wait, at(0)).plain(7);
        let mut tried = Self { attempt, asked: Vec::new(), left: Vec::new() };
        tried.drain();
        tried
    }

    fn drain(&mut self) {
        for (node, action) in self.attempt.call() {
            match action {
                NodeAction::Acquire { .. } => self.asked.push(node),
                NodeAction::Release => self.left.push(node),
                other => panic!("a plain owner never says {other:?}"),
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

fn every_assignment(nodes: usize) -> impl Iterator<Item = Vec<Option<Vote>>> {
    let power = |exponent: usize| 4_usize.pow(u32::try_from(exponent).unwrap());
    (0..power(nodes))
        .map(move |code| (0..nodes).map(|node| ANSWERS[code / power(node) % 4]).collect())
}

fn count(votes: &[Option<Vote>], wanted: Vote) -> usize {
    votes.iter().filter(|vote| **vote == Some(wanted)).count()
}

/// Runs one assignment to its end, with the votes in node order and then the timeout. Returns how
/// many votes had come when it was decided.
fn run(votes: &[Option<Vote>]) -> (Tried, usize) {
    let mut tried = Tried::start(votes.len(), Wait::Never);
    let mut decided_after = votes.len();
    for (node, vote) in votes.iter().enumerate() {
        if let Some(vote) = vote {
            tried.vote(node, *vote, 0, 1);
        }
        if tried.attempt.outcome().is_some() {
            decided_after = decided_after.min(node + 1);
        }
    }
    tried.timeout(at(4));
    tried.timeout(at(5));
    assert_eq!(tried.attempt.waits_until(), None, "nothing to wait for: {votes:?}");
    (tried, decided_after)
}

#[test]
fn every_assignment_of_votes_has_the_outcome_of_the_oracle() {
    for votes in (1..=5).flat_map(every_assignment) {
        let quorum = votes.len() / 2 + 1;
        let (grants, refusals) = (count(&votes, Vote::Grant), count(&votes, Vote::Refuse));
        let (tried, _) = run(&votes);
        let oracle = match () {
            () if grants >= quorum => HELD,
            () if grants + refusals >= quorum => Some(Outcome::Contended),
            () => Some(Outcome::NoQuorum),
        };
        assert_eq!(tried.attempt.outcome(), oracle, "{votes:?}");
        assert_eq!(tried.asked, (0..votes.len()).collect::<Vec<_>>(), "each is asked once");
    }
}

#[test]
fn lost_try_is_undone_on_every_node_that_has_not_refused_it() {
    for votes in (1..=5).flat_map(every_assignment) {
        let (mut tried, decided_after) = run(&votes);
        tried.left.sort_unstable();
        // Only a refusal that was known when it was decided spares a node the undo.
        let spared = |node: &usize| *node < decided_after && votes[*node] == Some(Vote::Refuse);
        let oracle: Vec<usize> = match tried.attempt.outcome() {
            HELD => Vec::new(),
            _ => (0..votes.len()).filter(|node| !spared(node)).collect(),
        };
        assert_eq!(tried.left, oracle, "{votes:?}");
    }
}

#[test]
fn abandoned_try_is_undone_whenever_the_caller_goes() {
    for votes in (1..=4).flat_map(every_assignment) {
        for gone_after in 0..=votes.len() {
            let mut tried = Tried::start(votes.len(), Wait::Never);
            for (node, vote) in votes.iter().take(gone_after).enumerate() {
                vote.iter().for_each(|vote| tried.vote(node, *vote, 0, 1));
            }
            let decided = tried.attempt.outcome();
            tried.abandon();
            tried.timeout(at(5));
            assert_eq!(tried.attempt.outcome(), Some(Outcome::Abandoned), "even if it was won");
            tried.left.sort_unstable();
            tried.left.dedup();
            let spared = |node: &usize| *node < gone_after && votes[*node] == Some(Vote::Refuse);
            let all: Vec<usize> = (0..votes.len()).collect();
            let needed: Vec<usize> = all.into_iter().filter(|node| !spared(node)).collect();
            let is_covered = needed.iter().all(|node| tried.left.contains(node));
            assert!(is_covered, "{votes:?}, gone after {gone_after} ({decided:?})");
        }
    }
}

#[test]
fn first_majority_decides_without_the_slow_nodes() {
    let mut tried = Tried::start(5, Wait::Never);
    for node in [4, 0] {
        tried.vote(node, Vote::Grant, 0, 1);
        assert_eq!(tried.attempt.outcome(), None);
    }
    tried.vote(2, Vote::Grant, 0, 1);
    assert_eq!(tried.attempt.outcome(), HELD);
    assert_eq!(tried.attempt.waits_until(), None, "no timer runs for a held lock");
}

#[test]
fn two_nodes_down_and_one_refusal_is_not_yet_contention() {
    let mut tried = Tried::start(5, Wait::Never);
    tried.vote(0, Vote::Unknown, 0, 1);
    tried.vote(1, Vote::Unknown, 0, 1);
    tried.vote(2, Vote::Refuse, 0, 1);
    assert_eq!(tried.attempt.outcome(), None, "lost, but contention or silence?");
    let mut silent = tried.attempt.clone();
    tried.vote(3, Vote::Refuse, 0, 2);
    tried.vote(4, Vote::Grant, 0, 2);
    assert_eq!(tried.attempt.outcome(), Some(Outcome::Contended));
    silent.handle_timeout(at(5));
    assert_eq!(silent.outcome(), Some(Outcome::NoQuorum));
}

#[test]
fn majority_that_comes_after_the_lease_is_worthless_and_undone() {
    for (arrival, is_held) in [(96, true), (97, false), (1_000_000, false)] {
        let mut tried = Tried::start(3, Wait::Never);
        tried.vote(0, Vote::Grant, 0, 1);
        tried.vote(1, Vote::Grant, 0, arrival);
        if is_held {
            assert_eq!(tried.attempt.outcome(), HELD);
        } else {
            tried.timeout(at(arrival));
            assert_eq!(tried.attempt.outcome(), Some(Outcome::NoQuorum));
            assert_eq!(tried.left, [0, 1, 2]);
        }
    }
}

#[test]
fn answers_that_come_after_the_lease_are_answers() {
    let mut tried = Tried::start(5, Wait::Never);
    [0, 1].into_iter().for_each(|node| tried.vote(node, Vote::Grant, 0, 200));
    [2, 3].into_iter().for_each(|node| tried.vote(node, Vote::Refuse, 0, 200));
    tried.timeout(at(200));
    assert_eq!(tried.attempt.outcome(), Some(Outcome::Contended));
    let mut won = Tried::start(5, Wait::Never);
    (0..3).for_each(|node| won.vote(node, Vote::Grant, 0, 200));
    [3, 4].into_iter().for_each(|node| won.vote(node, Vote::Refuse, 0, 200));
    won.timeout(at(200));
    assert_eq!(won.attempt.outcome(), Some(Outcome::NoQuorum), "it was won, but too late");
}

#[test]
fn second_vote_of_the_same_node_changes_nothing() {
    let mut tried = Tried::start(3, Wait::Never);
    for _ in 0..3 {
        tried.vote(0, Vote::Grant, 0, 1);
    }
    assert_eq!(tried.attempt.outcome(), None);
}

#[test]
fn vote_of_a_node_that_was_away_meanwhile_counts() {
    let mut tried = Tried::start(3, Wait::Never);
    tried.attempt.handle_down(0);
    tried.vote(0, Vote::Grant, 0, 2);
    tried.vote(1, Vote::Grant, 0, 2);
    assert_eq!(tried.attempt.outcome(), HELD);
}

#[test]
fn waiter_tries_again_as_a_new_owner_after_a_delay() {
    let mut tried = Tried::start(3, WAIT);
    tried.vote(0, Vote::Grant, 0, 2);
    tried.vote(1, Vote::Refuse, 0, 2);
    tried.vote(2, Vote::Refuse, 0, 2);
    assert_eq!((tried.attempt.outcome(), tried.attempt.incarnation()), (None, 1));
    assert_eq!(tried.left, [0], "action was granted goes back at once");
    assert!(tried.attempt.is_contended() && !tried.attempt.is_short());
    let next = tried.attempt.waits_until().expect("it waits");
    // It took 2 ms to ask, and the first random delay is 4 ms at most.
    assert!(next >= at(4) && next <= at(8), "{next:?}");
    tried.asked.clear();
    tried.attempt.handle_up(0, at(3));
    assert_eq!(tried.attempt.call(), [], "a node that comes up does not shorten the delay");
    tried.timeout(next);
    assert_eq!(tried.asked, [0, 1, 2]);
    let sent_at = next.as_nanos() / 1_000_000;
    [0, 1].into_iter().for_each(|node| tried.vote(node, Vote::Grant, sent_at, sent_at + 1));
    assert!(matches!(tried.attempt.outcome(), Some(Outcome::Held { .. })));
}

#[test]
fn answer_to_an_earlier_try_is_for_nobody() {
    let mut tried = Tried::start(3, WAIT);
    tried.timeout(at(5));
    let next = tried.attempt.waits_until().expect("it waits");
    tried.timeout(next);
    let old = NodeCall { incarnation: 0, action: ASK };
    (0..3).for_each(|node| tried.attempt.handle_vote(node, old, at(0), Vote::Grant, next));
    assert_eq!(tried.attempt.outcome(), None);
}

#[test]
fn waiter_gives_up_when_its_patience_with_silent_nodes_is_over() {
    let mut tried = Tried::start(3, Wait::Patiently(Duration::from_millis(50)));
    let mut tries = 0;
    while let Some(until) = tried.attempt.waits_until() {
        tries += 1;
        assert!(until <= at(56), "{until:?} is beyond its patience and one vote timeout");
        tried.timeout(until);
    }
    assert_eq!(tried.attempt.outcome(), Some(Outcome::NoQuorum));
    assert!(tries > 2, "it tries more than once");
}

#[test]
fn waiter_that_is_refused_never_gives_up() {
    let mut tried = Tried::start(1, Wait::Patiently(Duration::from_millis(50)));
    let mut now = at(0);
    for _ in 0..100 {
        let call = NodeCall { incarnation: tried.attempt.incarnation, action: ASK };
        tried.attempt.handle_vote(0, call, now, Vote::Refuse, now);
        now = tried.attempt.waits_until().expect("it goes on");
        tried.timeout(now);
    }
    assert!(now > at(1_000) && tried.left.is_empty());
}
