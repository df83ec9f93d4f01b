//! Rules about words that must not appear.
//!
//! The needles are put together with `concat!`, so that no rule finds itself.

use crate::tidy::Findings;
use crate::tidy::tree::{Source, Tree};

/// Marks of unfinished work: finish it, or write it down where it will be found.
pub(super) fn leftovers(source: &Source, _: &Tree) -> Findings {
    let mut found = Vec::new();
    for (at, line) in source.lines() {
        let words = LEFTOVER_WORDS.iter().filter(|word| has_word(line, word));
        let calls = LEFTOVER_CALLS.iter().filter(|call| has_start_of_word(line, call));
        found.extend(words.chain(calls).map(|mark| (at, format!("leftover mark `{mark}`"))));
    }
    found
}

/// A file that names a folder of one machine is broken on every other one.
pub(super) fn paths_of_one_machine(source: &Source, _: &Tree) -> Findings {
    let mut found = Vec::new();
    for (at, line) in source.lines() {
        let outside = OUTSIDE.iter().filter(|path| line.contains(**path));
        let absolute = ABSOLUTE.iter().filter(|path| has_absolute_path(line, path));
        found.extend(outside.chain(absolute).map(|path| (at, format!("the path `{path}`"))));
    }
    found
}

/// The word means two things around locks (who holds it, and how often it was taken), so this
/// code has a name for each of them instead.
pub(super) fn bare_token(source: &Source, _: &Tree) -> Findings {
    let found = source.lines().filter(|(_, line)| has_word(&line.to_lowercase(), "token"));
    found.map(|(at, _)| (at, "the word `token`: say which one is meant".to_owned())).collect()
}

/// Whether `word` stands alone: neither a letter, a digit nor an underscore next to it.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + word.len()..]);
        !before.ends_with(is_word_part) && !after.starts_with(is_word_part)
    })
}

/// As [`has_word`], but anything may follow.
pub(super) fn has_start_of_word(line: &str, start: &str) -> bool {
    line.match_indices(start).any(|(at, _)| !line[..at].ends_with(is_word_part))
}

/// Whether `path` is where a path begins, and not in the middle of a longer one.
fn has_absolute_path(line: &str, path: &str) -> bool {
    let is_path_part = |c: char| is_word_part(c) || ['.', '-', '~', '}', ')'].contains(&c);
    line.match_indices(path).any(|(at, _)| !line[..at].ends_with(is_path_part))
}

fn is_word_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

const LEFTOVER_WORDS: &[&str] =
    &[concat!("FIX", "ME"), concat!("XX", "X"), concat!("HA", "CK"), concat!("TO", "DO")];
const LEFTOVER_CALLS: &[&str] =
    &[concat!("to", "do!("), concat!("un", "implemented!("), concat!("db", "g!(")];
const OUTSIDE: &[&str] = &[concat!("../", "shared")];
const ABSOLUTE: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/")];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::{fires, is_quiet};

    #[test]
    fn leftover_marks() {
        for mark in LEFTOVER_WORDS {
            let text = format!("//! A.\n// {mark}: later\n");
            fires(&[("a.rs", &text)], &format!("a.rs:2: leftover mark `{mark}`"));
        }
        for mark in LEFTOVER_CALLS {
            let text = format!("//! A.\nfn a() {{ {mark}) }}\n");
            fires(&[("a.rs", &text)], &format!("a.rs:2: leftover mark `{mark}`"));
        }
        let lua = format!("-- KEYS, ARGV, replies.\n-- {}\n", LEFTOVER_WORDS[0]);
        fires(&[("a.lua", &lua)], &format!("a.lua:2: leftover mark `{}`", LEFTOVER_WORDS[0]));
        is_quiet(&[("a.rs", concat!("//! The TO", "DOS and XX", "XX of hackers.\n"))]);
        is_quiet(&[("a.md", concat!("# A title with TO", "DO\n"))]);
    }

    #[test]
    fn paths_of_other_machines() {
        for path in OUTSIDE.iter().chain(ABSOLUTE) {
            let text = format!("cd {path}x\n");
            fires(&[("run", &text)], &format!("run:1: the path `{path}`"));
        }
        let inner = ABSOLUTE[0];
        is_quiet(&[("run", &format!("curl https://example.org{inner}x; ls home{inner}\n"))]);
    }

    #[test]
    fn the_bare_word_token() {
        let path = "crates/quorate/src/lib.rs";
        let message = "crates/quorate/src/lib.rs:2: the word `token`: say which one is meant";
        fires(&[(path, "//! A.\nlet token = 1;\n")], message);
        fires(&[(path, "//! A.\n// The fencing-Token.\n")], message);
        is_quiet(&[(path, "//! A.\nfn stop(cancellation_token: CancellationToken) {}\n")]);
        is_quiet(&[("crates/quorate-testkit/src/lib.rs", "//! A token.\n")]);
    }
}
