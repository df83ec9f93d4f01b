//! Checks of the clocks: what they show, whether they were set, and how fast they run.

use std::time::Duration;

use quorate::diagnose::ClockReading;

use super::{
    check::{Check, Problem},
    observed::{Node, Observed},
    servers::each,
};
use crate::time::shown;

pub(super) const CHECKS: &[Check] = &[
    Check { id: "clock-offset", problems: offsets, fine: offsets_are_fine },
    Check { id: "clock-step", problems: steps, fine: no_steps },
    Check { id: "clock-rate", problems: rates, fine: rates_are_fine },
];

/// How far the node's clock is ahead of this machine's, by the reading with the shortest round
/// trip.
pub(super) fn ahead_ms(node: &Node) -> Option<i64> {
    let readings = node.facts.clock.iter();
    let best = readings.min_by_key(|reading| reading.answered.saturating_sub(reading.asked))?;
    Some(best.ahead_ms())
}

fn offsets(observed: &Observed) -> Vec<Problem> {
    let known: Vec<(&Node, i64)> =
        observed.nodes.iter().filter_map(|node| Some((node, ahead_ms(node)?))).collect();
    // The clock of this machine counts too: it may be the one that is wrong.
    let mut all: Vec<i64> = known.iter().map(|(_, ahead)| *ahead).chain([0]).collect();
    all.sort_unstable();
    let median = all[all.len() / 2];
    let remedy = "synchronize it with NTP";
    if known.len() >= 2 && median.unsigned_abs() > OFFSET_WARNING_MS {
        let text = format!("the clock of this machine is {} the nodes' clocks", than(-median));
        return vec![problem(median, text, remedy)];
    }
    let wrong = known.iter().filter(|(_, ahead)| ahead.unsigned_abs() > OFFSET_WARNING_MS);
    wrong
        .map(|(node, ahead)| {
            let text = format!("its clock is {} this machine's", than(*ahead));
            problem(*ahead, text, remedy).of(node.name())
        })
        .collect()
}

fn problem(by_ms: i64, text: String, remedy: &str) -> Problem {
    match by_ms.unsigned_abs() > OFFSET_ERROR_MS {
        true => Problem::error(text, remedy),
        false => Problem::warning(text, remedy),
    }
}

/// `5 s ahead of`, or `5 s behind`.
fn than(ahead_ms: i64) -> String {
    let by = shown(Duration::from_millis(ahead_ms.unsigned_abs()));
    if ahead_ms < 0 { format!("{by} behind") } else { format!("{by} ahead of") }
}

fn offsets_are_fine(observed: &Observed) -> Option<String> {
    let far = observed.nodes.iter().filter_map(ahead_ms).map(i64::unsigned_abs).max()?;
    let far = shown(Duration::from_millis(far));
    Some(format!("the clocks differ from this machine's by {far} at most"))
}

/// By how much the node's clock has moved more than the clocks of its clients, since one was there.
fn moved_ms(node: &Node) -> Option<i64> {
    let last = node.facts.clock.last()?;
    let number = |field| i64::try_from(node.recorded(field)?).ok();
    let (seen, seen_wall) = (number("seen")?, number("seen_wall")?);
    let then = seen.checked_sub(seen_wall)?;
    last.ahead_ms().checked_sub(then)
}

fn steps(observed: &Observed) -> Vec<Problem> {
    let moved: Vec<(&Node, i64)> =
        observed.nodes.iter().filter_map(|node| Some((node, moved_ms(node)?))).collect();
    let is_step = |moved: i64| moved.unsigned_abs() > OFFSET_WARNING_MS;
    let spread = || {
        let all = || moved.iter().map(|(_, moved)| *moved);
        all().max().unwrap_or(0).saturating_sub(all().min().unwrap_or(0))
    };
    if moved.len() >= 2 && moved.iter().all(|(_, it)| is_step(*it)) && !is_step(spread()) {
        let by = moved[0].1;
        let text = format!(
            "the clock of this machine, or of the last client, was {}: all nodes show it",
            set(-by)
        );
        return vec![problem(by, text, "synchronize the clocks of all clients with NTP")];
    }
    let stepped = moved.iter().filter(|(_, moved)| is_step(*moved));
    stepped
        .map(|(node, moved)| {
            let text = format!("its clock was {} since a client was last there", set(*moved));
            let remedy = "synchronize it with an NTP client that slews, and never set it by hand";
            problem(*moved, text, remedy).of(node.name())
        })
        .collect()
}

/// `set forward by 5 s`, or `set back by 5 s`.
fn set(by_ms: i64) -> String {
    let by = shown(Duration::from_millis(by_ms.unsigned_abs()));
    if by_ms < 0 { format!("set back by {by}") } else { format!("set forward by {by}") }
}

fn no_steps(observed: &Observed) -> Option<String> {
    let is_known = observed.nodes.iter().any(|node| moved_ms(node).is_some());
    is_known.then(|| "no clock was set since a client was last there".into())
}

/// How the node's clock ran while it was watched.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Rate {
    Stopped,
    /// How much faster it runs than this machine's for certain, in millionths; negative if it is
    /// slower, and zero within what the readings can tell.
    Off(i64),
}

fn rate(readings: &[ClockReading]) -> Option<Rate> {
    let [first, .., last] = readings else { return None };
    if last.server_us <= first.server_us {
        return Some(Rate::Stopped);
    }
    let micros = |time: Duration| i128::try_from(time.as_micros()).unwrap_or(i128::MAX);
    // The server read its clock at some time between the request and the answer.
    let min = micros(last.asked.saturating_sub(first.answered)) - CACHED_US;
    let max = micros(last.answered.saturating_sub(first.asked)) + CACHED_US;
    let passed = i128::from(last.server_us - first.server_us);
    let beyond = (passed - max).max(0) + (passed - min).min(0);
    let off = beyond.saturating_mul(1_000_000) / max.max(1);
    Some(Rate::Off(i64::try_from(off).unwrap_or(i64::MAX)))
}

fn rates(observed: &Observed) -> Vec<Problem> {
    let problem = |node: &Node| {
        let remedy = "repair the clock: locks end too early or too late there";
        match rate(&node.facts.clock)? {
            Rate::Stopped => Some(Problem::error("its clock stands still", remedy)),
            Rate::Off(ppm) if ppm.unsigned_abs() > RATE_WARNING_PPM => {
                let (tenths, side) =
                    (ppm.unsigned_abs() / 1_000, if ppm < 0 { "slow" } else { "fast" });
                let percent = format!("{}.{} %", tenths / 10, tenths % 10);
                let text = format!("its clock runs at least {percent} too {side}");
                Some(match ppm.unsigned_abs() > RATE_ERROR_PPM {
                    true => Problem::error(text, remedy),
                    false => Problem::warning(text, remedy),
                })
            }
            Rate::Off(_) => None,
        }
    };
    each(observed, problem)
}

fn rates_are_fine(observed: &Observed) -> Option<String> {
    let is_known = observed.nodes.iter().any(|node| rate(&node.facts.clock).is_some());
    is_known.then(|| "the clocks run as fast as this machine's".into())
}

/// Tickets and quarantine are computed with these clocks.
const OFFSET_WARNING_MS: u64 = 1_000;

/// A node whose clock was set forward by more than this is quarantined.
const OFFSET_ERROR_MS: u64 = 5_000;

/// Leases end in time if the rates of all clocks differ by 1 % at most.
const RATE_ERROR_PPM: u64 = 10_000;

const RATE_WARNING_PPM: u64 = 1_000;

/// Some servers read their clock once in a millisecond.
const CACHED_US: i128 = 2_000;
