//! The exhaustive model, row by row.

use std::{io, process::ExitCode};

use clap::Args;
use quorate_core::mutant::Mutant;

use super::say;
use crate::{
    catalogue,
    model::{self, Report},
};

#[derive(Args, Debug)]
pub(super) struct Search {
    /// Include the rows that take minutes.
    #[arg(long)]
    full: bool,
    /// Search only this row.
    #[arg(long, value_name = "NAME")]
    row: Option<String>,
    /// Switch on a deliberate bug of the core.
    #[arg(long, value_parser = catalogue::find_in_core)]
    mutant: Option<Mutant>,
}

impl Search {
    pub(super) fn run(&self) -> io::Result<ExitCode> {
        let rows = model::all().into_iter().filter(|row| match &self.row {
            Some(name) => row.about().name == name,
            None => self.full || !row.about().is_full,
        });
        let reports: Vec<Report> =
            rows.map(|row| model::run(&row.with_mutant(self.mutant))).collect();
        if reports.is_empty() {
            let name = self.row.as_deref().unwrap_or_default();
            say(&format!("unknown row `{name}`: docs/simulation.md explains the names"))?;
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
