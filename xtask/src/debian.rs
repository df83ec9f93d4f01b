//! Installing packages, where that is ours to do.

use std::env;
use std::process::Command;

use crate::output::say;
use crate::process::{first_line, run};

/// Only as root on a system with apt: a machine made for this, such as a container.
pub(crate) fn can_install() -> bool {
    let root = first_line(Command::new("id").arg("-u")).is_ok_and(|user| user == "0");
    root && first_line(Command::new("apt-get").arg("--version")).is_ok()
}

/// Finds a program, and installs its package where that is ours to do.
pub(crate) fn ensure(program: &str, package: &str) -> Result<(), String> {
    let version = || first_line(Command::new(program).arg("--version"));
    if version().is_err() {
        if !can_install() {
            let how = format!("install it, such as Debian's {package}");
            return Err(format!("{program} is not on PATH: {how}"));
        }
        install(package)?;
    }
    say(version()?);
    Ok(())
}

/// A package may start a server of its own on the usual port. That does not matter: the tests start
/// their servers on ports of their own.
pub(crate) fn install(package: &str) -> Result<(), String> {
    run(apt_get().args(["update", "-qq"]))?;
    run(apt_get().args(["install", "-y", "-qq", "--no-install-recommends", package]))
}

/// Installs what is missing, of programs and the packages that have them.
pub(crate) fn ensure_all(programs: &[(&str, &str)]) -> Result<(), String> {
    for (program, package) in programs {
        if !is_on_path(program) {
            install(package)?;
        }
    }
    Ok(())
}

fn is_on_path(program: &str) -> bool {
    let folders = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&folders).any(|folder| folder.join(program).is_file())
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}
