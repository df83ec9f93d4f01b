//! What is printed, and the little statistics behind it.

use std::io::Write as _;

/// Prints one line.
pub(crate) fn line(text: &str) {
    // A closed pipe is no reason to panic.
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

/// The middle value.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// 99 of 100 values are below this one.
pub(crate) fn high(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() * 99 / 100]
}

/// Median and range of per-round ratios.
pub(crate) fn ratio(ours: &[f64], limit: &[f64]) -> String {
    let ratios: Vec<f64> = ours.iter().zip(limit).map(|(ours, limit)| ours / limit).collect();
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ratios.iter().copied().fold(0.0, f64::max);
    format!("{:.2} ({least:.2}–{most:.2})", median(&ratios))
}
