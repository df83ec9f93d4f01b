//! Makes sure that there is a Redis server: the tests start real ones.

use std::env;
use std::process::Command;

use crate::debian;
use crate::output::say;
use crate::process::first_line;

/// Finds the server that the tests will start, and installs it where that is ours to do.
pub(crate) fn ensure() -> Result<(), String> {
    if let Some(chosen) = env::var_os(CHOSEN_SERVER) {
        let version = first_line(Command::new(&chosen).arg("--version"))
            .map_err(|why| format!("{CHOSEN_SERVER}={}: {why}", chosen.display()))?;
        say(version);
        return Ok(());
    }
    if let Ok(version) = default_version() {
        say(version);
        return Ok(());
    }
    if !debian::can_install() {
        return Err(HOW_TO_GET_IT.to_owned());
    }
    debian::install(SERVER)?;
    let version = default_version().map_err(|why| format!("installed {SERVER}, but: {why}"))?;
    say(version);
    Ok(())
}

fn default_version() -> Result<String, String> {
    first_line(Command::new(SERVER).arg("--version"))
}

const SERVER: &str = "redis-server";
const CHOSEN_SERVER: &str = "QUORATE_REDIS_SERVER";
const HOW_TO_GET_IT: &str = "redis-server is not on PATH. Install it \
    (Debian, Ubuntu: `sudo apt-get install redis-server`; macOS: `brew install redis`) \
    or set QUORATE_REDIS_SERVER to the path of a redis-server or valkey-server program";
