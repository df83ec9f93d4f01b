//! The command for people: many seeds, one seed, all mutants, the model.

mod members;
mod model;
mod mutants;
mod summary;

use std::{
    fs, io,
    io::Write as _,
    path::PathBuf,
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum, error::ErrorKind};
use indicatif::{ProgressBar, ProgressStyle};

use crate::{
    campaign::Campaign,
    catalogue::{self, Entry},
    run::Without,
    settings::{Fixed, Settings},
    shrink::{self, Small},
    story::{self, Story},
    timeline,
};

/// Simulates the machines that Quorate ships under faults, and reports broken promises.
#[derive(Debug, Parser)]
#[command(name = "quorate-sim", args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    run: Run,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Switches on one deliberate bug after the other: each must be detected.
    Mutants(mutants::Mutants),
    /// Searches every order of events in small systems.
    Model(model::Search),
    /// Simulates changes of the set of nodes under faults.
    Members(members::Changes),
}

#[derive(Args, Debug)]
struct Run {
    /// How many seeds to run.
    #[arg(long, default_value_t = 100_000)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Run only this seed, and show what happens.
    #[arg(long, conflicts_with_all = ["seeds", "from"])]
    seed: Option<u64>,
    /// The number of nodes, instead of the one that the seed draws.
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=9))]
    nodes: Option<u8>,
    /// The number of clients, instead of the one that the seed draws.
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=20))]
    clients: Option<u8>,
    /// The mode of the clients, instead of the one that the seed draws.
    #[arg(long)]
    mode: Option<Mode>,
    /// Whether nodes use quarantine, whatever the seed draws; only with three nodes or more.
    #[arg(long)]
    quarantine: Option<Switch>,
    /// Whether locks are shared, whatever the seed draws; only in queue mode.
    #[arg(long)]
    share: Option<Switch>,
    /// The number of threads; the default is the number of cores.
    #[arg(long)]
    threads: Option<usize>,
    /// Switch on a deliberate bug.
    #[arg(long, value_parser = catalogue::find)]
    mutant: Option<&'static Entry>,
    /// Leave these faults and clients out of the run of --seed, for example f0,f3,c1.
    #[arg(long, requires = "seed")]
    without: Option<Without>,
    /// With --seed: show every event, not only the events that explain a violation.
    #[arg(long, requires = "seed")]
    all: bool,
    /// The file for the picture of a violation.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// The modes that clients can use.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Mode {
    /// Clients retry until they get the lock.
    Classic,
    /// Clients wait in a queue, and have fences.
    Queue,
}

/// Whether a feature is used.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Switch {
    /// It is used.
    On,
    /// It is not used.
    Off,
}

/// Runs the command of the arguments. The exit code is 1 if a promise was broken.
#[must_use]
pub fn run() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.verb {
        Some(Verb::Mutants(mutants)) => mutants.run(),
        Some(Verb::Model(search)) => search.run(),
        Some(Verb::Members(changes)) => changes.run(),
        None => cli.run.run(),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            say_error(&format!("quorate-sim: {error}"));
            ExitCode::from(74)
        }
    }
}

impl Run {
    fn run(&self) -> io::Result<ExitCode> {
        match self.seed {
            Some(seed) => self.replay(seed),
            None => self.search(),
        }
    }

    fn campaign(&self) -> Campaign {
        let fixed = Fixed {
            nodes: self.nodes.map(usize::from),
            clients: self.clients.map(usize::from),
            has_queue: self.mode.map(|mode| mode == Mode::Queue),
            has_quarantine: self.quarantine.map(|quarantine| quarantine == Switch::On),
            is_shared: self.share.map(|share| share == Switch::On),
        };
        Campaign {
            from: self.from,
            seeds: self.seeds,
            fixed,
            threads: self.threads.unwrap_or_else(cores),
            mutant: self.mutant,
        }
    }

    fn search(&self) -> io::Result<ExitCode> {
        let campaign = self.campaign();
        let started = Instant::now();
        let bar = bar(self.seeds);
        let totals = campaign.run(|totals| {
            bar.set_position(totals.seeds);
            bar.set_message(summary::line(totals));
        });
        bar.finish_and_clear();
        say(&summary::text(&totals, started.elapsed()))?;
        let Some((seed, violation)) = &totals.first else {
            return Ok(ExitCode::SUCCESS);
        };
        let _on = campaign.mutant.map(Entry::switch_on);
        let small = shrink::shrink(&campaign, *seed, violation.promise);
        match small {
            Some(small) => self.show(&campaign, *seed, &small)?,
            None => say(&format!("seed {seed} broke a promise, but a second run of it did not"))?,
        }
        Ok(ExitCode::FAILURE)
    }

    fn show(&self, campaign: &Campaign, first: u64, small: &Small) -> io::Result<()> {
        say(&format!("seed {first} broke a promise; the shortest trace that was found:\n"))?;
        say(&small.story.to_string())?;
        say(&format!("replay it: {}", small.replay(campaign)))?;
        self.write_picture(&small.story)
    }

    fn replay(&self, seed: u64) -> io::Result<ExitCode> {
        let campaign = self.campaign();
        let without = self.without.clone().unwrap_or_default();
        let settings = Settings::draw(seed, &campaign.fixed);
        if let Err(error) = without.check(&settings) {
            Cli::command().error(ErrorKind::ValueValidation, error).exit();
        }
        let _on = campaign.mutant.map(Entry::switch_on);
        let report = campaign.run_one(seed, campaign.fixed, &without, true);
        if self.all || report.violation.is_none() {
            say(&story::head(&settings))?;
            for line in report.trace.lines() {
                say(&line.to_string())?;
            }
        }
        let Some(violation) = report.violation else {
            say(&format!("seed {seed} keeps all promises: {}", summary::counts(&report.count)))?;
            return Ok(ExitCode::SUCCESS);
        };
        let story = Story::of(settings, violation, &report.trace);
        say(&story.to_string())?;
        self.write_picture(&story)?;
        Ok(ExitCode::FAILURE)
    }

    fn write_picture(&self, story: &Story) -> io::Result<()> {
        let usual = || PathBuf::from(format!("{PICTURES}/seed-{}.svg", story.settings.seed));
        let path = self.svg.clone().unwrap_or_else(usual);
        let folder = path.parent().unwrap_or(&path);
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&path, timeline::svg(story)))
            .map_err(|error| io::Error::other(format!("{}: {error}", path.display())))?;
        say(&format!("picture: {}", path.display()))
    }
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

fn bar(seeds: u64) -> ProgressBar {
    let bar = ProgressBar::new(seeds);
    let style = ProgressStyle::with_template(
        "{bar:40} {human_pos}/{human_len} seeds, {per_sec}, {eta} left\n{msg}",
    );
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Writes a line to the standard output. A closed pipe is not an error.
fn say(text: &str) -> io::Result<()> {
    match writeln!(io::stdout().lock(), "{text}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

fn say_error(text: &str) {
    // If this fails, there is no other place for the error.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// The default folder for pictures.
const PICTURES: &str = "target/quorate-sim";
