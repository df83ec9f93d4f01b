//! Changes of the set of nodes, one seed after the other.

use std::{collections::BTreeMap, io, process::ExitCode, time::Instant};

use clap::Args;
use quorate_core::mutant::{self, Mutant};

use super::say;
use crate::{
    catalogue,
    members::{self, directed},
};

#[derive(Args, Debug)]
pub(super) struct Changes {
    /// How many seeds to run.
    #[arg(long, default_value_t = 2_000)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Run only this seed, and show what happens.
    #[arg(long)]
    seed: Option<u64>,
    /// Continue after a violation, and count the violations.
    #[arg(long)]
    count: bool,
    /// Switch on a deliberate bug.
    #[arg(long, value_parser = catalogue::find_in_core)]
    mutant: Option<Mutant>,
}

impl Changes {
    pub(super) fn run(&self) -> io::Result<ExitCode> {
        mutant::switch(self.mutant);
        if let Some(seed) = self.seed {
            return show(seed);
        }
        for (_, schedule) in directed::SCHEDULES {
            if let Err(seen) = schedule() {
                say(&format!("a directed schedule: {seen}"))?;
                return Ok(ExitCode::FAILURE);
            }
        }
        let started = Instant::now();
        let (mut holds, mut changes, mut bad) = (0, 0, 0_u64);
        let mut needs: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for seed in self.from..self.from + self.seeds {
            let report = members::run(seed, false);
            holds += report.holds;
            changes += report.changes.saturating_sub(1);
            if let Some(why) = report.needs {
                needs.entry(why.chars().take(60).collect()).or_insert((0, seed)).0 += 1;
            }
            if let Some(violation) = report.violation {
                bad += 1;
                say(&format!("seed {seed}: {violation}"))?;
                if !self.count {
                    return Ok(ExitCode::FAILURE);
                }
            }
        }
        let spent = started.elapsed();
        say(&format!(
            "{} seeds in {spent:.1?}: {holds} holds, {changes} changes, {bad} violations",
            self.seeds
        ))?;
        for (why, (count, seed)) in needs {
            say(&format!("{count} needed an operator, first seed {seed}: {why}"))?;
        }
        Ok(if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn show(seed: u64) -> io::Result<ExitCode> {
    let report = members::run(seed, true);
    say(report.to_string().trim_end())?;
    Ok(if report.violation.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
