//! Rules about characters and lines.

use crate::tidy::Findings;
use crate::tidy::tree::{Source, Tree};

/// Columns are characters. A URL and the row of a table cannot be broken, so they do not count.
pub(super) fn width(source: &Source, _: &Tree) -> Findings {
    let too_wide = |line: &str| {
        let urls = line.split_whitespace().filter(|word| word.contains("://"));
        let exempt: usize = urls.map(|url| url.chars().count()).sum();
        let is_row = ["//! |", "/// |"].iter().any(|mark| line.trim_start().starts_with(mark));
        !is_row && line.chars().count() - exempt > MAX_COLUMNS
    };
    let found = source.lines().filter(|(_, line)| too_wide(line));
    found.map(|(at, _)| (at, format!("more than {MAX_COLUMNS} columns"))).collect()
}

pub(super) fn trailing_white_space(source: &Source, _: &Tree) -> Findings {
    let found = source.lines().filter(|(_, line)| line.ends_with([' ', '\t']));
    found.map(|(at, _)| (at, "white space at the end of the line".to_owned())).collect()
}

pub(super) fn tabs(source: &Source, _: &Tree) -> Findings {
    let found = source.lines().filter(|(_, line)| line.contains('\t'));
    found.map(|(at, _)| (at, "a tab".to_owned())).collect()
}

/// Carriage returns are among them. Tabs are not: some files need them.
pub(super) fn control_characters(source: &Source, _: &Tree) -> Findings {
    // Not `lines()`: it swallows the carriage return at the end of a line.
    let lines = (1..).zip(source.text().split('\n'));
    let found = lines.filter_map(|(at, line)| {
        let bad = line.chars().find(|&c| c.is_control() && c != '\t')?;
        Some((at, format!("control character {}", bad.escape_default())))
    });
    found.collect()
}

pub(super) fn last_newline(source: &Source, _: &Tree) -> Findings {
    let text = source.text();
    if text.is_empty() || text.ends_with('\n') {
        return Vec::new();
    }
    vec![(text.lines().count(), "no newline at the end of the file".to_owned())]
}

const MAX_COLUMNS: usize = 100;

#[cfg(test)]
mod tests {
    use crate::tidy::testing::{fires, is_quiet};

    #[test]
    fn wide_lines() {
        let line = |width: usize| format!("# {}\n", "é".repeat(width - 2));
        fires(&[("a.toml", &line(101))], "a.toml:1: more than 100 columns");
        is_quiet(&[("a.rs", &format!("//! | A | {} |\n", line(120)))]);
        fires(&[("a.rs", &format!("//! A.\n//{}", line(99)))], "a.rs:2: more than 100 columns");
        is_quiet(&[("a.toml", &line(100))]);
        is_quiet(&[("a.md", &line(400))]);
        is_quiet(&[("a.toml", &format!("# https://example.org/{}", line(99)))]);
    }

    #[test]
    fn white_space_at_the_end() {
        fires(&[("a.sh", "a\nb \n")], "a.sh:2: white space at the end of the line");
        fires(&[("a.sh", "a\t\n")], "a.sh:1: white space at the end of the line");
        is_quiet(&[("a.sh", " a b\n\n")]);
    }

    #[test]
    fn tabs_in_rust() {
        fires(&[("a.rs", "//! A.\n\tfn\n")], "a.rs:2: a tab");
        is_quiet(&[("Makefile", "all:\n\ttrue\n")]);
    }

    #[test]
    fn control_characters_and_carriage_returns() {
        fires(&[("a.txt", "a\nb\r\nc\n")], "a.txt:2: control character \\r");
        fires(&[("a.txt", "\u{1b}[1m\n")], "a.txt:1: control character \\u{1b}");
        is_quiet(&[("a.txt", "a\tb ü — ✓\n")]);
    }

    #[test]
    fn the_last_newline() {
        fires(&[("a.txt", "a\nb")], "a.txt:2: no newline at the end of the file");
        is_quiet(&[("a.txt", "a\nb\n"), ("empty.txt", "")]);
    }
}
