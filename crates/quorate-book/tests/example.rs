//! The program that the page about the library shows is the example of the same name.

use std::{env, fs, path::Path};

#[test]
fn page_shows_the_example() {
    let package = env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let root = Path::new(&package).join("../..");
    let read = |path: &str| fs::read_to_string(root.join(path)).expect("it is there");
    let example = read("crates/quorate/examples/fenced_database.rs");
    let (_, program) = example.split_once("\n\n").expect("the file begins with its purpose");
    // A reader has no lint against output.
    let is_shown = |line: &&str| !line.starts_with("#[expect(clippy::print_stdout");
    let program: Vec<&str> = program.lines().filter(is_shown).collect();
    assert!(read("docs/library.md").contains(&program.join("\n")));
}
