//! The folder: who may use it, its files, and its lock.
//!
//! All processes that use the folder take turns by `flock` on one file, so that hundreds of them
//! wait in the kernel. Exclusion does not depend on that: the database has locks of its own.

use std::{
    fs::{self, DirBuilder, Permissions},
    io,
    os::{
        fd::OwnedFd,
        unix::{
            ffi::OsStrExt,
            fs::{DirBuilderExt, MetadataExt, PermissionsExt},
        },
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{
        AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, Stat, fchmod, flock, fstat, fstatfs,
        mkdirat, openat, stat, statat, unlinkat,
    },
    io::{Errno, retry_on_intr},
    process::{getegid, geteuid},
};

use super::{db::gate, fault::Fault};

/// An open folder.
#[derive(Debug)]
pub(super) struct Folder {
    /// The path as it was configured. A link in it may lead elsewhere later.
    path: PathBuf,
    dir: OwnedFd,
    lock_file: OwnedFd,
    /// Whether its group may use it too.
    is_shared: bool,
    /// The files that are open, with the names by which other processes find them.
    known: Known,
}

type Known = Vec<(&'static str, FileId)>;

impl Folder {
    /// Opens a folder. Creates it if it does not exist.
    pub(super) fn open(path: &Path) -> Result<Self, Fault> {
        create(path)?;
        let dir = open_dir(path)?;
        let is_shared = check_dir(&dir, path)?;
        let lock_file = open_lock_file(&dir, path, is_shared)?;
        Ok(Self { path: path.to_owned(), dir, lock_file, is_shared, known: Vec::new() })
    }

    pub(super) fn db_path(&self) -> PathBuf {
        self.path.join(DB)
    }

    /// Waits for the lock of the folder, which is held until the result is dropped.
    pub(super) fn wait_for_lock(&self) -> Result<FolderLock<'_>, Fault> {
        // The kernel releases the lock of a process that ends. A process that is stopped while it
        // holds the lock makes all others wait. The database would do the same.
        retry_on_intr(|| flock(&self.lock_file, FlockOperation::LockExclusive))
            .map_err(|error| Fault::io(&self.path.join(LOCK_FILE), "it cannot be locked", error))?;
        Ok(FolderLock(&self.lock_file))
    }

    /// Creates the database file with the right permissions, if it does not exist.
    ///
    /// The caller holds the folder's lock: closing a file drops all locks that this process has on
    /// it, even those of other clients. While the lock is held, no other client can have opened the
    /// new file.
    pub(super) fn make_db(&self) -> Result<(), Fault> {
        let refused = |error| Fault::io(&self.db_path(), "the file cannot be made", error);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = file_mode(self.is_shared);
        match openat(&self.dir, DB, flags, mode) {
            Ok(file) => {
                // The umask of the process may have removed permissions.
                fchmod(file, mode).map_err(refused)?;
                self.remove(LOG).and_then(|()| self.remove(INDEX)).map_err(refused)
            }
            Err(Errno::EXIST) if self.is_link(DB) => Err(Fault::new(&self.db_path(), LINK)),
            // An index without its log is useless, but would be used while a process has it open.
            Err(Errno::EXIST) if self.id_of(LOG).is_none() => self.remove(INDEX).map_err(refused),
            Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(refused(error)),
        }
    }

    /// Checks that other clients of this process do not have a log open that was removed. The
    /// caller holds the folder's lock.
    ///
    /// The clients of a process share an index. If it was removed, it stays in use until the last
    /// client has closed it.
    pub(super) fn check_clients(&self) -> Result<(), Fault> {
        let _gate = gate();
        let open = self.open_files()?;
        let is_open = |name| self.id_of(name).is_some_and(|id| open.contains(&id));
        match [LOG, INDEX].into_iter().find(|name| is_open(DB) && !is_open(name)) {
            Some(name) => Err(Fault::new(&self.path.join(name), REPLACED)),
            None => Ok(()),
        }
    }

    /// The files that are open. The caller holds the folder's lock.
    pub(super) fn find_open(&self, sockets: &SocketFolder) -> Result<Known, Fault> {
        let of = |name, file: &OwnedFd| match fstat(file) {
            Ok(about) => Ok((name, FileId::of(&about))),
            Err(error) => Err(Fault::io(&self.path.join(name), "it cannot be read", error)),
        };
        let mut known = vec![of(LOCK_FILE, &self.lock_file)?, of(SOCKETS, &sockets.dir)?];
        let open = self.open_files()?;
        for name in [DB, LOG, INDEX] {
            let id = self.id_of(name).filter(|id| open.contains(id));
            known.push((name, id.ok_or_else(|| Fault::new(&self.path.join(name), REPLACED))?));
        }
        Ok(known)
    }

    /// Sets the files that `check` expects.
    pub(super) fn set_open(&mut self, known: Known) {
        self.known = known;
    }

    /// Checks that other processes find the same files that are open here.
    pub(super) fn check(&self) -> Result<(), Fault> {
        // By its path: a link may lead elsewhere now.
        let found = stat(&self.path).ok().map(|about| FileId::of(&about));
        if found.is_none() || found != fstat(&self.dir).ok().map(|about| FileId::of(&about)) {
            return Err(Fault::new(&self.path, REPLACED));
        }
        match self.known.iter().find(|(name, id)| self.id_of(name) != Some(*id)) {
            Some((name, _)) => Err(Fault::new(&self.path.join(name), REPLACED)),
            None => Ok(()),
        }
    }

    /// The present database file.
    pub(super) fn db_id(&self) -> Option<FileId> {
        self.id_of(DB)
    }

    /// The file that has this name now. A link is not followed: its log would be in another folder.
    fn id_of(&self, name: &str) -> Option<FileId> {
        let found = statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW);
        found.ok().map(|about| FileId::of(&about))
    }

    /// All files that this process has open. They must not be opened for this: closing them would
    /// drop locks.
    fn open_files(&self) -> Result<Vec<FileId>, Fault> {
        let entries = fs::read_dir("/proc/self/fd").map_err(|error| {
            Fault::io(&self.path, "the open files of this process cannot be listed", error)
        })?;
        // Files that are closed in the meantime are skipped.
        let about = entries.filter_map(|entry| stat(entry.ok()?.path()).ok());
        Ok(about.map(|about| FileId::of(&about)).collect())
    }

    fn is_link(&self, name: &str) -> bool {
        let found = statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW);
        found.is_ok_and(|about| FileType::from_raw_mode(about.st_mode) == FileType::Symlink)
    }

    fn remove(&self, name: &str) -> Result<(), Errno> {
        match unlinkat(&self.dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The folder with the sockets of all clients.
    pub(super) fn sockets(&self) -> Result<SocketFolder, Fault> {
        let path = self.path.join(SOCKETS);
        let refused = |error| Fault::io(&path, "the folder cannot be used", error);
        let mode = folder_mode(self.is_shared);
        let is_new = match mkdirat(&self.dir, SOCKETS, mode) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(error) => return Err(refused(error)),
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let sockets = openat(&self.dir, SOCKETS, flags, Mode::empty()).map_err(refused)?;
        if is_new {
            fchmod(&sockets, mode).map_err(refused)?;
        }
        Ok(SocketFolder { path, dir: sockets, mode: file_mode(self.is_shared) })
    }
}

/// The folder with the sockets of all clients, and the permissions of sockets.
#[derive(Debug)]
pub(super) struct SocketFolder {
    pub(super) path: PathBuf,
    pub(super) dir: OwnedFd,
    pub(super) mode: Mode,
}

/// The lock of the folder.
#[derive(Debug)]
pub(super) struct FolderLock<'a>(&'a OwnedFd);

