//! Processes without the right to write, and without room on the disk.

use std::{
    env,
    fs::{self, Permissions},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::Path,
    process::{Command, Stdio},
};

use quorate::Client;

use super::{CHILD, Folder, children::Done, client, line, say};

/// Root has every right, so the child is another user then.
pub(super) fn are_missed_with_a_word() {
    let above = tempfile::tempdir().expect("a folder");
    let program = above.path().join("program");
    let mut command = match rustix::process::geteuid().is_root() {
        true => {
            // Others may have no way to where this program is.
            fs::set_permissions(above.path(), Permissions::from_mode(0o755)).expect("ours");
            fs::copy(env::current_exe().expect("its path"), &program).expect("there is room");
            let mut command = Command::new(&program);
            command.uid(NOBODY).gid(NOBODY);
            command
        }
        false => Command::new(env::current_exe().expect("its path")),
    };
    command.args([CHILD, "miss-rights"]).current_dir("/");
    let ended = command.status().expect("the program starts itself");
    assert!(ended.success(), "{ended}");
}

/// What that child does.
pub(super) fn miss() -> Done {
    let own = tempfile::tempdir_in("/tmp")?;
    refused(Path::new("/"), "it belongs to another user, 0")?;
    refused(Path::new("/quorate-test-locks"), "the folder cannot be made: Permission denied")?;

    let sealed = own.path().join("sealed");
    fs::create_dir(&sealed)?;
    fs::set_permissions(&sealed, Permissions::from_mode(0o500))?;
    refused(&sealed, "it cannot be opened: Permission denied")?;
    refused(&sealed.join("below"), "give this user the right to write there")?;

    let used = own.path().join("used");
    drop(client(&used, super::PATIENCE));
    for (file, expected) in [
        ("locks.db", "it is read-only: give this user the right to write to it"),
        ("lock", "it cannot be opened: Permission denied"),
        ("sockets", "the socket cannot be made: Permission denied"),
    ] {
        let file = used.join(file);
        let before = fs::metadata(&file)?.permissions();
        fs::set_permissions(&file, Permissions::from_mode(0o500))?;
        refused(&used, expected)?;
        fs::set_permissions(&file, before)?;
        Client::builder().local(&used).build()?;
    }
    say("missing rights are told, with the path and what to do");
    Ok(())
}

/// Whoever may use it is a matter of the folder, not of the process that comes first.
pub(super) fn are_set_whatever_the_mask() {
    let folder = Folder::new();
    assert_eq!(attempt("umask 0777", &folder), "ok");
    let rights = |name: &str| {
        let about = fs::metadata(folder.path().join(name)).expect("it is there");
        about.permissions().mode() & 0o7777
    };
    assert_eq!((rights(""), rights("sockets")), (0o700, 0o700));
    for file in ["lock", "locks.db", "locks.db-wal", "locks.db-shm"] {
        assert_eq!(rights(file), 0o600, "{file}");
    }
    say("a mask for the rights of new files does not matter");
}

/// Whichever file it is that cannot be opened. What whoever runs the tests has left open takes
/// numbers below the limit, so the free ones are counted.
pub(super) fn too_few_files_are_told() {
    let inherited = inherited();
    for limit in 4..60 {
        let free = (3..limit).filter(|number| !inherited.contains(number)).count();
        if free == 0 {
            continue; // The program cannot be loaded.
        }
        let said = attempt(&format!("{LEFT_OPEN}; ulimit -n {limit}"), &Folder::new());
        if said == "ok" {
            assert!(free > 9, "each of its files was refused once: {free}");
            return say(&format!("with fewer than {free} more files the reason is told"));
        }
        let is_told = ["Too many open files", "too many files open"].map(|it| said.contains(it));
        assert!(is_told.contains(&true) && !said.contains("give this user"), "{limit}: {said}");
    }
    panic!("so many files are not needed");
}

/// The numbers of the files that a child finds open besides the usual three.
fn inherited() -> Vec<u32> {
    // The shell tests each number itself: a program of its own would have files of its own open.
    let script =
        "n=3; while [ $n -lt 60 ]; do [ ! -e /proc/$$/fd/$n ] || echo $n; n=$((n+1)); done";
    let listed = Command::new("sh").args(["-c", &format!("{LEFT_OPEN}; {script}")]).output();
    let listed = String::from_utf8(listed.expect("there is a shell").stdout).expect("numbers");
    listed.lines().map(|number| number.parse().expect("a number")).collect()
}

/// What a child says that tries to use the folder after this was said to its shell.
fn attempt(setting: &str, folder: &Folder) -> String {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{setting}; exec \"$0\" \"$@\"")]);
    command.arg(env::current_exe().expect("its path")).args([CHILD, "try"]).arg(folder.path());
    let spawned = command.stdout(Stdio::piped()).spawn();
    let mut child = spawned.expect("there is a shell");
    let said = line(&mut child);
    let ended = child.wait().expect("it ends");
    assert!(ended.success(), "{setting}: {ended}, {said}");
    said
}

fn refused(folder: &Path, expected: &str) -> Done {
    let Err(error) = Client::builder().local(folder).build() else {
        return Err(format!("{} can be used", folder.display()).into());
    };
    let text = error.to_string();
    match text.contains(expected) && text.contains(&folder.display().to_string()) {
        true => Ok(()),
        false => Err(format!("expected {expected:?}, but: {text}").into()),
    }
}

/// The child may not write files beyond some size: for it the disk is full.
pub(super) fn a_disk_without_room_is_told() {
    let folder = Folder::new();
    let mut command = Command::new("sh");
    // The signal would kill it; ignored, the write fails instead.
    command.args(["-c", "trap '' XFSZ; ulimit -f 800; exec \"$0\" \"$@\""]);
    command.arg(env::current_exe().expect("its path")).args([CHILD, "fill"]).arg(folder.path());
    let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = spawned.expect("there is a shell");
    let said = line(&mut child);
    let (count, text) = said.split_once(' ').unwrap_or_else(|| panic!("it failed: {said}"));
    assert!(text.contains("look after the disk: it may be full"), "{text}");
    assert!(text.contains(&folder.path().display().to_string()), "{text}");
    let count: usize = count.parse().expect("it says how many it has");
    assert!(count > 10, "{count}");

    // What it was told to have is there, nothing else is, and others go on.
    assert!(folder.is_whole());
    let held = "SELECT count(*) FROM locks WHERE value IS NOT NULL";
    let stored: usize = folder.db().query_row(held, [], |row| row.get(0)).expect("it is readable");
    assert_eq!(stored, count);
    let other = folder.client();
    assert!(other.mutex("lock-0").try_lock().expect("it answers").is_none(), "the child has it");
    assert!(other.mutex("another").try_lock().expect("there is room for us").is_some());

    child.kill().expect("it runs");
    child.wait().expect("a killed process ends");
    say(&format!("after {count} locks there was no room: {text}"));
}

/// As a test runner does that holds a lock on a file.
const LEFT_OPEN: &str = "exec 3</dev/null";

const NOBODY: u32 = 65_534;
