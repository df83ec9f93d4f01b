//! Permissions and files of a folder.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
};

use super::*;

#[test]
fn new_folder_is_private() {
    let above = tempfile::tempdir().unwrap();
    let path = above.path().join("deep/locks");
    let folder = Folder::open(&path).unwrap();
    folder.make_db().unwrap();
    folder.sockets().unwrap();
    assert_eq!(rights(&path), 0o700);
    assert_eq!(rights(&path.join("lock")), 0o600);
    assert_eq!(rights(&path.join("locks.db")), 0o600);
    assert_eq!(rights(&path.join("sockets")), 0o700);
}

#[test]
fn folder_that_its_group_can_write_to_is_shared() {
    let above = tempfile::tempdir().unwrap();
    fs::set_permissions(above.path(), Permissions::from_mode(0o2770)).unwrap();
    let folder = Folder::open(above.path()).unwrap();
    folder.make_db().unwrap();
    folder.sockets().unwrap();
    assert_eq!(rights(&above.path().join("lock")), 0o660);
    assert_eq!(rights(&above.path().join("locks.db")), 0o660);
    assert_eq!(rights(&above.path().join("sockets")), 0o2770);
}

#[test]
fn folder_of_another_user_or_that_anybody_can_write_to_is_rejected() {
    let above = tempfile::tempdir().unwrap();
    let about = |mode| {
        fs::set_permissions(above.path(), Permissions::from_mode(mode)).unwrap();
        stat(above.path()).unwrap()
    };
    let us = Who::this_process();
    let another = Who { user: us.user + 1, group: us.group + 1 };
    assert_eq!(check_permissions(&about(0o755), &us), Ok(false));
    assert_eq!(check_permissions(&about(0o2770), &us), Ok(true));
    assert_eq!(check_permissions(&about(0o2770), &another), Ok(true), "shared on purpose");
    let refused = |mode, who| check_permissions(&about(mode), who).unwrap_err();
    assert!(refused(0o777, &us).starts_with("every user can write there"));
    assert!(refused(0o700, &another).starts_with("it belongs to another user"));
    assert!(refused(0o770, &another).contains("chmod g+s"), "new files would not be shared");
}

#[test]
fn network_file_system_is_rejected_by_name() {
    assert_eq!(network(0x6969), Some("NFS"));
    assert_eq!(network(0xff53_4d42_i64), Some("SMB"));
    assert_eq!(network(0xff53_4d42_u32.cast_signed()), Some("SMB"), "with its sign");
    assert_eq!(network(0xfe53_4d42_i64), Some("SMB"));
    assert_eq!(network(0x0102_1997), Some("9p"));
    assert_eq!(network(0xef53), None, "ext4");
    assert_eq!(network(0x0102_1994), None, "tmpfs");
}

#[test]
fn one_process_at_a_time_holds_the_folders_lock() {
    let above = tempfile::tempdir().unwrap();
    let (one, other) = (Folder::open(above.path()).unwrap(), Folder::open(above.path()).unwrap());
    let turn = one.wait_for_lock().unwrap();
    let try_it = || flock(&other.lock_file, FlockOperation::NonBlockingLockExclusive);
    assert_eq!(try_it(), Err(Errno::WOULDBLOCK), "also in one process");
    drop(turn);
    assert_eq!(try_it(), Ok(()));
}

fn rights(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}
