//! Runs programs of other languages.

use std::{
    env,
    ffi::OsStr,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use quorate_testkit::eventually;
use tempfile::TempDir;

/// A program that gets only `PATH` from the environment of this process.
pub(crate) struct Tool {
    command: Command,
    folder: TempDir,
}

/// The output of a program.
pub(crate) struct ToolOutput {
    pub(crate) is_success: bool,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Tool {
    pub(crate) fn new(program: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = Command::new(program);
        command.env_clear().env("PATH", env::var_os("PATH").unwrap_or_default());
        command.env("HOME", folder.path()).current_dir(folder.path());
        // Do not write to the repository.
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        // A missing version is a failure, not a download.
        command.env("GOTOOLCHAIN", "local");
        Self { command, folder }
    }

    /// The folder in which it runs by default.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.args(args);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn in_folder(mut self, folder: impl AsRef<Path>) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// Runs it to its end.
    #[track_caller]
    pub(crate) fn run(&mut self) -> ToolOutput {
        // Files instead of pipes, which would have to be read while it runs.
        let [out, err] = ["stdout", "stderr"].map(|name| self.folder.path().join(name));
        let file = |path: &Path| File::create(path).expect("the folder is ours");
        self.command.stdin(Stdio::null()).stdout(file(&out)).stderr(file(&err));
        let name = self.command.get_program().to_string_lossy().into_owned();
        let mut child = self.command.spawn().unwrap_or_else(|error| {
            panic!("cannot run {name}: {error}. `cargo xtask test` says what to install")
        });
        let mut status = None;
        eventually(&format!("{name} ends"), LIMIT, || {
            status = child.try_wait().expect("it is ours");
            status.is_some()
        });
        let text = |path: &Path| fs::read_to_string(path).expect("it prints text");
        let is_success = status.is_some_and(|status| status.success());
        ToolOutput { is_success, out: text(&out), err: text(&err) }
    }

    /// The same; it must succeed.
    #[track_caller]
    pub(crate) fn run_well(&mut self) -> ToolOutput {
        let output = self.run();
        assert!(output.is_success, "{}\n{}", output.out, output.err);
        output
    }
}

/// A file or folder of the repository.
pub(crate) fn repository(path: &str) -> PathBuf {
    let package = env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
    Path::new(&package).join("../..").canonicalize().expect("it is there").join(path)
}

/// The development tools of one language.
#[track_caller]
pub(crate) fn kit(name: &str) -> PathBuf {
    let folder = tools().join(name);
    assert!(folder.is_dir(), "{} is missing: run `cargo xtask test`", folder.display());
    folder
}

/// Where `cargo xtask` puts tools, next to the folder that this test is built in.
pub(crate) fn tools() -> PathBuf {
    if let Some(chosen) = env::var_os("QUORATE_TOOLS") {
        return chosen.into();
    }
    let this = env::current_exe().expect("a running program has a path");
    this.ancestors().nth(3).expect("cargo puts tests below the target folder").join("tools")
}

/// Compilers are slow on a busy machine.
const LIMIT: Duration = Duration::from_secs(600);
