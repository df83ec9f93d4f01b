//! The command and all its descendants, including those that have left its group. Orphans become
//! children of the guardian, which is a subreaper, and of this process once the guardian has ended.
//!
//! `/proc` finds them, but it is always slightly out of date and may hide some. Only a process
//! without any children left knows that none exists: `wait` then returns an error.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    io, thread,
    time::{Duration, Instant},
};

use nix::unistd;
use rustix::{
    io::Errno,
    process::{self, Pid, Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus},
};

use super::proc::{Proc, Process, own_pid};

/// The descendants of the guardian, or of this process once the guardian has ended, except children
/// of this process that do not belong to the command.
#[derive(Debug)]
pub(crate) struct Tree {
    proc: Proc,
    guardian: Cell<Option<i32>>,
    /// Children that this process had before it executed quorate, and their orphans. Their pids are
    /// safe to store: only this process reaps them.
    excluded: RefCell<BTreeSet<i32>>,
}

impl Tree {
    /// All descendants of this process.
    pub(crate) fn of_this_process() -> io::Result<Self> {
        Ok(Self { proc: Proc::open()?, guardian: Cell::default(), excluded: RefCell::default() })
    }

    /// From now on, all descendants of the guardian.
    pub(crate) fn set_guardian(&self, guardian: Option<Pid>) {
        self.guardian.set(guardian.map(|pid| pid.as_raw_nonzero().get()));
    }

    /// Excludes the current children of this process. While there is a guardian, they do not belong
    /// to the command; once it has ended, this does nothing.
    pub(crate) fn exclude_current_children(&self) {
        let guardian = self.guardian.get();
        let children = self.proc.family().children(own_pid()).unwrap_or_default();
        // Checked after the scan: orphans of the guardian arrive only after it has ended.
        if guardian.and_then(Pid::from_raw).is_some_and(|guardian| !is_running(guardian)) {
            return;
        }
        self.excluded
            .borrow_mut()
            .extend(children.into_iter().filter(|pid| Some(*pid) != guardian));
    }

    /// Reaps one child of this process. `None` if there are no children.
    pub(crate) fn reap(&self, options: WaitOptions) -> Option<Reaped> {
        loop {
            match process::wait(WaitOptions::NOHANG | options) {
                Ok(Some((pid, status))) => {
                    if !status.stopped() {
                        self.excluded.borrow_mut().remove(&pid.as_raw_nonzero().get());
                    }
                    return Some(Reaped::One(pid, status));
                }
                Ok(None) => return Some(Reaped::NoneYet),
                Err(Errno::INTR) => {}
                Err(_) => return None,
            }
        }
    }

    /// Kills all descendants of this process, until none is left or `timeout` has passed. `reap`
    /// reaps ended children, and returns whether any child is left. Returns how many could not be
    /// killed.
    pub(crate) fn kill_all_within(
        &self,
        timeout: Duration,
        mut reap: impl FnMut() -> bool,
    ) -> usize {
        let started = Instant::now();
        let (mut pause, mut before, mut empty_scans) = (PAUSE_MIN, None, 0);
        // Kill all at once first. The loop below kills one generation after the other.
        self.signal_all(&[Signal::KILL]);
        while reap() {
            let found = self.kill_children();
            // Orphans that arrive during the scan may be missed, so several empty scans are
            // required.
            let are_all_excluded = found.as_ref().is_some_and(BTreeSet::is_empty)
                && !self.excluded.borrow().is_empty();
            empty_scans = if are_all_excluded { empty_scans + 1 } else { 0 };
            if empty_scans == SCANS {
                return 0;
            }
            if started.elapsed() >= timeout {
                return found.map_or(1, |found| found.len().max(1));
            }
            // A process that forks and exits at once is caught only without pauses, so pause only
            // when nothing changes.
            if found.is_some() && found == before {
                thread::park_timeout(pause);
                pause = (pause * 2).min(PAUSE_MAX);
                self.signal_all(&[Signal::KILL]);
            } else {
                pause = PAUSE_MIN;
            }
            before = found;
        }
        0
    }

