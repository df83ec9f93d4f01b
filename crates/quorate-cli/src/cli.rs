//! What the command is told, and how it says what it did.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use clap::{Args, Parser, Subcommand, ValueEnum, error::ErrorKind};
use clap_complete::Shell;
use nix::sys::signal::{SigSet, Signal};
use serde_json::json;

use crate::{
    exit::{
        EXIT_CODES, EXIT_CODES_OF_ACQUIRE, EXIT_CODES_OF_LEASES, EXIT_CODES_OF_LOOKS,
        EXIT_CODES_OF_NODES, EXIT_CODES_OF_SERVE, EXIT_CODES_OF_TEXTS, Failure, IO, USAGE,
    },
    lease, look, nodes, paper,
    run::{self, guardian},
    serve,
    settings::{Place, Shown},
    table, token,
    voice::Voice,
    wish::Wish,
};

/// Runs jobs under a lock, on this machine or on any number of Redis or Valkey servers.
#[derive(Debug, Parser)]
#[command(name = "quorate", version, after_help = EXIT_CODES, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Runs a command while the lock is held.
    #[command(after_help = EXIT_CODES, override_usage = USAGE_OF_RUN)]
    Run(Box<run::Run>),
    /// Takes a lock for a script, and leaves it to expire.
    #[command(after_help = EXIT_CODES_OF_ACQUIRE)]
    Acquire(Box<lease::Acquire>),
    /// Lets a lease of `acquire` live on.
    #[command(after_help = EXIT_CODES_OF_LEASES)]
    Renew(Box<lease::Lease>),
    /// Gives a lease of `acquire` back.
    #[command(after_help = EXIT_CODES_OF_LEASES)]
    Release(Box<lease::Lease>),
    /// Lists the locks that are held or waited for.
    #[command(after_help = EXIT_CODES_OF_LOOKS)]
    Ls(Box<look::Ls>),
    /// Shows who has a lock and who waits for it.
    #[command(after_help = EXIT_CODES_OF_LOOKS)]
    Show(Box<look::Show>),
    /// Shows what is in force, and from where.
    #[command(after_help = EXIT_CODES_OF_TEXTS)]
    Config(Box<Config>),
    /// Shows the nodes, lets new ones in, and changes which ones there are.
    #[command(subcommand, after_help = EXIT_CODES_OF_NODES)]
    Nodes(Box<nodes::Verb>),
    /// Serve locks over HTTP, for programs in every language.
    #[command(after_help = EXIT_CODES_OF_SERVE)]
    Serve(Box<serve::Serve>),
    /// Create a token for `serve`: the entry for its file goes to standard output, the token to
    /// standard error.
    #[command(after_help = EXIT_CODES_OF_TEXTS)]
    Token(Box<token::Token>),
    /// Writes what a shell needs to complete arguments.
    #[command(after_help = EXIT_CODES_OF_TEXTS)]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Writes a page of the manual.
    #[command(after_help = EXIT_CODES_OF_TEXTS)]
    Man {
        /// The verb that it is about, such as `run` or `nodes show`; without it, the whole command.
        verb: Vec<String>,
    },
}

#[derive(Args, Debug)]
struct Config {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    output: Output,
}

/// How something is shown.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct Output {
    /// How it is shown.
    #[arg(short = 'o', long = "output", value_enum, value_name = "FORMAT", default_value_t)]
    form: Form,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
enum Form {
    /// Columns for people.
    #[default]
    Table,
    /// One JSON object, errors too.
    Json,
}

impl Output {
    pub(crate) fn is_json(self) -> bool {
        self.form == Form::Json
    }
}

/// Does what the arguments say.
pub(crate) fn run() -> ExitCode {
    if let Some(code) = guardian::play_part() {
        return code;
    }
    outlive_file_limits();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return misunderstood(&error),
    };
    let done = cli.verb.run();
    if let Err(failure) = &done {
        cli.verb.tell(failure);
    }
    let has_failed = !matches!(done, Ok(0));
    let code = done.unwrap_or_else(|failure| failure.code);
    match &cli.verb {
        Verb::Acquire(acquire) if has_failed => acquire.fail_in_shell(code),
        _ => {}
    }
    code.into()
}

/// A file that must not grow further (`ulimit -f`) is an error like any other, not our death. The
/// signal is only kept from us: what becomes the command lets it through again.
pub(crate) fn outlive_file_limits() {
    let mut set = SigSet::empty();
    set.add(Signal::SIGXFSZ);
    // The set is valid.
    let _ = set.thread_block();
}

