//! The folder: who may use it, what is in it, and its turnstile.
//!
//! All who use the folder take turns by `flock` on one file, so that hundreds of processes wait in
//! the kernel. Exclusion does not rest on that: the database has locks of its own.

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
    /// As it was named: a link in it may lead elsewhere some day.
    path: PathBuf,
    dir: OwnedFd,
    turnstile: OwnedFd,
    /// Its group may use it as well.
    is_shared: bool,
    /// What is open, by the names that others find it by.
    known: Known,
}

type Known = Vec<(&'static str, FileId)>;

impl Folder {
    /// Opens a folder, and makes it if it is not there.
    pub(super) fn open(path: &Path) -> Result<Self, Fault> {
        make(path)?;
        measure(path)?;
        let refused = |error: Errno| Fault::io(path, "the folder cannot be opened", error);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = openat(CWD, path, flags, Mode::empty()).map_err(refused)?;
        let about = fstat(&dir).map_err(refused)?;
        let is_shared = judge(&about, &Who::this_process()).map_err(|it| Fault::new(path, it))?;
        let kind = fstatfs(&dir).map_err(refused)?.f_type;
        if let Some(network) = network(kind) {
            let reason = format!(
                "it is on {network}, where processes of one machine cannot share memory: use a \
                 folder on a local disk"
            );
            return Err(Fault::new(path, reason));
        }
        let turnstile = open_turnstile(&dir, path, is_shared)?;
        Ok(Self { path: path.to_owned(), dir, turnstile, is_shared, known: Vec::new() })
    }

    pub(super) fn db_path(&self) -> PathBuf {
        self.path.join(DB)
    }

    /// Waits for our turn, which lasts until what is returned is dropped.
    pub(super) fn wait_for_turn(&self) -> Result<Turn<'_>, Fault> {
        // A process that dies gives its turn back. One that is stopped in the middle of its turn
        // keeps all others waiting: the database would do so, too.
        retry_on_intr(|| flock(&self.turnstile, FlockOperation::LockExclusive))
            .map_err(|error| Fault::io(&self.path.join(TURNSTILE), "it cannot be locked", error))?;
        Ok(Turn(&self.turnstile))
    }

    /// Makes the file of the database, if there is none, with the rights that it should have.
    ///
    /// To be called in our turn: closing a file drops all locks that this process has on it, those
    /// of other clients, too. In our turn nobody can have opened what we have just made.
    pub(super) fn make_db(&self) -> Result<(), Fault> {
        let refused = |error| Fault::io(&self.db_path(), "the file cannot be made", error);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = file_mode(self.is_shared);
        match openat(&self.dir, DB, flags, mode) {
            Ok(file) => {
                // The process may have a mask for the rights of new files.
                fchmod(file, mode).map_err(refused)?;
                self.remove(LOG).and_then(|()| self.remove(INDEX)).map_err(refused)
            }
            Err(Errno::EXIST) if self.is_link(DB) => Err(Fault::new(&self.db_path(), LINK)),
            // An index without its log is of no use, and would be believed as long as somebody has
            // it open.
            Err(Errno::EXIST) if self.id_of(LOG).is_none() => self.remove(INDEX).map_err(refused),
            Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(refused(error)),
        }
    }

    /// Looks whether other clients of this process have a log open that is not there any more. To
    /// be called in our turn.
    ///
    /// The clients of a process share an index. One that was removed stays in use until the last of
    /// them has closed it.
    pub(super) fn check_clients(&self) -> Result<(), Fault> {
        let _gate = gate();
        let open = self.open_files()?;
        let is_open = |name| self.id_of(name).is_some_and(|id| open.contains(&id));
        match [LOG, INDEX].into_iter().find(|name| is_open(DB) && !is_open(name)) {
            Some(name) => Err(Fault::new(&self.path.join(name), REPLACED)),
            None => Ok(()),
        }
    }

    /// What is open, once all of it is. To be called in our turn.
    pub(super) fn look(&self, sockets: &SocketFolder) -> Result<Known, Fault> {
        let of = |name, file: &OwnedFd| match fstat(file) {
            Ok(about) => Ok((name, FileId::of(&about))),
            Err(error) => Err(Fault::io(&self.path.join(name), "it cannot be looked at", error)),
        };
        let mut known = vec![of(TURNSTILE, &self.turnstile)?, of(SOCKETS, &sockets.dir)?];
        let open = self.open_files()?;
        for name in [DB, LOG, INDEX] {
            let id = self.id_of(name).filter(|id| open.contains(id));
            known.push((name, id.ok_or_else(|| Fault::new(&self.path.join(name), REPLACED))?));
        }
        Ok(known)
    }

    /// From now on these must stay.
    pub(super) fn note_open(&mut self, known: Known) {
        self.known = known;
    }

    /// Others must find what we have open: what was removed or replaced is not where they look.
    pub(super) fn check(&self) -> Result<(), Fault> {
        // By its path: it may be a link that leads elsewhere by now.
        let found = stat(&self.path).ok().map(|about| FileId::of(&about));
        if found.is_none() || found != fstat(&self.dir).ok().map(|about| FileId::of(&about)) {
            return Err(Fault::new(&self.path, REPLACED));
        }
        match self.known.iter().find(|(name, id)| self.id_of(name) != Some(*id)) {
            Some((name, _)) => Err(Fault::new(&self.path.join(name), REPLACED)),
            None => Ok(()),
        }
    }

    /// Which file the database is now.
    pub(super) fn db_id(&self) -> Option<FileId> {
        self.id_of(DB)
    }

    /// Which file has this name now. A link is not followed: the log would be elsewhere.
    fn id_of(&self, name: &str) -> Option<FileId> {
        let found = statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW);
        found.ok().map(|about| FileId::of(&about))
    }

    /// All files that this process has open. To open one of them for a look would not do: closing
    /// it drops locks.
    fn open_files(&self) -> Result<Vec<FileId>, Fault> {
        let entries = fs::read_dir("/proc/self/fd").map_err(|error| {
            Fault::io(&self.path, "what this process has open cannot be told", error)
        })?;
        // What is closed meanwhile is not found.
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

    /// The folder with the sockets on which clients hear.
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

/// The folder with the sockets on which clients hear, and what rights those have.
#[derive(Debug)]
pub(super) struct SocketFolder {
    pub(super) path: PathBuf,
    pub(super) dir: OwnedFd,
    pub(super) mode: Mode,
}

/// Our turn.
#[derive(Debug)]
pub(super) struct Turn<'a>(&'a OwnedFd);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // Unlock explicitly: closing is not enough if a child process has the file, too.
        // It cannot fail for a file that is open.
        let _ = flock(self.0, FlockOperation::Unlock);
    }
}

