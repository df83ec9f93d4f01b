//! Processes without the right to write, and without room on the disk.

use std::{
    fs::{self, Permissions},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::Path,
    process::Command,
};

use quorate::Client;
use quorate_testkit::processes::{Child, Outcome, PATIENCE, command, print_line};

use super::{Folder, client};

/// Root has every right, so the child is another user then.
pub(super) fn missing_rights_are_reported() {
    let above = tempfile::tempdir().expect("a folder");
    let program = above.path().join("program");
    let mut child = command("miss-rights");
    if rustix::process::geteuid().is_root() {
        // Other users may have no access to the folder of this program.
        fs::set_permissions(above.path(), Permissions::from_mode(0o755)).expect("ours");
        fs::copy(child.get_program(), &program).expect("there is space");
        let mut copied = Command::new(&program);
        copied.args(child.get_args()).uid(NOBODY).gid(NOBODY);
        child = copied;
    }
    let ended = child.current_dir("/").status().expect("the program starts itself");
    assert!(ended.success(), "{ended}");
}

/// What that child does.
pub(super) fn miss() -> Outcome {
    let own = tempfile::tempdir_in("/tmp")?;
    refused(Path::new("/"), "it belongs to another user, 0")?;
    refused(Path::new("/quorate-test-locks"), "the folder cannot be made: Permission denied")?;

    let sealed = own.path().join("sealed");
    fs::create_dir(&sealed)?;
    fs::set_permissions(&sealed, Permissions::from_mode(0o500))?;
    refused(&sealed, "it cannot be opened: Permission denied")?;
    refused(&sealed.join("below"), "give this user permission to write there")?;

    let used = own.path().join("used");
    drop(client(&used, PATIENCE));
    for (file, expected) in [
        ("locks.db", "it is read-only: give this user permission to write to it"),
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
    print_line("missing rights are reported, with the path and what to do");
    Ok(())
}

/// The folder decides which users may use it, not the first process.
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
    print_line("a mask for the rights of new files does not matter");
}

/// Each file in turn cannot be opened. Files that the test runner has left open take numbers below
/// the limit, so the free numbers are counted.
pub(super) fn too_few_files_are_reported() {
    let inherited = inherited();
    for limit in 4..60 {
        let free = (3..limit).filter(|number| !inherited.contains(number)).count();
        if free == 0 {
            continue; // The program cannot be loaded.
        }
        let printed = attempt(&format!("{LEFT_OPEN}; ulimit -n {limit}"), &Folder::new());
        if printed == "ok" {
            assert!(free > 9, "each of its files was refused once: {free}");
            return print_line(&format!("fewer than {free} more files: the reason is reported"));
        }
        let is_reported =
            ["Too many open files", "too many files open"].map(|it| printed.contains(it));
        assert!(
            is_reported.contains(&true) && !printed.contains("give this user"),
            "{limit}: {printed}"
        );
    }
    panic!("60 files are too few");
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

/// What a child prints that tries to use the folder after its shell ran this setting.
fn attempt(setting: &str, folder: &Folder) -> String {
    let child = Child::start(&mut in_shell(setting, command("try").arg(folder.path())));
    let printed = child.next_line();
    child.end();
    printed
}

/// The command of a child after a setting of its shell.
fn in_shell(setting: &str, child: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{setting}; exec \"$0\" \"$@\"")]);
    shell.arg(child.get_program()).args(child.get_args());
    shell
}

fn refused(folder: &Path, expected: &str) -> Outcome {
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
pub(super) fn full_disk_is_reported() {
    let folder = Folder::new();
    // The signal would kill the child. Without it the write fails.
    let setting = "trap '' XFSZ; ulimit -f 800";
    let mut child = Child::start(&mut in_shell(setting, command("fill").arg(folder.path())));
    let printed = child.next_line();
    let (count, text) = printed.split_once(' ').unwrap_or_else(|| panic!("it failed: {printed}"));
    assert!(text.contains("check the disk: it may be full"), "{text}");
    assert!(text.contains(&folder.path().display().to_string()), "{text}");
    let count: usize = count.parse().expect("the number of locks");
    assert!(count > 10, "{count}");

    // Exactly the locks that it reported are stored, and other clients go on.
    assert!(folder.is_whole());
    let held = "SELECT count(*) FROM locks WHERE value IS NOT NULL";
    let stored: usize = folder.db().query_row(held, [], |row| row.get(0)).expect("it is readable");
    assert_eq!(stored, count);
    let other = folder.client();
    assert!(other.mutex("lock-0").try_lock().expect("it answers").is_none(), "the child holds it");
    assert!(other.mutex("another").try_lock().expect("there is space for us").is_some());

    child.kill();
    print_line(&format!("after {count} locks there was no space: {text}"));
}

/// A test runner that holds a lock on a file leaves such a file open.
const LEFT_OPEN: &str = "exec 3</dev/null";

const NOBODY: u32 = 65_534;
