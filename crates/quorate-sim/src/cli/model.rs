//! The exhaustive model, row by row.

use std::{io, process::ExitCode};

use clap::Args;

use super::say;
use crate::{
    catalogue::{self, Door, Entry},
    model::{self, Report},
};

#[derive(Args, Debug)]
pub(super) struct Search {
    /// The rows that take minutes, too.
    #[arg(long)]
    full: bool,
    /// One row alone.
    #[arg(long, value_name = "NAME")]
    row: Option<String>,
    /// Switch on a deliberate bug of the core.
    #[arg(long, value_parser = catalogue::find)]
    mutant: Option<&'static Entry>,
}

impl Search {
    pub(super) fn run(&self) -> io::Result<ExitCode> {
        let mutant = match self.mutant.map(|entry| entry.door) {
            Some(Door::Core(mutant)) => Some(mutant),
            Some(Door::StoppedClock) => {
                say("that mutant is not in the core: it is for worlds only")?;
                return Ok(ExitCode::from(64));
            }
            None => None,
        };
        let rows = model::all().into_iter().filter(|row| match &self.row {
            Some(name) => row.about().name == name,
            None => self.full || !row.about().is_full,
        });
        let reports: Vec<Report> = rows.map(|row| model::run(&row.with_mutant(mutant))).collect();
        if reports.is_empty() {
            say("there is no such row")?;
            return Ok(ExitCode::from(64));
        }
        say(&model::table(&reports))?;
        let wrong: Vec<&Report> = reports.iter().filter(|it| !it.is_as_expected()).collect();
        for report in &wrong {
            say(&report.to_string())?;
        }
        Ok(if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
