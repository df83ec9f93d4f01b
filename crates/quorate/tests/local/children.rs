//! What a child does.

use std::{io::Read, path::Path, process::ExitCode, time::Duration};

use quorate::{
    Client,
    error::{LockError, NodeAnswer, NodeError},
};
use quorate_testkit::{
    eventually,
    history::{Moment, Recorder},
};

use super::{LOCK, PATIENCE, TEN_MINUTES, client, complain, deaths, rights, say};

/// The life of a child.
pub(super) fn live(role: &str, args: &[&str]) -> ExitCode {
    let done = match (role, args) {
        ("wait", [folder]) => wait(Path::new(folder)),
        ("acquire", [name, folder]) => contend(name, Path::new(folder)),
        ("lose", [folder]) => lose(Path::new(folder)),
        ("try", [folder]) => attempt(Path::new(folder)),
        ("miss-rights", []) => rights::miss(),
        ("fill", [folder]) => fill(Path::new(folder)),
        _ => Err(format!("there is no child {role} {args:?}").into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            complain(&format!("{role}: {failure}"));
            ExitCode::FAILURE
        }
    }
}

pub(super) type Done = Result<(), Box<dyn std::error::Error>>;

/// Waits for the lock and keeps it until nobody speaks to us any more.
fn wait(folder: &Path) -> Done {
    let guard = client(folder, TEN_MINUTES).mutex(LOCK).lock()?;
    say(&guard.fence().ok_or("there is a fence in this mode")?.to_string());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(guard.release()?)
}

/// Takes the lock, says what fence it has, and says when it is lost.
fn lose(folder: &Path) -> Done {
    let guard = client(folder, TTL_TO_LOSE).mutex(LOCK).lock()?;
    say(&guard.fence().ok_or("there is a fence in this mode")?.to_string());
    eventually("the lock is lost", PATIENCE, || guard.check().is_err());
    say("lost");
    Ok(())
}

/// Says what comes of an attempt to use the folder.
fn attempt(folder: &Path) -> Done {
    match Client::builder().local(folder).build() {
        Ok(_) => say("ok"),
        Err(error) => say(&error.to_string()),
    }
    Ok(())
}

/// Takes the lock again and again.
fn contend(name: &str, folder: &Path) -> Done {
    let client = client(&folder.join("locks"), deaths::TTL);
    let recorder = Recorder::to_file(deaths::history_file(folder));
    let mutex = client.mutex(LOCK);
    while !deaths::stop_file(folder).exists() {
        let request = recorder.ask(name, LOCK);
        let guard = mutex.lock_timeout(PATIENCE)?;
        let valid_until = Moment::now().after(guard.remaining());
        let fence = guard.fence().ok_or("there is a fence in this mode")?.get();
        let holding = request.acquired(Some(fence), Some(valid_until));
        match guard.check() {
            Ok(()) => holding.released(),
            Err(_) => holding.lost(),
        }
        drop(guard);
    }
    Ok(())
}

/// Takes locks until there is no room for more, says which it has, and keeps them.
fn fill(folder: &Path) -> Done {
    let client = client(folder, TEN_MINUTES);
    let mut guards = Vec::new();
    let refused = loop {
        if guards.len() > 100_000 {
            return Err("there is no end to the room".into());
        }
        match client.mutex(format!("lock-{}", guards.len())).try_lock() {
            Ok(guard) => guards.push(guard.ok_or("nobody else is here")?),
            Err(error) => break error,
        }
    };
    let LockError::NoQuorum { nodes, .. } = &refused else { return Err(refused.into()) };
    let NodeAnswer::NodeError(NodeError::Storage(text)) = &nodes[0].answer else {
        return Err(refused.into());
    };
    say(&format!("{} {text}", guards.len()));
    std::io::stdin().read_to_end(&mut Vec::new())?;
    let _ = client.shutdown(Duration::ZERO);
    Ok(())
}

/// Renewed after a third of it, which is longer than others need to come before that.
const TTL_TO_LOSE: Duration = Duration::from_secs(6);
