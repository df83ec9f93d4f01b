//! Symbols and colours, as far as the terminal can show them.

use std::{
    env,
    io::{self, IsTerminal as _},
};

use super::check::Level;
use crate::table::is_plain;

/// How the report is written.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Style {
    pub(super) has_colour: bool,
    pub(super) is_ascii: bool,
}

impl Style {
    pub(super) fn of_stdout() -> Self {
        let has_colour = io::stdout().is_terminal() && !is_plain();
        Self { has_colour, is_ascii: !is_utf8(|name| env::var(name).ok()) }
    }

    pub(super) fn symbol(self, level: Level) -> String {
        let (symbol, ascii, colour) = match level {
            Level::Ok => ("✓", "ok", 32),
            Level::Warning => ("!", "! ", 33),
            Level::Error => ("✗", "X ", 31),
        };
        self.coloured(if self.is_ascii { ascii } else { symbol }, colour)
    }

    /// A node that votes, or does not.
    pub(super) fn vote(self, votes: bool) -> String {
        match (votes, self.is_ascii) {
            (true, false) => self.coloured("●", 32),
            (false, false) => self.coloured("○", 31),
            (true, true) => self.coloured("*", 32),
            (false, true) => self.coloured("o", 31),
        }
    }

    /// The text in characters that the terminal can show.
    pub(super) fn text(self, text: &str) -> String {
        match self.is_ascii {
            true => text.replace(|c: char| !c.is_ascii(), "?"),
            false => text.to_owned(),
        }
    }

    fn coloured(self, text: &str, colour: u8) -> String {
        match self.has_colour {
            true => format!("\x1b[{colour}m{text}\x1b[0m"),
            false => text.to_owned(),
        }
    }
}

/// Whether the locale says so: the first variable that is set and not empty counts.
fn is_utf8(variable: impl Fn(&str) -> Option<String>) -> bool {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(variable);
    let locale = set.filter(|value| !value.is_empty()).map(|it| it.to_ascii_lowercase()).next();
    locale.is_some_and(|locale| locale.contains("utf-8") || locale.contains("utf8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_variable_of_the_locale_counts() {
        let of = |pairs: &[(&str, &str)]| {
            let pairs = pairs.to_vec();
            is_utf8(|name| {
                pairs.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned())
            })
        };
        assert!(of(&[("LANG", "en_US.UTF-8")]));
        assert!(of(&[("LC_ALL", ""), ("LC_CTYPE", "C.utf8")]));
        assert!(!of(&[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")]));
        assert!(!of(&[]));
    }
}
