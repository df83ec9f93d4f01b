//! Benchmarks against real servers. Everything is compared within one run, as ratios, with the
//! contestants taking turns, since absolute figures differ from machine to machine.
//!
//! The client has the first core and all servers share the second one.

mod bare;
mod bare_extend;
mod count;
mod cpu;
mod direct;
mod faults;
mod handoff;
mod limit;
mod memory;
mod multiplexed;
mod options;
mod scripts;
mod service;
mod setup;
mod several;
mod start;
mod table;
mod waiters;
mod watchdog;

use std::process::ExitCode;

use clap::{Parser as _, error::ErrorKind};

use crate::options::{Name, Options};

fn main() -> ExitCode {
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(why) => return refuse(&why),
    };
    setup::pin_client();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("the runtime can be built");
    let local = tokio::task::LocalSet::new();
    let (quick, nodes) = (options.quick, options.nodes());
    match options.name {
        Name::Count => return local.block_on(&runtime, count::run(&options.workload())),
        Name::Contestant => local.block_on(&runtime, limit::contestant(&options.limit)),
        Name::Faults => local.block_on(&runtime, faults::run(quick)),
        Name::Handoff => local.block_on(&runtime, handoff::run(quick, nodes)),
        Name::Limit => local.block_on(&runtime, limit::run(&options)),
        Name::Scripts => scripts::run(quick),
        Name::Service => local.block_on(&runtime, service::run(quick, &options.nodes)),
        Name::Several => local.block_on(&runtime, several::run(quick, nodes)),
        Name::Start => start::run(quick),
        Name::Waiters => local.block_on(&runtime, waiters::run(quick)),
        Name::Watchdog => local.block_on(&runtime, watchdog::run(quick)),
    }
    ExitCode::SUCCESS
}

/// Prints what is wrong with the arguments, or the help.
fn refuse(why: &clap::Error) -> ExitCode {
    // A closed pipe is no reason to panic.
    let _ = why.print();
    match why.kind() {
        ErrorKind::DisplayHelp => ExitCode::SUCCESS,
        _ => ExitCode::from(64),
    }
}
