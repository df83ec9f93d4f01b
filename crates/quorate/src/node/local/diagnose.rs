//! Facts about a folder. Nothing is created, opened or locked: closing a database file would drop
//! the locks that other clients of this process have on it.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::{
    fs::{Access, access, statvfs},
    io::Errno,
};
use tokio::time::sleep;

use super::folder::{DB, LOCK_FILE, LOG, check_usable};
use crate::diagnose::{Blocker, FolderFacts};

/// Inspects a folder for a fraction of a second.
pub(crate) async fn diagnose(path: &Path) -> FolderFacts {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut facts = FolderFacts { path: path.clone(), ..FolderFacts::default() };
    facts.exists = path.symlink_metadata().is_ok();
    let on_disk = path.ancestors().find(|it| it.exists()).unwrap_or_else(|| Path::new("/"));
    if let Ok(disk) = statvfs(on_disk) {
        facts.free_bytes = Some(disk.f_bavail.saturating_mul(disk.f_frsize));
        facts.free_files = Some(disk.f_favail).filter(|_| disk.f_files > 0);
    }
    facts.problem = problem(&path, on_disk, facts.exists);
    let file = path.join(DB);
    facts.file = file.exists().then_some(file);
    facts.blockers = blockers(&path.join(LOCK_FILE)).await;
    facts
}

fn problem(path: &Path, on_disk: &Path, exists: bool) -> Option<String> {
    let may_write = |path: &Path| access(path, Access::WRITE_OK | Access::READ_OK);
    if !exists {
        let refused = may_write(on_disk).err()?;
        let above = on_disk.display();
        return Some(format!("it does not exist and cannot be made in {above}: {refused}"));
    }
    if let Err(fault) = check_usable(path) {
        return Some(fault.reason().to_owned());
    }
    let refused = |path: PathBuf| match may_write(&path) {
        Ok(()) | Err(Errno::NOENT) => None,
        Err(error) => Some(format!(
            "{} cannot be written to: {error}; give this user permission to write there, or use \
             another folder",
            path.display()
        )),
    };
    let files = [DB, LOG, LOCK_FILE].map(|name| path.join(name));
    [path.to_owned()].into_iter().chain(files).find_map(refused)
}

/// The processes that hold the lock of the folder at every look. Others hold it for an instant.
async fn blockers(lock_file: &Path) -> Vec<Blocker> {
    let Ok(about) = lock_file.metadata() else { return Vec::new() };
    let mut holders: Option<BTreeSet<u32>> = None;
    for _ in 0..CHECKS {
        let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
        let found = locks.lines().filter_map(|line| holder(line, about.ino()));
        let found: BTreeSet<u32> = found.filter(|pid| has_open(*pid, lock_file)).collect();
        let still = holders.map_or_else(|| found.clone(), |held| &held & &found);
        if still.is_empty() {
            return Vec::new();
        }
        holders = Some(still);
        sleep(BETWEEN_CHECKS).await;
    }
    holders.into_iter().flatten().map(describe).collect()
}

/// The process of a line such as `1: FLOCK  ADVISORY  WRITE 811 08:01:1234 0 EOF`, if it locks the
/// file with this number. The device is not compared: some file systems report another one here.
fn holder(line: &str, file: u64) -> Option<u32> {
    let mut words = line.split_whitespace().skip(1);
    // A waiting process has an arrow in place of the kind.
    if words.next()? != "FLOCK" {
        return None;
    }
    let pid = words.nth(2)?.parse().ok()?;
    let number: u64 = words.next()?.rsplit(':').next()?.parse().ok()?;
    (number == file).then_some(pid)
}

/// Whether the process has the file open. The files of other users' processes are unknown.
fn has_open(pid: u32, file: &Path) -> bool {
    let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else { return true };
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    open.flatten().any(|entry| fs::read_link(entry.path()).is_ok_and(|path| path == file))
}

fn describe(pid: u32) -> Blocker {
    let command = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let command: String = command.trim_end().chars().filter(|c| !c.is_control()).collect();
    let stat = fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    let stat = String::from_utf8_lossy(&stat).into_owned();
    let is_stopped = stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['T', 't']));
    Blocker::new(pid, command, is_stopped)
}

const CHECKS: usize = 5;
const BETWEEN_CHECKS: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holder_of_a_file_is_found_in_the_list_of_locks() {
        let holder = |line| holder(line, 1_234);
        assert_eq!(holder("1: FLOCK  ADVISORY  WRITE 811 08:01:1234 0 EOF"), Some(811));
        assert_eq!(holder("1: FLOCK  ADVISORY  WRITE 811 08:01:12345 0 EOF"), None);
        assert_eq!(holder("1: POSIX  ADVISORY  WRITE 811 08:01:1234 0 EOF"), None);
        assert_eq!(holder("1: -> FLOCK  ADVISORY  WRITE 811 08:01:1234 0 EOF"), None);
        assert_eq!(holder(""), None);
    }
}
