//! The scripts of the library as a server takes them, read from their files.

use std::{fs, path::Path};

/// The text of a script, such as `queue/acquire.lua`, with the parts that it names.
///
/// # Panics
///
/// If there is no such file.
#[must_use]
pub fn script(path: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../quorate/lua");
    let read = |path: &str| {
        fs::read_to_string(folder.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    };
    let line = |line: &str| match line.strip_prefix("-- parts: ") {
        Some(names) => {
            names.split(", ").map(|name| read(&format!("queue/parts/{name}.lua"))).collect()
        }
        None => format!("{line}\n"),
    };
    read(path).lines().map(line).collect()
}
