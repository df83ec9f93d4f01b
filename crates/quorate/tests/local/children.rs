//! What a child does.

use std::{io::Read, path::Path, time::Duration};

use quorate::{
    Client,
    error::{LockError, NodeAnswer, NodeError},
};
use quorate_testkit::{
    eventually,
    history::Moment,
    processes::{self, Outcome, PATIENCE, print_line},
};

use super::{LOCK, TEN_MINUTES, client, deaths, rights};

pub(super) fn run(role: &str, args: &[&str]) -> Outcome {
    match (role, args) {
        ("wait", [folder]) => wait(Path::new(folder)),
        (deaths::CONTENDER, [name, folder]) => contend(name, Path::new(folder)),
        ("lose", [folder]) => lose(Path::new(folder)),
        ("try", [folder]) => attempt(Path::new(folder)),
        ("miss-rights", []) => rights::miss(),
        ("fill", [folder]) => fill(Path::new(folder)),
        _ => Err("there is no such child".into()),
    }
}

/// Waits for the lock and holds it until the input ends.
fn wait(folder: &Path) -> Outcome {
    let guard = client(folder, TEN_MINUTES).mutex(LOCK).lock()?;
    print_line(&guard.fence().ok_or("there is a fence in this mode")?.to_string());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(guard.release()?)
}

/// Acquires the lock, prints its fence, and prints when it is lost.
fn lose(folder: &Path) -> Outcome {
    let guard = client(folder, TTL_TO_LOSE).mutex(LOCK).lock()?;
    print_line(&guard.fence().ok_or("there is a fence in this mode")?.to_string());
    eventually("the lock is lost", PATIENCE, || guard.check().is_err());
    print_line("lost");
    Ok(())
}

/// Prints the result of an attempt to use the folder.
fn attempt(folder: &Path) -> Outcome {
    match Client::builder().local(folder).build() {
        Ok(_) => print_line("ok"),
        Err(error) => print_line(&error.to_string()),
    }
    Ok(())
}

/// Acquires the lock again and again.
fn contend(name: &str, folder: &Path) -> Outcome {
    let client = client(&folder.join("locks"), deaths::TTL);
    let recorder = processes::recorder(folder);
    let mutex = client.mutex(LOCK);
    while !processes::must_stop(folder) {
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

/// Acquires locks until there is no space for more, prints their number, and holds them.
fn fill(folder: &Path) -> Outcome {
    let client = client(folder, TEN_MINUTES);
    let mut guards = Vec::new();
    let refused = loop {
        if guards.len() > 100_000 {
            return Err("the space does not end".into());
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
    print_line(&format!("{} {text}", guards.len()));
    std::io::stdin().read_to_end(&mut Vec::new())?;
    let _ = client.shutdown(Duration::ZERO);
    Ok(())
}

/// The holder renews after a third of it. The test needs less time to acquire the lock before.
const TTL_TO_LOSE: Duration = Duration::from_secs(6);
