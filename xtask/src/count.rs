//! `cargo xtask count`: instructions, commands and memory of the client, compared with bounds.

use std::path::PathBuf;
use std::process::Command;

use crate::debian;
use crate::failure::Failure;
use crate::process::{cargo, run as run_command, target};
use crate::programs::Program;
use crate::redis;
use crate::steps::{Step, Steps};

pub(crate) fn run(args: &[String]) -> Result<(), Failure> {
    if !args.is_empty() {
        return Err(Failure::usage(format!("count knows no `{}`", args.join(" "))));
    }
    let mut steps = Steps::of("count");
    steps.run("redis-server", redis::ensure)?;
    steps.run("valgrind", ensure_valgrind)?;
    steps.run("build workload", build_workload)?;
    // What counts is not counted, so it may be slow.
    let program = cargo("run --locked --quiet --package quorate-bench --".split(' '));
    steps.run("count", || run_command(&mut counting(program)))?;
    steps.finish();
    Ok(())
}

pub(crate) fn ensure_valgrind() -> Result<(), String> {
    debian::ensure("valgrind", "valgrind")
}

/// As users build it, with line numbers.
pub(crate) fn build_workload() -> Result<(), String> {
    run_command(&mut cargo("build --locked --profile bench --package quorate-workload".split(' ')))
}

/// The step of `ci`, when the workload is built.
pub(crate) fn step(programs: &[Program]) -> Result<Step, Failure> {
    let program = programs.iter().find(|program| program.is_bin("quorate-bench"));
    let program = program.ok_or_else(|| Failure::failed("cargo built no benchmarks"))?;
    Ok(("count".to_owned(), counting(program.command())))
}

fn counting(mut program: Command) -> Command {
    program.args(["count", "--workload"]).arg(workload());
    program
}

/// The profile `bench` has no folder of its own.
fn workload() -> PathBuf {
    target().join("release/quorate-workload")
}
