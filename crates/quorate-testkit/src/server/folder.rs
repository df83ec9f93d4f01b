//! The temporary folder of one server: configuration, log, socket and data.
//!
//! Responsible for where these files are and for removing them. Not for what redis writes there.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

#[derive(Debug)]
pub(super) struct Folder {
    root: TempDir,
}

impl Folder {
    pub(super) fn create() -> Self {
        let root = tempfile::Builder::new()
            .prefix("quorate-")
            .tempdir()
            .expect("a temporary folder for the server");
        let folder = Self { root };
        fs::create_dir(folder.data()).expect("a data folder for the server");
        folder
    }

    pub(super) fn config(&self) -> PathBuf {
        self.path("redis.conf")
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.path("redis.sock")
    }

    /// The file from which the server reads the time.
    pub(super) fn clock(&self) -> PathBuf {
        self.path("clock")
    }

    /// What is loaded into a server that has a clock of its own.
    pub(super) fn clock_library(&self) -> PathBuf {
        self.path("clock.so")
    }

    pub(super) fn data(&self) -> PathBuf {
        self.path("data")
    }

    /// Removes whatever the server has persisted.
    pub(super) fn empty_data(&self) {
        fs::remove_dir_all(self.data()).expect("removing the server's data files");
        fs::create_dir(self.data()).expect("a data folder for the server");
    }

    /// Puts what another server has persisted in the place of what this one has.
    pub(super) fn copy_data(&self, other: &Self) {
        self.empty_data();
        copy_all(&other.data(), &self.data()).expect("copying a server's data files");
    }

    /// The log, opened to add to what earlier runs have written.
    pub(super) fn open_log(&self) -> io::Result<File> {
        File::options().create(true).append(true).open(self.log())
    }

    pub(super) fn log_length(&self) -> usize {
        self.read_log().len()
    }

    /// What the log has gained since it was `start` bytes long.
    pub(super) fn log_since(&self, start: usize) -> String {
        String::from_utf8_lossy(self.read_log().get(start..).unwrap_or_default()).into_owned()
    }

    fn read_log(&self) -> Vec<u8> {
        fs::read(self.log()).unwrap_or_default()
    }

    fn log(&self) -> PathBuf {
        self.path("server.log")
    }

    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root.path().join(name)
    }
}

fn copy_all(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            fs::create_dir(&to)?;
            copy_all(&from, &to)?;
        } else {
            fs::copy(&from, &to)?;
        }
    }
    Ok(())
}
