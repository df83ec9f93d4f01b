//! What a majority of sightings says.

use std::time::Duration;

use super::*;
use crate::terms::Drift;

fn verify(votes: [Option<Vote>; 3]) -> Option<Outcome> {
    let ms = Duration::from_millis;
    let terms = Terms::new(ms(100), ms(5), Drift::default()).expect("valid");
    let mut machine = Verify::start(terms, 3, Moment::ZERO);
    assert!(matches!(machine.poll_output(), Output::Send { verb: Verb::Check, .. }));
    for (node, vote) in votes.into_iter().enumerate() {
        if let Some(vote) = vote {
            machine.handle_vote(node, vote);
        }
    }
    machine.handle_timeout(Moment::ZERO.saturating_add(ms(5)));
    machine.outcome()
}

#[test]
fn two_of_three_decide_and_silence_does_not() {
    let (yes, no, unknown) = (Some(Vote::Grant), Some(Vote::Refuse), Some(Vote::Unknown));
    assert_eq!(verify([yes, yes, None]), Some(Outcome::Confirmed));
    assert_eq!(verify([no, None, no]), Some(Outcome::Gone));
    assert_eq!(verify([yes, no, None]), Some(Outcome::Unsure));
    assert_eq!(verify([unknown, no, yes]), Some(Outcome::Unsure));
}
