//! `cargo xtask bench NAME`: benchmarks against real servers, as a release build.
//!
//! They are a program of their own, so that these commands start even when the library does not
//! compile.

use std::process::Command;

use crate::debian;
use crate::failure::Failure;
use crate::output::say;
use crate::process::{cargo, first_line, run as run_command};
use crate::redis;
use crate::steps::Steps;

pub(crate) fn run(args: &[String]) -> Result<(), Failure> {
    let mut steps = Steps::of("bench");
    steps.run("redis-server", redis::ensure)?;
    if args.first().is_some_and(|name| name == "service") {
        steps.run("etcd", ensure_etcd)?;
    }
    // One of them is about the command.
    let command = ["build", "--locked", "--release", "--quiet", "--package", "quorate-cli"];
    steps.run("build", || run_command(&mut cargo(command)))?;
    let program = ["run", "--locked", "--release", "--quiet", "--package", "quorate-bench", "--"];
    steps.run("bench", || run_command(cargo(program).args(args)))?;
    steps.finish();
    Ok(())
}

/// The service is compared with it.
fn ensure_etcd() -> Result<(), String> {
    let version = || first_line(Command::new("etcd").arg("--version"));
    if version().is_err() {
        if !debian::can_install() {
            return Err("etcd is not on PATH: install it, such as Debian's etcd-server".to_owned());
        }
        debian::install("etcd-server")?;
    }
    say(version()?);
    Ok(())
}
