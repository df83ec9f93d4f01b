//! `cargo xtask help`: the list of verbs.

use crate::failure::Failure;
use crate::{VERBS, Verb, output};

pub(crate) fn run(args: &[String]) -> Result<(), Failure> {
    if !args.is_empty() {
        return Err(Failure::usage("help takes no arguments"));
    }
    output::say(text(VERBS));
    Ok(())
}

/// The list as text, one verb per line.
pub(crate) fn text(verbs: &[Verb]) -> String {
    let mut text = "cargo xtask VERB, where VERB is one of:".to_owned();
    for verb in verbs {
        let call = format!("{} {}", verb.name, verb.arguments);
        text.push_str(&format!("\n  {call:<16}{}", verb.about));
    }
    text
}
