//! Symbols and colours, as far as the terminal can show them.

use std::{
    env,
    io::{self, IsTerminal as _},
};

use super::check::Level;
use crate::{reporter::columns_of, table::is_plain};

/// How the report is written.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Style {
    pub(super) has_colour: bool,
    pub(super) is_ascii: bool,
    /// The width of the terminal. `None` elsewhere: lines are not broken.
    pub(super) columns: Option<usize>,
}

/// For which locks a node votes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Vote {
    Any,
    /// It renews the locks that it has, and has no memory for new ones.
    HeldOnly,
    No,
}

impl Style {
    pub(super) fn of_stdout() -> Self {
        let is_terminal = io::stdout().is_terminal();
        Self {
            has_colour: is_terminal && !is_plain(),
            is_ascii: !is_utf8(|name| env::var(name).ok()),
            columns: is_terminal.then(|| columns_of(io::stdout())),
        }
    }

    pub(super) fn symbol(self, level: Level) -> String {
        let (symbol, ascii, colour) = match level {
            Level::Ok => ("✓", "ok", 32),
            Level::Warning => ("!", "! ", 33),
            Level::Error => ("✗", "X ", 31),
        };
        self.coloured(if self.is_ascii { ascii } else { symbol }, colour)
    }

    pub(super) fn vote(self, vote: Vote) -> String {
        let (symbol, ascii, colour) = match vote {
            Vote::Any => ("●", "*", 32),
            Vote::HeldOnly => ("◐", "+", 33),
            Vote::No => ("○", "o", 31),
        };
        self.coloured(if self.is_ascii { ascii } else { symbol }, colour)
    }

    /// The text in characters that the terminal can show.
    pub(super) fn text(self, text: &str) -> String {
        match self.is_ascii {
            true => text.replace(|c: char| !c.is_ascii(), "?"),
            false => text.to_owned(),
        }
    }

    /// Whether this text fits into one line of the terminal.
    pub(super) fn fits(self, text: &str) -> bool {
        self.columns.is_none_or(|columns| text.chars().count() < columns)
    }

    /// Appends the text, which begins in the column `at`. Words that do not fit into the terminal
    /// follow in lines that begin with `indent` spaces.
    pub(super) fn append(self, out: &mut String, text: &str, at: usize, indent: usize) {
        let text = self.text(text);
        let (mut at, mut is_first) = (at, true);
        for word in text.split(' ') {
            let len = word.chars().count();
            // The last column stays empty: some terminals begin a new line when it is written.
            if !is_first && self.columns.is_some_and(|columns| at + 1 + len >= columns) {
                out.push_str(&format!("\n{:indent$}", ""));
                (at, is_first) = (indent, true);
            }
            if !is_first {
                out.push(' ');
                at += 1;
            }
            out.push_str(word);
            (at, is_first) = (at + len, false);
        }
        out.push('\n');
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
    fn long_text_goes_on_in_the_next_line() {
        let broken = |columns| {
            let mut out = "✓ ".to_owned();
            let style = Style { columns, ..Style::default() };
            style.append(&mut out, "one two redis://10.0.0.1:6379 three", 2, 4);
            out
        };
        assert_eq!(broken(None), "✓ one two redis://10.0.0.1:6379 three\n");
        assert_eq!(broken(Some(38)), broken(None));
        assert_eq!(broken(Some(37)), "✓ one two redis://10.0.0.1:6379\n    three\n");
        // Addresses stay whole, so that they can be copied.
        assert_eq!(broken(Some(10)), "✓ one two\n    redis://10.0.0.1:6379\n    three\n");
    }

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
