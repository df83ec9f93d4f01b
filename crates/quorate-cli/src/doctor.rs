//! `quorate doctor`: looks for faults of the nodes and of the settings, and names the remedies. It
//! changes nothing on the nodes.

mod certificates;
mod check;
mod clocks;
mod folder;
mod gather;
mod observed;
mod output;
mod rights;
mod servers;
mod set;
mod style;
#[cfg(test)]
mod tests;

use clap::Args;

use self::{check::Diagnosis, output::Report};
use crate::{
    cli::{Output, print},
    exit::{FAULT, Failure},
    reporter::Reporter,
    settings::NodeArgs,
};

#[derive(Args, Debug)]
pub(crate) struct Doctor {
    #[command(flatten)]
    node_args: NodeArgs,
    #[command(flatten)]
    pub(crate) output: Output,
}

impl Doctor {
    /// Returns the exit code.
    pub(crate) fn run(&self) -> Result<u8, Failure> {
        let settings = self.node_args.settings()?;
        settings.ttl()?;
        let observed = gather::observe(&settings)?;
        let diagnosis = Diagnosis::of(&observed);
        let report = Report { observed: &observed, diagnosis: &diagnosis };
        match self.output.is_json() {
            true => print(&report.json().to_string())?,
            false => {
                settings.warn(&Reporter::default());
                print(&report.text(style::Style::of_stdout()))?
            }
        };
        Ok(if diagnosis.has_errors() { FAULT } else { 0 })
    }
}
