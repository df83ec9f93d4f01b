//! Messages on standard error. Standard output belongs to the command that is run.

use std::{
    ffi::OsStr,
    io::{self, IsTerminal as _, Write as _},
    os::fd::AsFd,
    sync::atomic::{AtomicBool, Ordering},
};

use clap::{Args, ValueEnum};
use rustix::termios;
use serde_json::json;

use crate::table::is_dumb;

/// How many messages are written, and in which format.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Reporter {
    /// Report when the lock was acquired, with which fence, and who held it before
    #[arg(short, long, conflicts_with = "quiet")]
    verbose: bool,
    /// Report only errors, and not that the lock is held
    #[arg(short, long)]
    quiet: bool,
    /// Format of messages on standard error
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
enum LogFormat {
    /// Lines for people
    #[default]
    Text,
    /// One JSON object per line
    Json,
}

impl Reporter {
    /// The reporter of a command whose only setting for messages is `--quiet`.
    pub(crate) fn of_quiet(quiet: bool) -> Self {
        Self { quiet, ..Self::default() }
    }

    /// The name of the format, for another process of this program.
    pub(crate) const fn format_name(&self) -> &'static str {
        match self.log_format {
            LogFormat::Text => "text",
            LogFormat::Json => "json",
        }
    }

    /// The reporter for the name of a format.
    pub(crate) fn from_format_name(name: &OsStr) -> Self {
        let is_json = name == "json";
        let log_format = if is_json { LogFormat::Json } else { LogFormat::Text };
        Self { log_format, ..Self::default() }
    }

    /// Written only with `--verbose`.
    pub(crate) fn detail(&self, text: &str) {
        if self.verbose {
            self.write("info", text);
        }
    }

    /// Written unless `--quiet` is given.
    pub(crate) fn warn(&self, text: &str) {
        if !self.quiet {
            self.write("warning", text);
        }
    }

    /// Written for people who watch: on a terminal, or with `--verbose`.
    pub(crate) fn note(&self, text: &str) {
        if self.verbose || !self.quiet && io::stderr().is_terminal() {
            self.write("warning", text);
        }
    }

    /// That work continues, for readers of a log. Written unless `--quiet` is given.
    pub(crate) fn progress(&self, text: &str) {
        if !self.quiet {
            self.write("info", text);
        }
    }

    /// That another owner holds the lock. Written unless `--quiet` is given: the exit code says so.
    pub(crate) fn conflict(&self, text: &str) {
        if !self.quiet {
            self.write("error", text);
        }
    }

    /// Always written.
    pub(crate) fn error(&self, text: &str) {
        self.write("error", text);
    }

    pub(crate) const fn is_verbose(&self) -> bool {
        self.verbose
    }

    /// Whether a person reads standard error on a terminal.
    pub(crate) fn is_interactive(&self) -> bool {
        let is_for_people = !self.quiet && self.log_format == LogFormat::Text;
        is_for_people && io::stderr().is_terminal() && !is_dumb()
    }

    /// Replaces the last status line on an interactive terminal, and is never wider than that. An
    /// empty text only clears it. Output of other programs stays.
    pub(crate) fn status(&self, text: &str) {
        self.status_of([text.to_owned()]);
    }

    /// The same with the first of several texts that fits into the terminal.
    pub(crate) fn status_of(&self, texts: impl IntoIterator<Item = String>) {
        if !self.is_interactive() {
            return;
        }
        let text = first_fitting(texts, columns());
        let is_shown = IS_STATUS_SHOWN.swap(!text.is_empty(), Ordering::Relaxed);
        if is_shown || !text.is_empty() {
            // Losing the terminal is not an error.
            let _ = write!(io::stderr(), "\r\x1b[2K{text}");
        }
    }

    fn write(&self, level: &str, text: &str) {
        let line = match self.log_format {
            LogFormat::Text => format!("quorate: {text}"),
            LogFormat::Json => json!({ "level": level, "message": text }).to_string(),
        };
        let is_shown = IS_STATUS_SHOWN.swap(false, Ordering::Relaxed);
        let clear = if is_shown { "\r\x1b[2K" } else { "" };
        // A closed standard error is not an error.
        let _ = writeln!(io::stderr(), "{clear}{line}");
    }
}

/// The width of the terminal that shows standard error.
pub(crate) fn columns() -> usize {
    columns_of(io::stderr())
}

/// The width of the terminal that shows this output.
pub(crate) fn columns_of(output: impl AsFd) -> usize {
    let size = termios::tcgetwinsize(output);
    size.ok().map(|size| size.ws_col.into()).filter(|columns| *columns > 0).unwrap_or(COLUMNS)
}

/// The first of these texts that fits into a line, or the start of the last one.
pub(crate) fn first_fitting(texts: impl IntoIterator<Item = String>, columns: usize) -> String {
    let mut last = String::new();
    for text in texts {
        if width(&text) < columns {
            return text;
        }
        last = text;
    }
    fitting(&last, columns)
}

/// A character outside of ASCII takes up to two columns.
fn width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

const fn char_width(c: char) -> usize {
    if c.is_ascii() { 1 } else { 2 }
}

/// The start of a text that fits into a line. The last column stays empty: some terminals go on to
/// the next line when it is written.
pub(crate) fn fitting(text: &str, columns: usize) -> String {
    let room = columns.saturating_sub(1);
    if width(text) <= room {
        return text.to_owned();
    }
    let mut left = room.saturating_sub(DOTS.len());
    let fits = |c: &char| {
        let rest = left.checked_sub(char_width(*c));
        left = rest.unwrap_or(0);
        rest.is_some()
    };
    let start: String = text.chars().take_while(fits).collect();
    format!("{start}{}", &DOTS[..DOTS.len().min(room)])
}

const DOTS: &str = "...";

/// The width of a terminal that does not report its width.
const COLUMNS: usize = 80;

/// Whether a status line is shown that the next message must clear.
static IS_STATUS_SHOWN: AtomicBool = AtomicBool::new(false);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shorter_text_replaces_a_text_that_does_not_fit() {
        let texts = || ["123456789".to_owned(), "12345".to_owned()];
        assert_eq!(first_fitting(texts(), 10), "123456789");
        assert_eq!(first_fitting(texts(), 9), "12345");
        assert_eq!(first_fitting(texts(), 5), "1...");
    }

    #[test]
    fn status_lines_are_narrower_than_the_terminal() {
        assert_eq!(fitting("123456789", 10), "123456789");
        assert_eq!(fitting("1234567890", 10), "123456...");
        assert_eq!(fitting("üüüüüüüüü", 10), "üüü...");
        assert_eq!(fitting("1234567890", 3), "..");
        assert_eq!(fitting("1234567890", 0), "");
    }
}
