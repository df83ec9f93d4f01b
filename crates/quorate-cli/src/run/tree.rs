//! All processes that descend from this one, also those that have left its group: whoever loses
//! its parent comes to us, since we are a subreaper.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, thread,
    time::{Duration, Instant},
};

use rustix::process::{self, Pid, PidfdFlags, Signal};

/// Kills all of them, again and again until none is left, for as long as `bound`. Returns how many
/// could not be killed: the kernel keeps those that wait for a disk or the like.
pub(crate) fn kill_all(bound: Duration) -> usize {
    let started = Instant::now();
    loop {
        let left = descendants(process::getpid());
        left.iter().for_each(|it| it.signal(Signal::KILL));
        if left.is_empty() || started.elapsed() >= bound {
            return left.len();
        }
        thread::park_timeout(LOOK_AGAIN);
    }
}

/// Sends a signal to the children of a process.
pub(crate) fn signal_children(parent: Pid, signal: Signal) {
    for entry in children().remove(&parent.as_raw_nonzero().get()).into_iter().flatten() {
        entry.process.signal(signal);
    }
}

/// How many of them there are.
pub(crate) fn count() -> usize {
    descendants(process::getpid()).len()
}

/// One process, and when it was started: a number alone may be another's by now.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Process {
    pid: i32,
    started: u64,
}

impl Process {
    fn signal(self, signal: Signal) {
        let Some(pid) = Pid::from_raw(self.pid) else { return };
        let Ok(handle) = process::pidfd_open(pid, PidfdFlags::empty()) else { return };
        // The handle is of the process that is there now: it is ours if it was started then.
        if Entry::read(self.pid).is_some_and(|entry| entry.process == self) {
            // It may be gone.
            let _ = process::pidfd_send_signal(&handle, signal);
        }
    }
}

struct Entry {
    process: Process,
    parent: i32,
    is_dead: bool,
}

impl Entry {
    fn read(pid: i32) -> Option<Self> {
        Self::parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Reads a line of `/proc/PID/stat`. The name in it may hold anything, brackets too.
    fn parse(pid: i32, stat: &str) -> Option<Self> {
        let (_, rest) = stat.rsplit_once(") ")?;
        let mut fields = rest.split(' ');
        let is_dead = matches!(fields.next()?, "Z" | "X" | "x");
        let parent = fields.next()?.parse().ok()?;
        let started = fields.nth(17)?.parse().ok()?;
        Some(Self { process: Process { pid, started }, parent, is_dead })
    }
}

/// All processes, by their parents.
fn children() -> BTreeMap<i32, Vec<Entry>> {
    let mut children: BTreeMap<i32, Vec<Entry>> = BTreeMap::new();
    let names = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = names.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    for entry in pids.filter_map(Entry::read) {
        children.entry(entry.parent).or_default().push(entry);
    }
    children
}

/// Those that are not dead yet, parents before children.
fn descendants(root: Pid) -> Vec<Process> {
    let mut children = children();
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    let mut parents = vec![root.as_raw_nonzero().get()];
    while let Some(parent) = parents.pop() {
        for entry in children.remove(&parent).into_iter().flatten() {
            if seen.insert(entry.process.pid) {
                parents.push(entry.process.pid);
                if !entry.is_dead {
                    found.push(entry.process);
                }
            }
        }
    }
    found
}

const LOOK_AGAIN: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_whatever_the_name_of_the_program() {
        let line = "7 (a) b (c) S 3 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 991 4096 5";
        let entry = Entry::parse(7, line).unwrap();
        assert_eq!((entry.process, entry.parent), (Process { pid: 7, started: 991 }, 3));
        assert!(!entry.is_dead);
        assert!(Entry::parse(7, &line.replace(" S ", " Z ")).unwrap().is_dead);
        assert!(Entry::parse(7, "7 (a").is_none());
    }

    #[test]
    fn this_process_is_found_below_its_parent() {
        let parent = process::getppid().unwrap();
        let own = process::getpid().as_raw_nonzero().get();
        assert!(descendants(parent).iter().any(|it| it.pid == own));
        assert!(descendants(process::getpid()).iter().all(|it| it.pid != own));
    }
}
