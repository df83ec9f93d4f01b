//! Folders that cannot be used: the client is not built, and the error gives the path, the reason,
//! and what to do.

use std::{
    fs::{self, DirBuilder, Permissions},
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::Path,
};

use quorate::{Client, error::ConfigError};
use rusqlite::Connection;

use super::outside::Folder;

#[test]
fn file_instead_of_a_folder_is_refused() {
    let folder = Folder::new();
    fs::write(folder.path(), "").unwrap();
    refused(&folder, &folder.path(), "it is a file: a folder is needed there");
    let below = folder.path().join("below");
    let error = Client::builder().local(&below).build().unwrap_err();
    assert!(error.to_string().contains("the folder cannot be made"), "{error}");
}

#[test]
fn folder_that_every_user_can_write_to_is_refused() {
    let folder = Folder::new();
    fs::create_dir(folder.path()).unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
    refused(&folder, &folder.path(), "every user can write there");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was written");
}

#[test]
fn file_that_is_no_database_is_refused() {
    let folder = Folder::new();
    DirBuilder::new().mode(0o700).create(folder.path()).unwrap();
    fs::write(folder.db(), "my notes, which are longer than nothing\n".repeat(99)).unwrap();
    refused(&folder, &folder.db(), "it is damaged, or not a database of Quorate");
    assert!(fs::read_to_string(folder.db()).unwrap().starts_with("my notes"), "left as it was");
}

#[test]
fn database_of_another_application_is_refused() {
    let folder = Folder::new();
    DirBuilder::new().mode(0o700).create(folder.path()).unwrap();
    let other = Connection::open(folder.db()).unwrap();
    other.execute_batch("CREATE TABLE songs (title TEXT)").unwrap();
    drop(other);
    let before = fs::read(folder.db()).unwrap();
    refused(&folder, &folder.db(), "it is the database of another application");
    assert_eq!(fs::read(folder.db()).unwrap(), before, "left as it was");
}

#[test]
fn newer_version_is_refused() {
    let folder = used();
    folder.open().pragma_update(None, "user_version", 2).unwrap();
    refused(&folder, &folder.db(), "it has version 2, but this program needs version 1");
}

#[test]
fn damaged_file_is_refused() {
    let folder = used();
    let connection = folder.open();
    connection.pragma_update(None, "wal_checkpoint", "TRUNCATE").unwrap();
    drop(connection);
    // All but the first page, which identifies the file.
    let mut bytes = fs::read(folder.db()).unwrap();
    bytes[4_096..].fill(0xa5);
    fs::write(folder.db(), bytes).unwrap();
    refused(&folder, &folder.db(), "it is damaged, or not a database of Quorate");
}

#[test]
fn missing_tables_are_refused() {
    let folder = used();
    folder.open().execute_batch("DROP TABLE clients").unwrap();
    refused(&folder, &folder.db(), "no such table: clients");
}

#[test]
fn unsupported_settings_are_refused() {
    let folder = Folder::new();
    let error = folder.builder().quarantine(true).build().unwrap_err();
    assert!(error.to_string().contains("is not quarantined"), "{error}");
    let error = folder.builder().danger_engine_on_this_runtime().build().unwrap_err();
    assert!(error.to_string().contains("which cannot be paused"), "{error}");
    assert!(!folder.path().exists(), "nothing was written");
}

/// A folder that was used earlier.
fn used() -> Folder {
    let folder = Folder::new();
    drop(folder.builder().build().expect("it can be used"));
    folder
}

fn refused(folder: &Folder, at: &Path, expected: &str) {
    let error = folder.builder().build().unwrap_err();
    assert!(matches!(&error, ConfigError::Local { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains(expected) && text.contains(at.to_str().unwrap()), "{text}");
}
