//! The rules hold for this repository.

use std::path::Path;

#[test]
fn repository_is_tidy() {
    let package = std::env::var("CARGO_MANIFEST_DIR").unwrap();
    let root = Path::new(&package).parent().unwrap();
    let faults = xtask::tidy::faults(root);
    let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "{} faults:\n{}", lines.len(), lines.join("\n"));
}

#[test]
fn folder_without_files_does_not_pass_for_a_tidy_one() {
    let found = xtask::tidy::faults(Path::new("no/such/folder"));
    assert_eq!(found[0].to_string(), ".:1: no files below no/such/folder");
}
