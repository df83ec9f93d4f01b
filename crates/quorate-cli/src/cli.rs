//! What the command is told, and how it says what it did.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use clap::{Args, Parser, Subcommand, ValueEnum, error::ErrorKind};
use clap_complete::Shell;
use serde_json::json;

use crate::{
    exit::{Failure, IO, USAGE},
    lease, look, nodes, paper,
    run::{self, guardian},
    settings::{Place, Shown},
    table,
    voice::Voice,
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
    #[command(after_help = EXIT_CODES)]
    Run(Box<run::Run>),
    /// Takes a lock for a script, and leaves it to expire.
    Acquire(Box<lease::Acquire>),
    /// Lets a lease of `acquire` live on.
    Renew(Box<lease::Lease>),
    /// Gives a lease of `acquire` back.
    Release(Box<lease::Lease>),
    /// Lists the locks that are held or waited for.
    Ls(Box<look::Ls>),
    /// Shows who has a lock and who waits for it.
    Show(Box<look::Show>),
    /// Shows what is in force, and from where.
    Config(Box<Config>),
    /// Shows the nodes, lets new ones in, and changes which ones there are.
    #[command(subcommand)]
    Nodes(Box<nodes::Verb>),
    /// Writes what a shell needs to complete arguments.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Writes a page of the manual.
    Man {
        /// The verb that it is about; without it, the whole command.
        verb: Option<String>,
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
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let is_help =
                matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            let written = error.print();
            if !is_help {
                // Standard error that is closed is no reason to fail in another way.
                return USAGE.into();
            }
            return written_to_its_end(written).map_or_else(told, ExitCode::from);
        }
    };
    match cli.verb.run() {
        Ok(code) => code.into(),
        Err(failure) => {
            cli.verb.tell(&failure);
            failure.into()
        }
    }
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
            Self::Completions { shell } => print(&paper::completions(*shell)?),
            Self::Man { verb } => print(&paper::man(verb.as_deref())?),
        }
    }

    /// Says why it failed, in the form that was asked for.
    fn tell(&self, failure: &Failure) {
        match self {
            Self::Run(run) => run.voice.error(&failure.text),
            Self::Acquire(acquire) => acquire.voice.error(&failure.text),
            Self::Renew(lease) | Self::Release(lease) => lease.voice.error(&failure.text),
            Self::Ls(ls) => tell_in(ls.output, failure),
            Self::Show(show) => tell_in(show.output, failure),
            Self::Config(config) => tell_in(config.output, failure),
            Self::Nodes(_) | Self::Completions { .. } | Self::Man { .. } => {
                Voice::default().error(&failure.text);
            }
        }
    }
}

fn tell_in(output: Output, failure: &Failure) {
    if !output.is_json() {
        return Voice::default().error(&failure.text);
    }
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

const EXIT_CODES: &str = "\
Exit codes:
  the command's   it ran; 128 + N if signal N ended it
  64              the arguments make no sense
  65              it would not be safe, or is done already (nodes)
  69              too few nodes answered
  70              a bug, or a system that refuses a process
  74              what it has to say could not be written
  75              another has the lock, or not yet
  77              the nodes refused user, password or rights
  78              the settings are wrong
  79              the lock was lost while the command ran
  126, 127        the command cannot be executed, is not there";
