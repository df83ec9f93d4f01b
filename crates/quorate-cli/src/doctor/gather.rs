//! Observes the nodes with the code that clients use. It writes nothing to them.

use std::{fs::File, io::Read as _, path::Path, thread, time::SystemTime};

use quorate::{ClientBuilder, blocking::Client, diagnose::Facts, error::NodeReport};

use super::observed::{Folder, Node, Observed, Settings as Relevant};
use crate::{
    exit::{Failure, SOFTWARE},
    nodes::settled_status,
    runtime,
    settings::Settings,
};

/// Observes all nodes at the same time, for a few seconds at most.
pub(super) fn observe(settings: &Settings) -> Result<Observed, Failure> {
    let is_local = settings.nodes.value.is_empty();
    let client = match is_local {
        true => None,
        false => Some(
            Client::try_from(settings.builder()?.read_only().build()?)
                .map_err(|error| Failure::system("cannot wait for nodes", error))?,
        ),
    };
    let (reports, facts) = thread::scope(|scope| {
        let reports = scope.spawn(|| client.as_ref().map(settled_status).unwrap_or_default());
        let facts = diagnose(settings.builder()?);
        let reports = reports.join().map_err(|_| Failure::new(SOFTWARE, "a thread failed"))?;
        Ok::<_, Failure>((reports, facts?))
    })?;
    let folder = facts.folder.map(|facts| Folder {
        is_by_default: settings.is_local_by_default(),
        file_problem: facts.file.as_deref().and_then(file_problem),
        facts,
    });
    let node = |(facts, NodeReport { answer, .. }): (_, NodeReport)| Node { facts, answer };
    Ok(Observed {
        nodes: facts.servers.into_iter().zip(reports.into_vec()).map(node).collect(),
        folder,
        client_certificate_ends: facts.client_certificate_ends,
        settings: Relevant {
            nodes_from: settings.nodes.from.to_string(),
            has_login: settings.nodes.value.iter().any(|address| address.contains('@')),
            max_ttl: settings.max_ttl.value,
            prefix: settings.prefix.value.clone(),
            has_quarantine: client.is_some_and(|client| client.has_quarantine()),
            has_durable_nodes: settings.durable_nodes.value,
        },
        now: SystemTime::now(),
    })
}

fn diagnose(builder: ClientBuilder) -> Result<Facts, Failure> {
    Ok(runtime::start()?.block_on(builder.diagnose())?)
}

/// What is wrong with the head of a database file. This process has no other file open for it, so
/// closing this one drops no locks.
fn file_problem(path: &Path) -> Option<String> {
    let mut head = [0; HEAD.len()];
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) => return Some(format!("it cannot be read: {error}")),
    };
    match file.read(&mut head) {
        // A file that was just created is empty.
        Ok(0) => None,
        Ok(_) if head == *HEAD => None,
        Ok(_) => Some("it is damaged, or not a database of Quorate".to_owned()),
        Err(error) => Some(format!("it cannot be read: {error}")),
    }
}

/// How every database of SQLite begins.
const HEAD: &[u8; 16] = b"SQLite format 3\0";
