//! The simulator itself: it repeats, it finds what is broken, and it shows that to people.

use std::fs;

use quorate_sim::{
    campaign::{Campaign, Totals},
    catalogue::{self, CATALOGUE, Noticed},
    check::Promise,
    fault::Bound,
    settings::{Fixed, Settings},
    shrink,
    story::Story,
    timeline,
    world::{self, Options, Without},
};

fn campaign(seeds: u64) -> Campaign {
    Campaign { from: 0, seeds, fixed: Fixed::default(), threads: 2, mutant: None }
}

fn trace(seed: u64, without: &Without) -> Vec<String> {
    let settings = Settings::draw(seed, &Fixed::default());
    let options = Options { is_traced: true, ..Options::default() };
    let report = world::run(settings, without, options);
    report.trace.lines().iter().map(ToString::to_string).collect()
}

#[test]
fn promises_are_kept_in_worlds_with_enough_work_and_enough_faults() {
    let totals: Totals = campaign(1_000).run(|_| {});
    assert_eq!(totals.seeds, 1_000);
    assert!(totals.first.is_none(), "{:?}", totals.first);
    let faults: u64 = totals.count.faults.iter().sum();
    assert!(totals.count.acquisitions >= 20 * totals.seeds, "{:?}", totals.count);
    assert!(faults >= 5 * totals.seeds, "{:?}", totals.count);
    assert!(totals.count.faults.iter().all(|count| *count > 0), "every kind: {:?}", totals.count);
}

/// Otherwise nobody would know whether the judge looks at all.
#[test]
fn overlaps_are_found_where_exclusion_is_not_promised() {
    let totals = campaign(3_000).run(|_| {});
    for bound in Bound::ALL {
        assert!(totals.beyond[bound as usize] > 0, "{bound}: {:?}", totals.beyond);
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..20 {
        assert_eq!(trace(seed, &Without::default()), trace(seed, &Without::default()), "{seed}");
    }
    assert_ne!(trace(1, &Without::default()), trace(2, &Without::default()));
}

#[test]
fn what_is_left_out_does_not_change_what_was_before() {
    // Some worlds are calm.
    let first_fault = |seed| {
        let whole = trace(seed, &Without::default());
        let fault = whole.iter().position(|line| line.contains("FAULT"))?;
        Some((seed, whole, fault))
    };
    let (seed, whole, fault) = (0..20).find_map(first_fault).expect("a world with faults");
    let without = Without { faults: vec![0], clients: Vec::new() };
    let less = trace(seed, &without);
    assert_eq!(whole[..fault], less[..fault]);
    assert_ne!(whole, less);
}

#[test]
fn every_mutant_is_noticed() {
    for entry in CATALOGUE {
        let is_noticed = match entry.noticed {
            Noticed::Seeds => {
                let campaign = Campaign { mutant: Some(entry), ..campaign(20_000) };
                campaign.run(|_| {}).first.is_some()
            }
            Noticed::Directed(schedule) => {
                assert_eq!(schedule(), Ok(()), "{entry} without the mutant");
                let _on = entry.switch_on();
                schedule().is_err()
            }
            Noticed::Redundant(argument) => !argument.is_empty(),
        };
        assert!(is_noticed, "{entry} was not noticed: {}", entry.about);
    }
}

#[test]
fn a_violation_is_made_small_replayed_and_drawn() {
    let mutant = catalogue::find("free-anyones").unwrap();
    let campaign = Campaign { mutant: Some(mutant), ..campaign(1_000) };
    let (seed, violation) = campaign.run(|_| {}).first.expect("free-anyones is noticed");
    assert_eq!(violation.promise, Promise::Exclusion);
    let _on = mutant.switch_on();
    let small = shrink::shrink(&campaign, seed, violation.promise).expect("it happens again");
    assert!(small.story.lines.len() <= 40, "{}", small.story);
    assert!(small.replay(&campaign).contains(&format!("--seed {}", small.seed)));

    let again = campaign.run_one(small.seed, small.fixed, &small.without, false);
    assert_eq!(again.violation.map(|found| found.text), Some(small.story.violation.text.clone()));
    let written: Without = small.without.to_string().parse().unwrap();
    assert_eq!(written, small.without);

    let picture = timeline::svg(&small.story);
    assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"));
    for needed in ["Two holders at once", "node n0", "client ", "class='verdict'", "take "] {
        assert!(picture.contains(needed), "{needed} is missing");
    }
}

#[test]
fn a_part_that_cannot_be_left_out_is_a_clear_error() {
    for text in ["x1", "f", "", "f1,", "fä"] {
        let error = text.parse::<Without>().unwrap_err();
        assert!(error.contains("neither a fault such as f3 nor a client like c1"), "{error}");
    }
}

#[test]
fn the_page_about_simulation_shows_what_the_command_shows() {
    let mutant = catalogue::find("stopped-clock").unwrap();
    let campaign = Campaign { mutant: Some(mutant), ..campaign(1) };
    let fixed = Fixed { nodes: Some(3), clients: Some(2), is_in_line: None };
    let report = campaign.run_one(807, fixed, &Without::default(), true);
    let violation = report.violation.expect("the page says so");
    let story = Story::of(Settings::draw(807, &fixed), violation, &report.trace);
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
    let page = fs::read_to_string(format!("{docs}/simulation.md")).unwrap();
    assert!(page.contains(&story.to_string()), "docs/simulation.md should show\n{story}");
    let picture = fs::read_to_string(format!("{docs}/images/stopped-clock.svg")).unwrap();
    assert_eq!(picture, timeline::svg(&story), "write it again with --svg");
}