    /// Kills the children of this process, and returns their pids. A pid cannot be reused before it
    /// is reaped, so `/proc` need not be read for them, which takes time and may hide them.
    fn kill_children(&self) -> Option<BTreeSet<i32>> {
        let mut found: BTreeSet<i32> =
            self.proc.family().children(own_pid())?.into_iter().collect();
        found.retain(|pid| !self.excluded.borrow().contains(pid));
        for pid in found.iter().filter_map(|pid| Pid::from_raw(*pid)) {
            // Fails for a process of another user.
            let _ = process::kill_process(pid, Signal::KILL);
            // Killing the group also kills processes that are being forked.
            if let Some(group) = group_apart(pid) {
                let _ = process::kill_process_group(group, Signal::KILL);
            }
        }
        Some(found)
    }

    /// Sends these signals to all descendants.
    pub(crate) fn signal_all(&self, signals: &[Signal]) {
        for process in self.descendants().into_iter().flatten() {
            signals.iter().for_each(|signal| self.proc.signal(process, *signal));
        }
    }

    /// Continues the descendants in the process group of this process. A descendant that has moved
    /// others to a group of their own, such as a shell, continues those itself.
    pub(crate) fn resume_own_group(&self) {
        let group = |pid| unistd::getpgid(Some(unistd::Pid::from_raw(pid)));
        for process in self.descendants().into_iter().flatten() {
            if group(process.pid) == Ok(unistd::getpgrp()) {
                self.proc.signal(process, Signal::CONT);
            }
        }
    }

    /// How many descendants are visible.
    pub(crate) fn count(&self) -> usize {
        self.descendants().len()
    }

    /// The descendants that have not ended, parents before children. `None` is a hidden process.
    fn descendants(&self) -> Vec<Option<Process>> {
        let (mut found, mut known) = (Vec::new(), BTreeSet::new());
        // A process whose parent ends during a scan moves in the tree, so scan several times.
        for _ in 0..SCANS {
            let new: Vec<i32> = self.walk().into_iter().filter(|pid| known.insert(*pid)).collect();
            for pid in &new {
                match self.proc.entry(*pid) {
                    Some(entry) if entry.has_ended => {}
                    Some(entry) => found.push(Some(entry.process)),
                    None if is_there(*pid) => found.push(None),
                    None => {}
                }
            }
            if new.is_empty() {
                break;
            }
        }
        found
    }

    /// The descendants that one scan finds.
    fn walk(&self) -> Vec<i32> {
        let (mut found, mut seen) = (Vec::new(), self.excluded.borrow().clone());
        let mut parents = vec![self.guardian.get().unwrap_or_else(own_pid)];
        let family = self.proc.family();
        while let Some(parent) = parents.pop() {
            let children = family.children(parent).unwrap_or_default();
            for pid in children.into_iter().filter(|pid| seen.insert(*pid)) {
                parents.push(pid);
                found.push(pid);
            }
        }
        found
    }
}

/// The process group of a child, if it contains only descendants of this process: the child leads
/// it, or it belongs to a session that a descendant created.
fn group_apart(child: Pid) -> Option<Pid> {
    // Ids of another PID namespace are 0, which rustix cannot represent.
    let child = unistd::Pid::from_raw(child.as_raw_nonzero().get());
    let is_apart = unistd::getsid(Some(child)).ok()? != unistd::getsid(None).ok()?;
    let group = unistd::getpgid(Some(child)).ok().filter(|group| is_apart || *group == child)?;
    Pid::from_raw(group.as_raw())
}

/// Whether a process with this pid exists.
fn is_there(pid: i32) -> bool {
    let tested = Pid::from_raw(pid).map(process::test_kill_process);
    tested.is_some_and(|result| result != Err(Errno::SRCH))
}

/// Whether a child of this process has not ended.
fn is_running(child: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    process::waitid(WaitId::Pid(child), options).is_ok_and(|status| status.is_none())
}

/// The result of reaping.
#[derive(Debug)]
pub(crate) enum Reaped {
    /// This child has ended, or was stopped.
    One(Pid, WaitStatus),
    /// There are children, but none has ended.
    NoneYet,
}

/// How many scans must agree, because one scan can miss processes.
const SCANS: u32 = 3;

const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_children_are_excluded() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let tree = Tree::of_this_process().unwrap();
        let has = || tree.descendants().iter().flatten().any(|it| it.pid == pid);
        assert!(has());
        tree.exclude_current_children();
        assert!(!has());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