impl Drop for FolderLock<'_> {
    fn drop(&mut self) {
        // Unlock explicitly: closing is not enough if a child process has inherited the file. It
        // cannot fail for a file that is open.
        let _ = flock(self.0, FlockOperation::Unlock);
    }
}

/// Identifies a file, independent of its name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct FileId {
    device: u64,
    number: u64,
}

impl FileId {
    fn of(about: &Stat) -> Self {
        Self { device: about.st_dev, number: about.st_ino }
    }
}

/// The user and group of this process.
#[derive(Debug)]
struct Who {
    user: u32,
    group: u32,
}

impl Who {
    fn this_process() -> Self {
        Self { user: geteuid().as_raw(), group: getegid().as_raw() }
    }
}

/// Whether the folder is shared with its group, or why it must not be used.
fn check_permissions(about: &Stat, who: &Who) -> Result<bool, String> {
    let mode = about.st_mode;
    let is_shared = mode & 0o020 != 0;
    if mode & 0o002 != 0 {
        return Err(
            "every user can write there, and so break its locks: use another folder, or remove \
                    that permission (chmod o-w)"
                .into(),
        );
    }
    if about.st_uid != who.user && !is_shared {
        return Err(format!(
            "it belongs to another user, {}: use a folder of your own, or let its owner share it \
             with a group (chgrp, chmod g+rwxs)",
            about.st_uid
        ));
    }
    if is_shared && mode & 0o2000 == 0 && about.st_gid != who.group {
        return Err(format!(
            "it is shared with the group {}, but new files would not be: let them have that \
             group (chmod g+s)",
            about.st_gid
        ));
    }
    Ok(is_shared)
}

