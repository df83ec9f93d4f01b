//! `cargo xtask deny`: cargo-deny checks the licences, versions and sources of all dependencies.

use std::env;
use std::path::PathBuf;

use crate::cargo_tools::CARGO_DENY;
use crate::failure::Failure;
use crate::output::say;
use crate::process::{root, run as run_command};

pub(crate) fn run(args: &[String]) -> Result<(), Failure> {
    if !args.is_empty() {
        return Err(Failure::usage("deny takes no arguments"));
    }
    check().map_err(|why| Failure::failed(format!("deny: {why}")))
}

/// Checks the dependencies against `deny.toml`.
pub(crate) fn check() -> Result<(), String> {
    let mut deny = CARGO_DENY.ensure()?;
    deny.args("--locked check licenses bans sources".split(' '));
    run_command(deny.current_dir(root()))?;
    let database = advisories();
    if !database.is_some_and(|folder| folder.is_dir()) {
        say("advisories: not checked. `cargo deny fetch db` downloads the database");
        return Ok(());
    }
    let mut deny = CARGO_DENY.ensure()?;
    // The check must not depend on the network, so it uses the database as it is.
    run_command(deny.args("--locked --offline check advisories".split(' ')).current_dir(root()))
}

/// The folder in which cargo-deny keeps the database of advisories.
fn advisories() -> Option<PathBuf> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(env::home_dir()?.join(".cargo")));
    home.map(|home| home.join("advisory-dbs"))
}
