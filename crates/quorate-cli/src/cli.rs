//! The arguments, and how results and failures are printed.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use clap::{Args, Parser, Subcommand, ValueEnum, error::ErrorKind};
use clap_complete::Shell;
use nix::sys::signal::{SigSet, Signal};
use serde_json::json;

use crate::{
    docs, doctor,
    error_format::ErrorFormat,
    exit::{
        EXIT_CODES, EXIT_CODES_OF_ACQUIRE, EXIT_CODES_OF_DOCTOR, EXIT_CODES_OF_INSPECTION,
        EXIT_CODES_OF_LEASES, EXIT_CODES_OF_NODES, EXIT_CODES_OF_RUN, EXIT_CODES_OF_SERVE,
        EXIT_CODES_OF_TEXTS, Failure, IO, USAGE,
    },
    inspect, lease, nodes,
    reporter::Reporter,
    run::{self, guardian},
    serve,
    settings::{NodeArgs, SettingsReport},
    table, token, up,
};

/// Run jobs under a lock, on this machine or across machines with Redis or Valkey
#[derive(Debug, Parser)]
#[command(name = "quorate", version, after_help = EXIT_CODES, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a command while holding a lock
    #[command(after_help = EXIT_CODES_OF_RUN, override_usage = USAGE_OF_RUN)]
    Run(Box<run::Run>),
    /// Acquire a lock for a script and print its lease
    #[command(after_help = EXIT_CODES_OF_ACQUIRE)]
    Acquire(Box<lease::Acquire>),
    /// Renew a lease of `acquire`
    #[command(after_help = EXIT_CODES_OF_LEASES, mut_arg("verbose", |it| it.help(VERBOSE_RENEW)),
        mut_arg("quiet", |it| it.help(QUIET)))]
    Renew(Box<lease::Lease>),
    /// Release a lease of `acquire`
    #[command(after_help = EXIT_CODES_OF_LEASES, mut_arg("verbose", |it| it.help(VERBOSE_RELEASE)),
        mut_arg("quiet", |it| it.help(QUIET)))]
    Release(Box<lease::Lease>),
    /// List locks that are held or waited for
    #[command(after_help = EXIT_CODES_OF_INSPECTION)]
    Ls(Box<inspect::Ls>),
    /// Show who holds a lock and who waits for it
    #[command(after_help = EXIT_CODES_OF_INSPECTION)]
    Show(Box<inspect::Show>),
    /// Show the effective settings and their sources
    #[command(after_help = EXIT_CODES_OF_TEXTS)]
    Config(Box<Config>),
    /// Show, admit and change the nodes
    #[command(subcommand, after_help = EXIT_CODES_OF_NODES)]
    Nodes(Box<nodes::Command>),
    #[command(after_help = up::EXIT_CODES_OF_UP)]
    Up(Box<up::Up>),
    #[command(after_help = up::EXIT_CODES_OF_UP)]
    Down(Box<up::Down>),
    /// Look for faults of the nodes and the settings, and name the remedies
    ///
    /// It changes nothing on the nodes.
    #[command(after_help = EXIT_CODES_OF_DOCTOR)]
    Doctor(Box<doctor::Doctor>),
    /// Serve locks over HTTP, for programs in any language
    #[command(after_help = EXIT_CODES_OF_SERVE, mut_arg("verbose", |it| it.hide(true)),
        mut_arg("quiet", |it| it.help(QUIET)))]
    Serve(Box<serve::Serve>),
    /// Create a token for `serve`
    ///
    /// The entry for the token file is written to standard output, the token to standard error.
    #[command(after_help = EXIT_CODES_OF_TEXTS)]
    Token(Box<token::Token>),
    /// Print shell completions
    #[command(after_help = EXIT_CODES_OF_TEXTS)]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print a man page
    #[command(after_help = EXIT_CODES_OF_TEXTS)]
    Man {
        /// The subcommand to describe, such as `run` or `nodes show`; without it, the whole command
        subcommand: Vec<String>,
    },
}

#[derive(Args, Debug)]
struct Config {
    #[command(flatten)]
    node_args: NodeArgs,
    #[command(flatten)]
    output: Output,
}

/// The output format.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct Output {
    /// Output format
    #[arg(short = 'o', long = "output", value_enum, value_name = "FORMAT", default_value_t)]
    format: OutputFormat,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
enum OutputFormat {
    /// For people
    #[default]
    #[value(alias = "table")]
    Text,
    /// One JSON object, for errors too
    Json,
}

impl Output {
    pub(crate) fn is_json(self) -> bool {
        self.format == OutputFormat::Json
    }
}

/// Runs the command that the arguments select.
pub(crate) fn run() -> ExitCode {
    if let Some(code) = guardian::run_internal_role() {
        return code;
    }
    block_file_size_signal();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return report_usage_error(&error),
    };
    let result = cli.command.run();
    if let Err(failure) = &result {
        cli.command.report(failure);
    }
    let has_failed = !matches!(result, Ok(0));
    let code = result.unwrap_or_else(|failure| failure.code);
    match &cli.command {
        Command::Acquire(acquire) if has_failed => acquire.print_shell_failure(code),
        _ => {}
    }
    code.into()
}

