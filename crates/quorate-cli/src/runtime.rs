//! Where the command's own waiting is done.

use std::{io, os::unix::net::UnixStream};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::runtime::{Builder, Runtime};

use crate::exit::Failure;

/// A runtime on this thread.
pub(crate) fn start() -> Result<Runtime, Failure> {
    look_for_room()
        .and_then(|()| Builder::new_current_thread().enable_all().build())
        .map_err(|error| Failure::system("cannot open what this process needs to wait", error))
}

/// A runtime with a thread for each core.
pub(crate) fn start_on_all_cores() -> Result<Runtime, Failure> {
    look_for_room()
        .and_then(|()| Builder::new_multi_thread().enable_all().build())
        .map_err(|error| Failure::system("cannot start threads", error))
}

/// Every connection is an open file. Systems allow few unless a process asks for more.
pub(crate) fn raise_file_limit() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        // Otherwise the service accepts fewer connections.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// How many files this process may open, if that is limited.
pub(crate) fn file_limit() -> Option<usize> {
    let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    usize::try_from(soft).ok()
}

/// A runtime panics if it cannot open what signals need.
fn look_for_room() -> io::Result<()> {
    let pairs = [UnixStream::pair()?, UnixStream::pair()?, UnixStream::pair()?];
    drop(pairs);
    Ok(())
}
