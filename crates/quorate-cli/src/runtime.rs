//! Runtimes, and the limit of open files.

use std::{io, os::unix::net::UnixStream};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::runtime::{Builder, Runtime};

use crate::exit::Failure;

/// A runtime on this thread.
pub(crate) fn start() -> Result<Runtime, Failure> {
    check_descriptors()
        .and_then(|()| Builder::new_current_thread().enable_all().build())
        .map_err(|error| Failure::system("cannot start the runtime", error))
}

/// A runtime with a thread for each core.
pub(crate) fn start_on_all_cores() -> Result<Runtime, Failure> {
    check_descriptors()
        .and_then(|()| Builder::new_multi_thread().enable_all().build())
        .map_err(|error| Failure::system("cannot start threads", error))
}

/// Every connection is an open file. Systems allow few unless a process asks for more.
pub(crate) fn raise_file_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // `None` is unlimited.
    let is_lower = current.is_some_and(|current| maximum.is_none_or(|maximum| current < maximum));
    if is_lower {
        // If this fails, the service accepts fewer connections.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}

/// How many files this process may open, if there is a limit.
pub(crate) fn file_limit() -> Option<usize> {
    usize::try_from(getrlimit(Resource::Nofile).current?).ok()
}

/// Fails if too few file descriptors are left: the runtime would panic when it opens the pipes for
/// signals.
fn check_descriptors() -> io::Result<()> {
    let pairs = [UnixStream::pair()?, UnixStream::pair()?, UnixStream::pair()?];
    drop(pairs);
    Ok(())
}
