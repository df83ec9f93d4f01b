//! Which format a usage error is reported in. The arguments could not be parsed, but a program may
//! read the output and must not mistake an error for a result.

use std::env;

use clap::CommandFactory as _;

use crate::cli::Cli;

/// The reader of the error.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ErrorFormat {
    /// A person.
    Text,
    /// A shell, by `eval`.
    Shell,
    /// A program.
    Json,
}

impl ErrorFormat {
    /// The format that the arguments of this process ask for.
    pub(crate) fn from_process_args() -> Self {
        let args = env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned());
        Self::from_args(&args.collect::<Vec<_>>())
    }

    fn from_args(args: &[String]) -> Self {
        // Options after `run` may belong to the command. An unknown subcommand may be a misspelled
        // `acquire`.
        if args.first().is_some_and(|subcommand| subcommand == "run") {
            return Self::Text;
        }
        let args: Vec<&str> =
            args.iter().map(String::as_str).take_while(|it| *it != "--").collect();
        let has_option = |flags: &[&str], value: &str| {
            let separate = args.windows(2).any(|pair| flags.contains(&pair[0]) && pair[1] == value);
            let joined = |flag: &&str| {
                let rests = args.iter().filter_map(|arg| arg.strip_prefix(flag));
                let mut values = rests.map(|rest| match flag.starts_with("--") {
                    true => rest.strip_prefix('=').unwrap_or_default(),
                    false => rest.strip_prefix('=').unwrap_or(rest),
                });
                values.any(|it| it == value)
            };
            separate || flags.iter().any(joined)
        };
        let cli = Cli::command();
        let is_other = |name: &&str| *name != "acquire" && cli.find_subcommand(name).is_some();
        let is_other_subcommand = args.first().is_some_and(is_other);
        if has_option(&["--format"], "sh") && !is_other_subcommand {
            return Self::Shell;
        }
        match has_option(&["--format", "--output", "-o"], "json") {
            true => Self::Json,
            false => Self::Text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_is_found_in_invalid_arguments() {
        for (line, format) in [
            ("acquire --format sh --fly", ErrorFormat::Shell),
            ("acquire --format=sh", ErrorFormat::Shell),
            ("aquire x --format sh", ErrorFormat::Shell),
            ("acquire --format json --fly", ErrorFormat::Json),
            ("ls --output=json --fly", ErrorFormat::Json),
            ("ls -ojson --fly", ErrorFormat::Json),
            ("ls -o=json --fly", ErrorFormat::Json),
            ("ls -o json --fly", ErrorFormat::Json),
            ("ls --fly", ErrorFormat::Text),
            ("ls --format sh", ErrorFormat::Text),
            ("acquire --format", ErrorFormat::Text),
            ("acquire -- --format sh", ErrorFormat::Text),
            ("acquire --formatsh", ErrorFormat::Text),
            ("run --fly x tool --format sh", ErrorFormat::Text),
            ("run --fly x tool -o json", ErrorFormat::Text),
            ("", ErrorFormat::Text),
        ] {
            let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            assert_eq!(ErrorFormat::from_args(&args), format, "{line}");
        }
    }
}
