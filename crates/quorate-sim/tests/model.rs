//! The exhaustive model, on the worlds that are small enough for every test run.

use std::collections::BTreeSet;

use quorate_core::mutant::Mutant;
use quorate_sim::model::{self, Expected, Finding, Kind, Report, Settings};

#[test]
fn every_small_world_ends_as_it_must() {
    let rows = model::rows().into_iter().filter(|row| !row.is_full);
    let reports: Vec<Report> = rows.map(|row| model::run(&row)).collect();
    println!("{}", model::table(&reports));
    for report in &reports {
        assert!(report.is_as_expected(), "{report}");
        let is_safe = report.settings.expected == Expected::Safe;
        assert_eq!(report.is_exhaustive, is_safe, "{report}");
    }
    let seen: BTreeSet<&str> = reports.iter().flat_map(examples).collect();
    assert_eq!(seen.len(), 5, "each kind of example is asked for in some row: {seen:?}");
}

#[test]
fn a_search_that_is_cut_short_says_so() {
    let settings = Settings { steps_max: 2_000, ..Settings::new("cut", "a cut", 3) };
    let report = model::run(&settings);
    assert!(!report.is_exhaustive && !report.is_as_expected(), "{report}");
    assert!(report.result().contains("NOT exhaustive"), "{report}");
}

#[test]
fn a_violation_is_told_step_by_step() {
    let forgets = Settings { vanishings: 1, ..Settings::new("forgets", "a key vanishes", 1) };
    let report = model::run(&Settings { expected: Expected::Overlap, ..forgets.clone() });
    let path = report.violation().and_then(|it| it.path.as_ref()).expect("two holders");
    let told: Vec<&str> = path.iter().map(|line| line[5..48].trim()).collect();
    assert_eq!(told.first(), Some(&"in the beginning"));
    assert!(told.contains(&"the key on n0 VANISHES"), "{report}");
    assert!(path.last().is_some_and(|line| line.ends_with("A:HOLDS B:HOLDS")), "{report}");
    assert_eq!(told.len(), 8, "the shortest: start, run and hear for each, and one loss: {report}");
    assert!(
        !model::run(&forgets).is_as_expected(),
        "nobody may expect a forgetful node to be safe"
    );
}

#[test]
fn every_row_has_a_name_of_its_own() {
    let rows = model::rows();
    let names: BTreeSet<&str> = rows.iter().map(|row| row.name).collect();
    assert_eq!(names.len(), rows.len());
}

fn examples(report: &Report) -> impl Iterator<Item = &'static str> {
    let seen = |it: &&Finding| it.kind == Kind::Sometimes && it.path.is_some();
    report.findings.iter().filter(seen).map(|it| it.claim)
}

/// Each of these bugs shows in a search of the row, which is over in an instant then.
#[test]
fn the_model_notices_bugs_of_the_core() {
    let bugs = [
        ("n3", Mutant::SmallQuorum),
        ("n1-break", Mutant::UnknownIsRefusal),
        ("n1-crash", Mutant::ValidFromReply),
        ("n1-renew", Mutant::NoLateCheck),
        ("n1-renew", Mutant::RenewedFromReply),
        ("n1-renew", Mutant::LateRenewal),
        ("n1-crash", Mutant::NoDeadline),
        ("n3", Mutant::NoUndo),
        ("n1-abandon", Mutant::AbandonKeeps),
        ("n3", Mutant::ReleaseMajorityOnly),
        ("n1-crash", Mutant::TakeOverwrites),
        ("n1-break", Mutant::FreeAnyones),
        ("n3-renewing", Mutant::ProlongAnyones),
        ("n1-renew", Mutant::ProlongCreates),
        ("n3-renewing", Mutant::AbsentLivesOn),
        ("n2-drift", Mutant::NoDriftRate),
    ];
    let rows = model::rows();
    for (name, mutant) in bugs {
        let row = rows.iter().find(|row| row.name == name).expect("a row");
        let report = model::run(&Settings { mutant: Some(mutant), ..row.clone() });
        assert!(report.violation().is_some(), "{mutant:?} in {name}: {report}");
    }
}
