//! The text that describes a holder to people: host, process, user, command and reason.
//!
//! Arguments of commands are not shown: they may be secrets, and every client of the nodes can read
//! this text.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use nix::unistd::{self, User};

/// A process that uses locks.
#[derive(Debug)]
struct Process {
    pid: i32,
    /// The command and its arguments.
    argv: Vec<OsString>,
    /// Where it runs.
    folder: PathBuf,
}

impl Process {
    fn of_pid(pid: i32) -> Self {
        let folder = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
        Self { pid, argv: argv_of(pid), folder }
    }
}

/// The text for a holder that runs a command.
pub(crate) fn of_run(argv: &[OsString]) -> Who {
    Who::of(&Process { argv: argv.to_vec(), ..Process::of_pid(unistd::getpid().as_raw()) })
}

/// The text for a lease that outlives this process: that of the process which asked for it.
pub(crate) fn of_caller() -> Who {
    // In a container the parent may be outside, and has no number.
    let parent = Some(unistd::getppid().as_raw()).filter(|pid| *pid > 0);
    let parent = parent.unwrap_or_else(|| unistd::getpid().as_raw());
    Who::of(&without_subshells(Process::of_pid(parent)))
}

/// A holder's text, without the reason.
#[derive(Debug)]
pub(crate) struct Who {
    process: String,
    command: String,
}

impl Who {
    fn of(process: &Process) -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let user = User::from_uid(unistd::getuid()).ok().flatten().map(|user| user.name);
        let user = user.unwrap_or_else(|| format!("uid {}", unistd::getuid()));
        let process_text = format!("quorate/{host}/{} {user}", process.pid);
        Self { process: process_text, command: program(process) }
    }

    /// The text. If it is too long, the command is shortened.
    pub(crate) fn text(&self, why: Option<&str>) -> String {
        let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
        let used = self.process.chars().count() + why.chars().count() + ": ".len();
        let room = LEN_MAX.saturating_sub(used);
        let command = match self.command.is_empty() || room < COMMAND_LEN_MIN {
            true => String::new(),
            false => format!(": {}", shortened(&self.command, room)),
        };
        shortened(&format!("{}{command}{why}", self.process), LEN_MAX)
    }
}

/// A text that was given by the user, with the reason.
pub(crate) fn given(who: &str, why: Option<&str>) -> String {
    match why {
        Some(why) => format!("{who} ({why})"),
        None => who.to_owned(),
    }
}

/// The program, and the script if the program is given one.
fn program(process: &Process) -> String {
    let name = |path: &OsStr| {
        let name = Path::new(path).file_name().unwrap_or(path);
        name.to_string_lossy().into_owned()
    };
    let mut argv = process.argv.iter();
    let Some(program) = argv.next() else { return String::new() };
    match argv.next().filter(|script| process.folder.join(script).is_file()) {
        Some(script) => format!("{} {}", name(program), name(script)),
        None => name(program),
    }
}

/// A subshell, as in `$(cd DIR; quorate acquire NAME)`, ends with the command in it. It has the
/// same arguments as its shell.
fn without_subshells(mut process: Process) -> Process {
    for _ in 0..SUBSHELLS_MAX {
        let parent = parent_of(process.pid).filter(|pid| *pid > 1);
        let parent = parent.map(Process::of_pid);
        let is_same = |parent: &Process| !parent.argv.is_empty() && parent.argv == process.argv;
        match parent.filter(is_same) {
            Some(parent) => process = parent,
            None => break,
        }
    }
    process
}

fn argv_of(pid: i32) -> Vec<OsString> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = line.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    words.map(|word| OsStr::from_bytes(word).to_owned()).collect()
}

fn parent_of(pid: i32) -> Option<i32> {
    let status = fs::read(format!("/proc/{pid}/status")).ok()?;
    let status = String::from_utf8_lossy(&status);
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    parent.trim().parse().ok()
}

/// The first characters, with dots if some are missing.
fn shortened(text: &str, len_max: usize) -> String {
    match text.char_indices().nth(len_max) {
        Some(_) => text.chars().take(len_max - DOTS.len()).chain(DOTS.chars()).collect(),
        None => text.to_owned(),
    }
}

/// Nodes store no longer text.
const LEN_MAX: usize = 96;

/// A shorter part of a command says nothing.
const COMMAND_LEN_MIN: usize = 8;

const SUBSHELLS_MAX: usize = 16;

/// Nodes store only ASCII characters.
const DOTS: &str = "...";

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn text_names_host_process_user_command_and_reason() {
        let text = of_run(&words("/usr/bin/backup --password secret")).text(Some("nightly"));
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let start = format!("quorate/{host}/{} ", std::process::id());
        assert!(text.starts_with(&start), "{text}");
        assert!(text.ends_with(": backup (nightly)"), "{text}");
    }

    #[test]
    fn long_texts_keep_the_reason() {
        let who = Who { process: "quorate/db1/7 root".into(), command: "c".repeat(200) };
        let text = who.text(Some("nightly"));
        assert!(text.ends_with("ccc... (nightly)") && text.len() == LEN_MAX, "{text}");
        let text = who.text(Some(&"w".repeat(200)));
        assert!(text.starts_with("quorate/db1/7 root (www"), "{text}");
        assert!(text.ends_with("www...") && text.len() == LEN_MAX, "{text}");
    }

    #[test]
    fn script_is_shown_with_its_shell() {
        let program = |line| {
            let folder = env!("CARGO_MANIFEST_DIR").into();
            program(&Process { pid: 1, argv: words(line), folder })
        };
        assert_eq!(program("/bin/sh ./Cargo.toml secret"), "sh Cargo.toml");
        assert_eq!(program("sh -c secret"), "sh");
        assert_eq!(program(""), "");
    }
}
