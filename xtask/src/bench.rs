//! `cargo xtask bench NAME`: benchmarks against real servers, as a release build.
//!
//! They are a program of their own, so that these commands start even when the library does not
//! compile.

use crate::debian;
use crate::failure::Failure;
use crate::process::{cargo, run as run_command};
use crate::redis;
use crate::steps::Steps;

pub(crate) fn run(args: &[String]) -> Result<(), Failure> {
    let mut steps = Steps::of("bench");
    steps.run("redis-server", redis::ensure)?;
    let is_about = |name: &str| args.iter().any(|arg| arg == name);
    if is_about("service") {
        // It is compared with the service.
        steps.run("etcd", || debian::ensure("etcd", "etcd-server"))?;
    }
    if is_about("service") || is_about("start") {
        let command = ["build", "--locked", "--release", "--quiet", "--package", "quorate-cli"];
        steps.run("build", || run_command(&mut cargo(command)))?;
    }
    let program = ["run", "--locked", "--release", "--quiet", "--package", "quorate-bench", "--"];
    steps.run("bench", || run_command(cargo(program).args(args)))?;
    steps.finish();
    Ok(())
}
