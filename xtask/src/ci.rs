//! `cargo xtask ci`: every check and every test, in one command.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::api;
use crate::failure::Failure;
use crate::output::say;
use crate::process::{cargo, first_line, root, run as run_command, run_within};
use crate::redis;
use crate::steps::Steps;
use crate::test::cargo_test;
use crate::tools;
use crate::valkey;

pub(crate) fn run(args: &[String]) -> Result<(), Failure> {
    let full = parse(args)?;
    let mut steps = Steps::of("ci");
    steps.run("redis-server", redis::ensure)?;
    steps.run("valkey-server", valkey::ensure)?;
    steps.run("tools", tools::ensure)?;
    if full {
        // Before anything else: it measures how soon a loss is told, so it must have the machine.
        steps.run("stopped majorities", stopped_majorities)?;
    }
    steps.run("fmt", fmt)?;
    steps.run("clippy", clippy)?;
    steps.run("api", api::check)?;
    steps.run("test", || cargo_test(&["--all-features"]))?;
    steps.run("simulate", || simulate(["--seeds", if full { "1000000" } else { "20000" }]))?;
    steps.run("mutants", || simulate(["mutants", "--check", "docs/robustness.md"]))?;
    examples(&mut steps)?;
    steps.run("doc", doc)?;
    if full {
        steps.run("search", || simulate(["model", "--full"]))?;
        steps.run("test --release", || cargo_test(&["--all-features", "--release"]))?;
    }
    steps.finish();
    Ok(())
}

/// Whether everything is asked for.
fn parse(args: &[String]) -> Result<bool, Failure> {
    match args {
        [] => Ok(false),
        [flag] if flag == "--full" => Ok(true),
        _ => Err(Failure::usage(format!("ci knows only --full, not `{}`", args.join(" ")))),
    }
}

fn fmt() -> Result<(), String> {
    require_component("fmt", "rustfmt")?;
    run_command(&mut cargo("fmt --all --check".split(' ')))
}

fn clippy() -> Result<(), String> {
    require_component("clippy", "clippy")?;
    let args = "clippy --locked --workspace --all-targets --all-features -- -D warnings";
    run_command(&mut cargo(args.split(' ')))?;
    // Features only add: the library must also be whole without any of them.
    let bare = "clippy --locked --package quorate --lib --no-default-features -- -D warnings";
    run_command(&mut cargo(bare.split(' ')))
}

/// A missing tool is a failure: a check that is skipped looks just like one that passed.
fn require_component(subcommand: &str, component: &str) -> Result<(), String> {
    let version = first_line(&mut cargo([subcommand, "--version"])).map_err(|why| {
        let how = format!("install it with `rustup component add {component}`");
        format!("`cargo {subcommand}` does not run ({why}); {how}")
    })?;
    say(version);
    Ok(())
}

/// A hundred times a majority stops while a lock is held, with the defaults that users have.
fn stopped_majorities() -> Result<(), String> {
    let args = "test --locked --release -p quorate --all-features --test it";
    let mut command = cargo(args.split(' '));
    command.arg(STOPPED_MAJORITIES).args(["--", "--exact", "--nocapture"]);
    run_command(command.env("QUORATE_FULL", "1"))
}

/// The simulator is compiled with optimisation in a debug build too, and with checks for overflow.
fn simulate<'a>(args: impl IntoIterator<Item = &'a str>) -> Result<(), String> {
    let command = "run --locked --quiet -p quorate-sim --";
    run_command(cargo(command.split(' ')).args(args))
}

/// An example that does not run is worse than none, so each one is run and must end well.
fn examples(steps: &mut Steps) -> Result<(), Failure> {
    let names = example_names(&root().join("crates/quorate/examples"));
    // Compiled beforehand, so that the time limit below is for the example alone.
    steps.run("build examples", || {
        let args = "build --locked -p quorate --examples";
        run_command(&mut cargo(args.split(' ')))
    })?;
    for name in &names {
        steps.run(&format!("example {name}"), || {
            let args = "run --locked --quiet -p quorate --example";
            run_within(EXAMPLE_LIMIT, cargo(args.split(' ')).arg(name))
        })?;
    }
    Ok(())
}

/// In alphabetical order; none if there is no such folder.
fn example_names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    names
}

fn doc() -> Result<(), String> {
    let args = "doc --locked --workspace --all-features --no-deps --document-private-items";
    run_command(cargo(args.split(' ')).env("RUSTDOCFLAGS", "-D warnings"))
}

const EXAMPLE_LIMIT: Duration = Duration::from_secs(60);
const STOPPED_MAJORITIES: &str =
    "loss::majority::the_loss_is_told_before_any_node_lets_go_of_the_key";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_flag_full_is_known() {
        let parse = |args: &[&str]| {
            let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
            parse(&args).ok()
        };
        assert_eq!(parse(&[]), Some(false));
        assert_eq!(parse(&["--full"]), Some(true));
        assert_eq!(parse(&["--fast"]), None);
        assert_eq!(parse(&["--full", "--full"]), None);
    }

    #[test]
    fn the_test_of_stopped_majorities_is_there() {
        // Cargo is content with a name that no test has.
        let (path, name) = STOPPED_MAJORITIES.rsplit_once("::").unwrap();
        let file = format!("crates/quorate/tests/it/{}.rs", path.replace("::", "/"));
        let text = fs::read_to_string(root().join(&file)).unwrap();
        assert!(text.contains(&format!("#[test]\nfn {name}()")), "{file}");
        assert!(text.contains("\"QUORATE_FULL\""), "{file}");
    }

    #[test]
    fn examples_are_the_rust_files_of_the_folder_in_order() {
        // This folder serves as well as any other one with Rust files and a subfolder in it.
        let names = example_names(&root().join("xtask/src"));
        assert!(names.contains(&"ci".to_owned()), "{names:?}");
        assert!(names.is_sorted(), "{names:?}");
        assert_eq!(example_names(&root().join("no/such/folder")), Vec::<String>::new());
    }
}
