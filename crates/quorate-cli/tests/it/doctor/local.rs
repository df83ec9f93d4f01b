//! `quorate doctor` on local locks.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    process::Command,
};

use rustix::process::Signal;

use super::{examine, findings, finds, ids};
use crate::fixture::{Fixture, Running};

/// A folder that was used.
fn used() -> Fixture {
    let fixture = Fixture::without_servers();
    fixture.run(["--local", "x", "true"]).assert_code(0);
    fixture
}

#[test]
fn healthy_folder_has_no_findings() {
    let fixture = Fixture::without_servers();
    let (_, json) = examine(&fixture, []);
    assert_eq!(findings(&json).len(), 0, "{json:#}");
    assert!(!fixture.path("locks").exists(), "it was not created");
    fixture.run(["--local", "x", "true"]).assert_code(0);
    let names = || {
        let folder = fs::read_dir(fixture.path("locks")).expect("it is there");
        let mut names: Vec<_> = folder
            .map(|entry| {
                let entry = entry.expect("it can be read");
                let about = entry.metadata().expect("it can be read");
                (entry.file_name(), about.len(), about.modified().expect("a time"))
            })
            .collect();
        names.sort();
        names
    };
    let before = names();
    let (_, json) = examine(&fixture, []);
    assert_eq!(findings(&json).len(), 0, "{json:#}");
    assert_eq!(
        (&json["quorum"], &json["nodes"]),
        (&serde_json::Value::Null, &serde_json::json!([]))
    );
    assert_eq!(names(), before, "it only looks");
    let ended = fixture.exec(["doctor"]).assert_code(0);
    assert!(ended.out().contains("because no nodes are configured"), "{ended:?}");
}

#[test]
fn stopped_process_that_blocks_the_others_is_found() {
    let fixture = used();
    let mut command = Command::new("flock");
    fixture.prepare(&mut command);
    let lock = fixture.path("locks/lock");
    command.arg("--no-fork").arg(&lock).args(["sh", "-c", "echo locked > ready; exec cat"]);
    let blocker = Running::start(&mut command);
    fixture.await_file("ready");
    let pid = blocker.pid().as_raw_nonzero().to_string();
    let found = finds(&fixture, "local-blocked", "", "keeps the folder locked: all others wait");
    assert!(found[0].message.contains(&format!("process {pid} (")), "{found:?}");
    blocker.signal(Signal::STOP);
    fixture.await_that("it is found stopped", || {
        let (_, json) = examine(&fixture, []);
        findings(&json).iter().any(|it| it.message.contains(" is stopped and keeps the folder"))
    });
    let found = finds(&fixture, "local-blocked", "", "is stopped and");
    assert!(found[0].remedy.contains(&format!("kill -CONT {pid}")), "{found:?}");
    blocker.signal(Signal::CONT);
    blocker.close().assert_code(0);
    let (_, json) = examine(&fixture, []);
    assert_eq!(findings(&json).len(), 0, "{json:#}");
}

/// Processes that use the folder lock it for an instant each.
#[test]
fn busy_folder_is_not_blocked() {
    let fixture = used();
    let holders: Vec<Running> = ["a", "b", "c"].map(|name| fixture.hold(name)).into();
    let (_, json) = examine(&fixture, []);
    assert_eq!(findings(&json).len(), 0, "{json:#}");
    for holder in holders {
        holder.close().assert_code(0);
    }
}

#[test]
fn folder_that_cannot_be_used_is_found() {
    let fixture = used();
    let set = |mode| {
        let folder = fixture.path("locks");
        fs::set_permissions(folder, Permissions::from_mode(mode)).expect("it is mine");
    };
    set(0o707);
    let found = finds(&fixture, "local-folder", "", "every user can write there");
    assert_eq!(ids(&found), ["local-folder"], "{found:?}");
    set(0o700);
    fixture.write("locks/locks.db", "This is not a database of Quorate.");
    let found = finds(&fixture, "local-file", "", "not a database of Quorate");
    assert_eq!(ids(&found), ["local-file"], "{found:?}");
    fixture.write("file", "");
    let path = fixture.path("file").display().to_string();
    let (_, json) = examine(&fixture, ["--dir", &path]);
    assert_eq!(ids(&findings(&json)), ["local-folder"], "{json:#}");
}
