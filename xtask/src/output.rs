//! The only place that writes to the terminal.

use std::io::{self, Write};

/// One line on standard output.
pub(crate) fn say(line: impl AsRef<str>) {
    // Unit tests are part of what `ci` runs; their lines would look like steps of it.
    if cfg!(test) {
        return;
    }
    // A closed pipe (`cargo xtask tidy | head`) is no reason to fail.
    let _ = writeln!(io::stdout().lock(), "{}", line.as_ref());
}

/// All that a program printed, and a line about it, with nothing in between.
pub(crate) fn show(text: &[u8], line: &str) {
    if cfg!(test) {
        return;
    }
    let mut out = io::stdout().lock();
    let _ = out.write_all(text).and_then(|()| writeln!(out, "{line}"));
}

/// One message on standard error.
pub(crate) fn complain(message: impl AsRef<str>) {
    let _ = writeln!(io::stderr().lock(), "xtask: {}", message.as_ref());
}
