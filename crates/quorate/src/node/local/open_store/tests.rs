//! A folder after reboots, restarts and changes by other programs.

use quorate_core::{
    command::{ClientId, Command, Owner, Reply, SessionTerms},
    name::Name,
    queue::{AcquireRequest, Position, Sender, Session},
};

use super::*;

#[test]
fn reboot_ends_locks_queues_and_sessions_but_no_fence_goes_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut fences = Vec::new();
    for boot in ["first", "second", "third"] {
        let mut open_store = OpenStore::open(folder.path(), &boot_of(boot), None).unwrap();
        let reply = acquire(&mut open_store, 1, false);
        assert_eq!(reply, Reply::Stale, "a session ends with its boot: {boot}");
        attach(&mut open_store, 1);
        let Reply::Granted { fence, .. } = acquire(&mut open_store, 1, false) else {
            panic!("the lock of an earlier boot is void");
        };
        fences.push(fence);
        attach(&mut open_store, 2);
        let waits = acquire(&mut open_store, 2, true);
        assert!(matches!(waits, Reply::Queued { rank: Some(0), .. }), "{waits:?}");
    }
    assert!(fences.is_sorted_by(|one, next| one < next), "{fences:?}");
}

#[test]
fn fences_do_not_go_back_if_the_wall_clock_was_set_back_before_a_reboot() {
    let folder = tempfile::tempdir().unwrap();
    let mut open_store = OpenStore::open(folder.path(), &boot_of("first"), None).unwrap();
    attach(&mut open_store, 1);
    let Reply::Granted { fence, .. } = acquire(&mut open_store, 1, false) else { panic!("free") };
    // As if the wall clock were a year ahead.
    let year_us = 365 * 24 * 60 * 60 * 1_000_000;
    let far = Era { base_us: open_store.era.base_us + year_us, ..open_store.era.clone() };
    let horizon_us = far.horizon_us + u64::try_from(year_us).unwrap();
    let tx = open_store.db.begin(Durability::Disk).unwrap();
    let now = far.time(Clock::Boot.now());
    tx.save_era(&Era { horizon_us, ..far }, now).unwrap();
    tx.commit().unwrap();
    drop(open_store);

    let mut open_store = OpenStore::open(folder.path(), &boot_of("second"), None).unwrap();
    attach(&mut open_store, 1);
    let Reply::Granted { fence: next, .. } = acquire(&mut open_store, 1, false) else {
        panic!("free")
    };
    assert!(next > fence && next.get() >= horizon_us - 10_000_000, "{next} {horizon_us}");
}

#[test]
fn restart_in_the_same_boot_continues_the_time() {
    let folder = tempfile::tempdir().unwrap();
    let mut open_store = OpenStore::open(folder.path(), &boot_of("first"), None).unwrap();
    attach(&mut open_store, 1);
    assert!(matches!(acquire(&mut open_store, 1, false), Reply::Granted { .. }));
    let era = open_store.era.clone();
    drop(open_store);
    let mut open_store = OpenStore::open(folder.path(), &boot_of("first"), None).unwrap();
    assert!(open_store.era.is_same(&era));
    attach(&mut open_store, 2);
    assert!(matches!(acquire(&mut open_store, 2, false), Reply::Queued { .. }), "it is held");
}

#[test]
fn another_clock_in_the_same_boot_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    drop(OpenStore::open(folder.path(), &boot_of("first"), None).unwrap());
    let other = Boot { clock: "time:[2]".into(), ..boot_of("first") };
    let fault = OpenStore::open(folder.path(), &other, None).unwrap_err();
    assert!(fault.to_string().contains("another clock (a time namespace)"), "{fault}");
}

/// Two machines that share a folder have different boots, and each would void the other's locks.
#[test]
fn use_of_a_folder_by_another_machine_is_detected() {
    let folder = tempfile::tempdir().unwrap();
    let mut here = OpenStore::open(folder.path(), &boot_of("here"), None).unwrap();
    attach(&mut here, 1);
    drop(OpenStore::open(folder.path(), &boot_of("there"), None).unwrap());
    let fault = here.transact(|_, _| Ok(())).unwrap_err();
    assert!(names_another_machine(&fault), "{fault}");
}

