//! `quorate completions` and `quorate man`: files for packages, generated from the arguments.

use clap::{CommandFactory as _, builder::Resettable};
use clap_complete::Shell;
use clap_mangen::{
    Man,
    roff::{Roff, roman},
};

use crate::{
    cli::Cli,
    exit::{Failure, SOFTWARE},
};

/// The completion script of a shell.
pub(crate) fn completions(shell: Shell) -> Result<String, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "quorate", &mut text);
    text_of(text)
}

/// The man page of the whole command, or of the subcommand with this path.
pub(crate) fn man(path: &[String]) -> Result<String, Failure> {
    // The `help` subcommand has no page.
    let mut page = Cli::command().disable_help_subcommand(true);
    page.build();
    for name in path {
        let wrong = || Failure::usage(format!("no such subcommand: {:?}", path.join(" ")));
        page = page.find_subcommand(name).cloned().ok_or_else(wrong)?;
    }
    let codes = page.get_after_help().map(ToString::to_string).unwrap_or_default();
    let page = Man::new(page.after_help(Resettable::Reset));
    let mut text = Vec::new();
    let rendered = page.source(format!("quorate {}", env!("CARGO_PKG_VERSION"))).render(&mut text);
    rendered.map_err(|error| Failure::new(SOFTWARE, error.to_string()))?;
    Ok(text_of(text)? + &exit_status(&codes))
}

/// The exit codes below the help of a subcommand, as a section.
fn exit_status(codes: &str) -> String {
    let mut roff = Roff::new();
    roff.control("SH", ["EXIT STATUS"]);
    for line in codes.lines().skip(1).map(str::trim) {
        let (code, meaning) = line.split_once("  ").unwrap_or((line, ""));
        roff.control("TP", []).text([roman(code)]).text([roman(meaning.trim())]);
    }
    roff.to_roff()
}

fn text_of(bytes: Vec<u8>) -> Result<String, Failure> {
    String::from_utf8(bytes).map_err(|error| Failure::new(SOFTWARE, error.to_string()))
}
