//! Another build of this program: it measures its quorate whenever it is asked to, with the same
//! servers and on the same core. The two take turns, so neither has the better moments.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use super::contestant::{Contestant, Round};
use crate::{
    options::{LimitOptions, Mode},
    setup::Pairs,
    table::line,
};

/// A process that waits for its turn.
pub(super) struct OtherBuild {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl OtherBuild {
    pub(super) fn start(program: &Path, mode: Mode, callers: usize, urls: &[String]) -> Self {
        let mut command = Command::new(program);
        command.args(["contestant", "--mode", &mode.name()]);
        command.args(["--callers", &callers.to_string(), "--servers", &urls.join(",")]);
        let process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process = process.unwrap_or_else(|why| panic!("{}: {why}", program.display()));
        let input = process.stdin.take().expect("it has a pipe");
        let output = BufReader::new(process.stdout.take().expect("it has a pipe"));
        Self { process, input, output }
    }

    /// This process waits meanwhile.
    pub(super) fn round(&mut self, time: Duration) -> Round {
        writeln!(self.input, "{}", time.as_micros()).expect("the other build reads");
        let mut answer = String::new();
        self.output.read_line(&mut answer).expect("the other build answers");
        let numbers: Vec<u64> =
            answer.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        let [count, time, cpu] = numbers[..] else {
            panic!(
                "the other build answered {answer:?}: is it a quorate-bench that knows --against?"
            );
        };
        let pairs = Pairs { count, time: Duration::from_micros(time) };
        Round { pairs, cpu: Duration::from_micros(cpu) }
    }
}

impl Drop for OtherBuild {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What the other build does: a round for each line, until there are no more.
pub(crate) async fn contestant(options: &LimitOptions) {
    let contestant = Contestant::quorate(options.mode[0], &options.servers).await;
    for time in std::io::stdin().lines() {
        let time = time.ok().and_then(|time| time.parse().ok()).expect("microseconds");
        let time = Duration::from_micros(time);
        let round = contestant.round("other", options.callers[0], time).await;
        let Round { pairs, cpu } = round;
        line(&format!("{} {} {}", pairs.count, pairs.time.as_micros(), cpu.as_micros()));
    }
}
