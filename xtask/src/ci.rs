//! `cargo xtask ci`: every check and every test, in one command.

use std::time::Duration;

use crate::api;
use crate::count;
use crate::deb;
use crate::deny;
use crate::docs;
use crate::failure::Failure;
use crate::output::say;
use crate::package;
use crate::process::{cargo, first_line, root, run as run_command, run_within};
use crate::programs::{self, Program};
use crate::redis;
use crate::steps::{Lane, Steps};
use crate::test;
use crate::tools;
use crate::valkey;

pub(crate) fn run(args: &[String]) -> Result<(), Failure> {
    let full = parse(args)?;
    let mut steps = Steps::of("ci");
    steps.run("redis-server", redis::ensure)?;
    steps.run("valkey-server", valkey::ensure)?;
    steps.run("tools", tools::ensure)?;
    steps.run("valgrind", count::ensure_valgrind)?;
    if full {
        // First: it measures how soon a loss is reported, so it needs an idle machine.
        steps.run("stopped majorities", stopped_majorities)?;
    }
    steps.run("fmt", fmt)?;
    steps.run("deny", deny::check)?;
    steps.run("package", package::check)?;
    steps.run("clippy", clippy)?;
    steps.run("api", api::check)?;
    steps.run("default features", default_features)?;
    let programs = build(&mut steps, "build", &[])?;
    steps.run("build workload", count::build_workload)?;
    let quorate = programs.iter().find(|program| program.is_bin("quorate"));
    let quorate = quorate.ok_or_else(|| Failure::failed("cargo built no quorate"))?;
    steps.run("deb", || deb::check(quorate.executable()))?;
    steps.run_lanes(lanes(&programs, full)?)?;
    examples(&mut steps, &programs)?;
    steps.run("doc", doc)?;
    steps.run("docs", docs::build)?;
    if full {
        let programs = build(&mut steps, "build --release", &["--release"])?;
        let (waiting, computing) = test::steps(&programs, &["--release"]);
        steps.run_lanes([Lane::of_waiting(waiting), Lane::of_computing(computing)])?;
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

/// Examples must compile as they do for a user. Most of what they need is there already, where
/// `api` has left it.
fn default_features() -> Result<(), String> {
    let args = "check --locked --package quorate --examples";
    run_command(api::in_own_folder(&mut cargo(args.split(' '))))
}

/// Builds all tests, and whatever else is run below.
fn build(steps: &mut Steps, name: &str, more: &[&str]) -> Result<Vec<Program>, Failure> {
    let mut programs = Vec::new();
    steps.run(name, || {
        programs = programs::build(more)?;
        Ok(())
    })?;
    Ok(programs)
}

/// All tests, and the runs of the simulator, which only computes, as its tests do.
fn lanes(programs: &[Program], full: bool) -> Result<[Lane; 2], Failure> {
    let (waiting, mut computing) = test::steps(programs, &[]);
    // What it counts does not depend on speed.
    computing.push(count::step(programs)?);
    let simulator = programs.iter().find(|program| program.is_bin("quorate-sim"));
    let simulator = simulator.ok_or_else(|| Failure::failed("cargo built no simulator"))?;
    let mut simulate = |name: &str, args: &[&str]| {
        let mut command = simulator.command();
        command.args(args).current_dir(root());
        computing.push((name.to_owned(), command));
    };
    // It is compiled with optimisation in a debug build too, and with checks for overflow.
    simulate("simulate", &["--seeds", if full { "1000000" } else { "20000" }]);
    simulate("mutants", &["mutants", "--check", "docs/robustness.md"]);
    if full {
        simulate("search", &["model", "--full"]);
    }
    Ok([Lane::of_waiting(waiting), Lane::of_computing(computing)])
}

/// An example that does not run is worse than none, so each one is run and must end well.
fn examples(steps: &mut Steps, programs: &[Program]) -> Result<(), Failure> {
    for example in programs.iter().filter(|program| program.is_example()) {
        steps.run(&format!("example {}", example.name()), || {
            run_within(EXAMPLE_LIMIT, &mut example.command())
        })?;
    }
    Ok(())
}

fn doc() -> Result<(), String> {
    let args = "doc --locked --workspace --all-features --no-deps --document-private-items";
    run_command(cargo(args.split(' ')).env("RUSTDOCFLAGS", "-D warnings"))
}

const EXAMPLE_LIMIT: Duration = Duration::from_secs(60);
const STOPPED_MAJORITIES: &str = "loss::majority::loss_is_reported_before_any_key_expires";

#[cfg(test)]
mod tests {
    use std::fs;

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
    fn test_of_stopped_majorities_is_there() {
        // Cargo is content with a name that no test has.
        let (path, name) = STOPPED_MAJORITIES.rsplit_once("::").unwrap();
        let file = format!("crates/quorate/tests/it/{}.rs", path.replace("::", "/"));
        let text = fs::read_to_string(root().join(&file)).unwrap();
        assert!(text.contains(&format!("#[test]\nfn {name}()")), "{file}");
        assert!(text.contains("\"QUORATE_FULL\""), "{file}");
    }
}