/// Checks whether a folder that exists may be used, without opening any of its files.
pub(super) fn check_usable(path: &Path) -> Result<(), Fault> {
    check_dir(&open_dir(path)?, path).map(drop)
}

fn open_dir(path: &Path) -> Result<OwnedFd, Fault> {
    check_length(path)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(CWD, path, flags, Mode::empty())
        .map_err(|error| Fault::io(path, "the folder cannot be opened", error))
}

/// Whether the folder is shared with its group. Fails if it must not be used.
fn check_dir(dir: &OwnedFd, path: &Path) -> Result<bool, Fault> {
    let refused = |error: Errno| Fault::io(path, "the folder cannot be opened", error);
    let about = fstat(dir).map_err(refused)?;
    let is_shared =
        check_permissions(&about, &Who::this_process()).map_err(|it| Fault::new(path, it))?;
    let kind = fstatfs(dir).map_err(refused)?.f_type;
    match network(kind) {
        Some(network) => Err(Fault::new(
            path,
            format!(
                "it is on {network}, where processes of one machine cannot share memory: use a \
                 folder on a local disk"
            ),
        )),
        None => Ok(is_shared),
    }
}

/// Creates the folder with permissions for this user only, and its parents as usual.
fn create(path: &Path) -> Result<(), Fault> {
    let refused = |error| Fault::io(path, "the folder cannot be made", error);
    if let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).create(above).map_err(refused)?;
    }
    match DirBuilder::new().mode(0o700).create(path) {
        // The umask of the process may have removed permissions.
        Ok(()) => fs::set_permissions(path, Permissions::from_mode(0o700)).map_err(refused),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let about = path.metadata().map_err(refused)?;
            match about.mode() & 0o170_000 {
                0o040_000 => Ok(()),
                _ => Err(Fault::new(path, "it is a file: a folder is needed there")),
            }
        }
        Err(error) => Err(refused(error)),
    }
}

/// Checks the length of the path after links are followed. The database cannot open longer ones.
fn check_length(path: &Path) -> Result<(), Fault> {
    let refused = |error| Fault::io(path, "the folder cannot be opened", error);
    let len = path.canonicalize().map_err(refused)?.as_os_str().as_bytes().len();
    match len > PATH_LEN_MAX {
        true => Err(Fault::new(
            path,
            format!("the path of the folder is too long: {len} bytes, {PATH_LEN_MAX} at most"),
        )),
        false => Ok(()),
    }
}

fn open_lock_file(dir: &OwnedFd, path: &Path, is_shared: bool) -> Result<OwnedFd, Fault> {
    let refused = |error| Fault::io(&path.join(LOCK_FILE), "it cannot be opened", error);
    let is_new = statat(dir, LOCK_FILE, AtFlags::empty()).is_err();
    let mode = file_mode(is_shared);
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
    let lock_file = openat(dir, LOCK_FILE, flags, mode).map_err(refused)?;
    if is_new {
        // Another user may have created it. Then it has these permissions, and only that user can
        // set them.
        match fchmod(&lock_file, mode) {
            Ok(()) | Err(Errno::PERM) => {}
            Err(error) => return Err(refused(error)),
        }
    }
    Ok(lock_file)
}

fn file_mode(is_shared: bool) -> Mode {
    Mode::from_raw_mode(if is_shared { 0o660 } else { 0o600 })
}

fn folder_mode(is_shared: bool) -> Mode {
    // With the setgid bit, so that new files have the folder's group.
    Mode::from_raw_mode(if is_shared { 0o2770 } else { 0o700 })
}

/// The name of the network file system that has this magic number, if it is one.
fn network(magic: impl Into<i64>) -> Option<&'static str> {
    // On some systems the number is signed.
    Some(match magic.into() & 0xffff_ffff {
        0x6969 => "NFS",
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => "SMB",
        0x0102_1997 => "9p",
        0x00c3_6400 => "Ceph",
        0x5346_414f | 0x6b41_4653 => "AFS",
        0x0bd0_0bd0 => "Lustre",
        _ => return None,
    })
}

const REPLACED: &str = "it was removed or replaced while it was in use";

const LINK: &str = "it is a link: make the folder a link instead, so that all processes find the \
     log next to the file";

/// The longest path that SQLite can open, minus the file name and the suffix that it appends.
const PATH_LEN_MAX: usize = 512 - 8 - "/locks.db".len();

pub(super) const DB: &str = "locks.db";
/// Transactions that were committed and are not in the file yet.
pub(super) const LOG: &str = "locks.db-wal";
/// The index of the log, and its locks.
const INDEX: &str = "locks.db-shm";
pub(super) const LOCK_FILE: &str = "lock";
const SOCKETS: &str = "sockets";

#[cfg(test)]
mod tests;
