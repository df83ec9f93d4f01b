//! The simulator itself: it is deterministic, it finds broken promises, and it shows them readably.

use std::fs;

use quorate_sim::{
    campaign::{Campaign, Totals},
    catalogue::{self, CATALOGUE, Entry, Noticed},
    check::Promise,
    fault::{Bound, KINDS},
    run::{self, Counts, Options, Without},
    settings::{Fixed, Settings},
    shrink,
    story::Story,
    timeline,
    trace::{LeaseChange, Line, Position, Scene},
};

fn campaign(seeds: u64) -> Campaign {
    Campaign { from: 0, seeds, fixed: Fixed::default(), threads: 2, mutant: None }
}

fn trace(seed: u64, without: &Without) -> Vec<String> {
    let settings = Settings::draw(seed, &Fixed::default());
    let options = Options { is_traced: true, ..Options::default() };
    let report = run::run(settings, without, options);
    report.trace.lines().iter().map(ToString::to_string).collect()
}

#[test]
fn promises_are_kept_in_runs_with_enough_work_and_enough_faults() {
    let totals: Totals = campaign(1_000).run(|_| {});
    assert_eq!(totals.seeds, 1_000);
    assert!(totals.first.is_none(), "{:?}", totals.first);
    let faults: u64 = totals.count.faults.iter().sum();
    assert!(totals.count.acquisitions >= 20 * totals.seeds, "{:?}", totals.count);
    assert!(faults >= 5 * totals.seeds, "{:?}", totals.count);
    assert!(totals.count.faults.iter().all(|count| *count > 0), "every kind: {:?}", totals.count);
    assert!(totals.count.batches > 10 * totals.seeds, "{:?}", totals.count);
    assert!(totals.count.split_batches > 20, "{:?}", totals.count);
}

/// Otherwise nothing would show that the checker works.
#[test]
fn overlaps_are_found_where_exclusion_is_not_promised() {
    let totals = campaign(3_000).run(|_| {});
    // An unnoticed rollback needs many more seeds.
    for bound in Bound::ALL.into_iter().filter(|bound| *bound != Bound::Witness) {
        assert!(totals.beyond[bound as usize] > 0, "{bound}: {:?}", totals.beyond);
    }
}

/// Nodes that forget break no promise with quarantine, and cause overlaps without it.
#[test]
fn nodes_may_forget_with_quarantine() {
    check_forgetting(true);
}

#[test]
fn nodes_may_forget_with_quarantine_in_classic_mode() {
    check_forgetting(false);
}

fn check_forgetting(has_queue: bool) {
    let run = |has_quarantine| {
        let (nodes, has_queue) = (Some(3), Some(has_queue));
        let has_quarantine = Some(has_quarantine);
        let fixed = Fixed { nodes, has_queue, has_quarantine, ..Fixed::default() };
        Campaign { fixed, ..campaign(2_000) }.run(|_| {})
    };
    let (quarantined, bare) = (run(true), run(false));
    for totals in [&quarantined, &bare] {
        assert!(totals.first.is_none(), "{:?}", totals.first);
    }
    let forgets =
        ["node flushed", "node rolled back", "node copied from another", "node clock set"];
    for kind in forgets {
        let index = KINDS.iter().position(|known| *known == kind).expect("there is such a kind");
        assert!(quarantined.count.faults[index] > 100, "{kind}: {:?}", quarantined.count);
    }
    assert_eq!(quarantined.count.quarantined, quarantined.seeds);
    assert!(quarantined.count.forgettings > quarantined.seeds, "{:?}", quarantined.count);
    assert!(quarantined.count.waits > quarantined.count.forgettings, "{:?}", quarantined.count);
    assert_eq!(quarantined.beyond[Bound::Memory as usize], 0, "{:?}", quarantined.beyond);
    assert_eq!((bare.count.quarantined, bare.count.waits), (0, 0));
    assert!(bare.beyond[Bound::Memory as usize] > 10, "{:?}", bare.beyond);
}

/// Readers hold a lock together and detach leases, and writers are served.
#[test]
fn readers_and_writers_are_served() {
    for has_quarantine in [true, false] {
        let (has_queue, is_shared, has_quarantine) = (Some(true), Some(true), Some(has_quarantine));
        let fixed = Fixed { has_queue, is_shared, has_quarantine, ..Fixed::default() };
        let totals = Campaign { fixed, ..campaign(1_500) }.run(|_| {});
        assert!(totals.first.is_none(), "{:?}", totals.first);
        let Counts { sharing, acquisitions, shared, joined, writers_first, adopted, .. } =
            totals.count;
        assert_eq!(sharing, totals.seeds);
        assert!(shared > acquisitions / 3 && shared < acquisitions, "{:?}", totals.count);
        assert!(joined > shared / 5, "{:?}", totals.count);
        assert!(writers_first > 2 * totals.seeds, "{:?}", totals.count);
        assert!(adopted > totals.seeds, "{:?}", totals.count);
    }
}

