//! `quorate down`: stops the servers of `quorate up`.

use std::path::PathBuf;

use clap::Args;

use super::{folder::Folder, servers, stop_all};
use crate::{
    cli::print,
    exit::{Failure, REFUSED},
};

/// Stop the servers of `quorate up`
///
/// Each server is asked which configuration it runs with, and only the servers of DIR are stopped.
/// They keep their data: `quorate up DIR` starts them again.
#[derive(Args, Debug)]
pub(crate) struct Down {
    /// Delete DIR and the data of its servers too, unless it contains other files
    #[arg(long)]
    delete: bool,
    /// Directory that `quorate up` has created
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

impl Down {
    pub(crate) fn run(&self) -> Result<u8, Failure> {
        let dir = self.dir.display();
        let Some(folder) = Folder::open(&self.dir)? else {
            return print(&format!("there is no {dir}: nothing to stop"));
        };
        let Some(set) = folder.set()? else {
            let text = format!("`quorate up` has not created {dir}: it has no servers to stop");
            return Err(Failure::new(REFUSED, text));
        };
        if self.delete {
            let refused = |it: Failure| Failure { text: it.text + ", and no server stopped", ..it };
            folder.check_deletable(&set).map_err(refused)?;
        }
        let text = match stop_all(&folder, &set)? {
            0 => format!("no server of {dir} was running"),
            count => format!("stopped {} of {dir}", servers(count)),
        };
        if !self.delete {
            return print(&text);
        }
        folder.empty(&set)?;
        folder.remove()?;
        print(&format!("{text}, and deleted it"))
    }
}
