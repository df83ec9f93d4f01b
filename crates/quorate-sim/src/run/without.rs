//! Faults and clients that are left out of a run.

use std::{fmt, str::FromStr};

use crate::settings::Settings;

/// What is left out of a run, to make a violation easier to read.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Without {
    /// Faults, by their index in the list.
    pub faults: Vec<usize>,
    /// Clients, by number: they exist and do nothing.
    pub clients: Vec<usize>,
}

impl Without {
    /// True if nothing is left out.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.faults.is_empty() && self.clients.is_empty()
    }

    /// Checks that the run of `settings` has these faults and clients.
    ///
    /// # Errors
    ///
    /// A text that lists the faults and clients of the run.
    pub fn check(&self, settings: &Settings) -> Result<(), String> {
        let Settings { seed, clients, .. } = *settings;
        let faults = settings.faults + settings.fulls.len();
        let is_there = self.faults.iter().all(|fault| *fault < faults)
            && self.clients.iter().all(|client| *client < clients);
        match is_there {
            true => Ok(()),
            false => Err(format!(
                "the run of seed {seed} has the faults f0 to f{} and the clients c0 to c{}",
                faults.saturating_sub(1),
                clients.saturating_sub(1)
            )),
        }
    }
}

/// As on the command line: `f0,f3,c1`.
impl fmt::Display for Without {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults = self.faults.iter().map(|fault| format!("f{fault}"));
        let clients = self.clients.iter().map(|client| format!("c{client}"));
        f.write_str(&faults.chain(clients).collect::<Vec<_>>().join(","))
    }
}

impl FromStr for Without {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut without = Self::default();
        for part in text.split(',') {
            let unknown = || format!("`{part}` is neither a fault such as f3 nor a client like c1");
            let (kind, number) = part.split_at_checked(1).ok_or_else(unknown)?;
            let number = number.parse().map_err(|_| unknown())?;
            match kind {
                "f" => without.faults.push(number),
                "c" => without.clients.push(number),
                _ => return Err(unknown()),
            }
        }
        Ok(without)
    }
}
