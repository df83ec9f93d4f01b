//! All mutants, one after the other, and the table of what detected them.

use std::{fs, io, path::PathBuf, process::ExitCode};

use clap::Args;

use super::{cores, say, say_error};
use crate::{
    campaign::Campaign,
    catalogue::{CATALOGUE, Entry, Noticed},
    settings::Fixed,
};

#[derive(Args, Debug)]
pub(super) struct Mutants {
    /// How many seeds a mutant may survive.
    #[arg(long, default_value_t = 20_000)]
    seeds: u64,
    /// A file that must contain the same table.
    #[arg(long, value_name = "FILE")]
    check: Option<PathBuf>,
    /// A file whose table is replaced.
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

impl Mutants {
    pub(super) fn run(&self) -> io::Result<ExitCode> {
        let found: Vec<Found> = CATALOGUE.iter().map(|entry| self.hunt(entry)).collect();
        let table = table(&found);
        say(&table)?;
        let mut is_fine = true;
        for Found { entry, .. } in found.iter().filter(|found| found.survives) {
            is_fine = false;
            say_error(&format!("{entry} was not detected: {}", entry.about));
        }
        if let Some(path) = &self.write {
            let text = fs::read_to_string(path)?;
            fs::write(path, with_table(&text, &table)?)?;
        }
        if let Some(path) = &self.check
            && fs::read_to_string(path)? != with_table(&fs::read_to_string(path)?, &table)?
        {
            is_fine = false;
            let path = path.display();
            say_error(&format!(
                "the table in {path} is out of date: update it with \
                 `cargo run --release -p quorate-sim -- mutants --write {path}`"
            ));
        }
        Ok(if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn hunt(&self, entry: &'static Entry) -> Found {
        match entry.noticed {
            Noticed::Seeds => self.hunt_with_seeds(entry),
            Noticed::Directed(schedule) => {
                let _on = entry.switch_on();
                let by = schedule().err().map(|seen| format!("a directed schedule: {seen}"));
                Found::new(entry, by)
            }
            Noticed::Redundant(argument) => {
                Found::new(entry, Some(format!("redundant: {argument}")))
            }
        }
    }

    fn hunt_with_seeds(&self, entry: &'static Entry) -> Found {
        let campaign = Campaign {
            from: 0,
            seeds: self.seeds,
            fixed: Fixed::default(),
            threads: cores(),
            mutant: Some(entry),
        };
        let first = campaign.run(|_| {}).first;
        Found::new(entry, first.map(|(seed, found)| format!("seed {seed}: {}", found.promise)))
    }
}

/// What detected a mutant.
struct Found {
    entry: &'static Entry,
    by: String,
    survives: bool,
}

impl Found {
    fn new(entry: &'static Entry, by: Option<String>) -> Self {
        let survives = by.is_none();
        Self { entry, by: by.unwrap_or_else(|| "nothing".into()), survives }
    }
}

fn table(found: &[Found]) -> String {
    let mut text = "| mutant | what it does wrong | first noticed by |\n|---|---|---|\n".to_owned();
    for Found { entry, by, .. } in found {
        text.push_str(&format!("| `{entry}` | {} | {by} |\n", entry.about));
    }
    text
}

/// Replaces the text between the marks by the table.
fn with_table(text: &str, table: &str) -> io::Result<String> {
    let parts = text.split_once(BEGIN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some(format!("{before}{BEGIN}\n\n{table}\n{END}{after}"))
    });
    parts.ok_or_else(|| io::Error::other(format!("the file does not contain `{BEGIN}`")))
}

const BEGIN: &str = "<!-- mutants: written by `quorate-sim mutants --write` -->";
const END: &str = "<!-- end of mutants -->";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_replaces_the_text_between_its_marks() {
        let text = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
        let new = with_table(&text, "| new |\n").unwrap();
        assert_eq!(new, format!("before\n{BEGIN}\n\n| new |\n\n{END}\nafter\n"));
        assert!(with_table("no marks", "").is_err());
    }
}
