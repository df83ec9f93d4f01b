//! What the command is told, and how it says what it did.

use std::{env, io, io::Write as _, process::ExitCode, time::Duration};

use clap::{Args, Parser, Subcommand, error::ErrorKind};
use quorate::{Client, ClientBuilder};

use crate::{
    exit::{Failure, USAGE},
    nodes, time,
};

/// Looks after the nodes of a distributed lock.
#[derive(Debug, Parser)]
#[command(name = "quorate", version)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Shows the nodes, lets new ones in, and changes which ones there are.
    #[command(subcommand)]
    Nodes(nodes::Verb),
}

/// Which nodes, and what all their clients have agreed upon.
#[derive(Args, Debug)]
pub(crate) struct Set {
    /// The address of a node, such as redis://10.0.0.1; once for each. Without any, QUORATE_NODES
    /// is read, which has them with commas between.
    #[arg(long = "node", value_name = "URL")]
    nodes: Vec<String>,
    /// The longest ttl of any lock, as all clients have it.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time::parse)]
    max_ttl: Duration,
    /// Where Quorate keeps keys of its own, as all clients have it.
    #[arg(long, default_value = "quorate:")]
    prefix: String,
}

impl Set {
    /// The settings of a client of these nodes, guarded however few they are.
    pub(crate) fn settings(&self) -> Result<ClientBuilder, Failure> {
        let nodes = match self.nodes.is_empty() {
            false => self.nodes.clone(),
            true => env::var("QUORATE_NODES")
                .unwrap_or_default()
                .split(',')
                .map(str::trim)
                .filter(|url| !url.is_empty())
                .map(str::to_owned)
                .collect(),
        };
        if nodes.is_empty() {
            let text = "no nodes are given: write --node URL once for each, or set QUORATE_NODES";
            return Err(Failure::usage(text));
        }
        let settings = Client::builder().nodes(nodes).prefix(&self.prefix).restart_guard(true);
        Ok(settings.max_ttl(self.max_ttl).ttl(self.max_ttl.min(Duration::from_secs(10))))
    }
}

/// Does what the arguments say.
pub(crate) fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let is_help =
                matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            // A closed terminal is no reason to fail in another way.
            let _ = error.print();
            return if is_help { ExitCode::SUCCESS } else { USAGE.into() };
        }
    };
    let Verb::Nodes(verb) = cli.verb;
    match verb.run() {
        Ok(text) => {
            let _ = writeln!(io::stdout(), "{text}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            let _ = writeln!(io::stderr(), "quorate: {}", failure.text);
            failure.into()
        }
    }
}
