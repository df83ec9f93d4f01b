//! What `cargo test` would run, as programs that this one starts.
//!
//! Cargo runs test programs one after the other. Most of them wait for real time to pass at
//! servers, so several at once finish sooner.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::process::{cargo, read};

/// A program that was built for the tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    package: String,
    folder: PathBuf,
    executable: PathBuf,
    /// What it is made of, as cargo says: `lib`, `bin`, `test` or `example`.
    kind: String,
    name: String,
    is_test: bool,
}

/// Builds everything that the tests need, with all features.
pub(crate) fn build(more: &[&str]) -> Result<Vec<Program>, String> {
    let mut command = cargo("test --locked --workspace --all-features --no-run".split(' '));
    command.args(more).arg("--message-format=json-render-diagnostics");
    let programs: Vec<Program> = read(&mut command)?.lines().filter_map(Program::parse).collect();
    // Nothing to run must not pass for tests that passed.
    if programs.iter().any(Program::is_test) { Ok(programs) } else { Err(NOTHING.to_owned()) }
}

impl Program {
    /// From one message of cargo, if that is about a program.
    fn parse(message: &str) -> Option<Self> {
        let message: Value = serde_json::from_str(message).ok()?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Some(Self {
            package: package_name(message["package_id"].as_str()?).to_owned(),
            folder: Path::new(message["manifest_path"].as_str()?).parent()?.to_owned(),
            executable: message["executable"].as_str()?.into(),
            kind: text(&message["target"]["kind"][0])?,
            name: text(&message["target"]["name"])?,
            is_test: message["profile"]["test"].as_bool()?,
        })
    }

    pub(crate) fn is_test(&self) -> bool {
        self.is_test
    }

    pub(crate) fn is_example(&self) -> bool {
        !self.is_test && self.kind == "example"
    }

    /// Whether this is the program itself, not its tests.
    pub(crate) fn is_bin(&self, name: &str) -> bool {
        !self.is_test && self.kind == "bin" && self.name == name
    }

    pub(crate) fn executable(&self) -> &Path {
        &self.executable
    }

    pub(crate) fn package(&self) -> &str {
        &self.package
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What to hand to `cargo test` to run this one alone.
    pub(crate) fn arguments(&self) -> String {
        let Self { package, kind, name, .. } = self;
        match kind.as_str() {
            "lib" => format!("-p {package} --lib"),
            _ => format!("-p {package} --{kind} {name}"),
        }
    }

    /// In the surroundings that cargo gives it.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        command
    }
}

/// The name in a specification of a package; the last part of the path if it is the same.
fn package_name(id: &str) -> &str {
    let (path, version) = id.rsplit_once('#').unwrap_or((id, ""));
    match version.split_once('@') {
        Some((name, _)) => name,
        None => path.rsplit('/').next().unwrap_or_default(),
    }
}

const NOTHING: &str = "cargo built no test";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn program(kind: &str, is_test: bool) -> Program {
        let message = json!({
            "reason": "compiler-artifact",
            "package_id": "path+file:///src/crates/quorate#0.1.0",
            "manifest_path": "/src/crates/quorate/Cargo.toml",
            "target": {"kind": [kind], "name": "it"},
            "profile": {"test": is_test},
            "executable": "/src/target/debug/deps/it-1",
        });
        Program::parse(&message.to_string()).unwrap()
    }

    #[test]
    fn test_shows_how_to_run_it_alone() {
        assert_eq!(program("test", true).arguments(), "-p quorate --test it");
        assert_eq!(program("bin", true).arguments(), "-p quorate --bin it");
        assert_eq!(program("lib", true).arguments(), "-p quorate --lib");
    }

    #[test]
    fn package_may_have_another_name_than_its_folder() {
        assert_eq!(package_name("path+file:///src/bench#quorate-bench@0.1.0"), "quorate-bench");
        assert_eq!(package_name("path+file:///src/xtask#0.1.0"), "xtask");
    }

    #[test]
    fn program_is_no_test_of_it() {
        assert!(program("bin", true).is_test() && !program("bin", true).is_bin("it"));
        assert!(program("bin", false).is_bin("it") && !program("bin", false).is_test());
        assert!(program("example", false).is_example() && !program("example", true).is_example());
    }

    #[test]
    fn test_is_started_in_the_folder_of_its_package() {
        let command = program("test", true).command();
        assert_eq!(command.get_current_dir(), Some(Path::new("/src/crates/quorate")));
    }

    #[test]
    fn what_is_no_program_is_not_listed() {
        let library = json!({"reason": "compiler-artifact", "executable": null});
        for message in ["", "fake cargo", "{\"reason\": \"build-finished\"}", &library.to_string()]
        {
            assert_eq!(Program::parse(message), None, "{message}");
        }
    }
}
