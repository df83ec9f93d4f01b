//! Benchmarks against real servers. Everything is compared within one run, as ratios, with the
//! contestants taking turns, since absolute figures differ from machine to machine.
//!
//! The client has the first core and all servers share the second one.

mod bare;
mod direct;
mod faults;
mod handoff;
mod limit;
mod multiplexed;
mod scripts;
mod service;
mod setup;
mod several;
mod start;
mod table;
mod waiters;
mod watchdog;

fn main() -> std::process::ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let quick = args.iter().any(|arg| arg == "--quick");
    setup::pin_client();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("the runtime can be built");
    let local = tokio::task::LocalSet::new();
    let nodes: Vec<usize> = args.iter().filter_map(|arg| arg.parse().ok()).collect();
    match args.first().map(String::as_str) {
        Some("limit") => local.block_on(&runtime, limit::run(quick, &nodes)),
        Some("faults") => local.block_on(&runtime, faults::run(quick)),
        Some("handoff") => local.block_on(&runtime, handoff::run(quick, &nodes)),
        Some("scripts") => scripts::run(quick),
        Some("service") => local.block_on(&runtime, service::run(quick, &nodes)),
        Some("several") => local.block_on(&runtime, several::run(quick, &nodes)),
        Some("start") => start::run(quick),
        Some("waiters") => local.block_on(&runtime, waiters::run(quick)),
        Some("watchdog") => local.block_on(&runtime, watchdog::run(quick)),
        _ => {
            table::line("usage: quorate-bench NAME [NODES…] [--quick]");
            let names =
                "faults, handoff, limit, scripts, service, several, start, waiters, watchdog";
            table::line(&format!("NAME: {names}"));
            return std::process::ExitCode::from(64);
        }
    }
    std::process::ExitCode::SUCCESS
}
