//! Checks of the folder of local locks.

use quorate::diagnose::Blocker;

use super::{
    check::{Check, Problem},
    observed::{Folder, Observed},
};

pub(super) const CHECKS: &[Check] = &[
    Check { id: "local-folder", problems: |it| with(it, usable), fine: |it| text(it, scope) },
    Check { id: "local-file", problems: |it| with(it, file), fine: |it| text(it, file_is_fine) },
    Check { id: "local-disk", problems: |it| with(it, disk), fine: |it| text(it, disk_is_fine) },
    Check { id: "local-blocked", problems: |it| with(it, blocked), fine: |it| text(it, is_free) },
];

fn with(observed: &Observed, problems: fn(&Folder) -> Vec<Problem>) -> Vec<Problem> {
    observed.folder.as_ref().map(problems).unwrap_or_default()
}

fn text(observed: &Observed, fine: fn(&Folder) -> Option<String>) -> Option<String> {
    observed.folder.as_ref().and_then(fine)
}

fn usable(folder: &Folder) -> Vec<Problem> {
    let path = folder.facts.path.display();
    let problem = folder.facts.problem.iter();
    problem
        .map(|problem| {
            // The reason may end with what to do about it.
            let (text, remedy) = problem
                .split_once("; ")
                .or_else(|| problem.split_once(": use "))
                .unwrap_or((problem, "use another folder: --dir, or QUORATE_DIR"));
            Problem::error(format!("{path}: {text}"), remedy)
        })
        .collect()
}

fn scope(folder: &Folder) -> Option<String> {
    let path = folder.facts.path.display();
    let why = if folder.is_by_default { ", because no nodes are configured" } else { "" };
    let state = if folder.facts.exists { "" } else { "; the first client creates it" };
    Some(format!("{path}: locks are local to this machine{why}{state}"))
}

fn file(folder: &Folder) -> Vec<Problem> {
    let problem = folder.file_problem.iter();
    let remedy = "if no program uses it, remove it and the files with its name and -wal or -shm";
    problem.map(|problem| Problem::error(format!("locks.db: {problem}"), remedy)).collect()
}

fn file_is_fine(folder: &Folder) -> Option<String> {
    folder.facts.exists.then(|| match folder.facts.file {
        Some(_) => "locks.db is a database that this user can read".into(),
        None => "there is no file with locks yet".into(),
    })
}

fn disk(folder: &Folder) -> Vec<Problem> {
    let mut problems = Vec::new();
    let facts = &folder.facts;
    match facts.free_bytes {
        Some(free) if free < BYTES_NEEDED => {
            let text = format!("the disk is full: {} left", size(free));
            problems.push(Problem::error(text, "free space there"));
        }
        Some(free) if free < BYTES_WANTED => {
            let text = format!("the disk is almost full: {} left", size(free));
            problems.push(Problem::warning(text, "free space there"));
        }
        Some(_) | None => {}
    }
    if facts.free_files.is_some_and(|free| free < FILES_NEEDED) {
        let text = "the disk can take almost no more files (inodes)";
        problems.push(Problem::error(text, "remove files there"));
    }
    problems
}

fn disk_is_fine(folder: &Folder) -> Option<String> {
    Some(format!("{} left on the disk", size(folder.facts.free_bytes?)))
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{} kB", bytes / 1_000),
        1_000_000..1_000_000_000 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{} GB", bytes / 1_000_000_000),
    }
}

fn blocked(folder: &Folder) -> Vec<Problem> {
    let problem = |blocker: &Blocker| {
        let Blocker { pid, command, is_stopped, .. } = blocker;
        let state = if *is_stopped { "is stopped and " } else { "" };
        let text =
            format!("process {pid} ({command}) {state}keeps the folder locked: all others wait");
        let remedy = match is_stopped {
            true => format!("continue it (kill -CONT {pid}), or end it (kill -KILL {pid})"),
            false => format!("inspect it (ps {pid}); end it if it hangs (kill -KILL {pid})"),
        };
        Problem::error(text, remedy)
    };
    folder.facts.blockers.iter().map(problem).collect()
}

fn is_free(folder: &Folder) -> Option<String> {
    folder.facts.exists.then(|| "no process blocks the others".into())
}

/// The log of the database takes up to this much.
const BYTES_NEEDED: u64 = 16_000_000;
const BYTES_WANTED: u64 = 100_000_000;
const FILES_NEEDED: u64 = 16;
