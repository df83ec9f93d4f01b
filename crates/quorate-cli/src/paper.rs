//! `quorate completions` and `quorate man`: texts for packages, made from the arguments themselves.

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

/// What a shell needs to complete arguments.
pub(crate) fn completions(shell: Shell) -> Result<String, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "quorate", &mut text);
    text_of(text)
}

/// The pages of the manual: that of the whole command, or of the verb that these words name.
pub(crate) fn man(verb: &[String]) -> Result<String, Failure> {
    // Help is told by --help, and has no page.
    let mut page = Cli::command().disable_help_subcommand(true);
    page.build();
    for word in verb {
        let wrong = || Failure::usage(format!("there is no verb `{}`", verb.join(" ")));
        page = page.find_subcommand(word).cloned().ok_or_else(wrong)?;
    }
    let codes = page.get_after_help().map(ToString::to_string).unwrap_or_default();
    let page = Man::new(page.after_help(Resettable::Reset));
    let mut text = Vec::new();
    let rendered = page.source(format!("quorate {}", env!("CARGO_PKG_VERSION"))).render(&mut text);
    rendered.map_err(|error| Failure::new(SOFTWARE, error.to_string()))?;
    Ok(text_of(text)? + &exit_status(&codes))
}

/// What stands below the help of a verb, as a section of its own.
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
