//! A whole simulation: servers, programs with the library in them, and the network between them.

use std::{
    cell::{Cell, RefCell},
    io::Write as _,
    rc::Rc,
    time::Duration,
};

use quorate::{Client, ClientBuilder};
use turmoil::Sim;

use crate::{
    claims::Claims,
    dice::Dice,
    network::Sockets,
    server::{Node, PORT},
    trace::{Trace, Witness},
};

/// One simulation.
pub(crate) struct Stage {
    pub(crate) sim: Sim<'static>,
    pub(crate) nodes: Vec<Rc<Node>>,
    pub(crate) claims: Claims,
    pub(crate) trace: Trace,
    mode: Mode,
    seed: u64,
    programs: Vec<Desk>,
}

/// How the clients of a simulation wait.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mode {
    Line,
    Classic,
}

impl Stage {
    /// So many servers, and a network whose messages take up to `latency_max`.
    pub(crate) fn new(seed: u64, nodes: usize, latency_max: Duration) -> Self {
        let mut dice = Dice::new(seed, "stage");
        let trace = Trace::default();
        let mut sim = turmoil::Builder::new()
            .rng_seed(dice.next())
            // What a host sends arrives in the next tick at the earliest: hosts run one after
            // another, and none may hear of what has not happened yet.
            .min_message_latency(TICK)
            .max_message_latency(latency_max)
            .tick_duration(TICK)
            .enable_random_order()
            .build();
        // All clocks run at rates within one per cent of each other, as the default drift allows
        // for. Those of the programs run at the true rate.
        let slowest_ppm = -i64::try_from(dice.below(RATES_PPM + 1)).expect("small");
        let mut fast_ppm = || match dice.below(3) {
            0 => slowest_ppm,
            1 => slowest_ppm + i64::try_from(RATES_PPM).expect("small"),
            _ => slowest_ppm + i64::try_from(dice.below(RATES_PPM + 1)).expect("small"),
        };
        let nodes: Vec<_> =
            (0..nodes).map(|number| Node::new(number, fast_ppm(), &trace)).collect();
        for node in &nodes {
            let process = node.clone();
            sim.host(Node::host(node.number), move || process.clone().run());
        }
        let claims = Claims::new(&trace);
        // Two of three seeds: what users get.
        let mode = if Dice::new(seed, "mode").below(3) == 0 { Mode::Classic } else { Mode::Line };
        Self { sim, nodes, claims, trace, mode, seed, programs: Vec::new() }
    }

    /// In the default mode, whatever the seed says.
    pub(crate) fn in_line(mut self) -> Self {
        self.mode = Mode::Line;
        self
    }

    /// Adds a host that runs `program`, and runs it again when it is started anew.
    pub(crate) fn program<F>(&mut self, host: &str, program: impl Fn(Desk) -> F + 'static)
    where
        F: Future<Output = ()> + 'static,
    {
        let desk = Desk {
            host: host.into(),
            mode: self.mode,
            seed: self.seed,
            runs: Rc::default(),
            is_done: Rc::default(),
            sockets: Rc::default(),
            nodes: self.nodes.clone(),
            claims: self.claims.clone(),
            trace: self.trace.clone(),
        };
        self.programs.push(desk.clone());
        self.sim.host(host, move || {
            let desk = desk.clone();
            desk.runs.set(desk.runs.get() + 1);
            desk.sockets.borrow_mut().push(Sockets::default());
            let work = program(desk.clone());
            async move {
                work.await;
                desk.is_done.set(true);
                Ok(())
            }
        });
    }

    /// The true time.
    pub(crate) fn now(&self) -> Duration {
        self.sim.elapsed()
    }

    /// Runs until all programs are done, with `between` after every tick. Panics after `limit`.
    pub(crate) fn run(&mut self, limit: Duration, mut between: impl FnMut(&mut Self)) {
        while !self.programs.iter().all(|program| program.is_done.get()) {
            assert!(self.now() < limit, "the programs are not done after {limit:?}");
            self.step();
            between(self);
        }
        for node in &self.nodes {
            assert_eq!(node.refused(), 0, "node-{} was sent what it does not know", node.number);
        }
        self.claims.check();
    }

    /// Lets time pass.
    pub(crate) fn pass(&mut self, time: Duration) {
        let until = self.now() + time;
        while self.now() < until {
            self.step();
        }
    }

    /// Kills the process of a program: it sends nothing any more. [`Sim::bounce`] starts it anew.
    pub(crate) fn kill(&mut self, host: &str) {
        let program = self.programs.iter().find(|program| program.host == host);
        program.expect("there is such a program").sockets().kill();
        self.claims.end_all_of(host, self.sim.elapsed());
        self.trace.add_at(self.sim.elapsed(), format_args!("{host} is killed"));
        self.sim.crash(host);
    }

    fn step(&mut self) {
        if let Err(error) = self.sim.step() {
            panic!("{error}");
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let lines = self.trace.lines();
            let last = lines.len().saturating_sub(SHOWN_LINES);
            // What led to a failure; nobody is left to tell if it cannot be written.
            let _ = writeln!(std::io::stderr(), "{}", lines[last..].join("\n"));
        }
    }
}

/// What a program of the simulation has to work with.
#[derive(Clone)]
pub(crate) struct Desk {
    pub(crate) host: String,
    pub(crate) nodes: Vec<Rc<Node>>,
    pub(crate) claims: Claims,
    pub(crate) mode: Mode,
    trace: Trace,
    seed: u64,
    runs: Rc<Cell<u32>>,
    is_done: Rc<Cell<bool>>,
    /// Of each run; those of runs that were killed are kept to the end.
    sockets: Rc<RefCell<Vec<Sockets>>>,
}

impl Desk {
    /// Decisions of this run of the program.
    pub(crate) fn dice(&self, purpose: &str) -> Dice {
        Dice::new(self.seed, &format!("{} {} {purpose}", self.host, self.runs.get()))
    }

    fn sockets(&self) -> Sockets {
        self.sockets.borrow().last().expect("it runs").clone()
    }

    /// A client of all servers, on the simulated network, with all its chances drawn from the seed.
    pub(crate) fn client(&self, purpose: &str) -> ClientBuilder {
        let urls =
            self.nodes.iter().map(|node| format!("redis://{}:{PORT}", Node::host(node.number)));
        let (who, sockets) = (format!("{}{purpose}", self.host), self.sockets());
        let witness =
            Witness { who: who.clone(), sockets: sockets.clone(), trace: self.trace.clone() };
        let settings = match self.mode {
            Mode::Line => Client::builder(),
            Mode::Classic => Client::builder().classic(),
        };
        settings
            .restart_guard(false)
            .nodes(urls)
            .who(who)
            .observer(witness)
            .danger_engine_on_this_runtime()
            .danger_network(sockets)
            .danger_seed(self.dice(purpose).next())
    }
}

/// How long every host runs before the next one does.
pub(crate) const TICK: Duration = Duration::from_millis(1);

/// How far the rates of two clocks may differ, in parts per million.
const RATES_PPM: usize = 9_900;

/// How much of the trace a failure shows.
const SHOWN_LINES: usize = 60;