/// Which file it is, whatever its name.
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

/// As whom this process acts.
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

/// Whether the folder is shared with its group; or why it must not be used.
fn judge(about: &Stat, who: &Who) -> Result<bool, String> {
    let mode = about.st_mode;
    let is_shared = mode & 0o020 != 0;
    if mode & 0o002 != 0 {
        return Err(
            "anybody can write there, and so break its locks: use a folder of its own, or \
                    take that right away (chmod o-w)"
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
            "it is shared with the group {}, but what is made there would not be: let new files \
             have that group (chmod g+s)",
            about.st_gid
        ));
    }
    Ok(is_shared)
}

/// Makes the folder for nobody but us, and those above it as usual.
fn make(path: &Path) -> Result<(), Fault> {
    let refused = |error| Fault::io(path, "the folder cannot be made", error);
    if let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).create(above).map_err(refused)?;
    }
    match DirBuilder::new().mode(0o700).create(path) {
        // The process may have a mask for the rights of new folders.
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

/// The database does not open what has a longer path, once links are followed.
fn measure(path: &Path) -> Result<(), Fault> {
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

fn open_turnstile(dir: &OwnedFd, path: &Path, is_shared: bool) -> Result<OwnedFd, Fault> {
    let refused = |error| Fault::io(&path.join(TURNSTILE), "it cannot be opened", error);
    let is_new = statat(dir, TURNSTILE, AtFlags::empty()).is_err();
    let mode = file_mode(is_shared);
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
    let turnstile = openat(dir, TURNSTILE, flags, mode).map_err(refused)?;
    if is_new {
        // Another may have made it: then it has these rights already, and they are not ours to set.
        match fchmod(&turnstile, mode) {
            Ok(()) | Err(Errno::PERM) => {}
            Err(error) => return Err(refused(error)),
        }
    }
    Ok(turnstile)
}

fn file_mode(is_shared: bool) -> Mode {
    Mode::from_raw_mode(if is_shared { 0o660 } else { 0o600 })
}

fn folder_mode(is_shared: bool) -> Mode {
    // With the bit that lets new files have the folder's group.
    Mode::from_raw_mode(if is_shared { 0o2770 } else { 0o700 })
}

/// The network file system that has this magic number, if it is one.
fn network(magic: impl Into<i64>) -> Option<&'static str> {
    // Some systems have the number with its sign.
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

const LINK: &str = "it is a link: let the folder be one instead, so that all who use the file \
     find its log beside it";

/// What SQLite can open, less the name of the file and what it appends to it.
const PATH_LEN_MAX: usize = 512 - 8 - "/locks.db".len();

const DB: &str = "locks.db";
/// What was committed and is not in the file yet.
const LOG: &str = "locks.db-wal";
/// What the log has where, and who reads and writes it.
const INDEX: &str = "locks.db-shm";
const TURNSTILE: &str = "lock";
const SOCKETS: &str = "sockets";

#[cfg(test)]
mod tests;