/// Many readers would share the lock all the time if writers were not served in queue order.
#[test]
fn writers_are_served_in_a_crowd_of_readers() {
    let fixed = Fixed { has_queue: Some(true), is_shared: Some(true), ..Fixed::default() };
    let (mut runs, mut count) = (0, Counts::default());
    for seed in 0..400 {
        let settings = Settings::draw(seed, &fixed);
        if !settings.sharing.is_some_and(|sharing| sharing.is_crowded) {
            continue;
        }
        let report = run::run(settings, &Without::default(), Options::default());
        assert!(report.violation.is_none(), "{seed}: {:?}", report.violation);
        runs += 1;
        count.shared += report.count.shared;
        count.joined += report.count.joined;
        count.writers_first += report.count.writers_first;
    }
    assert!(runs > 40, "{runs}");
    assert!(count.joined > count.shared / 2, "{count:?}");
    assert!(count.writers_first > 10 * runs, "{runs}: {count:?}");
}

/// Most runs have no readers, so that seeds without sharing keep their meaning.
#[test]
fn most_runs_have_no_shared_locks() {
    let draw = |seed| Settings::draw(seed, &Fixed::default());
    let queued: Vec<_> = (0..3_000).map(draw).filter(|it| it.has_queue).collect();
    let sharing = queued.iter().filter(|it| it.sharing.is_some()).count();
    assert!((queued.len() / 4..queued.len() * 2 / 5).contains(&sharing), "{sharing}");
    let alone = Fixed { is_shared: Some(false), ..Fixed::default() };
    for settings in queued.iter().filter(|it| it.sharing.is_none()) {
        let same = Settings::draw(settings.seed, &alone);
        assert_eq!(format!("{settings:?}"), format!("{same:?}"));
    }
}

#[test]
fn same_seed_gives_the_same_trace() {
    for seed in 0..20 {
        assert_eq!(trace(seed, &Without::default()), trace(seed, &Without::default()), "{seed}");
    }
    assert_ne!(trace(1, &Without::default()), trace(2, &Without::default()));
}

#[test]
fn recording_does_not_change_a_run() {
    for seed in 0..300 {
        let count = |is_traced| {
            let options = Options { is_traced, ..Options::default() };
            run::run(Settings::draw(seed, &Fixed::default()), &Without::default(), options).count
        };
        assert_eq!(format!("{:?}", count(false)), format!("{:?}", count(true)), "{seed}");
    }
}

#[test]
fn fault_that_is_left_out_does_not_change_earlier_events() {
    let first_fault = |seed| {
        let whole = trace(seed, &Without::default());
        let fault = whole.iter().position(|line| line.contains("FAULT f0"))?;
        Some((seed, whole, fault))
    };
    let (seed, whole, fault) = (0..20).find_map(first_fault).expect("a run with faults");
    let without = Without { faults: vec![0], clients: Vec::new() };
    let less = trace(seed, &without);
    assert_eq!(whole[..fault], less[..fault]);
    assert_ne!(whole, less);
}

/// A client that is left out stays out, although faults make its place crash and start again.
#[test]
fn client_that_is_left_out_does_nothing() {
    for seed in 0..200 {
        let without = Without { faults: Vec::new(), clients: vec![1] };
        let acts = |line: &String| line[13..].starts_with("B ") && !line.contains("FAULT");
        assert!(!trace(seed, &without).iter().any(acts), "{seed}");
    }
}

#[test]
fn stopped_client_does_nothing() {
    let mut stops = 0;
    for seed in 0..200 {
        let settings = Settings::draw(seed, &Fixed::default());
        let options = Options { is_traced: true, ..Options::default() };
        let report = run::run(settings, &Without::default(), options);
        for stop in report.trace.lines() {
            let Scene::Fault { place: Position::Client(client), until, text, .. } = &stop.what
            else {
                continue;
            };
            if !["client paused", "client suspended"].contains(&text.as_str()) {
                continue;
            }
            stops += 1;
            let during = |line: &&Line| stop.at < line.at && line.at < *until;
            for line in report.trace.lines().iter().filter(during) {
                let is_done = match &line.what {
                    Scene::Received { client, .. }
                    | Scene::Unanswered { client, .. }
                    | Scene::Outcome { client, .. }
                    | Scene::Lease {
                        client,
                        change:
                            LeaseChange::Held(_) | LeaseChange::Renewed(_) | LeaseChange::Lost(_),
                        ..
                    } => Some(client),
                    _ => None,
                };
                assert_ne!(is_done, Some(client), "seed {seed}: {line} during {stop}");
            }
        }
    }
    assert!(stops > 100, "{stops}");
}

