//! The command `quorate`, as a library with a thin `main.rs`. It has no other users, and its
//! interface can change at any time.

mod cli;
mod docs;
mod doctor;
mod error_format;
mod exit;
mod inspect;
mod lease;
mod nodes;
mod progress;
mod quorum;
mod reporter;
mod run;
mod runtime;
mod serve;
mod settings;
mod table;
mod time;
mod token;
mod up;
mod who;

/// Runs the command that the arguments of this process select, and returns its exit code.
pub fn run() -> std::process::ExitCode {
    cli::run()
}
