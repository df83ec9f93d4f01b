//! Where the command's own waiting is done.

use std::{io, os::unix::net::UnixStream};

use tokio::runtime::{Builder, Runtime};

use crate::exit::Failure;

/// A runtime on this thread.
pub(crate) fn start() -> Result<Runtime, Failure> {
    look_for_room()
        .and_then(|()| Builder::new_current_thread().enable_all().build())
        .map_err(|error| Failure::system("cannot open what this process needs to wait", error))
}

/// A runtime panics if it cannot open what signals need.
fn look_for_room() -> io::Result<()> {
    let pairs = [UnixStream::pair()?, UnixStream::pair()?, UnixStream::pair()?];
    drop(pairs);
    Ok(())
}
