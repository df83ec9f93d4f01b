//! `cargo xtask tidy`: the rules of this repository that rustfmt and clippy do not know.
//!
//! A rule is one small function from a file to what is wrong with it. `RULES` says which rule
//! applies to which files. `cargo test` runs all of them over the repository.

use std::fmt;
use std::path::Path;

use crate::failure::Failure;
use crate::output::say;
use crate::process::root;
use crate::tidy::tree::{Source, Tree};

mod fences;
mod layers;
mod limits;
pub(crate) mod links;
mod mutants;
mod names;
mod paths;
pub(crate) mod prose;
mod quotes;
mod rust;
mod text;
mod texts;
pub(crate) mod tree;
mod words;

/// Something that is wrong in one place. Prints as `path:line: message`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// The file, relative to the root of the repository.
    pub path: String,
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong, and if that is not obvious what to do instead.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, message } = self;
        write!(f, "{path}:{line}: {message}")
    }
}

/// Everything that is wrong in the repository at `root`, in the order of the paths. A folder
/// without files is a fault: it must not pass for a clean repository.
#[must_use]
pub fn faults(root: &Path) -> Vec<Fault> {
    let tree = Tree::read(root);
    if tree.sources().is_empty() {
        let message = format!("no files below {}", root.display());
        return vec![Fault { path: ".".to_owned(), line: 1, message }];
    }
    let mut faults = faults_of(&tree);
    faults.extend(faults_in_links(&tree));
    faults.sort();
    faults
}

pub(crate) fn run(args: &[String]) -> Result<(), Failure> {
    if !args.is_empty() {
        return Err(Failure::usage("tidy takes no arguments"));
    }
    let faults = faults(&root());
    for fault in &faults {
        say(fault.to_string());
    }
    match faults.len() {
        0 => Ok(()),
        count => Err(Failure::failed(format!("tidy: {count} faults"))),
    }
}

fn faults_of(tree: &Tree) -> Vec<Fault> {
    faults_by(tree, RULES)
}

/// Dead links, to files and to headings.
pub(crate) fn faults_in_links(tree: &Tree) -> Vec<Fault> {
    faults_by(tree, LINK_RULES)
}

fn faults_by(tree: &Tree, rules: &[Rule]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for source in tree.sources() {
        for rule in rules.iter().filter(|rule| (rule.applies_to)(source)) {
            let found = (rule.check)(source, tree);
            faults.extend(found.into_iter().map(|(line, message)| Fault {
                path: source.path().to_owned(),
                line,
                message,
            }));
        }
    }
    faults.sort();
    faults
}

/// A check, and the files to which it applies.
struct Rule {
    applies_to: fn(&Source) -> bool,
    check: fn(&Source, &Tree) -> Findings,
}

impl Rule {
    const fn new(applies_to: fn(&Source) -> bool, check: fn(&Source, &Tree) -> Findings) -> Self {
        Self { applies_to, check }
    }
}

/// Line numbers, each with a message.
type Findings = Vec<(usize, String)>;

const RULES: &[Rule] = &[
    Rule::new(|_| true, text::trailing_white_space),
    Rule::new(|_| true, text::control_characters),
    Rule::new(|_| true, text::last_newline),
    Rule::new(|_| true, words::paths_of_one_machine),
    Rule::new(words::is_checked, words::unclear),
    Rule::new(is_code, text::width),
    Rule::new(is_program, words::leftovers),
    Rule::new(Source::is_rust, text::tabs),
    Rule::new(Source::is_rust, rust::module_documentation),
    Rule::new(Source::is_rust, rust::length),
    Rule::new(Source::is_rust, names::old_names),
    Rule::new(Source::is_rust, rust::silenced),
    Rule::new(Source::is_rust, rust::sleeping_tests),
    Rule::new(Source::is_rust, rust::dead_module),
    Rule::new(Source::is_rust, fences::ignored),
    Rule::new(is_product, words::bare_token),
    Rule::new(is_product, layers::upward_paths),
    Rule::new(is_product, layers::unlisted_modules),
    Rule::new(is_public_crate, limits::redis_in_the_api),
    Rule::new(is_public_crate, limits::guessable_numbers),
    Rule::new(is_core, limits::impure_core),
    Rule::new(is_core, mutants::mixed_mutants),
    Rule::new(is_core_manifest, limits::core_dependencies),
    Rule::new(is_script, prose::script_header),
    Rule::new(is_page, prose::one_title),
    Rule::new(is_page, fences::languages),
    Rule::new(is_markdown, quotes::missing_tests),
];

const LINK_RULES: &[Rule] = &[
    Rule::new(is_markdown, links::missing_files),
    Rule::new(is_markdown, links::missing_headings),
];

fn is_code(source: &Source) -> bool {
    is_program(source) || source.extension() == "toml"
}

fn is_program(source: &Source) -> bool {
    source.is_rust() || is_lua(source)
}

fn is_lua(source: &Source) -> bool {
    source.extension() == "lua"
}

/// A part of scripts has neither keys nor replies of its own.
fn is_script(source: &Source) -> bool {
    is_lua(source) && !source.path().contains("/parts/")
}

fn is_markdown(source: &Source) -> bool {
    source.extension() == "md"
}

/// The summary of a book has a title for each of its parts.
fn is_page(source: &Source) -> bool {
    is_markdown(source) && !source.path().ends_with("SUMMARY.md")
}

fn is_product(source: &Source) -> bool {
    is_core(source) || is_public_crate(source)
}

fn is_core(source: &Source) -> bool {
    source.path().starts_with("crates/quorate-core/src/")
}

fn is_public_crate(source: &Source) -> bool {
    source.path().starts_with("crates/quorate/src/")
}

fn is_core_manifest(source: &Source) -> bool {
    source.path() == "crates/quorate-core/Cargo.toml"
}

/// What the tests of the rules share.
#[cfg(test)]
mod testing {
    use super::*;

    /// Asserts that a tree of these files has exactly one fault, and that it prints as `expected`.
    #[track_caller]
    pub(super) fn fires(files: &[(&str, &str)], expected: &str) {
        let found: Vec<String> = faults_of(&Tree::of(files)).iter().map(Fault::to_string).collect();
        assert_eq!(found, [expected]);
    }

    /// Asserts that a tree of these files has no fault at all.
    #[track_caller]
    pub(super) fn is_quiet(files: &[(&str, &str)]) {
        assert_eq!(faults_of(&Tree::of(files)), []);
    }
}
