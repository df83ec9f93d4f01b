//! The command `quorate`. This is a library with a thin `main.rs`; only that one uses it, and
//! nothing in it is promised to anybody else.

mod cli;
mod exit;
mod lease;
mod look;
mod nodes;
mod paper;
mod run;
mod runtime;
mod serve;
mod settings;
mod table;
mod time;
mod token;
mod voice;
mod wish;

/// Does what the arguments of this process say, and tells how it ended.
pub fn run() -> std::process::ExitCode {
    cli::run()
}
