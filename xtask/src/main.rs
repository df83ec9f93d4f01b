//! `cargo xtask VERB`: hands the arguments to the library, which knows the verbs.

use std::process::ExitCode;

fn main() -> ExitCode {
    xtask::run(std::env::args().skip(1))
}
