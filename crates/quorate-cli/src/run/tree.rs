//! The command and all that descends from it, also what has left its group: whoever loses its
//! parent comes to the guardian, which is a subreaper; once that is dead, to us.
//!
//! `/proc` finds them, but what it shows is out of date at once, and it may hide some. That none is
//! left is known only by whoever has no child any more: the kernel says so to whoever waits.

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

/// What descends from the guardian, or once it is dead from this process, apart from children of
/// our own that are nothing of the command's.
#[derive(Debug)]
pub(crate) struct Tree {
    proc: Proc,
    guardian: Cell<Option<i32>>,
    /// Children of whoever became us, and what those have left to us. They are known by their
    /// numbers: nobody else takes in our children.
    spared: RefCell<BTreeSet<i32>>,
}

impl Tree {
    /// All that descends from this process.
    pub(crate) fn own() -> io::Result<Self> {
        Ok(Self { proc: Proc::open()?, guardian: Cell::default(), spared: RefCell::default() })
    }

    /// From now on, all that descends from the guardian.
    pub(crate) fn set_guardian(&self, guardian: Option<Pid>) {
        self.guardian.set(guardian.map(|pid| pid.as_raw_nonzero().get()));
    }

    /// Leaves alone whoever is a child of ours now. As long as there is a guardian, nothing of the
    /// command's comes to us; once it is dead, this does nothing.
    pub(crate) fn spare(&self) {
        let guardian = self.guardian.get();
        let children = self.proc.family().children(own_pid()).unwrap_or_default();
        // After the look: whatever it left when it died came later then.
        if guardian.and_then(Pid::from_raw).is_some_and(|guardian| !is_running(guardian)) {
            return;
        }
        self.spared.borrow_mut().extend(children.into_iter().filter(|pid| Some(*pid) != guardian));
    }

    /// Takes in one of our children. `None` if there is none at all.
    pub(crate) fn reap(&self, options: WaitOptions) -> Option<Reaped> {
        loop {
            match process::wait(WaitOptions::NOHANG | options) {
                Ok(Some((pid, status))) => {
                    if !status.stopped() {
                        self.spared.borrow_mut().remove(&pid.as_raw_nonzero().get());
                    }
                    return Some(Reaped::One(pid, status));
                }
                Ok(None) => return Some(Reaped::NoneYet),
                Err(Errno::INTR) => {}
                Err(_) => return None,
            }
        }
    }

    /// Kills all that descends from this process, for as long as `bound`. `reap` takes in what has
    /// ended, and returns whether there is any child still. Returns how many could not be killed.
    pub(crate) fn kill_own(&self, bound: Duration, mut reap: impl FnMut() -> bool) -> usize {
        let started = Instant::now();
        let (mut rest, mut before, mut looks) = (REST_MIN, None, 0);
        // At once and all together. Below it is one generation after the other.
        self.signal_all(&[Signal::KILL]);
        while reap() {
            let found = self.kill_children();
            // What others leave to us while we look may be missed.
            let is_spared_all =
                found.as_ref().is_some_and(BTreeSet::is_empty) && !self.spared.borrow().is_empty();
            looks = if is_spared_all { looks + 1 } else { 0 };
            if looks == LOOKS {
                return 0;
            }
            if started.elapsed() >= bound {
                return found.map_or(1, |found| found.len().max(1));
            }
            // One that starts another and ends is met only by whoever does not rest.
            if found.is_some() && found == before {
                thread::park_timeout(rest);
                rest = (rest * 2).min(REST_MAX);
                self.signal_all(&[Signal::KILL]);
            } else {
                rest = REST_MIN;
            }
            before = found;
        }
        0
    }

    /// Kills our children, and returns who they are. Their numbers are theirs until they are taken
    /// in, so there is nothing to be read about them, which takes time and may be hidden.
    fn kill_children(&self) -> Option<BTreeSet<i32>> {
        let mut found: BTreeSet<i32> =
            self.proc.family().children(own_pid())?.into_iter().collect();
        found.retain(|pid| !self.spared.borrow().contains(pid));
        for pid in found.iter().filter_map(|pid| Pid::from_raw(*pid)) {
            // It may be another user's.
            let _ = process::kill_process(pid, Signal::KILL);
            // All of a group are killed at once, those too that are being started.
            if let Some(group) = group_apart(pid) {
                let _ = process::kill_process_group(group, Signal::KILL);
            }
        }
        Some(found)
    }

    /// Sends these signals to all of them.
    pub(crate) fn signal_all(&self, signals: &[Signal]) {
        for process in self.descendants().into_iter().flatten() {
            signals.iter().for_each(|signal| self.proc.signal(process, *signal));
        }
    }

    /// Lets those go on that share our group. Whoever has put others into another one lets those go
    /// on, when they have the terminal again.
    pub(crate) fn let_group_go_on(&self) {
        let group = |pid| unistd::getpgid(Some(unistd::Pid::from_raw(pid)));
        for process in self.descendants().into_iter().flatten() {
            if group(process.pid) == Ok(unistd::getpgrp()) {
                self.proc.signal(process, Signal::CONT);
            }
        }
    }

    /// How many of them there are, as far as that can be seen.
    pub(crate) fn count(&self) -> usize {
        self.descendants().len()
    }

    /// Those that are not dead yet, parents before children. `None` is one that is hidden.
    fn descendants(&self) -> Vec<Option<Process>> {
        let (mut found, mut known) = (Vec::new(), BTreeSet::new());
        // One whose parent ends meanwhile is at another place then.
        for _ in 0..LOOKS {
            let new: Vec<i32> = self.walk().into_iter().filter(|pid| known.insert(*pid)).collect();
            for pid in &new {
                match self.proc.entry(*pid) {
                    Some(entry) if entry.is_dead => {}
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

    /// All of them, as far as they are found at once.
    fn walk(&self) -> Vec<i32> {
        let (mut found, mut seen) = (Vec::new(), self.spared.borrow().clone());
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

/// The group of a child of ours if no stranger can be in it: it leads the group itself, or one of
/// ours has begun the session that the group is in.
fn group_apart(child: Pid) -> Option<Pid> {
    // Those of another namespace are 0, which is no number for the others who would be asked.
    let child = unistd::Pid::from_raw(child.as_raw_nonzero().get());
    let is_apart = unistd::getsid(Some(child)).ok()? != unistd::getsid(None).ok()?;
    let group = unistd::getpgid(Some(child)).ok().filter(|group| is_apart || *group == child)?;
    Pid::from_raw(group.as_raw())
}

/// Whether there is a process with this number, whosever it is.
fn is_there(pid: i32) -> bool {
    let asked = Pid::from_raw(pid).map(process::test_kill_process);
    asked.is_some_and(|asked| asked != Err(Errno::SRCH))
}

/// Whether a child of ours has not ended.
fn is_running(child: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    process::waitid(WaitId::Pid(child), options).is_ok_and(|status| status.is_none())
}

/// What came of taking in a child.
#[derive(Debug)]
pub(crate) enum Reaped {
    /// This one has ended, or was stopped.
    One(Pid, WaitStatus),
    /// None has ended, but there is one.
    NoneYet,
}

/// How often we look for what may have been missed.
const LOOKS: u32 = 3;

const REST_MIN: Duration = Duration::from_millis(1);
const REST_MAX: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_from_before_are_spared() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let tree = Tree::own().unwrap();
        let has = || tree.descendants().iter().flatten().any(|it| it.pid == pid);
        assert!(has());
        tree.spare();
        assert!(!has());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
