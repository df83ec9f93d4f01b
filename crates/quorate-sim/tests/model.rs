//! The exhaustive model: the rows that are small enough for every test run.

use std::collections::BTreeSet;

use quorate_core::mutant::Mutant;
use quorate_sim::model::{
    self, BACKED, Expected, Finding, KEPT_GRANTS, Kind, NO_LEAK, ONE_HOLDER, PROGRESS, Report, Row,
    Settings, Tickets, UNIQUE,
};

#[test]
fn every_small_row_ends_as_expected() {
    let rows = model::all().into_iter().filter(|row| !row.about().is_full);
    let reports: Vec<Report> = rows.map(|row| model::run(&row)).collect();
    println!("{}", model::table(&reports));
    for report in &reports {
        assert!(report.is_as_expected(), "{report}");
        let is_safe = report.about.expected == Expected::Safe;
        assert_eq!(report.is_exhaustive, is_safe, "{report}");
    }
    let seen: BTreeSet<&str> = reports.iter().flat_map(examples).collect();
    assert_eq!(seen.len(), 15, "each kind of example is asked for in some row: {seen:?}");
}

#[test]
fn search_that_is_cut_short_reports_it() {
    let settings = Settings { steps_max: 2_000, ..Settings::classic("cut", "a cut", 3) };
    let report = model::run(&Row::Product(settings));
    assert!(!report.is_exhaustive && !report.is_as_expected(), "{report}");
    assert!(report.result().contains("NOT exhaustive"), "{report}");
}

#[test]
fn violation_is_shown_step_by_step() {
    let forgets = Settings { vanishings: 1, ..Settings::classic("forgets", "a key vanishes", 1) };
    let expected = Expected::Broken(ONE_HOLDER);
    let report = model::run(&Row::Product(Settings { expected, ..forgets.clone() }));
    let path = report.violation().and_then(|it| it.path.as_ref()).expect("two holders");
    let steps: Vec<&str> = path.iter().map(|line| line[5..51].trim()).collect();
    assert_eq!(steps.first(), Some(&"the initial state"));
    assert!(steps.contains(&"the key on n0 VANISHES"), "{report}");
    assert!(path.last().is_some_and(|line| line.ends_with("A:HOLDS B:HOLDS")), "{report}");
    assert_eq!(
        steps.len(),
        8,
        "the shortest: start, run and receive for each, and one loss: {report}"
    );
    assert!(
        !model::run(&Row::Product(forgets)).is_as_expected(),
        "a node that loses keys is not safe"
    );
}

#[test]
fn every_row_has_a_name_of_its_own() {
    let rows = model::all();
    let names: BTreeSet<&str> = rows.iter().map(|row| row.about().name).collect();
    assert_eq!(names.len(), rows.len());
}

fn examples(report: &Report) -> impl Iterator<Item = &'static str> {
    let seen = |it: &&Finding| it.kind == Kind::Sometimes && it.path.is_some();
    report.findings.iter().filter(seen).map(|it| it.claim)
}

/// Each of these bugs shows in a search of the row, which then ends at once.
#[test]
fn model_notices_bugs_of_the_core() {
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
        ("n1-crash", Mutant::SetOverwrites),
        ("n1-break", Mutant::DeleteNotOwned),
        ("n3-renewing", Mutant::ExtendNotOwned),
        ("n1-renew", Mutant::ExtendCreates),
        ("n3-renewing", Mutant::AbsentCountsAsExtended),
        ("n2-drift", Mutant::NoDriftRate),
        ("sets-n1", Mutant::MemberHoldsAlone),
        ("queue-n2-entries", Mutant::EntryNeverYields),
        ("sets-n1-crossed", Mutant::MemberNeverYields),
    ];
    let rows = model::all();
    for (name, mutant) in bugs {
        let row = rows.iter().find(|row| row.about().name == name).expect("a row");
        let report = model::run(&row.clone().with_mutant(Some(mutant)));
        assert!(report.violation().is_some(), "{mutant:?} in {name}: {report}");
    }
}

