//! The folder: who may use it, what is in it, and its turnstile.
//!
//! All who use the folder take turns by `flock` on one file, so that hundreds of processes wait in
//! the kernel. Exclusion does not rest on that: the database has locks of its own.

use std::{
    fs::DirBuilder,
    io,
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt, MetadataExt},
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{
        AtFlags, CWD, FlockOperation, Mode, OFlags, Stat, fchmod, flock, fstat, fstatfs, mkdirat,
        openat, stat, statat,
    },
    io::{Errno, retry_on_intr},
    process::{getegid, geteuid},
};

use super::fault::Fault;

/// An open folder.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    dir: OwnedFd,
    turnstile: OwnedFd,
    /// Its group may use it as well.
    is_shared: bool,
    /// The file of the database and the folder with the sockets, once they are open.
    db: Option<FileId>,
    ears: Option<FileId>,
}

impl Folder {
    /// Opens a folder, and makes it if it is not there.
    pub(super) fn open(path: &Path) -> Result<Self, Fault> {
        make(path)?;
        let path = path
            .canonicalize()
            .map_err(|error| Fault::io(path, "the folder cannot be opened", error))?;
        let refused = |error: Errno| Fault::io(&path, "the folder cannot be opened", error);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = openat(CWD, &path, flags, Mode::empty()).map_err(refused)?;
        let about = fstat(&dir).map_err(refused)?;
        let is_shared = judge(&about, &Who::this_process()).map_err(|it| Fault::new(&path, it))?;
        let kind = fstatfs(&dir).map_err(refused)?.f_type;
        if let Some(network) = network(kind) {
            let reason = format!(
                "it is on {network}, where processes of one machine cannot share memory: use a \
                 folder on a local disk"
            );
            return Err(Fault::new(&path, reason));
        }
        let turnstile = open_turnstile(&dir, &path, is_shared)?;
        Ok(Self { path, dir, turnstile, is_shared, db: None, ears: None })
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
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = file_mode(self.is_shared);
        match openat(&self.dir, DB, flags, mode) {
            // The process may have a mask for the rights of new files.
            Ok(file) => fchmod(file, mode),
            Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error),
        }
        .map_err(|error| Fault::io(&self.db_path(), "the file cannot be made", error))
    }

    /// Which file the database is now.
    pub(super) fn db_id(&self) -> Result<FileId, Fault> {
        let path = self.db_path();
        let about = stat(&path).map_err(|error| Fault::io(&path, "it cannot be found", error))?;
        Ok(FileId::of(&about))
    }

    /// These are open.
    pub(super) fn note_open(&mut self, db: FileId, ears: &Ears) {
        self.db = Some(db);
        self.ears = fstat(&ears.dir).ok().map(|about| FileId::of(&about));
    }

    /// Others must find what we have open: what was removed or replaced is not where they look.
    pub(super) fn check(&self) -> Result<(), Fault> {
        let turnstile = fstat(&self.turnstile).ok().map(|about| FileId::of(&about));
        for (name, known) in [(TURNSTILE, turnstile), (DB, self.db), (EARS, self.ears)] {
            // By the whole path: the folder itself may be another one.
            let path = self.path.join(name);
            let found = stat(&path).ok().map(|about| FileId::of(&about));
            if found.is_none() || found != known {
                return Err(Fault::new(&path, "it was removed or replaced while it was in use"));
            }
        }
        Ok(())
    }

    /// The folder with the sockets on which clients hear.
    pub(super) fn ears(&self) -> Result<Ears, Fault> {
        let path = self.path.join(EARS);
        let refused = |error| Fault::io(&path, "the folder cannot be used", error);
        let mode = folder_mode(self.is_shared);
        let is_new = match mkdirat(&self.dir, EARS, mode) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(error) => return Err(refused(error)),
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let ears = openat(&self.dir, EARS, flags, Mode::empty()).map_err(refused)?;
        if is_new {
            fchmod(&ears, mode).map_err(refused)?;
        }
        Ok(Ears { path, dir: ears, mode: file_mode(self.is_shared) })
    }
}

/// The folder with the sockets on which clients hear, and what rights those have.
#[derive(Debug)]
pub(super) struct Ears {
    pub(super) path: PathBuf,
    pub(super) dir: OwnedFd,
    pub(super) mode: Mode,
}

/// Our turn.
#[derive(Debug)]
pub(super) struct Turn<'a>(&'a OwnedFd);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // Said, and not left to the end of the file: a child of this process may have it as well.
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
        Ok(()) => Ok(()),
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

const DB: &str = "locks.db";
const TURNSTILE: &str = "lock";
const EARS: &str = "ears";

#[cfg(test)]
mod tests;
