//! Tests that the pages quote by their names: each must exist.

use std::collections::BTreeSet;

use crate::tidy::Findings;
use crate::tidy::prose::prose_lines;
use crate::tidy::tree::{Source, Tree};

/// Quoted paths of tests, such as `links::twins` or `lease::tests::nothing_revives_a_lease`, single
/// names of tests, and files of tests that do not exist.
pub(super) fn missing_tests(source: &Source, tree: &Tree) -> Findings {
    if !PAGES.contains(&source.path()) {
        return Findings::new();
    }
    let modules: Vec<Module<'_>> = tree.sources().iter().filter_map(Module::of).collect();
    let mut found = Findings::new();
    for (at, line) in prose_lines(source.text()) {
        for quote in line.split('`').skip(1).step_by(2) {
            let exists = match Quote::of(quote) {
                Some(Quote::File) => is_file(quote, tree),
                Some(Quote::Path) => {
                    alternatives(quote).iter().all(|path| modules.iter().any(|it| it.has(path)))
                }
                None => true,
            };
            if !exists {
                found.push((at, format!("there is no test `{quote}`")));
            }
        }
    }
    found
}

enum Quote {
    /// `quorate/tests/local.rs`
    File,
    /// `links::twins`, or a long name alone
    Path,
}

impl Quote {
    /// Other code in a page, such as a command or the name of a type, is no quote of a test.
    fn of(span: &str) -> Option<Self> {
        let is_made_of = |signs: &str| {
            span.chars()
                .all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || signs.contains(it))
        };
        let is_name = span.matches('_').count() >= 3;
        if span.split('/').any(|part| part == "tests") && is_made_of("_-./") {
            Some(Self::File)
        } else if (span.contains("::") || is_name) && is_made_of("_:*{},") {
            Some(Self::Path)
        } else {
            None
        }
    }
}

/// Pages name files and folders from the root, from `crates/`, or from the root of a crate.
fn is_file(path: &str, tree: &Tree) -> bool {
    let quoted = format!("/{path}/");
    tree.sources().iter().any(|source| format!("/{}/", source.path()).contains(&quoted))
}

/// The paths of which a quote is short: `a::{b,c}` stands for `a::b` and `a::c`.
fn alternatives(quote: &str) -> Vec<String> {
    let Some((before, (inside, after))) =
        quote.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
    else {
        return vec![quote.to_owned()];
    };
    inside.split(',').flat_map(|part| alternatives(&format!("{before}{part}{after}"))).collect()
}

/// A Rust file: its path as a module, and the functions and modules that it declares.
struct Module<'a> {
    path: Vec<&'a str>,
    names: BTreeSet<&'a str>,
}

impl<'a> Module<'a> {
    fn of(source: &'a Source) -> Option<Self> {
        let path = source.path().strip_suffix(".rs")?;
        let path = path.split('/').filter(|part| !is_left_out(part)).collect();
        let names = source.lines().filter_map(|(_, line)| declared(line)).collect();
        Some(Self { path, names })
    }

    /// Whether a quote leads to this file, or to something that it declares.
    fn has(&self, quote: &str) -> bool {
        let first = usize::from(quote.contains("::"));
        let quote: Vec<&str> = quote.split("::").filter(|part| !is_left_out(part)).collect();
        let is_declared = |name: &&str| self.names.iter().any(|it| is_match(it, name));
        (first..=quote.len()).any(|at| {
            let (path, names) = quote.split_at(at);
            self.path.ends_with(path) && names.iter().all(is_declared)
        })
    }
}

/// Parts of a path that quotes may leave out.
fn is_left_out(part: &str) -> bool {
    ["crates", "src", "tests", "lib", "main", "*"].contains(&part)
}

/// The name of the function or module that a line declares, or of the test that a macro makes of
/// the lines that follow.
fn declared(line: &str) -> Option<&str> {
    let is_of_name = |sign: char| sign.is_alphanumeric() || sign == '_';
    let by_macro = line.trim().strip_suffix(" {").filter(|name| name.chars().all(is_of_name));
    let mut words = line.split(|sign| !is_of_name(sign));
    let declares = words.find(|word| ["fn", "mod"].contains(word));
    declares.and_then(|_| words.next()).or(by_macro).filter(|name| !name.is_empty())
}

/// Whether a name is the one of a quote, in which a star stands for any text.
fn is_match(name: &str, quoted: &str) -> bool {
    match quoted.split_once('*') {
        Some((start, end)) => name.starts_with(start) && name.ends_with(end),
        None => name == quoted,
    }
}

const PAGES: [&str; 2] = ["docs/guarantees.md", "docs/robustness.md"];

#[cfg(test)]
mod tests {
    use crate::tidy::testing::{fires, is_quiet};

    const TEST: (&str, &str) = (
        "crates/quorate/tests/it/links/twins.rs",
        "//! A.\n\n#[test]\nfn one_server_has_one_name() {}\n\nmod inner {}\n\n\
     at_once! {\n    made_by_a_macro {\n    }\n}\n",
    );

    #[test]
    fn quoted_tests_exist() {
        for quote in [
            "links::twins",
            "links::{twins,twins}",
            "links::twins::one_server_has_one_name",
            "links::twins::*::one_server_has_one_name",
            "links::twins::inner",
            "links::twins::made_by_a_macro",
            "links::twins::inner::tests::one_server_has_one_name",
            "twins::*_one_name",
            "one_server_has_one_name",
            "quorate/tests/it",
            "crates/quorate/tests",
            "tests/it/links/twins.rs",
        ] {
            for page in super::PAGES {
                is_quiet(&[(page, &format!("# A\n\nSee `{quote}`.\n")), TEST]);
            }
        }
    }

    #[test]
    fn quote_of_a_missing_test_is_a_fault() {
        for quote in [
            "links::twin",
            "inner::tests",
            "twins::links",
            "links::{twins,others}",
            "links::twins::two_servers_have_two_names",
            "others::*_one_name",
            "one_server_has_two_names",
            "quorate/tests/others",
            "tests/links.rs",
        ] {
            let page = format!("# A\n\nSee `{quote}`.\n");
            let expected = format!("docs/guarantees.md:3: there is no test `{quote}`");
            fires(&[("docs/guarantees.md", &page), TEST], &expected);
            is_quiet(&[("docs/other.md", &page), TEST]);
        }
    }

    #[test]
    fn other_code_is_no_quote() {
        for code in ["max_hold", "LockError::Timeout", "cargo test", "lua/adopt.lua", "locks.db"] {
            is_quiet(&[("docs/guarantees.md", &format!("# A\n\nSee `{code}`.\n"))]);
        }
    }
}
