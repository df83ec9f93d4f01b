//! Children that acquire and release locks, and record what they do in one history.
//!
//! Responsible for their shared folder, and for the moments at which they are killed. Not for the
//! locks, and not for their failures.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{Child, PATIENCE, command};
use crate::{
    eventually,
    history::{History, Moment, Recorder},
};

/// Children with names that run until they must stop, or are killed.
#[derive(Debug)]
pub struct Contenders {
    folder: Option<tempfile::TempDir>,
    running: BTreeMap<String, Child>,
    started: usize,
    killed: Vec<(String, Moment)>,
}

impl Contenders {
    /// None at first, with a new folder.
    ///
    /// # Panics
    ///
    /// If there is no place for temporary files.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it makes a folder")]
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder for the history");
        Self { folder: Some(folder), running: BTreeMap::new(), started: 0, killed: Vec::new() }
    }

    /// Starts a child with this role. Its arguments are its name, the folder, and then these.
    ///
    /// # Panics
    ///
    /// If the child cannot be started.
    pub fn start(&mut self, role: &str, args: impl IntoIterator<Item = impl AsRef<OsStr>>) {
        self.started += 1;
        let name = format!("{role}-{:03}", self.started);
        let mut command = command(role);
        command.arg(&name).arg(self.folder()).args(args);
        self.running.insert(name, Child::start(&mut command));
    }

    /// How many were started so far.
    #[must_use]
    pub const fn started(&self) -> usize {
        self.started
    }

    /// The folder that all of them share.
    ///
    /// # Panics
    ///
    /// After [`keep_history`](Self::keep_history).
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.as_ref().expect("the folder exists until it is kept").path()
    }

    /// The names of those that run, oldest first.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.running.keys().cloned().collect()
    }

    /// Whether a child of this name runs.
    #[must_use]
    pub fn is_running(&self, name: &str) -> bool {
        self.running.contains_key(name)
    }

    /// Stops a child, until [`resume`](Self::resume).
    ///
    /// # Panics
    ///
    /// If no child of this name runs.
    pub fn stop(&self, name: &str) {
        self.running[name].stop();
    }

    /// Continues a stopped child.
    ///
    /// # Panics
    ///
    /// If no child of this name runs.
    pub fn resume(&self, name: &str) {
        self.running[name].resume();
    }

    /// Kills a child. Returns the moment before.
    ///
    /// # Panics
    ///
    /// If no child of this name runs.
    pub fn kill(&mut self, name: &str) -> Moment {
        let mut child = self.running.remove(name).expect("a child of this name runs");
        let at = Moment::now();
        self.killed.push((name.to_owned(), at));
        child.kill();
        at
    }

    /// Panics if a child has ended by itself.
    ///
    /// # Panics
    ///
    /// See above.
    pub fn assert_none_ended(&mut self) {
        for (name, child) in &mut self.running {
            let ended = child.ended();
            assert!(ended.is_none(), "{name} has ended: {ended:?}");
        }
    }

    /// What the children have recorded so far, in whole lines: the last line may be half written.
    #[must_use]
    pub fn recorded(&self) -> String {
        let mut text = fs::read_to_string(history_file(self.folder())).unwrap_or_default();
        text.truncate(text.rfind('\n').map_or(0, |end| end + 1));
        text
    }

    /// What has happened so far.
    #[must_use]
    pub fn history(&self) -> History {
        History::parse(&self.recorded())
    }

    /// Waits for more claims than `count` that begin after `since`. Returns the time until the
    /// first of them.
    ///
    /// # Panics
    ///
    /// If there are too few within [`PATIENCE`], or a child ends by itself.
    pub fn wait_for_claims(&mut self, since: Moment, count: usize) -> Duration {
        let mut times = Vec::new();
        eventually("others acquire the lock again", PATIENCE, || {
            self.assert_none_ended();
            let history = self.history();
            let later = history.claims().iter().filter(|claim| claim.acquired_at > since);
            times = later.map(|claim| claim.acquired_at.since(since)).collect();
            times.len() > count
        });
        times[0]
    }

    /// Makes all children stop, waits until each ends with success, and returns what happened.
    ///
    /// # Panics
    ///
    /// If a child fails, or does not end within [`PATIENCE`].
    pub fn end(&mut self) -> History {
        fs::write(stop_file(self.folder()), "").expect("the folder exists");
        for (name, mut child) in std::mem::take(&mut self.running) {
            let mut ended = None;
            eventually(&format!("{name} ends"), PATIENCE, || {
                ended = child.ended();
                ended.is_some()
            });
            assert!(ended.is_some_and(|status| status.success()), "{name} has failed: {ended:?}");
        }
        let mut history = self.history();
        self.killed.iter().for_each(|(name, at)| history.died(name, *at));
        history
    }

    /// Keeps the folder beyond the end of the test, and returns the path of the history.
    ///
    /// # Panics
    ///
    /// At a second call.
    pub fn keep_history(&mut self) -> PathBuf {
        let folder = self.folder.take().expect("the folder exists until it is kept");
        history_file(&folder.keep())
    }
}

/// For a child: where it records what it does.
#[must_use]
pub fn recorder(folder: &Path) -> Recorder {
    Recorder::to_file(history_file(folder))
}

/// For a child: whether it is to end now.
#[must_use]
pub fn must_stop(folder: &Path) -> bool {
    stop_file(folder).exists()
}

fn history_file(folder: &Path) -> PathBuf {
    folder.join("history")
}

fn stop_file(folder: &Path) -> PathBuf {
    folder.join("stop")
}
