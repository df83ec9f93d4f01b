//! All processes that descend from this one, also those that have left its group: whoever loses
//! its parent comes to us, since we are a subreaper.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, thread,
    time::{Duration, Instant},
};

use rustix::process::{self, Pid, PidfdFlags, Signal};

/// The descendants of this process, apart from those that it had before.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// Children of whoever became us. They are nothing of the command's.
    spared: BTreeSet<Process>,
}

impl Tree {
    /// Leaves alone what is there already.
    pub(crate) fn from_now_on() -> Self {
        let own = process::getpid().as_raw_nonzero().get();
        let spared = children().remove(&own).into_iter().flatten().map(|entry| entry.process);
        Self { spared: spared.collect() }
    }

    /// Kills all of them, again and again until none is left, for as long as `bound`. Returns how
    /// many could not be killed.
    pub(crate) fn kill_all(&self, bound: Duration) -> usize {
        let (started, mut rest) = (Instant::now(), REST_MIN);
        loop {
            let left = self.kill_once();
            if left == 0 || started.elapsed() >= bound {
                return left;
            }
            thread::park_timeout(rest);
            rest = (rest * 2).min(REST_MAX);
        }
    }

    /// Kills those that are there. Returns how many that were; none only if two looks find none,
    /// since processes come and go while we look.
    pub(crate) fn kill_once(&self) -> usize {
        let look = || {
            let found = self.descendants();
            found.iter().for_each(|it| it.signal(Signal::KILL));
            found.len()
        };
        match look() {
            0 => look(),
            found => found,
        }
    }

    /// Sends a signal to all of them but one.
    pub(crate) fn signal_all(&self, signal: Signal, except: Pid) {
        let except = except.as_raw_nonzero().get();
        let found = self.descendants();
        found.iter().filter(|it| it.pid != except).for_each(|it| it.signal(signal));
    }

    /// How many of them there are.
    pub(crate) fn count(&self) -> usize {
        self.descendants().len()
    }

    /// Those that are not dead yet, parents before children.
    fn descendants(&self) -> Vec<Process> {
        let mut children = children();
        let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
        let mut parents = vec![process::getpid().as_raw_nonzero().get()];
        while let Some(parent) = parents.pop() {
            for entry in children.remove(&parent).into_iter().flatten() {
                if !self.spared.contains(&entry.process) && seen.insert(entry.process.pid) {
                    parents.push(entry.process.pid);
                    if !entry.is_dead {
                        found.push(entry.process);
                    }
                }
            }
        }
        found
    }
}

/// Whether `/proc` shows processes as we call them: it may be of another namespace, and strangers
/// would be taken for ours.
pub(crate) fn is_visible() -> bool {
    let own = process::getpid().as_raw_nonzero().to_string();
    fs::read_link("/proc/self").is_ok_and(|link| link.as_os_str() == own.as_str())
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
        let fields: Vec<&str> = rest.split(' ').collect();
        let threads: i64 = fields.get(17)?.parse().ok()?;
        // A first thread that has ended looks like a dead process while the others work on.
        let is_dead = matches!(*fields.first()?, "Z" | "X" | "x") && threads <= 1;
        let (parent, started) = (fields.get(1)?.parse().ok()?, fields.get(19)?.parse().ok()?);
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

const REST_MIN: Duration = Duration::from_millis(1);
const REST_MAX: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_whatever_the_name_of_the_program() {
        let line = "7 (a) b (c) S 3 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 991 4096 5";
        let entry = Entry::parse(7, line).unwrap();
        assert_eq!((entry.process, entry.parent), (Process { pid: 7, started: 991 }, 3));
        assert!(!entry.is_dead);
        let dead = line.replace(" S ", " Z ");
        assert!(Entry::parse(7, &dead).unwrap().is_dead);
        let is_dead = Entry::parse(7, &dead.replace(" 20 0 1 0 ", " 20 0 2 0 ")).unwrap().is_dead;
        assert!(!is_dead, "another thread works on");
        assert!(Entry::parse(7, "7 (a").is_none());
    }

    #[test]
    fn processes_are_visible_and_those_from_before_are_spared() {
        assert!(is_visible());
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let has = |tree: &Tree| tree.descendants().iter().any(|it| it.pid == child.id() as i32);
        assert!(has(&Tree::default()));
        assert!(!has(&Tree::from_now_on()));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
