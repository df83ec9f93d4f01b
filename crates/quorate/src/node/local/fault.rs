//! Errors of a folder: the path, the reason, and what to do about it.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use rusqlite::ErrorCode;
use rustix::io::Errno;

use crate::error::{ConfigError, NodeError};

/// Why the folder, or a file in it, cannot be used.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Fault {
    path: PathBuf,
    reason: String,
}

impl Fault {
    pub(super) fn new(path: &Path, reason: impl Into<String>) -> Self {
        Self { path: path.to_owned(), reason: reason.into() }
    }

    /// What is wrong, and what to do.
    pub(super) fn reason(&self) -> &str {
        &self.reason
    }

    /// An error of the operating system: `what` failed.
    pub(super) fn io(path: &Path, what: &str, error: impl Into<io::Error>) -> Self {
        let error = error.into();
        let advice = match error.kind() {
            io::ErrorKind::PermissionDenied => {
                "; give this user permission to write there, or use another folder"
            }
            io::ErrorKind::ReadOnlyFilesystem => "; use a folder that can be written to",
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "; free space there",
            _ if is_out_of_files(&error) => TOO_MANY_FILES,
            io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
                "; a folder is needed there: use another path"
            }
            _ => "",
        };
        Self::new(path, format!("{what}: {error}{advice}"))
    }

    /// An error of the database.
    pub(super) fn sql(path: &Path, error: &rusqlite::Error) -> Self {
        let advice = match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => "free space on the disk",
            Some(ErrorCode::SystemIoFailure) => {
                "check the disk: it may be full, over a quota or broken"
            }
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                "it is damaged, or not a database of Quorate: if no program uses it, remove it and \
                 the files with its name and -wal or -shm"
            }
            Some(ErrorCode::ReadOnly) => READ_ONLY,
            Some(ErrorCode::CannotOpen) if has_no_files_left() => {
                return Self::new(path, format!("it cannot be opened{TOO_MANY_FILES}"));
            }
            Some(ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
                "give this user permission to read and write it and its folder"
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                "another program keeps it locked: only Quorate may use it"
            }
            _ => return Self::new(path, error.to_string()),
        };
        // Some errors of the database name the file, which is already in the message.
        let error = error.to_string();
        let error = error.strip_suffix(&format!(": {}", path.display())).unwrap_or(&error);
        Self::new(path, format!("{error}: {advice}"))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.reason)
    }
}

impl From<Fault> for ConfigError {
    fn from(fault: Fault) -> Self {
        Self::Local { path: fault.path.display().to_string(), reason: fault.reason }
    }
}

impl From<&Fault> for NodeError {
    fn from(fault: &Fault) -> Self {
        Self::Storage(fault.to_string())
    }
}

fn is_out_of_files(error: &io::Error) -> bool {
    Errno::from_io_error(error).is_some_and(|errno| matches!(errno, Errno::MFILE | Errno::NFILE))
}

/// The database does not report why it could not open a file. The files that it has opened before
/// are still open when this is called.
fn has_no_files_left() -> bool {
    std::fs::File::open("/proc/self/stat").is_err_and(|error| is_out_of_files(&error))
}

const TOO_MANY_FILES: &str =
    "; this process, or the system, has too many files open: raise the limit (ulimit -n)";

/// What to do about a file that cannot be written to.
pub(super) const READ_ONLY: &str =
    "it is read-only: give this user permission to write to it, or use another folder";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_reported() {
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        connection.execute_batch("PRAGMA max_page_count = 2; CREATE TABLE a (b)").unwrap();
        let full = connection.execute("INSERT INTO a VALUES (zeroblob(100000))", []).unwrap_err();
        let text = Fault::sql(Path::new("/x/locks.db"), &full).to_string();
        assert!(text.starts_with("/x/locks.db: database or disk is full: free space"), "{text}");
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let text = Fault::io(Path::new("/x/lock"), "it cannot be opened", full).to_string();
        assert!(text.ends_with("; free space there"), "{text}");
    }
}
