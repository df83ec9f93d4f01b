//! The command of Quorate.

mod cli;
mod exit;
mod lease;
mod look;
mod nodes;
mod paper;
mod run;
mod settings;
mod table;
mod time;
mod voice;

fn main() -> std::process::ExitCode {
    cli::run()
}
