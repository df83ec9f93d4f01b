//! What is said on standard error. Standard output belongs to the command that is run.

use std::{
    ffi::OsStr,
    io::{self, IsTerminal as _, Write as _},
    sync::atomic::{AtomicBool, Ordering},
};

use clap::{Args, ValueEnum};
use serde_json::json;

use crate::table::is_dumb;

/// How much is said, and in which form.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Voice {
    /// Says more: when the lock was acquired, with which fence, and who had it before.
    #[arg(short, long, conflicts_with = "quiet")]
    verbose: bool,
    /// Says nothing but errors.
    #[arg(short, long)]
    quiet: bool,
    /// How messages on standard error are written.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl Voice {
    /// What another part of this program has to be told to write in the same form.
    pub(crate) const fn form(&self) -> &'static str {
        match self.log_format {
            LogFormat::Text => "text",
            LogFormat::Json => "json",
        }
    }

    /// That of a part which was told so.
    pub(crate) fn of_form(form: &OsStr) -> Self {
        let is_json = form == "json";
        let log_format = if is_json { LogFormat::Json } else { LogFormat::Text };
        Self { log_format, ..Self::default() }
    }

    /// Told with `--verbose` only.
    pub(crate) fn detail(&self, text: &str) {
        if self.verbose {
            self.write("info", text);
        }
    }

    /// Told unless `--quiet` is given.
    pub(crate) fn warn(&self, text: &str) {
        if !self.quiet {
            self.write("warning", text);
        }
    }

    /// Always told.
    pub(crate) fn error(&self, text: &str) {
        self.write("error", text);
    }

    pub(crate) const fn is_verbose(&self) -> bool {
        self.verbose
    }

    /// Whether there is somebody who reads along.
    pub(crate) fn is_watched(&self) -> bool {
        let is_for_people = !self.quiet && self.log_format == LogFormat::Text;
        is_for_people && io::stderr().is_terminal() && !is_dumb()
    }

    /// Puts a line where the last one of these was, for somebody who reads along. Nothing takes
    /// the last one away; what others have written there stays.
    pub(crate) fn status(&self, text: &str) {
        if !self.is_watched() {
            return;
        }
        let is_shown = IS_STATUS_SHOWN.swap(!text.is_empty(), Ordering::Relaxed);
        if is_shown || !text.is_empty() {
            // A terminal that is gone is no reason to fail.
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
        // Standard error that is closed is no reason to fail.
        let _ = writeln!(io::stderr(), "{clear}{line}");
    }
}

/// A line stands on the terminal that is to be overwritten.
static IS_STATUS_SHOWN: AtomicBool = AtomicBool::new(false);
