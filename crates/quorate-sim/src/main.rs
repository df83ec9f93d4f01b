//! The simulator's command.

use std::process::ExitCode;

fn main() -> ExitCode {
    quorate_sim::cli::run()
}
