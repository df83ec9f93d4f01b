//! Reads `/proc`: which children a process has, and when it was started.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read as _},
    os::fd::OwnedFd,
};

use rustix::{
    fs::{Dir, Mode, OFlags, openat},
    process::{self, Pid, PidfdFlags, Signal},
};

/// `/proc` as it was at the start: a later mount over it does not hide processes.
#[derive(Debug)]
pub(super) struct Proc {
    folder: OwnedFd,
    /// Whether every thread has a list of its children. Not every kernel provides it.
    has_lists: bool,
}

impl Proc {
    pub(super) fn open() -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let folder = rustix::fs::open("/proc", flags, Mode::empty())?;
        let mut proc = Self { folder, has_lists: false };
        let own = own_pid();
        proc.has_lists = proc.read(&format!("{own}/task/{own}/children")).is_ok();
        Ok(proc)
    }

    /// Looks up children: at the time of each call with lists, now without them.
    pub(super) fn family(&self) -> Family<'_> {
        let all = if self.has_lists { None } else { Some(self.by_parent()) };
        Family { proc: self, all }
    }

    fn listed(&self, pid: i32) -> io::Result<Vec<i32>> {
        let mut found = Vec::new();
        for thread in self.numbers(&format!("{pid}/task"))? {
            // The children of an ended thread have moved to another thread.
            let Ok(list) = self.read(&format!("{pid}/task/{thread}/children")) else { continue };
            let list = String::from_utf8_lossy(&list);
            found.extend(list.split_ascii_whitespace().filter_map(|it| it.parse::<i32>().ok()));
        }
        Ok(found)
    }

    pub(super) fn entry(&self, pid: i32) -> Option<Entry> {
        Entry::parse(pid, &self.read(&format!("{pid}/stat")).ok()?)
    }

    /// Sends a signal to this process, and to no later process with the same pid.
    pub(super) fn signal(&self, process: Process, signal: Signal) {
        let Some(pid) = Pid::from_raw(process.pid) else { return };
        let Ok(handle) = process::pidfd_open(pid, PidfdFlags::empty()) else { return };
        // The handle refers to the process that has the pid now: the right one if its start time
        // matches.
        if self.entry(process.pid).is_some_and(|entry| entry.process == process) {
            // The process may have ended.
            let _ = process::pidfd_send_signal(&handle, signal);
        }
    }

    /// All visible processes, by parent.
    fn by_parent(&self) -> io::Result<BTreeMap<i32, Vec<i32>>> {
        let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
        for entry in self.numbers(".")?.into_iter().filter_map(|pid| self.entry(pid)) {
            children.entry(entry.parent).or_default().push(entry.process.pid);
        }
        Ok(children)
    }

    /// The numeric names in a folder.
    fn numbers(&self, path: &str) -> io::Result<Vec<i32>> {
        let mut numbers = Vec::new();
        for entry in Dir::new(self.open_at(path, OFlags::DIRECTORY)?)? {
            let name = entry?;
            numbers.extend(name.file_name().to_str().ok().and_then(|it| it.parse::<i32>().ok()));
        }
        Ok(numbers)
    }

    /// Reads bytes: the name of a process may not be UTF-8.
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::from(self.open_at(path, OFlags::empty())?).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn open_at(&self, path: &str, flags: OFlags) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(openat(&self.folder, path, flags, Mode::empty())?)
    }
}

/// The children of processes.
#[derive(Debug)]
pub(super) struct Family<'a> {
    proc: &'a Proc,
    all: Option<io::Result<BTreeMap<i32, Vec<i32>>>>,
}

impl Family<'_> {
    /// The children of a process, including zombies. With lists, also children that are hidden
    /// because they belong to another user.
    pub(super) fn children(&self, pid: i32) -> Option<Vec<i32>> {
        match &self.all {
            Some(Ok(all)) => Some(all.get(&pid).cloned().unwrap_or_default()),
            Some(Err(_)) => None,
            None => self.proc.listed(pid).ok(),
        }
    }
}

/// Whether `/proc` belongs to the PID namespace of this process. Otherwise its pids would refer to
/// unrelated processes.
pub(crate) fn is_visible() -> bool {
    let own = own_pid().to_string();
    fs::read_link("/proc/self").is_ok_and(|link| link.as_os_str() == own.as_str())
}

pub(super) fn own_pid() -> i32 {
    process::getpid().as_raw_nonzero().get()
}

/// A process, identified by pid and start time, because a pid can be reused.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Process {
    pub(super) pid: i32,
    started: u64,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) process: Process,
    parent: i32,
    pub(super) has_ended: bool,
}

impl Entry {
    /// Parses `/proc/PID/stat`. The name in it can contain anything, including parentheses and
    /// incomplete UTF-8.
    fn parse(pid: i32, stat: &[u8]) -> Option<Self> {
        let end = stat.windows(2).rposition(|pair| pair == b") ")?;
        let fields: Vec<&str> = str::from_utf8(&stat[end + 2..]).ok()?.split(' ').collect();
        let threads: i64 = fields.get(17)?.parse().ok()?;
        // A process whose first thread has ended looks like a zombie while other threads still run.
        let has_ended = matches!(*fields.first()?, "Z" | "X" | "x") && threads <= 1;
        let (parent, started) = (fields.get(1)?.parse().ok()?, fields.get(19)?.parse().ok()?);
        Some(Self { process: Process { pid, started }, parent, has_ended })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_parsed_with_any_program_name() {
        let line = "7 (a) b (c) S 3 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 991 4096 5";
        let entry = Entry::parse(7, line.as_bytes()).unwrap();
        assert_eq!((entry.process, entry.parent), (Process { pid: 7, started: 991 }, 3));
        assert!(!entry.has_ended);
        let zombie = line.replace(" S ", " Z ");
        assert!(Entry::parse(7, zombie.as_bytes()).unwrap().has_ended);
        let running = zombie.replace(" 20 0 1 0 ", " 20 0 2 0 ");
        let has_ended = Entry::parse(7, running.as_bytes()).unwrap().has_ended;
        assert!(!has_ended, "another thread still runs");
        assert!(Entry::parse(7, b"7 (a").is_none());
        let mut cut = line.as_bytes().to_vec();
        cut[3] = 0xd0;
        assert_eq!(Entry::parse(7, &cut).unwrap().parent, 3, "incomplete UTF-8");
    }

    #[test]
    fn children_are_found_with_and_without_lists() {
        assert!(is_visible());
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        for has_lists in [true, false] {
            let proc = Proc { has_lists, ..Proc::open().unwrap() };
            assert!(proc.family().children(own_pid()).unwrap().contains(&pid), "{has_lists}");
            assert!(!proc.entry(pid).unwrap().has_ended);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!Proc::open().unwrap().family().children(own_pid()).unwrap().contains(&pid));
    }
}