/// Otherwise two machines would take turns, and each would end the locks of the other.
#[test]
fn folder_that_another_machine_uses_is_not_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let here = OpenStore::open(folder.path(), &boot_of("here"), None).unwrap();
    let had = here.db_id();
    drop(here);
    drop(OpenStore::open(folder.path(), &boot_of("there"), None).unwrap());
    let fault = OpenStore::open(folder.path(), &boot_of("here"), had).unwrap_err();
    assert!(names_another_machine(&fault), "{fault}");
    drop(OpenStore::open(folder.path(), &boot_of("there"), None).unwrap());

    // A restored backup of an earlier boot is another file.
    let (db, backup) = (folder.path().join("locks.db"), folder.path().join("backup"));
    std::fs::copy(&db, &backup).unwrap();
    std::fs::rename(&backup, &db).unwrap();
    drop(OpenStore::open(folder.path(), &boot_of("here"), had).unwrap());
}

fn names_another_machine(fault: &Fault) -> bool {
    fault.to_string().contains("another machine uses it")
}

#[test]
fn horizon_is_on_the_disk_before_the_time_reaches_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut open_store = OpenStore::open(folder.path(), &boot_of("first"), None).unwrap();
    open_store.transact(|_, _| Ok(())).unwrap();
    // As if the process had been stopped for an hour: the time has passed the horizon.
    let now = open_store.era.time(Clock::Boot.now());
    open_store.era.horizon_us = now.as_micros() - 1;
    let tx = open_store.db.begin(Durability::Disk).unwrap();
    tx.save_era(&open_store.era, now).unwrap();
    tx.commit().unwrap();
    open_store.transact(|_, _| Ok(())).unwrap();
    let tx = open_store.db.begin(Durability::Lazy).unwrap();
    let (stored, _) = tx.era().unwrap().unwrap();
    assert!(!stored.is_horizon_near(now) && stored == open_store.era, "{stored:?}");
}

#[test]
fn failed_transaction_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut open_store = OpenStore::open(folder.path(), &boot_of("first"), None).unwrap();
    attach(&mut open_store, 1);
    let failed = open_store.transact(|transaction, now| {
        assert!(matches!(transaction.run(now, &ask(1, false))?, Reply::Granted { .. }));
        Err::<(), _>(Fault::new(Path::new("here"), "no"))
    });
    assert_eq!(failed.unwrap_err().to_string(), "here: no");
    let read_key = Command::ReadKey { name: name() };
    let seen =
        open_store.transact(|transaction, now| transaction.run(now, &read_key)).unwrap().value;
    assert_eq!(seen, Reply::Key(None));
}

#[test]
fn removed_or_replaced_file_is_detected() {
    for gone in ["locks.db", "lock", "sockets", ""] {
        let above = tempfile::tempdir().unwrap();
        let path = above.path().join("locks");
        let mut open_store = OpenStore::open(&path, &boot_of("first"), None).unwrap();
        open_store.transact(|_, _| Ok(())).unwrap();
        // Moved and not deleted, so that the new file has another number.
        std::fs::rename(path.join(gone), above.path().join("old")).unwrap();
        let fault = open_store.transact(|_, _| Ok(())).unwrap_err();
        assert!(fault.to_string().contains("it was removed or replaced"), "{fault}");
        let mut next = OpenStore::open(&path, &boot_of("first"), None).unwrap();
        next.transact(|_, _| Ok(())).unwrap();
        assert!(
            open_store.transact(|_, _| Ok(())).is_err(),
            "{gone:?}: other processes use another file"
        );
    }
}

/// No other process would read a log that was removed.
#[test]
fn removed_or_replaced_log_is_detected() {
    for gone in [&["locks.db-wal"][..], &["locks.db-shm"], &["locks.db-wal", "locks.db-shm"]] {
        let above = tempfile::tempdir().unwrap();
        let path = above.path().join("locks");
        let mut open_store = OpenStore::open(&path, &boot_of("first"), None).unwrap();
        attach(&mut open_store, 1);
        assert!(matches!(acquire(&mut open_store, 1, false), Reply::Granted { .. }));
        gone.iter().for_each(|file| std::fs::remove_file(path.join(file)).unwrap());
        let is_noticed = |fault: Fault| fault.to_string().contains("it was removed or replaced");
        assert!(is_noticed(open_store.transact(|_, _| Ok(())).unwrap_err()), "{gone:?}");
        // Its process would get the old index again while another client there has it open.
        assert!(
            is_noticed(OpenStore::open(&path, &boot_of("first"), None).unwrap_err()),
            "{gone:?}"
        );
        assert!(is_noticed(open_store.transact(|_, _| Ok(())).unwrap_err()), "{gone:?}");
        drop(open_store);
        let mut next = OpenStore::open(&path, &boot_of("first"), None).unwrap();
        attach(&mut next, 2);
        let reply = acquire(&mut next, 2, false);
        match gone {
            ["locks.db-shm"] => assert!(matches!(reply, Reply::Queued { .. }), "nothing is lost"),
            _ => assert!(matches!(reply, Reply::Granted { .. }), "{reply:?}"),
        }
    }
}

