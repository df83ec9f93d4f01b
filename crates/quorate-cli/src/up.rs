//! `quorate up` and `quorate down`: real servers on this machine, for development.

mod connection;
mod down;
mod folder;
mod ports;
mod server;

use std::path::PathBuf;

use clap::{Args, value_parser};
use quorate::{
    Client, blocking,
    error::{NodeAnswer, NodeReport},
};

pub(crate) use self::down::Down;
use self::{
    folder::{Folder, Set},
    server::{LaunchFailure, Seen},
};
use crate::{
    cli::print,
    exit::{Failure, REFUSED},
    nodes::settled_status,
    reporter::Reporter,
    settings::NodeArgs,
};

/// Start servers for development and print their addresses
///
/// In an empty DIR this starts new servers on free ports of 127.0.0.1 and admits them, so that they
/// vote at once. Standard output is QUORATE_NODES=…, as `export "$(quorate up DIR)"` needs it. If
/// `up` has created DIR, it starts the stopped servers again, with their data. They vote after a
/// quarantine.
///
/// The servers run until `quorate down DIR`. They have no password: every user of this machine can
/// connect.
#[derive(Args, Debug)]
pub(crate) struct Up {
    /// Number of servers [default: 3]
    #[arg(long, value_name = "N", value_parser = value_parser!(u8).range(1..=NODES_MAX))]
    nodes: Option<u8>,
    /// Server program. Without it, redis-server and valkey-server are looked for in PATH
    #[arg(long, value_name = "PROGRAM")]
    server: Option<PathBuf>,
    /// Directory of the servers and their data
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

impl Up {
    pub(crate) fn run(&self) -> Result<u8, Failure> {
        let folder = Folder::create(&self.dir)?;
        let set = match folder.set()? {
            Some(set) => self.restart(&folder, set)?,
            None => self.start_new(&folder)?,
        };
        print(&format!("QUORATE_NODES={}", set.urls().join(",")))
    }

    /// Starts new servers in an empty folder and admits them. A failure leaves the folder empty.
    fn start_new(&self, folder: &Folder) -> Result<Set, Failure> {
        folder.check_empty()?;
        let program = server::find_program(self.server.as_deref())?;
        let mut attempts = 1..=ATTEMPTS;
        loop {
            let set = Set::new(&program, usize::from(self.nodes.unwrap_or(NODES_DEFAULT)))?;
            let failure = match start_and_admit(folder, &set) {
                Ok(()) => {
                    let (text, them) = (servers(set.len()), them(set.len()));
                    let dir = self.shown();
                    self.tell(&format!("started {text}; `quorate down {dir}` stops {them}"));
                    return Ok(set);
                }
                Err(failure) => failure,
            };
            stop_all(folder, &set)?;
            folder.empty(&set)?;
            match failure {
                // Another program was faster.
                LaunchFailure::PortTaken(_) if attempts.next().is_some() => {}
                failure => return Err(failure.into()),
            }
        }
    }

    /// Starts the servers that do not run. It never admits nodes: these may have granted locks.
    fn restart(&self, folder: &Folder, set: Set) -> Result<Set, Failure> {
        if let Some(nodes) = self.nodes.map(usize::from)
            && nodes != set.len()
        {
            let (dir, len) = (self.shown(), servers(set.len()));
            let text = format!("{dir} has {len}, not {nodes}: omit --nodes, or use another DIR");
            return Err(Failure::new(REFUSED, text));
        }
        let all = folder.servers(&set);
        let mut stopped = Vec::new();
        for server in &all {
            match server.inspect() {
                Seen::Running(_) => {}
                Seen::Stopped => stopped.push(server),
                Seen::Other => return Err(LaunchFailure::PortTaken(server.address()).into()),
                Seen::Silent(why) => return Err(server.silent(&why)),
            }
        }
        let program = match &self.server {
            Some(chosen) => server::find_program(Some(chosen))?,
            None => set.program()?,
        };
        for server in &stopped {
            server.start(&program)?;
        }
        let running = all.len() - stopped.len();
        match stopped.len() {
            0 => {
                let (text, verb) = (servers(running), if running == 1 { "runs" } else { "run" });
                self.tell(&format!("{text} of {} already {verb}", self.shown()));
            }
            count => {
                let its = if count == 1 { "its" } else { "their" };
                self.tell(&format!("started {} again, with {its} data", servers(count)));
                self.report_quarantine(&set)?;
            }
        }
        Ok(set)
    }

