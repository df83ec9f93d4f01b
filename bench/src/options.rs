//! What is measured, as given on the command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// Benchmarks against real servers, as ratios within one run.
#[derive(Debug, Parser)]
#[command(name = "quorate-bench")]
pub(crate) struct Options {
    pub(crate) name: Name,
    /// Numbers of nodes [default: 1 3 5]
    pub(crate) nodes: Vec<usize>,
    /// Few and short rounds
    #[arg(long)]
    pub(crate) quick: bool,
    /// The program that `count` runs [default: quorate-workload beside this program]
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) workload: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) limit: LimitOptions,
}

/// Options of `limit`.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Options of limit")]
pub(crate) struct LimitOptions {
    /// Numbers of callers
    #[arg(long, value_delimiter = ',', default_values_t = [1, 64, 512])]
    pub(crate) callers: Vec<usize>,
    /// Modes of quorate
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = MODES)]
    pub(crate) mode: Vec<Mode>,
    /// Time for each contestant, for each number of nodes and callers
    #[arg(long)]
    pub(crate) seconds: Option<f64>,
    /// Compare no other clients: no bare client, redis crate or rslock
    #[arg(long)]
    pub(crate) alone: bool,
    /// Another build of this program: its quorate takes turns with this one
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) against: Option<PathBuf>,
    /// The servers of a `contestant`
    #[arg(long, value_delimiter = ',', hide = true)]
    pub(crate) servers: Vec<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Name {
    /// What `limit --against` starts
    #[value(hide = true)]
    Contestant,
    /// Instructions, commands and memory, with bounds
    Count,
    Faults,
    Handoff,
    Limit,
    Scripts,
    Service,
    Several,
    Start,
    Waiters,
    Watchdog,
}

/// How quorate is used.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Mode {
    Default,
    /// With quarantine
    Classic,
    ClassicNoQuarantine,
}

impl Mode {
    /// Whether it uses quarantine with this number of nodes.
    pub(crate) const fn has_quarantine(self, nodes: usize) -> bool {
        match self {
            Self::Default => nodes >= 3,
            Self::Classic => true,
            Self::ClassicNoQuarantine => false,
        }
    }

    /// As on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|it| it.get_name().to_owned()).unwrap_or_default()
    }
}

impl Options {
    /// The program that `count` runs.
    pub(crate) fn workload(&self) -> PathBuf {
        self.workload.clone().unwrap_or_else(|| {
            let this = std::env::current_exe().expect("Linux knows the program");
            this.with_file_name("quorate-workload")
        })
    }

    /// One, three and five if none is given.
    pub(crate) fn nodes(&self) -> &[usize] {
        if self.nodes.is_empty() { &[1, 3, 5] } else { &self.nodes }
    }
}

const MODES: [Mode; 3] = [Mode::Default, Mode::Classic, Mode::ClassicNoQuarantine];
