//! `cargo xtask test`: all tests, with the servers they need.

use std::process::Command;
use std::{env, num::NonZero, thread};

use crate::failure::Failure;
use crate::process::{cargo, run as run_command};
use crate::programs::Program;
use crate::redis;
use crate::steps::{Step, Steps};
use crate::tools;
use crate::valkey;

pub(crate) fn run(args: &[String]) -> Result<(), Failure> {
    let mut steps = Steps::of("test");
    steps.run("redis-server", redis::ensure)?;
    steps.run("valkey-server", valkey::ensure)?;
    steps.run("tools", tools::ensure)?;
    steps.run("test", || cargo_test(args))?;
    steps.finish();
    Ok(())
}

/// `cargo test` with more arguments; documentation tests are part of it.
fn cargo_test(more: &[String]) -> Result<(), String> {
    let mut command = cargo(["test", "--locked"]);
    set_threads(&mut command);
    // Next to `--workspace`, cargo ignores `-p` without a word.
    let mut for_cargo = more.iter().map(String::as_str).take_while(|&arg| arg != "--");
    if !for_cargo.any(names_package) {
        command.arg("--workspace");
    }
    run_command(command.args(more))
}

/// All tests as steps: those that mostly wait, and those that only compute. Cargo built them with
/// the arguments `more`.
pub(crate) fn steps(programs: &[Program], more: &[&str]) -> (Vec<Step>, Vec<Step>) {
    let mut doc = cargo("test --locked --workspace --all-features --doc".split(' '));
    doc.args(more);
    let (mut waiting, mut computing) = (Vec::new(), Vec::new());
    let mut tests: Vec<&Program> = programs.iter().filter(|program| program.is_test()).collect();
    // Cargo lists them in the order in which they were built.
    tests.sort_by_key(|test| (!SLOW.contains(&test.name()), test.arguments()));
    for program in tests {
        let mut command = program.command();
        set_threads(&mut command);
        let lane = if program.package() == SIMULATOR { &mut computing } else { &mut waiting };
        lane.push((format!("test {}", program.arguments()), command));
    }
    computing.push(("test --doc".to_owned(), doc));
    (waiting, computing)
}

fn set_threads(command: &mut Command) {
    if env::var_os(THREADS).is_none() {
        // Most of what tests do is to wait for real time to pass at servers.
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        command.env(THREADS, (2 * cores).to_string());
    }
}

fn names_package(arg: &str) -> bool {
    arg.starts_with("-p") || arg.starts_with("--package")
}

/// The package whose tests have no server and no real time.
const SIMULATOR: &str = "quorate-sim";
/// Those that take minutes. They are begun first, so that nobody waits for one of them in the end.
const SLOW: [&str; 7] = ["clients", "deaths", "it", "primitives", "rolling", "simulation", "stack"];
const THREADS: &str = "RUST_TEST_THREADS";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_can_be_named_in_every_spelling_of_cargo() {
        for arg in ["-p", "-pquorate", "--package", "--package=quorate"] {
            assert!(names_package(arg), "{arg}");
        }
        for arg in ["--release", "lease", "--", "--workspace"] {
            assert!(!names_package(arg), "{arg}");
        }
    }
}