#[test]
fn link_that_was_changed_is_detected() {
    let above = tempfile::tempdir().unwrap();
    let (link, one, other) =
        (above.path().join("link"), above.path().join("one"), above.path().join("other"));
    drop(OpenStore::open(&other, &boot_of("first"), None).unwrap());
    std::fs::create_dir(&one).unwrap();
    std::os::unix::fs::symlink(&one, &link).unwrap();
    let mut open_store = OpenStore::open(&link, &boot_of("first"), None).unwrap();
    open_store.transact(|_, _| Ok(())).unwrap();
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(&other, &link).unwrap();
    let fault = open_store.transact(|_, _| Ok(())).unwrap_err();
    assert_eq!(
        fault.to_string(),
        format!("{}: it was removed or replaced while it was in use", link.display())
    );
    OpenStore::open(&link, &boot_of("first"), None).unwrap().transact(|_, _| Ok(())).unwrap();
}

#[test]
fn path_that_is_too_long_is_reported_and_the_longest_can_be_used() {
    let above = tempfile::tempdir().unwrap();
    let above = above.path().canonicalize().unwrap();
    let of_len = |len: usize| {
        let middle = above.join("d".repeat(200));
        let rest = len - middle.as_os_str().len() - 1;
        let (first, last) = (rest / 2, rest - rest / 2 - 1);
        middle.join("e".repeat(first)).join("f".repeat(last))
    };
    let longest = of_len(495);
    assert_eq!(longest.as_os_str().len(), 495);
    let mut open_store = OpenStore::open(&longest, &boot_of("first"), None).unwrap();
    open_store.transact(|_, _| Ok(())).unwrap();
    let longer = of_len(496);
    let expected = "the path of the folder is too long: 496 bytes, 495 at most";
    let fault = OpenStore::open(&longer, &boot_of("first"), None).unwrap_err();
    assert_eq!(fault.to_string(), format!("{}: {expected}", longer.display()));
    // The length counts after links are followed.
    let link = above.join("link");
    std::os::unix::fs::symlink(&longer, &link).unwrap();
    let fault = OpenStore::open(&link, &boot_of("first"), None).unwrap_err();
    assert_eq!(fault.to_string(), format!("{}: {expected}", link.display()));
}

#[test]
fn link_to_a_database_is_rejected() {
    let above = tempfile::tempdir().unwrap();
    let (path, elsewhere) = (above.path().join("locks"), above.path().join("elsewhere.db"));
    drop(OpenStore::open(&path, &boot_of("first"), None).unwrap());
    std::fs::rename(path.join("locks.db"), &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, path.join("locks.db")).unwrap();
    let fault = OpenStore::open(&path, &boot_of("first"), None).unwrap_err();
    assert!(fault.to_string().contains("it is a link"), "{fault}");
}

fn boot_of(id: &str) -> Boot {
    Boot { id: id.into(), clock: "time:[1]".into() }
}

fn client(byte: u8) -> ClientId {
    ClientId::from_random([byte; 20])
}

fn sender(byte: u8) -> Sender {
    Sender { client: client(byte), session: Session::from_random(byte.into()) }
}

fn name() -> Name {
    Name::parse("a", "").unwrap()
}

/// The owner of a client. Its ticket is so old that it does not affect fences.
fn owner(byte: u8) -> Owner {
    Position { ticket: byte.into(), ttl_ms: 60_000, client: client(byte) }.owner(1)
}

fn ask(byte: u8, is_waiting: bool) -> Command {
    let ask = AcquireRequest { name: name(), owner: owner(byte), is_waiting, is_known: false };
    Command::Acquire { sender: sender(byte), request: ask }
}

fn acquire(open_store: &mut OpenStore, byte: u8, is_waiting: bool) -> Reply {
    open_store
        .transact(|transaction, now| transaction.run(now, &ask(byte, is_waiting)))
        .unwrap()
        .value
}

fn attach(open_store: &mut OpenStore, byte: u8) {
    let (sender, terms) = (sender(byte), SessionTerms::without_membership(60_000));
    let attached = open_store
        .transact(|transaction, now| transaction.run(now, &Command::Attach { sender, terms }));
    assert!(matches!(attached.unwrap().value, Reply::Attached { .. }));
}
