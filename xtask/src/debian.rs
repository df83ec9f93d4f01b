//! Installing packages, where that is ours to do.

use std::process::Command;

use crate::process::{first_line, run};

/// Only as root on a system with apt: a machine made for this, such as a container.
pub(crate) fn can_install() -> bool {
    let root = first_line(Command::new("id").arg("-u")).is_ok_and(|user| user == "0");
    root && first_line(Command::new("apt-get").arg("--version")).is_ok()
}

/// A package may start a server of its own on the usual port. That does not matter: the tests start
/// their servers on ports of their own.
pub(crate) fn install(package: &str) -> Result<(), String> {
    run(apt_get().args(["update", "-qq"]))?;
    run(apt_get().args(["install", "-y", "-qq", "--no-install-recommends", package]))
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}
