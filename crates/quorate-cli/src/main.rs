//! The command of Quorate.

/// Threads of the service free memory that other threads allocated. The allocators of C libraries
/// take locks for that, and musl's is slow in general.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    quorate_cli::run()
}