/// All other mutants are hunted by `quorate-sim mutants --check`, which `cargo xtask ci` runs.
#[test]
fn redundant_mutants_break_no_promise() {
    let is_redundant = |entry: &&Entry| matches!(entry.noticed, Noticed::Redundant(_));
    for entry in CATALOGUE.iter().filter(is_redundant) {
        let campaign = Campaign { mutant: Some(entry), ..campaign(2_000) };
        let noticed = campaign.run(|_| {}).first;
        assert!(noticed.is_none(), "the argument for {entry} is wrong: {noticed:?}");
    }
}

#[test]
fn directed_schedules_pass_without_their_mutants() {
    for entry in CATALOGUE.iter() {
        if let Noticed::Directed(schedule) = entry.noticed {
            assert_eq!(schedule(), Ok(()), "{entry}");
        }
    }
}

#[test]
fn violation_is_shrunk_replayed_and_drawn() {
    let mutant = catalogue::find("delete-not-owned").unwrap();
    let (has_queue, has_quarantine) = (Some(false), Some(false));
    let fixed = Fixed { has_queue, has_quarantine, ..Fixed::default() };
    let campaign = Campaign { mutant: Some(mutant), fixed, ..campaign(1_000) };
    let _on = mutant.switch_on();
    let is_overlap = |seed: &u64| {
        let report = campaign.run_one(*seed, fixed, &Without::default(), false);
        report.violation.is_some_and(|found| found.promise == Promise::Exclusion)
    };
    let seed = (0..1_000).find(is_overlap).expect("delete-not-owned is noticed");
    let small = shrink::shrink(&campaign, seed, Promise::Exclusion).expect("it happens again");
    assert!(small.story.lines.len() <= 40, "{}", small.story);
    assert!(small.replay(&campaign).contains(&format!("--seed {}", small.seed)));

    let again = campaign.run_one(small.seed, small.fixed, &small.without, false);
    assert_eq!(again.violation.map(|found| found.text), Some(small.story.violation.text.clone()));
    let written: Without = small.without.to_string().parse().unwrap();
    assert_eq!(written, small.without);

    let picture = timeline::svg(&small.story);
    assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"));
    for needed in ["Two holders at once", "node n0", "client ", "class='verdict'", "set "] {
        assert!(picture.contains(needed), "{needed} is missing");
    }
}

/// Seeds that once broke a promise, or that the checker reported wrongly.
#[test]
fn seeds_that_failed_before_pass() {
    for from in [50_037_350, 60_027_235, 61_778_031, 400_365_071, 400_888_147, 500_157_518] {
        let totals = Campaign { from, ..campaign(1) }.run(|_| {});
        assert!(totals.first.is_none(), "{:?}", totals.first);
    }
}

/// The last seeds are ordinary seeds, and no seed follows them.
#[test]
fn campaign_ends_with_the_last_seed() {
    let campaign = Campaign { from: u64::MAX - 2, ..campaign(1_000) };
    assert_eq!(campaign.run(|_| {}).seeds, 3);
}

#[test]
fn missing_part_is_a_clear_error() {
    let settings = Settings { faults: 5, ..Settings::draw(3, &Fixed::default()) };
    for text in ["f99", "c99", "f0,c99"] {
        let error = text.parse::<Without>().unwrap().check(&settings).unwrap_err();
        assert!(error.contains("seed 3 has the faults f0 to f"), "{error}");
    }
    assert_eq!("f0,c1".parse::<Without>().unwrap().check(&settings), Ok(()));
}

#[test]
fn part_that_cannot_be_left_out_is_a_clear_error() {
    for text in ["x1", "f", "", "f1,", "fä"] {
        let error = text.parse::<Without>().unwrap_err();
        assert!(error.contains("neither a fault such as f3 nor a client like c1"), "{error}");
    }
}

#[test]
fn page_about_simulation_shows_what_the_command_shows() {
    let mutant = catalogue::find("stopped-clock").unwrap();
    let campaign = Campaign { mutant: Some(mutant), ..campaign(1) };
    let has_queue = Some(false);
    let fixed = Fixed { nodes: Some(3), clients: Some(2), has_queue, ..Fixed::default() };
    let report = campaign.run_one(SHOWN, fixed, &Without::default(), true);
    let violation = report.violation.expect("the page shows it");
    let story = Story::of(Settings::draw(SHOWN, &fixed), violation, &report.trace);
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
    let page = fs::read_to_string(format!("{docs}/simulation.md")).unwrap();
    assert!(page.contains(&story.to_string()), "docs/simulation.md should show\n{story}");
    let picture = fs::read_to_string(format!("{docs}/images/stopped-clock.svg")).unwrap();
    assert_eq!(picture, timeline::svg(&story), "write it again with --svg");
}

/// The seed that docs/simulation.md shows.
const SHOWN: u64 = 2810;
