//! The folder of `up`: one folder for each server, and a file that lists their ports.

use std::{
    fs::{self, DirBuilder, File},
    io,
    os::unix::{ffi::OsStrExt as _, fs::DirBuilderExt as _},
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::{
    ports::free_ports,
    server::{self, Server},
};
use crate::exit::{Failure, IO, REFUSED, SOFTWARE, UNAVAILABLE, USAGE};

/// A folder that this process has to itself, among all processes of `up` and `down`.
pub(super) struct Folder {
    path: PathBuf,
    /// As the user wrote it.
    shown: String,
    /// Its lock ends with this process.
    _lock: File,
}

/// The servers of a folder.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Set {
    version: u32,
    program: PathBuf,
    ports: Vec<u16>,
}

impl Set {
    /// Servers on free ports.
    pub(super) fn new(program: &Path, nodes: usize) -> Result<Self, Failure> {
        Ok(Self { version: VERSION, program: program.to_owned(), ports: free_ports(nodes)? })
    }

    pub(super) fn len(&self) -> usize {
        self.ports.len()
    }

    pub(super) fn urls(&self) -> Vec<String> {
        self.ports.iter().map(|port| format!("redis://127.0.0.1:{port}")).collect()
    }

    /// The program of its servers, which read each other's data.
    pub(super) fn program(&self) -> Result<PathBuf, Failure> {
        let path = &self.program;
        if server::is_program(path) {
            return Ok(path.clone());
        }
        let text = format!("there is no {} any more: use --server PROGRAM", path.display());
        Err(Failure::new(UNAVAILABLE, text))
    }
}

impl Folder {
    /// Makes the folder, unless it exists.
    pub(super) fn create(path: &Path) -> Result<Self, Failure> {
        if !path.exists() {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
            made.map_err(|error| cannot("create", path, &error))?;
        }
        Self::open(path)?.ok_or_else(|| cannot("open", path, &io::ErrorKind::NotFound.into()))
    }

    /// `None` if there is no such folder. Waits for other processes that use it.
    pub(super) fn open(path: &Path) -> Result<Option<Self>, Failure> {
        let real = match path.canonicalize() {
            Ok(real) => real,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(cannot("open", path, &error)),
        };
        if real.as_os_str().as_bytes().iter().any(u8::is_ascii_control) {
            let text = format!("invalid DIR {path:?}: it contains a control character");
            return Err(Failure::new(USAGE, text));
        }
        let file = File::open(&real).map_err(|error| cannot("open", path, &error))?;
        if !file.metadata().is_ok_and(|it| it.is_dir()) {
            let text = format!("{} is not a directory", path.display());
            return Err(Failure::new(USAGE, text));
        }
        flock(&file, FlockOperation::LockExclusive)
            .map_err(|error| cannot("lock", path, &error.into()))?;
        // The process before this one may have deleted it.
        let is_there = real.is_dir();
        let shown = path.display().to_string();
        Ok(is_there.then_some(Self { path: real, shown, _lock: file }))
    }

    /// The servers that `up` has created here.
    pub(super) fn set(&self) -> Result<Option<Set>, Failure> {
        let path = self.path.join(LIST);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(cannot("read", &path, &error)),
        };
        let damaged = |why: &str| {
            let text = format!("{} is damaged ({why})", path.display());
            Failure::new(REFUSED, text + ": stop the servers, delete DIR, and use `quorate up`")
        };
        let set: Set =
            serde_json::from_slice(&text).map_err(|error| damaged(&error.to_string()))?;
        match set.version == VERSION && !set.ports.is_empty() {
            true => Ok(Some(set)),
            false => Err(damaged("another version")),
        }
    }

    pub(super) fn servers(&self, set: &Set) -> Vec<Server> {
        let server = |(at, port): (usize, &u16)| Server::new(self.node(at), *port);
        set.ports.iter().enumerate().map(server).collect()
    }

    /// Writes the list of the servers.
    pub(super) fn write(&self, set: &Set) -> Result<(), Failure> {
        let list = self.path.join(LIST);
        let text = serde_json::to_string(set)
            .map_err(|error| Failure::new(SOFTWARE, error.to_string()))?;
        fs::write(&list, text + "\n").map_err(|error| cannot("write", &list, &error))
    }

    pub(super) fn check_empty(&self) -> Result<(), Failure> {
        let Some(name) = self.names(&self.path)?.into_iter().next() else { return Ok(()) };
        let text = format!(
            "{} is not empty (it contains {name}), and `quorate up` has not created it: use a new \
             or empty DIR",
            self.shown
        );
        Err(Failure::new(REFUSED, text))
    }

    /// Fails if there are files that neither `up` nor its servers have written.
    pub(super) fn check_deletable(&self, set: &Set) -> Result<(), Failure> {
        let nodes = self.nodes(set);
        let is_ours = |name: &str| {
            name == LIST || nodes.iter().any(|it| it.file_name().is_some_and(|it| it == name))
        };
        self.check_names(&self.path, is_ours)?;
        let mut present = nodes.iter().filter(|node| node.symlink_metadata().is_ok());
        present.try_for_each(|node| self.check_names(node, server::is_name_of_file))
    }

    /// Deletes what `up` and its servers have written, unless there are other files.
    pub(super) fn empty(&self, set: &Set) -> Result<(), Failure> {
        self.check_deletable(set)?;
        for node in self.nodes(set).iter().filter(|node| node.symlink_metadata().is_ok()) {
            fs::remove_dir_all(node).map_err(|error| cannot("delete", node, &error))?;
        }
        // Last: until then, the folder belongs to `up`.
        let list = self.path.join(LIST);
        fs::remove_file(&list).map_err(|error| cannot("delete", &list, &error))
    }

    /// Deletes the folder itself, which is empty.
    pub(super) fn remove(self) -> Result<(), Failure> {
        fs::remove_dir(&self.path).map_err(|error| cannot("delete", &self.path, &error))
    }

    fn check_names(&self, path: &Path, is_ours: impl Fn(&str) -> bool) -> Result<(), Failure> {
        match self.names(path)?.into_iter().find(|name| !is_ours(name)) {
            None => Ok(()),
            Some(name) => {
                let other = path.join(name);
                let text = format!(
                    "{} is not from `quorate up`: move it elsewhere; nothing was deleted",
                    other.display()
                );
                Err(Failure::new(REFUSED, text))
            }
        }
    }

    fn names(&self, path: &Path) -> Result<Vec<String>, Failure> {
        let entries = fs::read_dir(path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let entries = entries.map_err(|error| cannot("read", path, &error))?;
        let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
        Ok(entries.into_iter().map(name).collect())
    }

    fn nodes(&self, set: &Set) -> Vec<PathBuf> {
        (0..set.len()).map(|at| self.node(at)).collect()
    }

    fn node(&self, at: usize) -> PathBuf {
        self.path.join(format!("node-{}", at + 1))
    }
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::new(IO, format!("cannot {what} {}: {error}", path.display()))
}

const LIST: &str = "quorate-up.json";
const VERSION: u32 = 1;
