//! The command of Quorate.

/// Many threads of the service allocate what others free. The allocators of C libraries take locks
/// for that, and musl's is slow altogether.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    quorate_cli::run()
}
