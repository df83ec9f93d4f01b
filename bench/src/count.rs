//! Counts what does not depend on the speed of the machine, and compares it with bounds: the
//! instructions of the client, the commands of a server, and the memory of the client.
//!
//! Valgrind runs `quorate-workload` on real servers. It counts the instructions of all threads
//! outside of the kernel, or the bytes that are in use at the end.

mod bounds;

use std::{
    fmt,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use quorate_testkit::Server;

use self::bounds::{BOUNDS, times};
use crate::{setup::servers, table::line};

/// What is counted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Unit {
    Instructions,
    Commands,
    Bytes,
}

/// What a scenario may cost.
struct Bound {
    unit: Unit,
    /// As the workload calls it.
    scenario: &'static str,
    mode: &'static str,
    nodes: usize,
    most: f64,
}

impl Bound {
    const fn new(
        unit: Unit,
        scenario: &'static str,
        mode: &'static str,
        nodes: usize,
        most: f64,
    ) -> Self {
        Self { unit, scenario, mode, nodes, most }
    }

    /// What to tell if it costs more.
    fn judge(&self, found: f64) -> Result<(), String> {
        if found <= self.most {
            return Ok(());
        }
        Err(format!(
            "{self}: {found:.1} {} each exceed the bound of {:.1}. Find out what the change added: \
             {}. If it is worth that, raise the bound in {BOUNDS_FILE}, and say why in the commit",
            self.unit.name(),
            self.most,
            self.unit.how_to_read(),
        ))
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scenario, mode, nodes, .. } = self;
        write!(f, "{scenario}, {mode} mode, N = {nodes}")
    }
}

impl Unit {
    const fn name(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::Commands => "commands",
            Self::Bytes => "bytes",
        }
    }

    const fn how_to_read(self) -> &'static str {
        match self {
            Self::Instructions => "run `callgrind_annotate` on target/release/callgrind.*",
            Self::Commands => "`redis-cli monitor` shows what the scripts call",
            Self::Bytes => "run the workload with `valgrind --tool=dhat`",
        }
    }
}

/// Counts everything that has a bound. Fails if one is exceeded.
pub(crate) async fn run(workload: &Path) -> ExitCode {
    let mut failures = Vec::new();
    line("| what | counted | each | bound |");
    line("|---|---|---|---|");
    for bound in BOUNDS {
        // New ones: what earlier scenarios left behind must not count.
        let servers = servers(bound.nodes).await;
        let counter = Counter { workload, servers, bound };
        let (few, many) = times(bound.unit);
        let (less, more) = (counter.count(few), counter.count(many));
        let found = (more - less) / (many - few) as f64;
        let (unit, most) = (bound.unit.name(), bound.most);
        line(&format!("| {bound} | {unit} | {found:.1} | {most:.1} |"));
        failures.extend(bound.judge(found).err());
    }
    failures.iter().for_each(|why| line(why));
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

struct Counter<'a> {
    workload: &'a Path,
    servers: Vec<Server>,
    bound: &'a Bound,
}

impl Counter<'_> {
    fn count(&self, times: usize) -> f64 {
        match self.bound.unit {
            Unit::Instructions => self.instructions(times),
            Unit::Commands => self.commands(times),
            Unit::Bytes => self.bytes(times),
        }
    }

    fn instructions(&self, times: usize) -> f64 {
        let Bound { scenario, mode, nodes, .. } = self.bound;
        let name = format!("callgrind.{scenario}.{mode}.{nodes}.{times}");
        let file = self.folder().join(name);
        let mut valgrind = valgrind("callgrind");
        valgrind.arg(format!("--callgrind-out-file={}", file.display()));
        number_after("Collected : ", &self.run(valgrind, times))
    }

    fn bytes(&self, times: usize) -> f64 {
        let mut valgrind = valgrind("memcheck");
        valgrind.args(["--leak-check=no", "--undef-value-errors=no"]);
        let found = number_after("in use at exit: ", &self.run(valgrind, times));
        // What is still held would be in the way of the next run.
        self.servers.iter().for_each(Server::flush_locks);
        found
    }

    /// The mean of the servers.
    fn commands(&self, times: usize) -> f64 {
        let count = || self.servers.iter().map(Server::commands).sum::<u64>();
        let before = count();
        self.run(Command::new(self.workload), times);
        (count() - before) as f64 / self.servers.len() as f64
    }

    /// Runs the workload, on its own or as the last arguments of another program. Returns its
    /// messages.
    fn run(&self, mut command: Command, times: usize) -> String {
        if command.get_program() != self.workload {
            command.arg(self.workload);
        }
        command.args([self.bound.scenario, self.bound.mode, &times.to_string()]);
        command.args(self.servers.iter().map(Server::url));
        let output = command.output().unwrap_or_else(|why| panic!("{command:?}: {why}"));
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{command:?}: {messages}");
        messages
    }

    /// Beside the workload.
    fn folder(&self) -> PathBuf {
        self.workload.parent().unwrap_or(self.workload).to_owned()
    }
}

/// It runs one thread at a time. `fair-sched` lets them take turns as the kernel would.
fn valgrind(tool: &str) -> Command {
    let mut command = Command::new("valgrind");
    command.args([&format!("--tool={tool}"), "--fair-sched=yes"]);
    command
}

/// The number that valgrind prints after a text, which may have commas.
fn number_after(text: &str, messages: &str) -> f64 {
    let number = messages.lines().find_map(|line| line.split(text).nth(1)).map(|rest| {
        let digits = rest.chars().take_while(|it| it.is_ascii_digit() || *it == ',');
        digits.filter(char::is_ascii_digit).collect::<String>()
    });
    let number = number.and_then(|number| number.parse().ok());
    number.unwrap_or_else(|| panic!("no {text:?} in {messages}"))
}

const BOUNDS_FILE: &str = "bench/src/count/bounds.rs";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_the_bound_is_a_failure_that_names_it() {
        let bound = Bound::new(Unit::Commands, "pairs", "default", 3, 10.0);
        assert_eq!(bound.judge(10.0), Ok(()));
        let why = bound.judge(10.1).unwrap_err();
        assert!(why.starts_with("pairs, default mode, N = 3: 10.1 commands"), "{why}");
        assert!(why.contains(BOUNDS_FILE), "{why}");
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(BOUNDS_FILE);
        assert!(file.is_file(), "{BOUNDS_FILE}");
    }

    #[test]
    fn numbers_of_valgrind_have_commas() {
        let messages =
            "==1== HEAP SUMMARY:\n==1==     in use at exit: 34,048,949 bytes in 4 blocks";
        assert_eq!(number_after("in use at exit: ", messages), 34_048_949.0);
        assert_eq!(number_after("Collected : ", "==1== Collected : 339472995"), 339_472_995.0);
    }
}