/// Blocks SIGXFSZ, so that a write beyond the file size limit (`ulimit -f`) returns an error
/// instead of killing this process. The process that becomes the command unblocks the signal again.
pub(crate) fn block_file_size_signal() {
    let mut set = SigSet::empty();
    set.add(Signal::SIGXFSZ);
    // The set is valid.
    let _ = set.thread_block();
}

/// Reports invalid arguments, or prints the help that they ask for.
fn report_usage_error(error: &clap::Error) -> ExitCode {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return check_written(error.print()).map_or_else(report_and_exit, ExitCode::from);
    }
    let format = ErrorFormat::from_process_args();
    if format == ErrorFormat::Json {
        let text = error.render().to_string();
        report_failure_as_json(&Failure::usage(text.trim_start_matches("error: ").trim_end()));
        return USAGE.into();
    }
    // The exit code stays the same if standard error is closed.
    let _ = error.print();
    if format == ErrorFormat::Shell {
        lease::print_shell_failure(USAGE);
    }
    USAGE.into()
}

impl Command {
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
            Self::Nodes(verb) => verb.run(),
            Self::Up(up) => up.run(),
            Self::Down(down) => down.run(),
            Self::Doctor(doctor) => doctor.run(),
            Self::Serve(serve) => serve.run(),
            Self::Token(token) => token.run(),
            Self::Completions { shell } => print(&docs::completions(*shell)?),
            Self::Man { subcommand } => print(&docs::man(subcommand)?),
        }
    }

    /// Reports why it failed, in the requested format.
    fn report(&self, failure: &Failure) {
        match self {
            Self::Run(run) => run.reporter.error(&failure.text),
            Self::Acquire(acquire) if acquire.is_json() => report_failure_as_json(failure),
            Self::Acquire(acquire) => acquire.reporter.error(&failure.text),
            Self::Renew(lease) | Self::Release(lease) => lease.reporter.error(&failure.text),
            Self::Ls(ls) => report_failure_in(ls.output, failure),
            Self::Show(show) => report_failure_in(show.output, failure),
            Self::Config(config) => report_failure_in(config.output, failure),
            Self::Doctor(doctor) => report_failure_in(doctor.output, failure),
            Self::Serve(serve) => serve.reporter.error(&failure.text),
            Self::Nodes(verb) => report_failure_in(verb.output(), failure),
            Self::Up(_)
            | Self::Down(_)
            | Self::Token(_)
            | Self::Completions { .. }
            | Self::Man { .. } => Reporter::default().error(&failure.text),
        }
    }
}

fn report_failure_in(output: Output, failure: &Failure) {
    match output.is_json() {
        true => report_failure_as_json(failure),
        false => Reporter::default().error(&failure.text),
    }
}

fn report_failure_as_json(failure: &Failure) {
    let error = json!({
        "kind": failure.kind(),
        "code": failure.code,
        "message": failure.text,
    });
    let error = json!({ "schema_version": SCHEMA_VERSION, "error": error });
    // The exit code stays the same if standard error is closed.
    let _ = writeln!(io::stderr(), "{error}");
}

impl Config {
    fn run(&self) -> Result<u8, Failure> {
        let settings = self.node_args.settings()?;
        settings.ttl()?;
        let report = SettingsReport::new(&settings);
        match self.output.is_json() {
            true => {
                let mut json = report.json();
                json["schema_version"] = SCHEMA_VERSION.into();
                print(&json.to_string())
            }
            false => {
                settings.warn(&Reporter::default());
                print(&table::render(["SETTING", "VALUE", "FROM"], &report.rows()))
            }
        }
    }
}

/// Writes to standard output, and returns the exit code.
pub(crate) fn print(text: &str) -> Result<u8, Failure> {
    check_written(write(text))
}

/// Writes to standard output. Returns false if no reader is left.
pub(crate) fn print_unless_closed(text: &str) -> Result<bool, Failure> {
    let written = write(text);
    let is_closed = written.as_ref().is_err_and(|it| it.kind() == io::ErrorKind::BrokenPipe);
    check_written(written).map(|_| !is_closed)
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let line_end = if text.ends_with('\n') { "" } else { "\n" };
    write!(out, "{text}{line_end}").and_then(|()| out.flush())
}

/// A reader that closes the pipe early is not an error; a full disk is.
fn check_written(written: io::Result<()>) -> Result<u8, Failure> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(IO, format!("cannot write to standard output: {error}")))
        }
        Ok(()) | Err(_) => Ok(0),
    }
}

fn report_and_exit(failure: Failure) -> ExitCode {
    Reporter::default().error(&failure.text);
    failure.into()
}

/// The version of all JSON output.
pub(crate) const SCHEMA_VERSION: u32 = 1;

const VERBOSE_RENEW: &str = "Report when the lease expires";
const VERBOSE_RELEASE: &str = "Report the release";
const QUIET: &str = "Report only errors";

const USAGE_OF_RUN: &str = "\
quorate run [OPTIONS] <NAME> [--] <COMMAND>...
       quorate run [OPTIONS] <NAME> --command <TEXT>";
