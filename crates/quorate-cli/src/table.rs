//! Tables for people.

use std::{
    env,
    io::{self, IsTerminal as _},
};

/// Lines with columns as wide as their widest cell. The head is bold on a terminal.
pub(crate) fn render<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    let line = |cells: &[&str]| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let is_bold = io::stdout().is_terminal() && !is_plain();
    let head = match is_bold {
        true => format!("{BOLD}{}{PLAIN}", line(&head)),
        false => line(&head),
    };
    let rows = rows.iter().map(|row| line(&row.each_ref().map(String::as_str)));
    [head].into_iter().chain(rows).collect::<Vec<_>>().join("\n")
}

/// Around bold text.
pub(crate) const BOLD: &str = "\x1b[1m";
pub(crate) const PLAIN: &str = "\x1b[0m";

/// Whether the user or the terminal wants no escape sequences.
pub(crate) fn is_plain() -> bool {
    env::var_os("NO_COLOR").is_some_and(|it| !it.is_empty()) || is_dumb()
}

/// Whether the terminal cannot interpret escape sequences.
pub(crate) fn is_dumb() -> bool {
    env::var_os("TERM").is_some_and(|term| term == "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_fit_their_widest_cell() {
        let rows = [["a".into(), "long".into()], ["ü".into(), String::new()]];
        assert_eq!(render(["A", "B"], &rows), "A  B\na  long\nü");
    }
}