    /// Reports the nodes that do not vote yet. Their quarantine begins when this client connects.
    fn report_quarantine(&self, set: &Set) -> Result<(), Failure> {
        let client = NodeArgs::of_nodes(set.urls()).settings()?.builder()?.build()?;
        let nodes = settled_status(&wait_for(client)?);
        let waiting: Vec<&NodeReport> =
            nodes.iter().filter(|node| node.answer != NodeAnswer::Attached).collect();
        if waiting.is_empty() {
            return Ok(());
        }
        waiting.iter().for_each(|node| self.tell(&node.to_string()));
        let dir = self.shown();
        let (they, vote) = if waiting.len() == 1 { ("it", "votes") } else { ("they", "vote") };
        self.tell(&format!(
            "`quorate nodes show` reports when {they} {vote}; for new servers, which vote at once: \
             `quorate down --delete {dir}`, then `quorate up {dir}`"
        ));
        Ok(())
    }

    /// Standard output has only the addresses.
    fn tell(&self, text: &str) {
        Reporter::default().warn(text);
    }

    fn shown(&self) -> String {
        self.dir.display().to_string()
    }
}

/// Starts servers that have never run and lets them vote.
fn start_and_admit(folder: &Folder, set: &Set) -> Result<(), LaunchFailure> {
    folder.write(set)?;
    let program = set.program()?;
    for server in folder.servers(set) {
        server.start(&program)?;
    }
    // The same settings as all clients, which must agree with what the nodes record.
    let settings = NodeArgs::of_nodes(set.urls()).settings()?;
    let client = settings.builder()?.read_only().build().map_err(Failure::from)?;
    admit(client).map_err(LaunchFailure::Failed)
}

fn admit(client: Client) -> Result<(), Failure> {
    // Without quarantine new nodes vote at once.
    if !client.has_quarantine() {
        return Ok(());
    }
    wait_for(client)?.admit().map_err(Failure::from)
}

fn wait_for(client: Client) -> Result<blocking::Client, Failure> {
    client.try_into().map_err(|error| Failure::system("cannot wait for nodes", error))
}

/// Stops the servers of this folder that run, and returns how many these were.
fn stop_all(folder: &Folder, set: &Set) -> Result<usize, Failure> {
    let mut stopped = 0;
    for server in folder.servers(set) {
        match server.inspect() {
            Seen::Running(connection) => {
                server.stop(connection)?;
                stopped += 1;
            }
            Seen::Stopped => {}
            Seen::Other => {
                let text = format!("{} belongs to another program: left alone", server.address());
                Reporter::default().warn(&text);
            }
            Seen::Silent(why) => return Err(server.silent(&why)),
        }
    }
    Ok(stopped)
}

/// The number as text.
fn servers(count: usize) -> String {
    if count == 1 { "1 server".into() } else { format!("{count} servers") }
}

const fn them(count: usize) -> &'static str {
    if count == 1 { "it" } else { "them" }
}

const NODES_DEFAULT: u8 = 3;
const NODES_MAX: i64 = 9;

/// How often `up` chooses other ports if another program takes one.
const ATTEMPTS: u8 = 5;

/// Exit codes of `up` and `down`.
pub(crate) const EXIT_CODES_OF_UP: &str = "\
Exit codes:
  0               success, even if there was nothing to do
  64              invalid arguments
  65              refused: DIR contains other files, or a port belongs to another program
  69              no server program, or a server does not start, answer or stop
  70              a bug, or the system refused a resource
  74              the output or DIR could not be written
  78              invalid settings";
