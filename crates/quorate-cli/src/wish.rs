//! The form in which an answer is wanted, as far as arguments tell that make no sense: whoever
//! reads it may be a program, and must not take a failure for anything else.

use std::env;

use clap::CommandFactory as _;

use crate::cli::Cli;

/// Who reads the answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Wish {
    /// A person.
    Text,
    /// A shell, by `eval`.
    Shell,
    /// A program.
    Json,
}

impl Wish {
    /// What the arguments of this process ask for.
    pub(crate) fn of_this_process() -> Self {
        let args = env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned());
        Self::of(&args.collect::<Vec<_>>())
    }

    fn of(args: &[String]) -> Self {
        // What follows `run` may belong to the command. A verb that is none is a typing error.
        if args.first().is_some_and(|verb| verb == "run") {
            return Self::Text;
        }
        let args: Vec<&str> =
            args.iter().map(String::as_str).take_while(|it| *it != "--").collect();
        let is_said = |flags: &[&str], value: &str| {
            let apart = args.windows(2).any(|pair| flags.contains(&pair[0]) && pair[1] == value);
            let joined = |flag: &&str| {
                let rests = args.iter().filter_map(|arg| arg.strip_prefix(flag));
                let mut values = rests.map(|rest| match flag.starts_with("--") {
                    true => rest.strip_prefix('=').unwrap_or_default(),
                    false => rest.strip_prefix('=').unwrap_or(rest),
                });
                values.any(|it| it == value)
            };
            apart || flags.iter().any(joined)
        };
        let others = Cli::command();
        let is_other = |verb: &&str| *verb != "acquire" && others.find_subcommand(verb).is_some();
        let is_of_another_verb = args.first().is_some_and(is_other);
        if is_said(&["--format"], "sh") && !is_of_another_verb {
            return Self::Shell;
        }
        match is_said(&["--format", "--output", "-o"], "json") {
            true => Self::Json,
            false => Self::Text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_known_from_arguments_that_make_no_sense() {
        for (line, wish) in [
            ("acquire --format sh --fly", Wish::Shell),
            ("acquire --format=sh", Wish::Shell),
            ("aquire x --format sh", Wish::Shell),
            ("acquire --format json --fly", Wish::Json),
            ("ls --output=json --fly", Wish::Json),
            ("ls -ojson --fly", Wish::Json),
            ("ls -o=json --fly", Wish::Json),
            ("ls -o json --fly", Wish::Json),
            ("ls --fly", Wish::Text),
            ("ls --format sh", Wish::Text),
            ("acquire --format", Wish::Text),
            ("acquire -- --format sh", Wish::Text),
            ("acquire --formatsh", Wish::Text),
            ("run --fly x tool --format sh", Wish::Text),
            ("run --fly x tool -o json", Wish::Text),
            ("", Wish::Text),
        ] {
            let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            assert_eq!(Wish::of(&args), wish, "{line}");
        }
    }
}