/// Arguments that make no sense, or that ask for help.
fn misunderstood(error: &clap::Error) -> ExitCode {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return written_to_its_end(error.print()).map_or_else(told, ExitCode::from);
    }
    let wish = Wish::of_this_process();
    if wish == Wish::Json {
        let text = error.render().to_string();
        tell_as_json(&Failure::usage(text.trim_start_matches("error: ").trim_end()));
        return USAGE.into();
    }
    // Standard error that is closed is no reason to fail in another way.
    let _ = error.print();
    if wish == Wish::Shell {
        lease::fail_in_shell(USAGE);
    }
    USAGE.into()
}

impl Verb {
    /// Returns the exit code.
    fn run(&self) -> Result<u8, Failure> {
        match self {
            Self::Run(run) => run.run(),
            Self::Acquire(acquire) => acquire.run(),
            Self::Renew(lease) => lease.renew(),
            Self::Release(lease) => lease.release(),
            Self::Ls(ls) => ls.run(),
            Self::Show(show) => show.run(),
            Self::Config(config) => config.run(),
            Self::Nodes(verb) => print(&verb.run()?),
            Self::Serve(serve) => serve.run(),
            Self::Token(token) => token.run(),
            Self::Completions { shell } => print(&paper::completions(*shell)?),
            Self::Man { verb } => print(&paper::man(verb)?),
        }
    }

    /// Says why it failed, in the form that was asked for.
    fn tell(&self, failure: &Failure) {
        match self {
            Self::Run(run) => run.voice.error(&failure.text),
            Self::Acquire(acquire) if acquire.is_json() => tell_as_json(failure),
            Self::Acquire(acquire) => acquire.voice.error(&failure.text),
            Self::Renew(lease) | Self::Release(lease) => lease.voice.error(&failure.text),
            Self::Ls(ls) => tell_in(ls.output, failure),
            Self::Show(show) => tell_in(show.output, failure),
            Self::Config(config) => tell_in(config.output, failure),
            Self::Serve(serve) => serve.voice.error(&failure.text),
            Self::Nodes(_) | Self::Token(_) | Self::Completions { .. } | Self::Man { .. } => {
                Voice::default().error(&failure.text);
            }
        }
    }
}

fn tell_in(output: Output, failure: &Failure) {
    match output.is_json() {
        true => tell_as_json(failure),
        false => Voice::default().error(&failure.text),
    }
}

fn tell_as_json(failure: &Failure) {
    let error = json!({
        "kind": failure.kind(),
        "code": failure.code,
        "message": failure.text,
    });
    let error = json!({ "schema_version": SCHEMA_VERSION, "error": error });
    // Standard error that is closed is no reason to fail in another way.
    let _ = writeln!(io::stderr(), "{error}");
}

impl Config {
    fn run(&self) -> Result<u8, Failure> {
        let settings = self.place.settings()?;
        settings.ttl()?;
        let shown = Shown::new(&settings);
        match self.output.is_json() {
            true => {
                let mut json = shown.json();
                json["schema_version"] = SCHEMA_VERSION.into();
                print(&json.to_string())
            }
            false => {
                settings.warn(&Voice::default());
                print(&table::render(["SETTING", "VALUE", "FROM"], &shown.rows()))
            }
        }
    }
}

/// Writes to standard output, and returns the exit code.
pub(crate) fn print(text: &str) -> Result<u8, Failure> {
    let mut out = io::stdout().lock();
    let line_end = if text.ends_with('\n') { "" } else { "\n" };
    written_to_its_end(write!(out, "{text}{line_end}").and_then(|()| out.flush()))
}

/// A reader that has seen enough is no reason to fail, a disk that is full is.
fn written_to_its_end(written: io::Result<()>) -> Result<u8, Failure> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(IO, format!("cannot write: {error}")))
        }
        Ok(()) | Err(_) => Ok(0),
    }
}

fn told(failure: Failure) -> ExitCode {
    Voice::default().error(&failure.text);
    failure.into()
}

/// The version of all JSON that is written.
pub(crate) const SCHEMA_VERSION: u32 = 1;

const USAGE_OF_RUN: &str = "\
quorate run [OPTIONS] <NAME> [--] <COMMAND>...
       quorate run [OPTIONS] <NAME> --command <TEXT>";
