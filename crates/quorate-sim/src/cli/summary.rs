//! The results of many seeds, in numbers.

use std::{fmt::Write as _, time::Duration};

use crate::{
    campaign::Totals,
    fault::{Bound, KINDS},
    run::Counts,
};

/// The status line of a campaign that runs.
pub(super) fn line(totals: &Totals) -> String {
    let violations = u32::from(totals.first.is_some());
    let mut text = format!("violations {violations}, {}\nfaults:", counts(&totals.count));
    for (kind, count) in kinds(&totals.count) {
        // Writing to a string cannot fail.
        let _ = write!(text, " {kind} {count} ·");
    }
    text.truncate(text.trim_end_matches(" ·").len());
    text
}

/// The report at the end of a campaign.
pub(super) fn text(totals: &Totals, took: Duration) -> String {
    let seeds = totals.seeds;
    let per_minute = totals.seeds as f64 / took.as_secs_f64().max(1e-9) * 60.0;
    let each = |count: u64| count as f64 / seeds.max(1) as f64;
    let faults: u64 = totals.count.faults.iter().sum();
    let mut text = format!(
        "{seeds} seeds in {:.1} s ({per_minute:.0} a minute): {}\n\
         each: {:.1} acquisitions, {:.1} faults, {:.0} events\n",
        took.as_secs_f64(),
        counts(&totals.count),
        each(totals.count.acquisitions),
        each(faults),
        each(totals.count.events),
    );
    for (kind, count) in kinds(&totals.count) {
        let _ = writeln!(text, "{count:>12}  {kind}");
    }
    let Counts { batches, split_batches, .. } = totals.count;
    let _ = writeln!(text, "batches: {batches}, {split_batches} of them failed partially");
    text.push_str(&shares(&totals.count));
    text.push_str(&quarantines(&totals.count));
    text.push_str("overlaps where exclusion is not promised, by broken bound:\n");
    for (bound, count) in Bound::ALL.iter().zip(totals.beyond) {
        let _ = writeln!(text, "{count:>12}  {bound}");
    }
    match &totals.first {
        None => text.push_str("violations: none"),
        Some((seed, violation)) => {
            let _ = write!(text, "VIOLATION in seed {seed}: {}: ", violation.promise);
            text.push_str(&violation.text);
        }
    }
    text
}

/// The main numbers.
pub(super) fn counts(count: &Counts) -> String {
    let Counts { attempts, acquisitions, renewals, losses, .. } = count;
    format!(
        "{acquisitions} acquisitions in {attempts} attempts, {renewals} renewals, {losses} losses"
    )
}

/// Shared, reentrant and detached locks.
fn shares(count: &Counts) -> String {
    let Counts { sharing, shared, joined, nested, writers_first, adopted, downgrades, .. } = count;
    format!(
        "shared: {sharing} runs, {shared} acquisitions, {joined} of them joined readers, \
         {writers_first} by a writer before waiting readers, {adopted} leases adopted, \
         {downgrades} downgrades, {nested} nested entries\n"
    )
}

/// Nodes with quarantine.
fn quarantines(count: &Counts) -> String {
    let Counts { quarantined, forgettings, doubts, false_doubts, waits, differs, .. } = count;
    format!(
        "quarantine: {quarantined} runs, {forgettings} nodes forgot locks, {doubts} quarantines \
         ({false_doubts} without reason), {waits} waits, {differs} rejections\n"
    )
}

fn kinds(count: &Counts) -> impl Iterator<Item = (&'static str, u64)> {
    KINDS.into_iter().zip(count.faults).filter(|(_, count)| *count > 0)
}
