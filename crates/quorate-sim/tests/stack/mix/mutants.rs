//! Deliberate bugs of the core that the mix must notice, client and server alike.

use std::panic::catch_unwind;

use quorate_sim::catalogue;

use super::play;

#[test]
fn deliberate_bugs_of_votes_and_deadlines_are_noticed() {
    assert_noticed(&["small-quorum", "no-deadline", "no-loss-signal", "no-max-hold", "no-undo"]);
}

#[test]
fn deliberate_bugs_of_quarantine_are_noticed() {
    assert_noticed(&["no-quarantine", "no-step-check", "set-without-session", "no-session"]);
}

#[test]
fn deliberate_bugs_of_fences_and_owners_are_noticed() {
    assert_noticed(&["no-write-back", "delete-not-owned", "adopt-not-owned", "share-frees-all"]);
}

fn assert_noticed(names: &[&str]) {
    for name in names {
        let entry = catalogue::find(name).unwrap_or_else(|error| panic!("{error}"));
        let _on = entry.switch_on();
        let is_noticed = (0..SEEDS).any(|seed| catch_unwind(|| play(seed, false)).is_err());
        assert!(is_noticed, "{SEEDS} seeds did not notice {name}: {}", entry.about);
    }
}

/// As many as an ordinary run has.
const SEEDS: u64 = super::SEEDS;
