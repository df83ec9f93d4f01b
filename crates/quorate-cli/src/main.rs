//! The command of Quorate.

mod cli;
mod exit;
mod nodes;
mod time;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
