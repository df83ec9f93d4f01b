//! The command of Quorate.

fn main() -> std::process::ExitCode {
    quorate_cli::run()
}
