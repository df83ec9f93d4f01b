//! Makes sure that the tools are there with which clients in other languages are tested.
//!
//! Compilers and interpreters come from the system. What is needed on top of them is pinned, and
//! kept in the build folder: nothing of it is installed.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command};

use crate::debian;
use crate::output::say;
use crate::process::{first_line, root, run, target};

/// Finds the tools that the tests will start, and installs them where that is ours to do.
pub(crate) fn ensure() -> Result<(), String> {
    let is_missing = |tool: &&Tool| tool.version().is_err();
    let missing: Vec<&Tool> = TOOLS.iter().filter(is_missing).collect();
    if !missing.is_empty() && !debian::can_install() {
        return Err(how_to_get(&missing));
    }
    for tool in &missing {
        debian::install(tool.package)?;
    }
    for tool in TOOLS {
        let why = |why| format!("`{} {}`: {why}", tool.program, tool.version);
        say(format!("{}: {}", tool.program, tool.version().map_err(why)?));
    }
    for kit in KITS {
        kit.ensure()?;
    }
    Ok(())
}

/// A program, and the Debian package that has it.
struct Tool {
    program: &'static str,
    version: &'static str,
    package: &'static str,
}

impl Tool {
    const fn new(program: &'static str, version: &'static str, package: &'static str) -> Self {
        Self { program, version, package }
    }

    fn version(&self) -> Result<String, String> {
        first_line(Command::new(self.program).args(self.version.split(' ')))
    }
}

fn how_to_get(missing: &[&Tool]) -> String {
    let list = |field: fn(&Tool) -> &str| {
        missing.iter().map(|&tool| field(tool)).collect::<Vec<_>>().join(" ")
    };
    format!(
        "not on PATH: {}. The tests of clients in other languages need them. Install them (Debian, \
         Ubuntu: `sudo apt-get install {}`)",
        list(|tool| tool.program),
        list(|tool| tool.package)
    )
}

/// Development tools of one language, with pinned versions.
struct Kit {
    /// Its folder in that of the tools.
    name: &'static str,
    /// What pins the versions. The kit is installed anew when one of them changes.
    pins: &'static [&'static str],
    install: fn(&Self, &Path) -> Command,
}

impl Kit {
    fn ensure(&self) -> Result<(), String> {
        let folder = folder().join(self.name);
        let pinned: Result<Vec<String>, _> =
            self.pins.iter().map(|pin| fs::read_to_string(root().join(pin))).collect();
        let pinned = pinned.map_err(|error| format!("{:?}: {error}", self.pins))?.concat();
        let is_current =
            || fs::read_to_string(folder.join(STAMP)).is_ok_and(|stamp| stamp == pinned);
        if is_current() {
            return Ok(());
        }
        let failed = |error| format!("installing {}: {error}", folder.display());
        // A folder of its own: another run may do the same at the same time.
        let incoming = folder.with_file_name(format!("{}-{}", self.name, process::id()));
        fs::create_dir_all(&incoming).map_err(failed)?;
        let installed = run(&mut (self.install)(self, &incoming)).and_then(|()| {
            fs::write(incoming.join(STAMP), &pinned).map_err(failed)?;
            if folder.exists() && !is_current() {
                fs::remove_dir_all(&folder).map_err(failed)?;
            }
            match fs::rename(&incoming, &folder) {
                // The other run was faster.
                Err(_) if is_current() => Ok(()),
                renamed => renamed.map_err(failed),
            }
        });
        // It is only there if it could not be used.
        let _ = fs::remove_dir_all(&incoming);
        installed
    }
}

/// Pip compares the archives with what is pinned.
fn pip(kit: &Kit, folder: &Path) -> Command {
    let mut command = Command::new("python3");
    let args = "-m pip install --quiet --root-user-action=ignore --no-deps --only-binary=:all: \
                --require-hashes --requirement";
    command.args(args.split_whitespace()).args(kit.pins.iter().map(|pin| root().join(pin)));
    command.arg("--target").arg(folder);
    command
}

/// Npm wants the files that pin the versions next to what it installs.
fn npm(kit: &Kit, folder: &Path) -> Command {
    for pin in kit.pins {
        let name = Path::new(pin).file_name().unwrap_or_default();
        // Without them npm says what is missing.
        let _ = fs::copy(root().join(pin), folder.join(name));
    }
    let mut command = Command::new("npm");
    command.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(folder);
    command
}

/// Where the tests look for them: next to the folders that they are built in.
pub(crate) fn folder() -> PathBuf {
    if let Some(chosen) = env::var_os(CHOSEN_FOLDER) {
        return chosen.into();
    }
    target().join("tools")
}

/// `javac` stands for the programs of a JDK: a mere runtime cannot run a source file.
const TOOLS: &[Tool] = &[
    Tool::new("curl", "--version", "curl"),
    Tool::new("openssl", "version", "openssl"),
    Tool::new("python3", "-m pip --version", "python3-pip"),
    Tool::new("node", "--version", "nodejs"),
    Tool::new("npm", "--version", "npm"),
    Tool::new("go", "version", "golang-go"),
    Tool::new("javac", "-version", "default-jdk-headless"),
];

const KITS: &[Kit] = &[
    Kit { name: "python", pins: PYTHON_PINS, install: pip },
    Kit { name: "npm", pins: NPM_PINS, install: npm },
    Kit { name: "schemathesis", pins: SCHEMATHESIS_PINS, install: pip },
];

const PYTHON_PINS: &[&str] = &["clients/python/requirements-dev.txt"];
const SCHEMATHESIS_PINS: &[&str] = &["xtask/schemathesis.txt"];
const NPM_PINS: &[&str] = &["clients/npm/package.json", "clients/npm/package-lock.json"];
const CHOSEN_FOLDER: &str = "QUORATE_TOOLS";
const STAMP: &str = "pinned";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_tools_are_listed_with_how_to_install_them() {
        let told = how_to_get(&TOOLS.iter().collect::<Vec<_>>());
        for tool in TOOLS {
            assert!(told.contains(tool.program) && told.contains(tool.package), "{told}");
        }
    }

    #[test]
    fn pins_name_no_registry() {
        for pin in KITS.iter().flat_map(|kit| kit.pins) {
            let text = fs::read_to_string(root().join(pin)).unwrap();
            assert!(!text.contains("\"resolved\"") && !text.contains("--index-url"), "{pin}");
        }
    }
}
