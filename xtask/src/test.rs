//! `cargo xtask test`: all tests, with the servers they need.

use std::{env, num::NonZero, thread};

use crate::failure::Failure;
use crate::process::{cargo, run as run_command};
use crate::redis;
use crate::steps::Steps;
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
pub(crate) fn cargo_test<S: AsRef<str>>(more: &[S]) -> Result<(), String> {
    let mut command = cargo(["test", "--locked"]);
    if env::var_os(THREADS).is_none() {
        // Most of what tests do is to wait for real time to pass at servers.
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        command.env(THREADS, (2 * cores).to_string());
    }
    // Next to `--workspace`, cargo ignores `-p` without a word.
    let mut for_cargo = more.iter().map(AsRef::as_ref).take_while(|&arg| arg != "--");
    if !for_cargo.any(names_package) {
        command.arg("--workspace");
    }
    run_command(command.args(more.iter().map(AsRef::as_ref)))
}

fn names_package(arg: &str) -> bool {
    arg.starts_with("-p") || arg.starts_with("--package")
}

const THREADS: &str = "RUST_TEST_THREADS";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_can_be_named_in_every_spelling_of_cargo() {
        for arg in ["-p", "-pquorate", "--package", "--package=quorate"] {
            assert!(names_package(arg), "{arg}");
        }
        for arg in ["--release", "lease", "--", "--workspace"] {
            assert!(!names_package(arg), "{arg}");
        }
    }
}
