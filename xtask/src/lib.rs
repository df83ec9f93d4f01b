//! The repository's own commands, one module per verb.
//!
//! This is a library with a thin `main.rs` so that tests can call it: `cargo test` runs the tidy
//! rules over the whole repository.
//!
//! To add a verb: write `src/NAME.rs` with a `run` function and add one line to `VERBS`.

use std::process::ExitCode;

use crate::failure::Failure;

mod api;
mod bench;
mod cargo_tools;
mod ci;
mod count;
mod deb;
mod debian;
mod deny;
mod docs;
mod failure;
mod help;
mod output;
mod package;
mod process;
mod programs;
mod redis;
mod steps;
mod test;
pub mod tidy;
mod tools;
mod valkey;

/// Runs the verb that the first argument names, and turns its result into an exit code.
pub fn run(args: impl IntoIterator<Item = String>) -> ExitCode {
    let args: Vec<String> = args.into_iter().collect();
    match dispatch(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::complain(failure.message());
            failure.exit_code()
        }
    }
}

fn dispatch(args: &[String]) -> Result<(), Failure> {
    let Some((name, rest)) = args.split_first() else {
        return Err(Failure::usage(format!("which verb?\n{}", help::text(VERBS))));
    };
    match VERBS.iter().find(|verb| verb.name == name) {
        Some(verb) => (verb.run)(rest),
        None => Err(Failure::usage(format!("no verb `{name}`\n{}", help::text(VERBS)))),
    }
}

/// One line of the table below.
struct Verb {
    name: &'static str,
    arguments: &'static str,
    about: &'static str,
    run: fn(&[String]) -> Result<(), Failure>,
}

impl Verb {
    const fn new(
        name: &'static str,
        arguments: &'static str,
        about: &'static str,
        run: fn(&[String]) -> Result<(), Failure>,
    ) -> Self {
        Self { name, arguments, about, run }
    }
}

const VERBS: &[Verb] = &[
    Verb::new("api", "", "no foreign type in the public API, an example on every item", api::run),
    Verb::new(
        "bench",
        "NAME",
        "faults, handoff, limit, scripts, service, several, start, waiters or watchdog; --help",
        bench::run,
    ),
    Verb::new(
        "ci",
        "[--full]",
        "every check and every test; --full: more rounds, release build too",
        ci::run,
    ),
    Verb::new("count", "", "instructions, commands and memory of a lock, with bounds", count::run),
    Verb::new(
        "deb",
        "[--debug]",
        "the Debian package: builds, installs, starts, removes it",
        deb::run,
    ),
    Verb::new("deny", "", "licences, versions and sources of the dependencies", deny::run),
    Verb::new("docs", "", "the pages in docs as a book, without dead links", docs::run),
    Verb::new("package", "", "packs the published crates, and builds them from it", package::run),
    Verb::new("test", "[ARG…]", "all tests; the arguments go to cargo test", test::run),
    Verb::new("tidy", "", "the rules of this repository that clippy does not know", tidy::run),
    Verb::new("help", "", "this list", help::run),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_verb_is_a_usage_error_that_lists_the_verbs() {
        let failure = dispatch(&["frobnicate".to_owned()]).unwrap_err();
        assert_eq!(failure.exit_code(), ExitCode::from(64));
        assert!(failure.message().starts_with("no verb `frobnicate`"));
        for verb in VERBS {
            assert!(failure.message().contains(verb.about), "{} is not listed", verb.name);
        }
    }

    #[test]
    fn no_verb_at_all_is_a_usage_error() {
        assert_eq!(dispatch(&[]).unwrap_err().exit_code(), ExitCode::from(64));
    }

    #[test]
    fn argument_that_a_verb_does_not_know_is_a_usage_error() {
        for verb in ["api", "ci", "count", "deb", "deny", "docs", "package", "tidy", "help"] {
            let failure = dispatch(&[verb.to_owned(), "--frob".to_owned()]).unwrap_err();
            assert_eq!(failure.exit_code(), ExitCode::from(64), "{verb}");
        }
    }
}
