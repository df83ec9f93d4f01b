//! Running text in a shell, with this quorate and none of this process's settings.

use std::{
    env,
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output, Stdio},
};

use tempfile::TempDir;

/// A folder for one shell: it is its home, and has its local locks.
pub(crate) struct Session {
    folder: TempDir,
}

impl Session {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A program of this name on the path and in the folder of the shell. It does nothing.
    pub(crate) fn stand_in(&self, name: &str) {
        let path = self.folder().join(name);
        fs::write(&path, "#!/bin/sh\n").expect("the folder is ours");
        fs::set_permissions(path, Permissions::from_mode(0o755)).expect("the file is ours");
    }

    /// Runs the text to its end. Both outputs are in one, as at a terminal.
    pub(crate) fn run(&self, text: &str) -> Output {
        let quorate = Path::new(env!("CARGO_BIN_EXE_quorate")).parent().expect("a folder");
        let path = env::var_os("PATH").unwrap_or_default();
        let folders = [self.folder().to_owned(), quorate.to_owned()];
        let folders = folders.into_iter().chain(env::split_paths(&path));
        let mut shell = Command::new("bash");
        shell.args(["-c", &format!("exec 2>&1\n{text}")]).current_dir(self.folder());
        shell.env_clear().env("PATH", env::join_paths(folders).expect("no colon in a folder"));
        shell.env("HOME", self.folder()).env("QUORATE_DIR", self.folder().join("locks"));
        shell.stdin(Stdio::null()).output().expect("bash is there")
    }
}

impl Drop for Session {
    /// Stops the servers of `quorate up` that the text has left running.
    fn drop(&mut self) {
        self.run("for list in */quorate-up.json; do quorate down \"${list%/*}\"; done");
    }
}

/// A command of a session, and the output that the page shows after it.
#[derive(Debug)]
pub(crate) struct Step<'a> {
    pub(crate) command: &'a str,
    pub(crate) output: Vec<&'a str>,
}

/// A session: commands after `$ `, each with the output that follows it.
pub(crate) fn steps_of(text: &str) -> Vec<Step<'_>> {
    let mut steps: Vec<Step<'_>> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => steps.push(Step { command, output: Vec::new() }),
            (None, Some(step)) => step.output.push(line),
            (None, None) => panic!("a session begins with a command: {line}"),
        }
    }
    steps
}

/// Around the output of a command.
pub(crate) const BEGIN: &str = "== begin";
pub(crate) const END: &str = "== end";
/// Starts the service on a free port, and waits until its address is in `$service`.
pub(crate) const SERVE: &str = "\
quorate serve --listen 127.0.0.1:0 >serve.log 2>&1 &
until service=$(grep -o '127.0.0.1:[1-9][0-9]*' serve.log); do :; done";