/// A bug in the rules of the queue violates the expected property, and no other property before
/// that.
#[test]
fn model_notices_bugs_of_the_queue() {
    let one = || Settings::queue("bug", "1 node", 1);
    let two = || Settings::queue("bug", "2 nodes", 2);
    let three = || Settings::queue("bug", "3 nodes", 3);
    let ticking = |nodes| Settings::timed("bug", "time", nodes);
    let bugs = [
        (Mutant::SmallQuorum, ONE_HOLDER, three()),
        (Mutant::NoWriteBack, UNIQUE, Settings { fences: vec![0, 1], ..three() }),
        (Mutant::CountAfterYield, KEPT_GRANTS, three()),
        (Mutant::NoYield, PROGRESS, two()),
        (Mutant::NoHeartbeat, PROGRESS, Settings { deaths: 1, ..one() }),
        (Mutant::NoSession, NO_LEAK, Settings { breaks: 1, cancels: 1, ..one() }),
        (
            Mutant::SameOwnerAgain,
            KEPT_GRANTS,
            Settings { breaks: 2, timeouts: vec![2, 0], ..three() },
        ),
        (
            Mutant::ConfirmHeals,
            UNIQUE,
            Settings { vanishings: 1, fences: vec![0, 1], has_progress: false, ..three() },
        ),
        (Mutant::ValidFromReply, KEPT_GRANTS, ticking(3)),
        (
            Mutant::PushedNow,
            BACKED,
            Settings {
                attempts: vec![1, 2],
                timeouts: vec![1, 1],
                tickets: Tickets::Any(vec![1, 2, 3]),
                ..ticking(1)
            },
        ),
        (Mutant::AbandonKeeps, NO_LEAK, Settings { cancels: 1, ..two() }),
        (Mutant::DeleteNotOwned, BACKED, Settings { cancels: 1, ..one() }),
        (Mutant::RenewedFromReply, BACKED, Settings { renewals: 1, ..ticking(1) }),
        (Mutant::NoDeadline, BACKED, ticking(1)),
    ];
    let reports = search(bugs);
    println!("{}", model::table(&reports));
    for report in reports {
        assert!(report.is_as_expected(), "{report}");
    }
}

/// A bug in the rules of readers.
#[test]
fn model_notices_bugs_of_shares() {
    // A is a writer, and comes first.
    let few = |nodes| Settings {
        sharing: vec![1],
        ..Settings::queue("bug", "a reader and a writer", nodes)
    };
    let more = |nodes| Settings {
        sharing: vec![0, 2],
        attempts: vec![1, 1, 1],
        ..Settings::queue("bug", "2 readers and a writer", nodes)
    };
    let reports = search([
        (Mutant::ShareWithExclusive, BACKED, few(1)),
        (Mutant::ExclusiveIgnoresShares, BACKED, few(1)),
        (Mutant::ShareFreesAll, BACKED, more(1)),
        (Mutant::ShareNeverYields, PROGRESS, few(2)),
        (Mutant::ShareHealsExclusive, KEPT_GRANTS, Settings { renewals: 1, ..few(3) }),
    ]);
    println!("{}", model::table(&reports));
    for report in reports {
        assert!(report.is_as_expected(), "{report}");
    }
}

fn search<const N: usize>(bugs: [(Mutant, &'static str, Settings); N]) -> Vec<Report> {
    let report = |(mutant, claim, settings): (Mutant, &'static str, Settings)| {
        let (expected, what) = (Expected::Broken(claim), mutant_name(mutant));
        let mutant = Some(mutant);
        model::run(&Row::Product(Settings { mutant, expected, what, ..settings }))
    };
    bugs.into_iter().map(report).collect()
}

fn mutant_name(mutant: Mutant) -> &'static str {
    format!("{mutant:?}").leak()
}
