//! `quorate completions` and `quorate man`: texts for packages, made from the arguments themselves.

use clap::CommandFactory as _;
use clap_complete::Shell;

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

/// The pages of the manual: the whole one, or that of one verb.
pub(crate) fn man(verb: Option<&str>) -> Result<String, Failure> {
    let mut command = Cli::command();
    command.build();
    let page = match verb {
        None => command,
        Some(verb) => {
            let wrong = || Failure::usage(format!("there is no verb `{verb}`"));
            command.find_subcommand(verb).cloned().ok_or_else(wrong)?
        }
    };
    let mut text = Vec::new();
    let rendered = clap_mangen::Man::new(page).render(&mut text);
    rendered.map_err(|error| Failure::new(SOFTWARE, error.to_string()))?;
    text_of(text)
}

fn text_of(bytes: Vec<u8>) -> Result<String, Failure> {
    String::from_utf8(bytes).map_err(|error| Failure::new(SOFTWARE, error.to_string()))
}
