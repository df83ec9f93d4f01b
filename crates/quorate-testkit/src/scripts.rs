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
    let path = folder.join(path);
    let text =
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let line = |line: &str| match line.strip_prefix("-- parts: ") {
        // A part can have parts of its own.
        Some(names) => {
            names.split(", ").map(|name| script(&format!("queue/parts/{name}.lua"))).collect()
        }
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}
